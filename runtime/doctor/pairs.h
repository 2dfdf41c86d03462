/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.h - does every node reach every other one over TCP, and what time has
 * it there
 *
 * Each node listens on a port that the kernel chooses. An exchange is 16 bytes
 * there and 16 bytes back, which carry the number of the node and its clock.
 */
#ifndef DT_DOCTOR_PAIRS_H
#define DT_DOCTOR_PAIRS_H

#include <stdbool.h>

#include "base/error.h"
#include "doctor/notes.h"

struct dt_doctor_pairs;

/* Listens for the node with this number. NULL: EX_OSERR. */
struct dt_doctor_pairs *dt_doctor_pairs_create(int node, struct dt_error *err);
void dt_doctor_pairs_destroy(struct dt_doctor_pairs *pairs); /* NULL is fine */

/* Where it listens. */
unsigned dt_doctor_pairs_port(const struct dt_doctor_pairs *pairs);

/* One more node, at a numeric address. The node itself may be among them. -1:
 * EX_OSERR or EX_PROTOCOL.
 */
int dt_doctor_pairs_add(struct dt_doctor_pairs *pairs, int node,
                        const char *address, unsigned port,
                        struct dt_error *err);

/* Connects to all at once, answers those who connect here meanwhile, and writes
 * a line for each node that it has not reached within the time, one about the
 * clock of the lowest node, and the columns interface and peers.
 */
void dt_doctor_pairs_probe(struct dt_doctor_pairs *pairs, int timeout_ms,
                           const struct dt_doctor_notes *notes);

/* Goes on answering until there is something to read from fd, such as its end.
 */
void dt_doctor_pairs_serve(struct dt_doctor_pairs *pairs, int fd);

#endif /* DT_DOCTOR_PAIRS_H */
