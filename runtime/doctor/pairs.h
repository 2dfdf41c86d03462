/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.h - tests that every node reaches every other one over TCP, and
 * compares their clocks
 *
 * Each node listens on a port that the kernel chooses. An exchange is 16 bytes
 * in each direction, with the number of the node and its clock.
 */
#ifndef DT_DOCTOR_PAIRS_H
#define DT_DOCTOR_PAIRS_H

#include <stdbool.h>

#include "base/error.h"
#include "doctor/doctor_notes.h"

struct dt_doctor_pairs;

/* Listens for the node with this number; free it with dt_doctor_pairs_destroy.
 * NULL: EX_OSERR.
 */
struct dt_doctor_pairs *dt_doctor_pairs_create(int node, struct dt_error *err);
void dt_doctor_pairs_destroy(struct dt_doctor_pairs *pairs); /* NULL is fine */

/* Returns the port on which it listens. */
unsigned dt_doctor_pairs_port(const struct dt_doctor_pairs *pairs);

/* Adds a node at a numeric address; the node itself is ignored. -1: EX_OSERR or
 * EX_PROTOCOL.
 */
int dt_doctor_pairs_add(struct dt_doctor_pairs *pairs, int node,
                        const char *address, unsigned port,
                        struct dt_error *err);

/* Connects to all nodes at the same time and meanwhile answers those that
 * connect here. Writes a line for each node that it has not reached in time,
 * one about the clock of the lowest node, and the columns interface and peers.
 */
void dt_doctor_pairs_probe(struct dt_doctor_pairs *pairs, int timeout_ms,
                           const struct dt_doctor_notes *notes);

/* Continues to answer until fd can be read, for example at its end. */
void dt_doctor_pairs_serve(struct dt_doctor_pairs *pairs, int fd);

#endif /* DT_DOCTOR_PAIRS_H */
