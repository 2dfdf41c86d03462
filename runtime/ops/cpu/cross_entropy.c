/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.c - the head and its loss, some rows of logits at a time */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/vec.h"
#include "tensor/batch.h"

enum { CHUNK_ROWS = 1024 };

/* Turns logits(V) into exp(logits - max) and returns their sum. */
static double exp_row(float *logits, float *max, size_t V)
{
    float most = dt_max(logits, V, -INFINITY);
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (size_t v = 0; v < V; v++) {
        logits[v] = dt_expf(logits[v] - most);
        sum += (double)logits[v];
    }
    *max = most;
    return sum;
}

/* The loss of a row; its logits become scale * (softmax - one-hot target). */
static double row_loss(float *logits, int32_t target, float scale, size_t V)
{
    float max, factor, hit;
    double sum;

    if (target == DT_IGNORE) {
        for (size_t v = 0; v < V; v++)
            logits[v] = 0.0f;
        return 0.0;
    }
    hit = logits[target];
    sum = exp_row(logits, &max, V);
    factor = (float)((double)scale / sum);
#pragma omp simd
    for (size_t v = 0; v < V; v++)
        logits[v] *= factor;
    logits[target] -= scale;
    return log(sum) + (double)max - (double)hit;
}

double DT_CPU(linear_cross_entropy)(struct dt_stream *stream, struct dt_view dx,
                                    struct dt_view dw, struct dt_view x,
                                    struct dt_view w, struct dt_view targets,
                                    struct dt_view scratch, float scale,
                                    size_t N, size_t C, size_t V,
                                    bool accumulate)
{
    const float *from = dt_cpu_f32(x, N * C);
    const float *weight = dt_cpu_f32(w, V * C);
    const int32_t *target = dt_view_i32(targets);
    float *logits = dt_view_f32(scratch);
    size_t chunk = scratch.count / V;
    double row[CHUNK_ROWS], total = 0.0;
    (void)stream;
    assert(targets.count == N && chunk > 0);

    if (chunk > CHUNK_ROWS)
        chunk = CHUNK_ROWS;
    for (size_t first = 0; first < N; first += chunk) {
        size_t rows = N - first < chunk ? N - first : chunk;
        struct dt_cpu_matrix in = {from + first * C, C, false};
        struct dt_cpu_matrix grad = {logits, V, false};

        DT_CPU(matmul)
        (logits, in, (struct dt_cpu_matrix){weight, C, true}, rows, V, C,
         false);
#pragma omp parallel for schedule(static)
        for (size_t n = 0; n < rows; n++)
            row[n] = row_loss(logits + n * V, target[first + n], scale, V);
        for (size_t n = 0; n < rows; n++)
            total += row[n];
        if (dx.count == 0)
            continue;
        DT_CPU(matmul)
        (dt_cpu_f32(dx, N * C) + first * C, grad,
         (struct dt_cpu_matrix){weight, C, false}, rows, C, V, false);
        grad.transposed = true;
        DT_CPU(matmul)
        (dt_cpu_f32(dw, V * C), grad, in, V, C, rows, accumulate || first > 0);
    }
    return total;
}
