/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graphs.h - device graphs of repeated work
 *
 * The work of a micro-batch, or of a token of some sequences, is the same for
 * every batch of one shape: the device replays it with one call a piece instead
 * of one an operation. Recordings have the addresses of what the work reads and
 * writes, so these depend on the shape alone.
 */
#ifndef DT_MODEL_GRAPHS_H
#define DT_MODEL_GRAPHS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "ops/ops.h"

/* The work of a piece depends on these. */
struct dt_graph_shape {
    size_t B, T;
    bool doc_start, accumulate;
    uint8_t runs[DT_DOCUMENT_CLASSES]; /* of documents: ops/documents.h */
};

struct dt_graphs;

/* For shapes whose work has `pieces` pieces. NULL and err: EX_OSERR. */
struct dt_graphs *dt_graphs_create(const struct dt_exec *exec, size_t pieces,
                                   struct dt_error *err);
void dt_graphs_destroy(struct dt_graphs *graphs); /* NULL is fine */

/* Forgets all shapes, as when addresses change. */
void dt_graphs_forget(struct dt_graphs *graphs);

/* Whether a piece of this shape was run before, so that nothing needs
 * preparation. Never if the device has no graphs.
 */
bool dt_graphs_seen(const struct dt_graphs *graphs,
                    const struct dt_graph_shape *shape);

/* Queues the work of work(ctx). For each piece of a shape it is called twice:
 * first to run, when it may prepare what it needs, then to be recorded; from
 * then on the recording is replayed. There are recordings of 64 shapes: one
 * more takes the place of the shape that was not run for the longest time. They
 * take up to 128 MiB of the device for each dt_graphs; a piece for which there
 * is no room runs as if it were new, until a shape has not been run for the
 * time of 64 runs of all pieces, which loses its recordings then. Nothing is
 * recorded with DISTTRAIN_CUDA_GRAPHS=0 in the environment, or after a
 * recording that failed: a warning says why, and work is called every time. -1:
 * the device failed.
 */
int dt_graphs_run(struct dt_graphs *graphs, const struct dt_graph_shape *shape,
                  size_t piece, void (*work)(void *ctx), void *ctx,
                  struct dt_error *err);

#endif /* DT_MODEL_GRAPHS_H */
