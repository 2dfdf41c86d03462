/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet.h - connections that a group needs in a large world; for comm/ only
 *
 * It is an operation of the world, which all ranks start together: each tells
 * all where it listens for the ranks that it will talk to in its group, and
 * then those connect.
 */
#ifndef DT_COMM_MEET_H
#define DT_COMM_MEET_H

#include "comm/messages.h"

/* The operation that connects the members of op->on: as far as collectives
 * need it, or with `all` each to each. -1: EX_UNAVAILABLE or
 * EX_OSERR.
 */
int dt_meet_run(struct dt_messages *messages, const struct dt_op *op, bool all,
                struct dt_error *err);

#endif /* DT_COMM_MEET_H */
