/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.c - the loss of the head of a language model */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/head.h"
#include "ops/cpu/vec.h"

struct cross_entropy {
    size_t V;
    float scale, smoothing;
    bool backward;
};

static double sum_row(const float *logits, size_t V)
{
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (size_t v = 0; v < V; v++)
        sum += (double)logits[v];
    return sum;
}

/* The loss of a row; its logits become the gradient:
 *   scale * (softmax - smoothing / V - (1 - smoothing) * one-hot target)
 */
static double row_loss(const void *ctx, float *logits, size_t n, int32_t target)
{
    const struct cross_entropy *c = ctx;
    const float max = dt_max(logits, c->V, -INFINITY);
    const float spread = c->smoothing / (float)c->V;
    const double hit = (1.0 - (double)c->smoothing) * (double)logits[target];
    const double all = spread > 0.0f ? sum_row(logits, c->V) : 0.0;
    const double sum = DT_CPU(exp_row)(logits, max, c->V);
    const float factor = (float)((double)c->scale / sum);
    const float less = c->scale * spread;
    (void)n;

    if (c->backward) {
#pragma omp simd
        for (size_t v = 0; v < c->V; v++)
            logits[v] = logits[v] * factor - less;
        logits[target] -= c->scale * (1.0f - c->smoothing);
    }
    return log(sum) + (double)max - hit - (double)spread * all;
}

void DT_CPU(linear_cross_entropy)(struct dt_stream *stream, struct dt_view step,
                                  struct dt_view dx, struct dt_view dw,
                                  struct dt_view x, struct dt_view w,
                                  struct dt_view targets,
                                  struct dt_view workspace, float smoothing,
                                  size_t N, size_t C, size_t V, bool accumulate)
{
    double *scalars = dt_view_f64(step);
    const struct cross_entropy c = {
        .V = V,
        .scale = (float)scalars[DT_STEP_LOSS_SCALE],
        .smoothing = smoothing,
        .backward = dx.count > 0,
    };
    const struct dt_cpu_head h = {
        .N = N,
        .C = C,
        .V = V,
        .x = x,
        .w = w,
        .targets = targets,
        .dx = dx,
        .dw = dw,
        .workspace = workspace,
        .accumulate = accumulate,
        .row = row_loss,
        .ctx = &c,
    };
    (void)stream;
    assert(step.count == DT_STEP_COUNT);

    scalars[DT_STEP_LOSS] += DT_CPU(head)(&h);
}
