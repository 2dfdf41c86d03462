/* SPDX-License-Identifier: Apache-2.0 */
/* graphs.c - a few shapes, and the graphs of their pieces */
#include "config.h"

#include <stdlib.h>

#include "algo/graphs.h"

enum { MAX_SHAPES = 64 };

/* A piece of the work of a shape. */
struct piece {
    bool met; /* called before, not yet recorded */
    struct dt_graph *graph;
};

struct dt_graphs {
    struct dt_exec exec;
    size_t pieces, shape_count;
    struct dt_graph_shape shapes[MAX_SHAPES];
    struct piece *piece; /* (MAX_SHAPES, pieces) */
};

struct dt_graphs *dt_graphs_create(const struct dt_exec *exec, size_t pieces,
                                   struct dt_error *err)
{
    struct dt_graphs *graphs = calloc(1, sizeof(*graphs));
    struct piece *piece = calloc(MAX_SHAPES * pieces, sizeof(*piece));
    if (!graphs || !piece) {
        dt_error_set(err, EX_OSERR, "out of memory");
        free(graphs);
        free(piece);
        return NULL;
    }
    *graphs =
        (struct dt_graphs){.exec = *exec, .pieces = pieces, .piece = piece};
    return graphs;
}

void dt_graphs_destroy(struct dt_graphs *graphs)
{
    if (!graphs)
        return;
    for (size_t i = 0; i < MAX_SHAPES * graphs->pieces; i++)
        if (graphs->piece[i].graph)
            graphs->exec.device->graph_destroy(graphs->piece[i].graph);
    free(graphs->piece);
    free(graphs);
}

/* The place of a shape; -1: it has none. */
static int find(const struct dt_graphs *graphs,
                const struct dt_graph_shape *shape)
{
    for (size_t i = 0; i < graphs->shape_count; i++) {
        const struct dt_graph_shape *it = &graphs->shapes[i];
        if (it->B == shape->B && it->T == shape->T &&
            it->starts == shape->starts && it->accumulate == shape->accumulate)
            return (int)i;
    }
    return -1;
}

bool dt_graphs_met(const struct dt_graphs *graphs,
                   const struct dt_graph_shape *shape)
{
    return find(graphs, shape) >= 0;
}

/* The same, with a place for a new shape; -1: there are too many. */
static int place_of(struct dt_graphs *graphs,
                    const struct dt_graph_shape *shape)
{
    int place = find(graphs, shape);
    if (place >= 0)
        return place;
    if (graphs->shape_count == MAX_SHAPES)
        return -1;
    graphs->shapes[graphs->shape_count] = *shape;
    return (int)graphs->shape_count++;
}

int dt_graphs_run(struct dt_graphs *graphs, const struct dt_graph_shape *shape,
                  size_t piece, void (*work)(void *ctx), void *ctx,
                  struct dt_error *err)
{
    const struct dt_device *device = graphs->exec.device;
    struct dt_stream *stream = graphs->exec.stream;
    int place = device->record_begin ? place_of(graphs, shape) : -1;
    struct piece *it =
        place < 0 ? NULL
                  : &graphs->piece[(size_t)place * graphs->pieces + piece];
    if (!it || !it->met) {
        if (it)
            it->met = true;
        work(ctx);
        return 0;
    }
    if (!it->graph) {
        if (device->record_begin(stream, err) < 0)
            return -1;
        work(ctx);
        if (device->record_end(stream, &it->graph, err) < 0)
            return -1;
    }
    return device->replay(stream, it->graph, err);
}
