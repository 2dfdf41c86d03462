/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.h - collectives in which every rank talks to every other one; for
 * comm/ only
 *
 * Here are those that only move elements, and those of few elements, which go
 * from all to all in one step; pipeline.h has the other reductions. Each works
 * on all ranks of op->on. -1: EX_UNAVAILABLE or EX_OSERR; then
 * messages may still come and go in the memory of op until the transport is
 * closed.
 */
#ifndef DT_COMM_DIRECT_H
#define DT_COMM_DIRECT_H

#include "comm/messages.h"

/* True if one rank should send `bytes` to each of the `size` - 1 others at
 * once, instead of cutting them into parts.
 */
bool dt_direct_is_small(size_t bytes, int size);

/* reduce_scalars and barrier. */
int dt_direct_reduce_scalars(struct dt_messages *messages,
                             const struct dt_op *op, struct dt_error *err);

/* Each rank sends its part to all others. */
int dt_direct_all_gather(struct dt_messages *messages, const struct dt_op *op,
                         struct dt_error *err);

/* If small, the root sends it to all; otherwise a part to each rank, and then
 * the ranks gather the parts.
 */
int dt_direct_broadcast(struct dt_messages *messages, const struct dt_op *op,
                        struct dt_error *err);

/* Of few elements (dt_direct_is_small): each rank adds all contributions. */
int dt_direct_all_reduce(struct dt_messages *messages, const struct dt_op *op,
                         struct dt_error *err);

#endif /* DT_COMM_DIRECT_H */
