/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.c - the loss of the head of a language model */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/head.h"
#include "ops/cpu/logits.h"

struct cross_entropy {
    size_t V;
    float scale, smoothing;
    const struct dt_logit_rule *rule;
    bool backward;
};

/* The loss of a row; its logits become the gradient:
 *   scale * (softmax - smoothing / V - (1 - smoothing) * one-hot target)
 */
static double row_loss(const void *ctx, float *logits, size_t n, int32_t target)
{
    const struct cross_entropy *c = ctx;
    const float max = dt_max(logits, c->V, -INFINITY);
    const float spread = c->smoothing / (float)c->V;
    const double hit = (1.0 - (double)c->smoothing) * (double)logits[target];
    const double all = spread > 0.0f ? dt_sum(logits, c->V) : 0.0;
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

/* The same by a rule, whose slope the gradient is multiplied by: the logits
 * stay until it is.
 */
static double ruled_row_loss(const void *ctx, float *logits, size_t n,
                             int32_t target)
{
    const struct cross_entropy *c = ctx;
    const float slope = dt_rule_slope(c->rule);
    const float spread = c->smoothing / (float)c->V;
    double sum = 0.0;
    (void)n;

    dt_apply_rule(logits, c->rule, c->V);
    const float max = dt_max(logits, c->V, -INFINITY);
    const double hit = (1.0 - (double)c->smoothing) * (double)logits[target];
    const double all = spread > 0.0f ? dt_sum(logits, c->V) : 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t v = 0; v < c->V; v++)
        sum += (double)dt_expf(logits[v] - max);
    if (c->backward) {
        const float scale = c->scale * c->rule->scale, less = scale * spread;
        const float factor = (float)((double)scale / sum);
        const float t = logits[target] * slope;
#pragma omp simd
        for (size_t v = 0; v < c->V; v++) {
            float by = 1.0f - logits[v] * slope * (logits[v] * slope);
            logits[v] = (dt_expf(logits[v] - max) * factor - less) * by;
        }
        logits[target] -= scale * (1.0f - c->smoothing) * (1.0f - t * t);
    }
    return log(sum) + (double)max - hit - (double)spread * all;
}

void DT_CPU(linear_cross_entropy)(struct dt_stream *stream, struct dt_view step,
                                  struct dt_view dx, struct dt_view dw,
                                  struct dt_view x, struct dt_view w,
                                  struct dt_view targets,
                                  struct dt_view workspace,
                                  const struct dt_logit_rule *rule,
                                  float smoothing, size_t N, size_t C, size_t V,
                                  bool accumulate)
{
    const bool plain = rule->scale == 1.0f && rule->softcap == 0.0f;
    double *scalars = dt_view_f64(step);
    const struct cross_entropy c = {
        .V = V,
        .scale = (float)scalars[DT_STEP_LOSS_SCALE],
        .smoothing = smoothing,
        .rule = rule,
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
        .row = plain ? row_loss : ruled_row_loss,
        .ctx = &c,
    };
    (void)stream;
    assert(step.count == DT_STEP_COUNT && rule->temperature == 1.0f);

    scalars[DT_STEP_LOSS] += DT_CPU(head)(&h);
}
