/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replicas.h - memory that several ranks hold alike, bit for bit
 *
 * Replicas are all that a strategy keeps whole on every rank: weights, and in
 * ddp also fp32 weights, moments and reduced gradients. In a hybrid, groups
 * hold the same shares of weights. A rank whose bits differ has lost some: in
 * memory, in a processor or on the way. Parts that one rank alone holds have no
 * replica.
 */
#ifndef DT_PARALLEL_REPLICAS_H
#define DT_PARALLEL_REPLICAS_H

#include "parallel/parallel.h"

/* The number of hashes of an engine, one for each unit and kind of memory; the
 * same on all ranks.
 */
size_t dt_parallel_replicas(const struct dt_parallel *parallel);

/* Writes which one number i is, such as "AdamW's m from h.0.ln_1.weight on".
 * Returns text.
 */
const char *dt_parallel_replica_name(const struct dt_parallel *parallel,
                                     size_t i, char *text, size_t bytes);

/* Ranks with the same number have equal replicas. */
int dt_parallel_replica_set(const struct dt_parallel *parallel);

/* Queues the hashes of the replicas, before or after an update, to
 * sums(dt_parallel_replicas) I64, which are zero, and stay so where this
 * strategy has none. All ranks call it together. -1: a peer failed.
 */
int dt_parallel_hash(struct dt_parallel *parallel, struct dt_view sums,
                     struct dt_error *err);

/* Fault points replica.weights, .master, .m, .v and .grads: flips a bit of
 * this rank's replica. -1: the device failed.
 */
int dt_parallel_spoil(struct dt_parallel *parallel, struct dt_error *err);

/* --- memory in options.segment, for a rank that has lost its own --- */

/* Whether every rank holds there all that this one does; the same on all ranks.
 */
bool dt_parallel_is_replicated(const struct dt_parallel *parallel);

/* Copies all that rank `from` holds there to the ranks with `takes`; all ranks
 * call it together. The updates of a step may be incomplete, and can then be
 * ended on each of them. -1: EX_OSERR; a peer failed.
 */
int dt_parallel_copy(struct dt_parallel *parallel, int from, bool takes,
                     struct dt_error *err);

#endif /* DT_PARALLEL_REPLICAS_H */
