/* SPDX-License-Identifier: Apache-2.0 */
/* port.h - the ports that a step uses, the same on all of its nodes */
#ifndef DTSPANK_PORT_H
#define DTSPANK_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* A port is 0 where there is none. */
struct dtspank_ports {
    unsigned master; /* MASTER_PORT */
    unsigned jax;    /* JAX's coordinator */
    unsigned tf;     /* the first TensorFlow worker of each node */
    unsigned ras;    /* NCCL's health service */
};

/* Chooses from first..last by the numbers of the job and the step, so that
 * steps of one job with nearby numbers share no port. A node has at most
 * `tasks` tasks and as many TensorFlow workers. A range of fewer than 64 ports
 * provides only MASTER_PORT.
 */
void dtspank_port_choose(unsigned first, unsigned last, uint32_t job,
                         uint32_t step, uint32_t tasks,
                         struct dtspank_ports *ports);

/* Replaces the chosen ports with those that Slurm has reserved for the step
 * ("12000-12004,12009"), as far as there are enough.
 */
void dtspank_port_reserve(const char *reserved, uint32_t tasks,
                          struct dtspank_ports *ports);

/* Whether a program on this node could listen on port, on all addresses, as
 * torch's store does. 0 means no port and counts as free.
 */
bool dtspank_port_is_free(unsigned port);

/* Fails if a program could not listen on port; the message says who holds it
 * and that the user can set `variable`, to another port or with one in it.
 */
int dtspank_port_test(const char *variable, unsigned port,
                      struct dt_error *err);

#endif /* DTSPANK_PORT_H */
