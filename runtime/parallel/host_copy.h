/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_copy.h - what a rank owns of weights and moments, copied to host memory
 *
 * Parts of kinds and units are one after another, with every strategy. In ddp,
 * where each rank has all, the ranks of a node copy all of it between them, so
 * that every other node has what is lost with one; where nodes have different
 * numbers of ranks, the ranks of the world do. From the copies of all parts all
 * that ranks hold follows, as from the parts of a checkpoint.
 */
#ifndef DT_PARALLEL_HOST_COPY_H
#define DT_PARALLEL_HOST_COPY_H

#include "parallel/parallel.h"

/* Bytes of a copy on a rank. */
size_t dt_host_copy_bytes(const struct dt_parallel *parallel);

/* Into how many parts copies divide an engine, and which of them this rank
 * copies. Ranks with the same part have equal copies.
 */
size_t dt_host_copy_parts(const struct dt_parallel *parallel);
size_t dt_host_copy_part(const struct dt_parallel *parallel);

/* Queues the copy to staging memory `to`: of what is on the device in `stream`,
 * which does not wait for the engine's, and of offloaded parts in the engine's.
 * No updates are open until both are done. Fault point: copy.part, before each
 * part. -1: the device failed.
 */
int dt_host_copy_take(struct dt_parallel *parallel, struct dt_stream *stream,
                      void *to, struct dt_error *err);

/* Queues its way back; all ranks call it together. `sources` has a rank with a
 * copy of each part, and `from` is NULL on a rank that has none of its own: a
 * part that one rank alone holds has that rank as its source. `from` stays
 * until the engine's stream is done. -1: the device or a peer failed.
 */
int dt_host_copy_put(struct dt_parallel *parallel, const void *from,
                     const int *sources, struct dt_error *err);

#endif /* DT_PARALLEL_HOST_COPY_H */
