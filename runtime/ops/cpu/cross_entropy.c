/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.c - the head and its loss, some rows of logits at a time */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vec.h"
#include "tensor/batch.h"

enum { CHUNK_ROWS = 1024, PIECE = 256 };

/* Elements of the logits at a time: 128 MiB. Fewer would cost time: each chunk
 * of rows adds to the gradient of the head, which may be four times as large.
 */
enum { LOGITS_ELEMENTS = 1 << 25 };

/* The operands of all chunks. */
struct loss_operands {
    const char *x, *w;
    char *dx; /* NULL: only the loss */
    float *dw, *logits;
    char *packed; /* rows of x, then of dx, if rows without a target are between
                   */
    const int32_t *targets;
    enum dt_dtype type;
    size_t C, V;
    float scale, smoothing;
    bool accumulate;
};

/* Turns logits(V) into exp(logits - max) and returns their sum. */
static double exp_row(float *logits, float max, size_t V)
{
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (size_t v = 0; v < V; v++) {
        logits[v] = dt_expf(logits[v] - max);
        sum += (double)logits[v];
    }
    return sum;
}

static double sum_row(const float *logits, size_t V)
{
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (size_t v = 0; v < V; v++)
        sum += (double)logits[v];
    return sum;
}

/* The loss of a row; its logits become the gradient, of the compute type and
 * packed at the beginning of the row:
 *   scale * (softmax - smoothing / V - (1 - smoothing) * one-hot target)
 * The rest of the row becomes 0, because oneDNN reads it (see matmul.h).
 */
static double row_loss(const struct loss_operands *h, float *logits,
                       int32_t target)
{
    const float max = dt_max(logits, h->V, -INFINITY);
    const float spread = h->smoothing / (float)h->V;
    const double hit = (1.0 - (double)h->smoothing) * (double)logits[target];
    const double all = spread > 0.0f ? sum_row(logits, h->V) : 0.0;
    const double sum = exp_row(logits, max, h->V);
    const float factor = (float)((double)h->scale / sum);
    const size_t bytes = h->V * dt_dtype_bytes(h->type);
    float piece[PIECE];

    for (size_t first = 0; first < h->V && h->dx; first += PIECE) {
        size_t n = h->V - first < PIECE ? h->V - first : PIECE;
        size_t there = (size_t)target - first;
#pragma omp simd
        for (size_t v = 0; v < n; v++)
            piece[v] = logits[first + v] * factor - h->scale * spread;
        if (there < n)
            piece[there] -= h->scale * (1.0f - h->smoothing);
        dt_cpu_narrow((char *)logits + first * dt_dtype_bytes(h->type), piece,
                      h->type, n);
    }
    if (h->dx)
        memset((char *)logits + bytes, 0, h->V * sizeof(*logits) - bytes);
    return log(sum) + (double)max - hit - (double)spread * all;
}

/* dx and dw of `rows` rows, from the gradients that row_loss left */
static void chunk_backward(const struct loss_operands *h, const char *x,
                           char *dx, size_t rows, bool accumulate)
{
    /* rows of logits stay V floats apart, whatever the size of their elements
     */
    const size_t stride = h->V * sizeof(float) / dt_dtype_bytes(h->type);
    const struct dt_cpu_matmul back = {
        .M = rows,
        .N = h->C,
        .K = h->V,
        .a = {h->logits, stride, false},
        .b = {h->w, h->C, false},
        .type = h->type,
        .c_type = h->type,
        .c = dx,
    };
    const struct dt_cpu_matmul weights = {
        .M = h->V,
        .N = h->C,
        .K = rows,
        .a = {h->logits, stride, true},
        .b = {x, h->C, false},
        .type = h->type,
        .c_type = DT_F32,
        .c = h->dw,
        .accumulate = accumulate,
    };

    DT_CPU(matmul)(&back);
    DT_CPU(matmul)(&weights);
}

