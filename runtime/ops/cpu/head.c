/* SPDX-License-Identifier: Apache-2.0 */
/* head.c - the matrix multiplications of a head, some rows at a time */
#include "config.h"

#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/head.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/vec.h"

enum { CHUNK_ROWS = 1024, PIECE = 256 };

/* Elements of the logits at a time: 128 MiB. Fewer would cost time: each chunk
 * of rows adds to the gradient of the head, which may be four times as large.
 */
enum { LOGITS_ELEMENTS = 1 << 25 };

/* Where the chunks are. */
struct chunks {
    const struct dt_cpu_head *h;
    size_t most;   /* rows of a chunk */
    float *logits; /* (most, V) */
    char *packed;  /* rows of x, then of dx, if rows without a target are
                      between them */
};

double DT_CPU(exp_row)(float *x, float max, size_t V)
{
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (size_t v = 0; v < V; v++) {
        x[v] = dt_expf(x[v] - max);
        sum += (double)x[v];
    }
    return sum;
}

/* Moves the gradient of a row, of the compute type, to the beginning of the
 * row. The rest becomes 0, because oneDNN reads it (see matmul.h).
 */
static void narrow_row(const struct dt_cpu_head *h, float *row)
{
    const size_t size = dt_dtype_bytes(h->x.dtype);
    float piece[PIECE];

    if (h->x.dtype == DT_F32)
        return;
    for (size_t first = 0; first < h->V; first += PIECE) {
        size_t n = h->V - first < PIECE ? h->V - first : PIECE;
        memcpy(piece, row + first, n * sizeof(*piece));
        dt_cpu_narrow((char *)row + first * size, piece, h->x.dtype, n);
    }
    memset((char *)row + h->V * size, 0, h->V * (sizeof(*row) - size));
}

static void chunk_forward(const struct chunks *c, const char *x, size_t rows)
{
    const struct dt_cpu_head *h = c->h;

    DT_CPU(matmul)
    (&(struct dt_cpu_matmul){
        .M = rows,
        .N = h->V,
        .K = h->C,
        .a = {x, h->C, false},
        .b = {dt_view_data(h->w), h->C, true},
        .type = h->x.dtype,
        .c_type = DT_F32,
        .c = c->logits,
    });
}

/* dx and dw of `rows` rows, from the gradients of their logits */
static void chunk_backward(const struct chunks *c, const char *x, char *dx,
                           size_t rows, bool accumulate)
{
    const struct dt_cpu_head *h = c->h;
    const enum dt_dtype type = h->x.dtype;
    /* rows of logits stay V floats apart, whatever the size of their elements
     */
    const size_t stride = h->V * sizeof(float) / dt_dtype_bytes(type);
    const struct dt_cpu_matmul back = {
        .M = rows,
        .N = h->C,
        .K = h->V,
        .a = {c->logits, stride, false},
        .b = {dt_view_data(h->w), h->C, false},
        .type = type,
        .c_type = type,
        .c = dx,
    };
    const struct dt_cpu_matmul weights = {
        .M = h->V,
        .N = h->C,
        .K = rows,
        .a = {c->logits, stride, true},
        .b = {x, h->C, false},
        .type = type,
        .c_type = DT_F32,
        .c = h->dw.count > 0 ? dt_view_f32(h->dw) : NULL,
        .accumulate = accumulate,
    };

    DT_CPU(matmul)(&back);
    if (weights.c)
        DT_CPU(matmul)(&weights);
}

