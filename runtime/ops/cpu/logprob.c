/* SPDX-License-Identifier: Apache-2.0 */
/* logprob.c - log-probabilities of given tokens, straight from the head */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/head.h"
#include "ops/cpu/logits.h"

struct forward {
    size_t V;
    float inverse; /* what logits are multiplied by; 1 if a rule has been */
    const struct dt_logit_rule *rule; /* NULL: that is all */
    float *logp, *lse;
    float *entropy, *collision, *mean, *top; /* or NULL */
};

struct backward {
    size_t V;
    float inverse, scale;             /* scale: of the loss and of the logits */
    const struct dt_logit_rule *rule; /* as in forward */
    const float *dlogp, *lse;
    const float *dentropy, *entropy; /* or NULL */
};

/* With y = z - max and sums over v: log p = y - log sum e^y, entropy = log sum
 * e^y - sum y e^y / sum e^y, collision = log sum e^2y - 2 log sum e^y.
 */
static double forward_row(const void *ctx, float *logits, size_t n,
                          int32_t target)
{
    const struct forward *f = ctx;
    if (f->rule)
        dt_apply_rule(logits, f->rule, f->V);
    const float max = dt_max(logits, f->V, -INFINITY) * f->inverse;
    double sum = 0.0, moment = 0.0, squares = 0.0;

#pragma omp simd reduction(+ : sum, moment, squares)
    for (size_t v = 0; v < f->V; v++) {
        float y = logits[v] * f->inverse - max, power = dt_expf(y);
        sum += (double)power;
        moment += (double)(power * y);
        squares += (double)(power * power);
    }
    const double lse = log(sum);
    const double logp =
        (double)logits[target] * (double)f->inverse - (double)max - lse;
    f->lse[n] = (float)(lse + (double)max);
    f->logp[n] = logp > 0.0 ? 0.0f : (float)logp; /* NaN stays NaN */
    if (f->entropy)
        f->entropy[n] = (float)(lse - moment / sum);
    if (f->collision)
        f->collision[n] = (float)(log(squares) - 2.0 * lse);
    if (f->mean)
        f->mean[n] =
            (float)(dt_sum(logits, f->V) * (double)f->inverse / (double)f->V);
    if (f->top)
        f->top[n] = logits[target] * f->inverse >= max ? 1.0f : 0.0f;
    return 0.0;
}

/* d logp / dz(v) = [v = target] - p(v), d entropy / dz(v) = -p(v) (log p(v) +
 * entropy)
 */
static double backward_row(const void *ctx, float *logits, size_t n,
                           int32_t target)
{
    const struct backward *b = ctx;
    const float hit = b->dlogp[n] * b->scale;
    const float spread = b->dentropy ? b->dentropy[n] * b->scale : 0.0f;
    const float all = hit + (b->dentropy ? spread * b->entropy[n] : 0.0f);
    const float lse = b->lse[n];

#pragma omp simd
    for (size_t v = 0; v < b->V; v++) {
        float y = logits[v] * b->inverse - lse;
        logits[v] = -dt_expf(y) * (all + spread * y);
    }
    logits[target] += hit;
    return 0.0;
}

/* The same with a softcap, whose slope is 1 - (z slope)^2. */
static double ruled_backward_row(const void *ctx, float *logits, size_t n,
                                 int32_t target)
{
    const struct backward *b = ctx;
    const float hit = b->dlogp[n] * b->scale;
    const float spread = b->dentropy ? b->dentropy[n] * b->scale : 0.0f;
    const float all = hit + (b->dentropy ? spread * b->entropy[n] : 0.0f);
    const float lse = b->lse[n], slope = dt_rule_slope(b->rule);

    dt_apply_rule(logits, b->rule, b->V);
    const float t = logits[target] * slope;
#pragma omp simd
    for (size_t v = 0; v < b->V; v++) {
        float y = logits[v] - lse;
        float by = 1.0f - logits[v] * slope * (logits[v] * slope);
        logits[v] = -dt_expf(y) * (all + spread * y) * by;
    }
    logits[target] += hit * (1.0f - t * t);
    return 0.0;
}

/* Rows without a target get 0. */
static void clear(const struct forward *f, const int32_t *targets, size_t N)
{
    float *const all[] = {f->logp,      f->lse,  f->entropy,
                          f->collision, f->mean, f->top};

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        for (size_t n = 0; n < N && all[i]; n++)
            all[i][n] = targets[n] >= 0 ? all[i][n] : 0.0f;
}

static float *optional(struct dt_view v, size_t N)
{
    return v.count > 0 ? dt_cpu_f32(v, N) : NULL;
}

void DT_CPU(linear_logprob_forward)(
    struct dt_stream *stream, const struct dt_logprobs *out, struct dt_view x,
    struct dt_view w, struct dt_view targets, struct dt_view workspace,
    const struct dt_logit_rule *rule, size_t N, size_t C, size_t V)
{
    const bool capped = rule->softcap > 0.0f;
    const struct forward f = {
        .V = V,
        .inverse = capped ? 1.0f : rule->scale / rule->temperature,
        .rule = capped ? rule : NULL,
        .logp = dt_cpu_f32(out->logp, N),
        .lse = dt_cpu_f32(out->lse, N),
        .entropy = optional(out->entropy, N),
        .collision = optional(out->collision, N),
        .mean = optional(out->mean, N),
        .top = optional(out->top, N),
    };
    const struct dt_cpu_head h = {
        .N = N,
        .C = C,
        .V = V,
        .x = x,
        .w = w,
        .targets = targets,
        .workspace = workspace,
        .row = forward_row,
        .ctx = &f,
    };
    (void)stream;
    assert(rule->temperature > 0.0f && rule->scale > 0.0f);

    clear(&f, dt_view_i32(targets), N);
    DT_CPU(head)(&h);
}

void DT_CPU(linear_logprob_backward)(
    struct dt_stream *stream, struct dt_view step, struct dt_view dx,
    struct dt_view dw, struct dt_view dlogp, struct dt_view dentropy,
    struct dt_view lse, struct dt_view entropy, struct dt_view x,
    struct dt_view w, struct dt_view targets, struct dt_view workspace,
    const struct dt_logit_rule *rule, size_t N, size_t C, size_t V,
    bool accumulate)
{
    const double loss_scale = dt_view_f64(step)[DT_STEP_LOSS_SCALE];
    const bool capped = rule->softcap > 0.0f;
    const double scale = (double)rule->scale / (double)rule->temperature;
    const struct backward b = {
        .V = V,
        .inverse = rule->scale / rule->temperature,
        .scale = (float)(loss_scale * scale),
        .rule = rule,
        .dlogp = dt_cpu_f32(dlogp, N),
        .lse = dt_cpu_f32(lse, N),
        .dentropy = optional(dentropy, N),
        .entropy = optional(entropy, N),
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
        .row = capped ? ruled_backward_row : backward_row,
        .ctx = &b,
    };
    (void)stream;
    assert(step.count == DT_STEP_COUNT && rule->temperature > 0.0f);
    assert(dx.count == N * C && (!b.dentropy || b.entropy));

    DT_CPU(head)(&h);
}

void DT_CPU(apply_logit_rule)(struct dt_stream *stream, struct dt_view logits,
                              const struct dt_logit_rule *rule)
{
    float *l = dt_view_f32(logits);
    (void)stream;

#pragma omp parallel for schedule(static) if (logits.count > DT_CPU_SMALL)
    for (size_t i = 0; i < logits.count; i += DT_CPU_BLOCK)
        dt_apply_rule(l + i, rule, dt_cpu_block(i, logits.count));
}
