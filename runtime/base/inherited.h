/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inherited.h - the descriptors that a worker has from its keeper
 *
 * A keeper is the task that Slurm has started, and a worker its child, which
 * trains. The keeper writes their numbers into one variable of the worker's
 * environment: "SOCKET,BOARD,STATE".
 */
#ifndef DT_BASE_INHERITED_H
#define DT_BASE_INHERITED_H

#include <stdbool.h>

#define DT_INHERITED "DISTTRAIN_KEEPER"

struct dt_inherited {
    int socket; /* to the keeper; -1: a world of one */
    int board;  /* segment/board.h */
    int state;  /* memory that outlives the worker; empty at first */
};

/* Whether this process is a worker; fills found if so. The programs that it
 * starts do not inherit them.
 */
bool dt_inherited_find(struct dt_inherited *found);

/* Writes the variable into the environment. 0; -1 and errno: no memory. */
int dt_inherited_set(const struct dt_inherited *inherited);

#endif /* DT_BASE_INHERITED_H */