/* The sum of the losses of the rows index[0..rows), with their gradients. */
static double chunk_loss(const struct loss_operands *h, const size_t *index,
                         size_t rows, bool accumulate)
{
    const size_t bytes = h->C * dt_dtype_bytes(h->type);
    const bool gather = index[rows - 1] - index[0] != rows - 1;
    const char *x = gather ? h->packed : h->x + index[0] * bytes;
    double row[CHUNK_ROWS], total = 0.0;
    char *dx = NULL;

    if (h->dx)
        dx = gather ? h->packed + rows * bytes : h->dx + index[0] * bytes;
    for (size_t n = 0; n < rows && gather; n++)
        memcpy(h->packed + n * bytes, h->x + index[n] * bytes, bytes);
    DT_CPU(matmul)
    (&(struct dt_cpu_matmul){
        .M = rows,
        .N = h->V,
        .K = h->C,
        .a = {x, h->C, false},
        .b = {h->w, h->C, true},
        .type = h->type,
        .c_type = DT_F32,
        .c = h->logits,
    });
#pragma omp parallel for schedule(static)
    for (size_t n = 0; n < rows; n++)
        row[n] = row_loss(h, h->logits + n * h->V, h->targets[index[n]]);
    for (size_t n = 0; n < rows; n++)
        total += row[n];
    if (dx)
        chunk_backward(h, x, dx, rows, accumulate);
    for (size_t n = 0; n < rows && dx && gather; n++)
        memcpy(h->dx + index[n] * bytes, dx + n * bytes, bytes);
    return total;
}

static size_t target_count(const struct loss_operands *h, size_t N)
{
    size_t count = 0;

    for (size_t n = 0; n < N; n++)
        count += h->targets[n] != DT_IGNORE;
    return count;
}

/* The loss of all rows, at most `most` at a time, in about equal parts */
static double total_loss(const struct loss_operands *h, size_t N, size_t most)
{
    const size_t bytes = h->C * dt_dtype_bytes(h->type);
    const size_t count = target_count(h, N);
    const size_t parts = (count + most - 1) / most;
    const size_t chunk = parts > 0 ? (count + parts - 1) / parts : 1;
    size_t index[CHUNK_ROWS], rows = 0;
    bool accumulate = h->accumulate;
    double total = 0.0;

    for (size_t n = 0; n < N; n++) {
        if (h->targets[n] != DT_IGNORE)
            index[rows++] = n;
        else if (h->dx)
            memset(h->dx + n * bytes, 0, bytes);
        if (rows == 0 || (rows < chunk && n + 1 < N))
            continue;
        total += chunk_loss(h, index, rows, accumulate);
        accumulate = true;
        rows = 0;
    }
    if (h->dx && !accumulate)
        memset(h->dw, 0, h->V * h->C * sizeof(*h->dw));
    return total;
}

/* Floats of workspace for a row: its logits, and x and dx if they are packed.
 */
static size_t row_workspace(size_t C, size_t V)
{
    return V + 2 * C;
}

/* For chunks of N rows of about equal size. */
size_t DT_CPU(loss_workspace)(enum dt_dtype type, size_t N, size_t C, size_t V)
{
    size_t most = LOGITS_ELEMENTS / V > 0 ? LOGITS_ELEMENTS / V : 1;
    size_t parts = N / most + (N % most != 0);
    size_t rows = N / parts + (N % parts != 0);
    (void)type;

    return rows * row_workspace(C, V);
}

void DT_CPU(linear_cross_entropy)(struct dt_stream *stream, struct dt_view step,
                                  struct dt_view dx, struct dt_view dw,
                                  struct dt_view x, struct dt_view w,
                                  struct dt_view targets,
                                  struct dt_view workspace, float smoothing,
                                  size_t N, size_t C, size_t V, bool accumulate)
{
    const size_t chunk = workspace.count / row_workspace(C, V);
    const size_t rows = chunk > CHUNK_ROWS ? CHUNK_ROWS : chunk;
    double *scalars = dt_view_f64(step);
    const struct loss_operands h = {
        .x = dt_view_data(x),
        .w = dt_view_data(w),
        .dx = dx.count > 0 ? dt_view_data(dx) : NULL,
        .dw = dx.count > 0 ? dt_cpu_f32(dw, V * C) : NULL,
        .logits = dt_view_f32(workspace),
        .packed = (char *)(dt_view_f32(workspace) + rows * V),
        .targets = dt_view_i32(targets),
        .type = x.dtype,
        .C = C,
        .V = V,
        .scale = (float)scalars[DT_STEP_LOSS_SCALE],
        .smoothing = smoothing,
        .accumulate = accumulate,
    };
    (void)stream;
    assert(x.count == N * C && w.count == V * C && w.dtype == x.dtype);
    assert(targets.count == N && rows > 0 && step.count == DT_STEP_COUNT);
    assert(dx.count == 0 || (dx.count == N * C && dx.dtype == x.dtype));

    scalars[DT_STEP_LOSS] += total_loss(&h, N, rows);
}
