/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skips.h - collectives of large worlds, in which a rank talks to few others;
 * for comm/ only
 *
 * Rank r exchanges blocks with the ranks r + 1, r + 2, r + 4 ... and r - 1,
 * r - 2, r - 4 ..., around the world: dt_links has these connections. After
 * log2 W rounds, each with twice the blocks of the one before it, every rank
 * has gathered W blocks, and has sent no more bytes than in any other way. The
 * same rounds in the reverse order, with sums in place of copies, leave to each
 * rank the sum of one block. Any number of ranks will do. (Bruck et al.,
 * "Efficient Algorithms for All-to-All Communications in Multiport Message-
 * Passing Systems", IEEE TPDS 8(11), 1997, and reversed.)
 *
 * The order of a sum depends on the number of ranks alone; it is that of ranks
 * for scalars only. Partial sums travel in fp32, also where contributions and
 * results are rounded to bf16. -1: EX_UNAVAILABLE or EX_OSERR; then messages
 * may still come and go in the memory of op until the transport is closed.
 */
#ifndef DT_COMM_SKIPS_H
#define DT_COMM_SKIPS_H

#include "comm/messages.h"

/* reduce_scalars and barrier: all values to all, which add them. */
int dt_skips_reduce_scalars(struct dt_messages *messages,
                            const struct dt_op *op, struct dt_error *err);

/* all_reduce and reduce_scatter. */
int dt_skips_reduce(struct dt_messages *messages, const struct dt_op *op,
                    struct dt_error *err);

/* Each rank's part to all. */
int dt_skips_all_gather(struct dt_messages *messages, const struct dt_op *op,
                        struct dt_error *err);

/* If small, from the root down a tree; otherwise a part to each rank in that
 * way, and then the ranks gather the parts.
 */
int dt_skips_broadcast(struct dt_messages *messages, const struct dt_op *op,
                       struct dt_error *err);

#endif /* DT_COMM_SKIPS_H */
