/* SPDX-License-Identifier: Apache-2.0 */
/* graphs.c - the graphs of the pieces of a few shapes */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "model/graphs.h"

/* Of the memory that no plan knows of, which devices hold back: recordings take
 * 0.1 to 0.5 MB of it for each piece. A shape that was not run while others
 * were IDLE times loses its recordings to them.
 */
enum { MAX_SHAPES = 64, MAX_BYTES = 128 << 20, IDLE = 64 };

/* More than the largest chunk that devices give out for recordings: whatever
 * seems to have taken more met another program that took memory.
 */
enum { MAX_CHUNK = 8 << 20 };

/* A piece of the work of a shape. */
struct piece {
    bool seen; /* run before */
    struct dt_graph *graph;
};

struct dt_graphs {
    struct dt_exec exec;
    bool records;
    size_t pieces, shape_count;
    struct dt_graph_shape shapes[MAX_SHAPES];
    size_t used[MAX_SHAPES];  /* number of the last run of a shape; 0: the place
                                 is free */
    size_t bytes[MAX_SHAPES]; /* that the recordings of a shape took */
    size_t runs;
    size_t measured,
        measured_count;  /* bytes of recordings, and how many, ... */
    bool reuses;         /* ... until the first ones were destroyed */
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
    const char *wanted = getenv("DISTTRAIN_CUDA_GRAPHS");
    *graphs =
        (struct dt_graphs){.exec = *exec,
                           .records = exec->device->record_begin &&
                                      !(wanted && strcmp(wanted, "0") == 0),
                           .pieces = pieces,
                           .piece = piece};
    return graphs;
}

/* Destroys the recordings of a shape. Replays that are queued still run: the
 * device frees a graph after them.
 */
static void drop_graphs(struct dt_graphs *graphs, size_t index)
{
    struct piece *piece = &graphs->piece[index * graphs->pieces];
    for (size_t i = 0; i < graphs->pieces; i++) {
        if (piece[i].graph) {
            graphs->exec.device->graph_destroy(piece[i].graph);
            graphs->reuses = true;
        }
        piece[i].graph = NULL;
    }
    graphs->bytes[index] = 0;
}

static void forget_shape(struct dt_graphs *graphs, size_t index)
{
    drop_graphs(graphs, index);
    memset(&graphs->piece[index * graphs->pieces], 0,
           graphs->pieces * sizeof(*graphs->piece));
    graphs->used[index] = 0;
}

void dt_graphs_forget(struct dt_graphs *graphs)
{
    for (size_t i = 0; i < graphs->shape_count; i++)
        forget_shape(graphs, i);
    graphs->shape_count = 0;
}

void dt_graphs_destroy(struct dt_graphs *graphs)
{
    if (!graphs)
        return;
    dt_graphs_forget(graphs);
    free(graphs->piece);
    free(graphs);
}

/* The index of a shape; -1: unknown. */
static int find_shape(const struct dt_graphs *graphs,
                      const struct dt_graph_shape *shape)
{
    for (size_t i = 0; i < graphs->shape_count; i++) {
        const struct dt_graph_shape *it = &graphs->shapes[i];
        if (graphs->used[i] > 0 && it->B == shape->B && it->T == shape->T &&
            it->doc_start == shape->doc_start &&
            it->accumulate == shape->accumulate &&
            memcmp(it->runs, shape->runs, sizeof(it->runs)) == 0)
            return (int)i;
    }
    return -1;
}

bool dt_graphs_seen(const struct dt_graphs *graphs,
                    const struct dt_graph_shape *shape)
{
    return find_shape(graphs, shape) >= 0;
}

/* A place for a new shape: if all are taken, that of the shape which was not
 * run for the longest time.
 */
static size_t free_place(struct dt_graphs *graphs)
{
    size_t oldest = 0;
    if (graphs->shape_count < MAX_SHAPES)
        return graphs->shape_count++;
    for (size_t i = 1; i < MAX_SHAPES; i++)
        if (graphs->used[i] < graphs->used[oldest])
            oldest = i;
    forget_shape(graphs, oldest);
    return oldest;
}

