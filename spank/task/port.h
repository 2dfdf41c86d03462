/* SPDX-License-Identifier: Apache-2.0 */
/* port.h - the ports that a step uses, equal on all of its nodes */
#ifndef DTSPANK_PORT_H
#define DTSPANK_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* 0 where there is none. */
struct dtspank_ports {
    unsigned master; /* MASTER_PORT */
    unsigned jax;    /* JAX's coordinator */
    unsigned tf;     /* the first TensorFlow worker of each node */
    unsigned ras;    /* NCCL's health service */
};

/* Chooses from first..last by the numbers of the job and the step: steps of one
 * job whose numbers are near have different ports, every one of them. A node
 * has at most `tasks` tasks, and so many TensorFlow workers. A range of fewer
 * than 64 ports has MASTER_PORT only.
 */
void dtspank_port_choose(unsigned first, unsigned last, uint32_t job,
                         uint32_t step, uint32_t tasks,
                         struct dtspank_ports *ports);

/* Takes those that Slurm has reserved for the step, "12000-12004,12009", in
 * place of the chosen ones as far as there are enough.
 */
void dtspank_port_reserve(const char *reserved, uint32_t tasks,
                          struct dtspank_ports *ports);

/* Whether a program on this node could listen on port, on all addresses, as
 * torch's store does; 0 is no port, and free.
 */
bool dtspank_port_is_free(unsigned port);

/* The same, in words. Fails if it could not, and says who holds the port, and
 * that the user may set `variable` to another one.
 */
int dtspank_port_test(const char *variable, unsigned port,
                      struct dt_error *err);

#endif /* DTSPANK_PORT_H */
