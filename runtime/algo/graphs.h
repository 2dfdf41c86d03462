/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graphs.h - repeated work, recorded once (algo/ only)
 *
 * The work of a micro-batch is the same for every batch of one shape: the
 * device replays it with one call a piece instead of one for every operation.
 */
#ifndef DT_ALGO_GRAPHS_H
#define DT_ALGO_GRAPHS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "ops/ops.h"

/* What the work of a piece depends on. */
struct dt_graph_shape {
    size_t B, T;
    bool starts, accumulate;
};

struct dt_graphs;

/* For shapes whose work has `pieces` pieces. NULL and err: EX_OSERR. */
struct dt_graphs *dt_graphs_create(const struct dt_exec *exec, size_t pieces,
                                   struct dt_error *err);
void dt_graphs_destroy(struct dt_graphs *graphs); /* NULL is fine */

/* Has a piece of this shape been met, so that nothing is prepared any more for
 * it? No, if the device has no graphs.
 */
bool dt_graphs_met(const struct dt_graphs *graphs,
                   const struct dt_graph_shape *shape);

/* Queues what work(ctx) queues. It is called the first time a piece of a shape
 * is met, so that it can prepare what it needs, and the second time, to be
 * recorded; not from then on. Shapes beyond the first 64 are not recorded.
 * -1: the device failed.
 */
int dt_graphs_run(struct dt_graphs *graphs, const struct dt_graph_shape *shape,
                  size_t piece, void (*work)(void *ctx), void *ctx,
                  struct dt_error *err);

#endif /* DT_ALGO_GRAPHS_H */