/* The memory of a recording. Devices give it out in chunks for several of them,
 * so one recording tells nothing.
 */
static size_t mean_bytes(const struct dt_graphs *graphs)
{
    return graphs->measured_count > 0
               ? graphs->measured / graphs->measured_count
               : 0;
}

/* Counts what recording a piece took, SIZE_MAX: unknown. With memory of those
 * that were destroyed that seems to be nothing.
 */
static void count_bytes(struct dt_graphs *graphs, size_t index, size_t taken)
{
    const size_t mean = mean_bytes(graphs);
    const bool known = taken != SIZE_MAX;
    const size_t bytes = taken < MAX_CHUNK ? taken : MAX_CHUNK;
    if (known && !graphs->reuses) {
        graphs->measured += bytes;
        graphs->measured_count++;
    }
    graphs->bytes[index] +=
        !known || (graphs->reuses && bytes < mean) ? mean : bytes;
}

/* Whether one more recording fits, if need be without those of shapes that are
 * idle. Otherwise shapes that take turns would be recorded for ever.
 */
static bool has_room(struct dt_graphs *graphs, size_t own)
{
    size_t all = mean_bytes(graphs);
    for (size_t i = 0; i < graphs->shape_count; i++)
        all += graphs->bytes[i];
    while (all > MAX_BYTES) {
        size_t oldest = own;
        for (size_t i = 0; i < graphs->shape_count; i++)
            if (graphs->bytes[i] > 0 && graphs->used[i] < graphs->used[oldest])
                oldest = i;
        if (graphs->runs - graphs->used[oldest] <= IDLE * graphs->pieces)
            return false;
        all -= graphs->bytes[oldest];
        drop_graphs(graphs, oldest);
    }
    return true;
}

/* The piece of a shape, which is new if it was not run before. */
static struct piece *find_or_add_piece(struct dt_graphs *graphs,
                                       const struct dt_graph_shape *shape,
                                       size_t piece)
{
    int found = find_shape(graphs, shape);
    size_t index = found < 0 ? free_place(graphs) : (size_t)found;
    graphs->shapes[index] = *shape;
    graphs->used[index] = ++graphs->runs;
    return &graphs->piece[index * graphs->pieces + piece];
}

/* Records the work of a piece, if there is room. If that cannot be recorded,
 * nothing is from here on.
 */
static int record_piece(struct dt_graphs *graphs, struct piece *piece,
                        void (*work)(void *ctx), void *ctx,
                        struct dt_error *err)
{
    const size_t own = (size_t)(piece - graphs->piece) / graphs->pieces;
    const struct dt_device *device = graphs->exec.device;
    struct dt_stream *stream = graphs->exec.stream;
    struct dt_error why = {0};
    size_t bytes = 0;
    if (!has_room(graphs, own))
        return 0;
    if (device->record_begin(stream, err) < 0)
        return -1;
    work(ctx);
    if (device->record_end(stream, &piece->graph, &bytes, &why) == 0) {
        count_bytes(graphs, own, bytes);
        return 0;
    }
    graphs->records = false;
    dt_log(DT_LOG_WARN, "algo",
           "the work of a step cannot be recorded as a graph (%s): from here "
           "on the host starts each operation, which takes longer",
           why.text);
    return 0;
}

int dt_graphs_run(struct dt_graphs *graphs, const struct dt_graph_shape *shape,
                  size_t piece, void (*work)(void *ctx), void *ctx,
                  struct dt_error *err)
{
    struct piece *it =
        graphs->records ? find_or_add_piece(graphs, shape, piece) : NULL;
    if (it && it->seen && !it->graph &&
        record_piece(graphs, it, work, ctx, err) < 0)
        return -1;
    if (it && it->graph)
        return graphs->exec.device->replay(graphs->exec.stream, it->graph, err);
    if (it)
        it->seen = true;
    work(ctx);
    return 0;
}
