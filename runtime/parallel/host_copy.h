/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_copy.h - what a rank owns of weights and moments, copied to host memory
 *
 * Parts of kinds and units are one after another, with every strategy: in ddp,
 * too, a rank copies what it would own in zero1. From the copies of all ranks
 * all that ranks hold follows, as from the parts of a checkpoint.
 */
#ifndef DT_PARALLEL_HOST_COPY_H
#define DT_PARALLEL_HOST_COPY_H

#include "parallel/parallel.h"

/* Bytes of a copy on a rank. */
size_t dt_host_copy_bytes(const struct dt_parallel *parallel);

/* Queues the copy to staging memory `to`: of what is on the device in `stream`,
 * which does not wait for the engine's, and of offloaded parts in the engine's.
 * No updates are open until both are done. Fault point: copy.part, before each
 * part. -1: the device failed.
 */
int dt_host_copy_take(struct dt_parallel *parallel, struct dt_stream *stream,
                      void *to, struct dt_error *err);

/* Queues its way back; all ranks call it together. `from` stays until the
 * engine's stream is done. -1: the device or a peer failed.
 */
int dt_host_copy_put(struct dt_parallel *parallel, const void *from,
                     struct dt_error *err);

#endif /* DT_PARALLEL_HOST_COPY_H */