/* The sum over the rows index[0..rows), with their gradients */
static double run_chunk(const struct chunks *c, const size_t *index,
                        size_t rows, bool accumulate)
{
    const struct dt_cpu_head *h = c->h;
    const size_t bytes = h->C * dt_dtype_bytes(h->x.dtype);
    const bool gather = index[rows - 1] - index[0] != rows - 1;
    const bool backward = h->dx.count > 0;
    const int32_t *targets = dt_view_i32(h->targets);
    char *all_x = dt_view_data(h->x);
    char *all_dx = backward ? dt_view_data(h->dx) : NULL;
    char *x = gather ? c->packed : all_x + index[0] * bytes, *dx = NULL;
    double row[CHUNK_ROWS], total = 0.0;

    if (backward)
        dx = gather ? c->packed + rows * bytes : all_dx + index[0] * bytes;
    for (size_t n = 0; n < rows && gather; n++)
        memcpy(x + n * bytes, all_x + index[n] * bytes, bytes);
    chunk_forward(c, x, rows);
#pragma omp parallel for schedule(static)
    for (size_t n = 0; n < rows; n++) {
        float *logits = c->logits + n * h->V;
        row[n] = h->row(h->ctx, logits, index[n], targets[index[n]]);
        if (backward)
            narrow_row(h, logits);
    }
    for (size_t n = 0; n < rows; n++)
        total += row[n];
    if (backward)
        chunk_backward(c, x, dx, rows, accumulate);
    for (size_t n = 0; n < rows && backward && gather; n++)
        memcpy(all_dx + index[n] * bytes, dx + n * bytes, bytes);
    return total;
}

static size_t target_count(const struct dt_cpu_head *h)
{
    size_t count = 0;

    for (size_t n = 0; n < h->N; n++)
        count += dt_view_i32(h->targets)[n] >= 0;
    return count;
}

/* All rows, in chunks of about equal size */
static double run_chunks(const struct chunks *c)
{
    const struct dt_cpu_head *h = c->h;
    const size_t bytes = h->C * dt_dtype_bytes(h->x.dtype);
    const size_t count = target_count(h);
    const size_t parts = (count + c->most - 1) / c->most;
    const size_t chunk = parts > 0 ? (count + parts - 1) / parts : 1;
    size_t index[CHUNK_ROWS], rows = 0;
    bool accumulate = h->accumulate;
    double total = 0.0;

    for (size_t n = 0; n < h->N; n++) {
        if (dt_view_i32(h->targets)[n] >= 0)
            index[rows++] = n;
        else if (h->dx.count > 0)
            memset((char *)dt_view_data(h->dx) + n * bytes, 0, bytes);
        if (rows == 0 || (rows < chunk && n + 1 < h->N))
            continue;
        total += run_chunk(c, index, rows, accumulate);
        accumulate = true;
        rows = 0;
    }
    if (h->dw.count > 0 && !accumulate)
        memset(dt_view_f32(h->dw), 0, h->dw.count * sizeof(float));
    return total;
}

/* Floats of workspace for a row: its logits, and x and dx if they are packed.
 */
static size_t row_workspace(size_t C, size_t V)
{
    return V + 2 * C;
}

/* The most rows of a chunk. It depends on nothing that a call has not, so that
 * the largest batch of a run, which may be one of evaluations, does not change
 * the order of sums.
 */
static size_t chunk_rows(size_t V)
{
    const size_t most = LOGITS_ELEMENTS / V;

    return most < 1 ? 1 : most > CHUNK_ROWS ? CHUNK_ROWS : most;
}

double DT_CPU(head)(const struct dt_cpu_head *h)
{
    const size_t room = h->workspace.count / row_workspace(h->C, h->V);
    const size_t most = chunk_rows(h->V);
    struct chunks c = {
        .h = h,
        .most = room < most ? room : most,
        .logits = dt_view_f32(h->workspace),
    };
    assert(h->x.count == h->N * h->C && h->targets.count == h->N && room > 0);
    assert(h->w.count == h->V * h->C && h->w.dtype == h->x.dtype);
    assert(h->dw.count == 0 || (h->dx.count > 0 && h->dw.count == h->w.count));
    assert(h->dx.count == 0 ||
           (h->dx.count == h->x.count && h->dx.dtype == h->x.dtype));

    c.packed = (char *)(c.logits + c.most * h->V);
    return run_chunks(&c);
}

/* For the largest chunk of up to N rows. */
size_t DT_CPU(loss_workspace)(enum dt_dtype type, size_t N, size_t C, size_t V,
                              bool whole)
{
    const size_t most = chunk_rows(V);
    (void)type;
    (void)whole; /* caches hold a chunk; all rows at once would be slower */

    return (N < most ? N : most) * row_workspace(C, V);
}
