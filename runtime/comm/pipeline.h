/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.h - reductions of any length; for comm/ only
 *
 * The elements are cut into one part per rank. A rank gets all contributions
 * to its own part, adds them in the order of ranks, and sends the sum to all:
 * two steps whatever the number of ranks, and the bytes of a ring.
 */
#ifndef DT_COMM_PIPELINE_H
#define DT_COMM_PIPELINE_H

#include "comm/messages.h"

/* all_reduce and reduce_scatter on all ranks of op->on. -1:
 * EX_UNAVAILABLE or EX_OSERR; then messages may still come and go in the memory
 * of op until the transport is closed.
 */
int dt_pipeline_run(struct dt_messages *messages, const struct dt_op *op,
                    struct dt_error *err);

#endif /* DT_COMM_PIPELINE_H */
