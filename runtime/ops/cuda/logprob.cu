/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logprob.cu - log-probabilities of given tokens, straight from the head
 *
 * Logits are fp32 whatever the type of the model: those of bf16 would be wrong
 * by up to 2^-9 of themselves, and a ratio of probabilities with them. A block
 * computes a row, which it reads once in either direction.
 */
#include "config.h"

#include <float.h>

#include "ops/cuda/cuda_head.h"

namespace
{

enum { BLOCK = 512, W = 4 };

/* With y = z - max: sums of e^y, y e^y, e^2y and z over some of a row's logits
 * z.
 */
struct Sums {
    float max, sum, moment, squares, total;
};

/* The same about another max, not below the first. */
__device__ Sums about(const Sums &s, float max)
{
    const float down = s.max - max, factor = expf(down);

    return {max, factor * s.sum, factor * (s.moment + down * s.sum),
            factor * factor * s.squares, s.total};
}

/* Adds the first `there` of z to the sums. */
__device__ void add_logits(Sums &s, const float (&z)[W], unsigned there)
{
    float max = s.max;

#pragma unroll
    for (unsigned j = 0; j < W; j++)
        max = j < there ? fmaxf(max, z[j]) : max;
    s = about(s, max);
#pragma unroll
    for (unsigned j = 0; j < W; j++) {
        if (j < there) {
            float y = z[j] - max, power = expf(y);
            s.sum += power;
            s.moment += power * y;
            s.squares += power * power;
            s.total += z[j];
        }
    }
}

/* Logits i * W ... of a row, by the rule */
__device__ void load_logits(float (&z)[W], const float *row, unsigned i,
                            const LogitRule &rule)
{
    const Vec<float, W> v = ((const Vec<float, W> *)row)[i];

#pragma unroll
    for (int j = 0; j < W; j++)
        z[j] = logit_of(v.v[j], rule);
}

/* The sums over a row, in all threads of the block */
__device__ Sums sum_row(const float *row, const LogitRule &rule, unsigned V)
{
    __shared__ float shared[WARP];
    /* -INFINITY would make NaN of 0 */
    Sums s = {-FLT_MAX, 0.0f, 0.0f, 0.0f, 0.0f};

    for (unsigned i = threadIdx.x; i * W < V; i += BLOCK) {
        float z[W];
        load_logits(z, row, i, rule);
        add_logits(s, z, V - i * W);
    }
    s = about(s, block_max(s.max, shared));
    s.sum = block_sum(s.sum, shared);
    s.moment = block_sum(s.moment, shared);
    s.squares = block_sum(s.squares, shared);
    s.total = block_sum(s.total, shared);
    return s;
}

/* Where the values of rows go; all but logp and lse may be NULL. */
struct Forward {
    float *logp, *lse, *entropy, *collision, *mean, *top;
    const int32_t *targets;
    LogitRule rule;
    unsigned V, columns;
};

struct Row {
    float logp, lse, entropy, collision, mean, top;
};

__device__ void store_row(const Forward &f, size_t n, const Row &row)
{
    f.logp[n] = row.logp;
    f.lse[n] = row.lse;
    if (f.entropy)
        f.entropy[n] = row.entropy;
    if (f.collision)
        f.collision[n] = row.collision;
    if (f.mean)
        f.mean[n] = row.mean;
    if (f.top)
        f.top[n] = row.top;
}

/* The values of a row whose target has the logit z. */
__device__ Row row_of(const Sums &s, float z, unsigned V)
{
    const float lse = logf(s.sum);
    const float logp = z - s.max - lse;
    Row row;

    row.logp = logp > 0.0f ? 0.0f : logp; /* NaN stays NaN */
    row.lse = lse + s.max;
    row.entropy = lse - s.moment / s.sum;
    row.collision = logf(s.squares) - 2.0f * lse;
    row.mean = s.total / (float)V;
    row.top = z >= s.max ? 1.0f : 0.0f;
    return row;
}

/* logp = z(target) - log(sum of e^z) of a row, and the other values of Row from
 * the same sums; 0 where there is no target.
 */
__global__ void __launch_bounds__(BLOCK)
    forward_kernel(Forward f, const float *logits)
{
    const size_t n = blockIdx.x;
    const float *row = logits + n * f.columns;
    const int32_t target = f.targets[n];

    Row values = {};
    if (target >= 0) {
        const Sums s = sum_row(row, f.rule, f.V);
        values = row_of(s, logit_of(row[target], f.rule), f.V);
    }
    if (threadIdx.x == 0)
        store_row(f, n, values);
}

/* dentropy and entropy may be NULL. */
struct Backward {
    const float *dlogp, *dentropy, *lse, *entropy;
    const int32_t *targets;
    const double *step;
    LogitRule rule;
    unsigned V, columns;
};

/* The gradient of a logit z is hit [z is the target's] - p (all + spread log
 * p), times the slope of the softcap.
 */
struct Weights {
    float hit, spread, all, lse, inverse_cap;
};

__device__ Weights weights_of(const Backward &b, size_t n)
{
    const float scale = (float)b.step[DT_STEP_LOSS_SCALE] * b.rule.scale;
    Weights w = {b.dlogp[n] * scale, 0.0f, 0.0f, b.lse[n], b.rule.inverse_cap};

    w.all = w.hit;
    if (b.dentropy) {
        w.spread = b.dentropy[n] * scale;
        w.all += w.spread * b.entropy[n];
    }
    return w;
}

/* Gradients of the logits z of the columns from `first` on */
template <typename X>
__device__ Vec<X, W> gradients_of(const float (&z)[W], const Weights &w,
                                  unsigned first, unsigned target, unsigned V)
{
    Vec<X, W> out;

#pragma unroll
    for (unsigned j = 0; j < W; j++) {
        float y = z[j] - w.lse;
        float g = -expf(y) * (w.all + w.spread * y);
        g += first + j == target ? w.hit : 0.0f;
        g *= 1.0f - z[j] * w.inverse_cap * (z[j] * w.inverse_cap);
        out.v[j] = from_float<X>(first + j < V ? g : 0.0f);
    }
    return out;
}

/* A row of logits becomes its gradient, at the beginning of the row. Where
 * elements of X are smaller than logits, a round writes over logits that other
 * threads read in the same round, but over none of a later round.
 */
template <typename X>
__global__ void __launch_bounds__(BLOCK)
    backward_kernel(Backward b, float *logits)
{
    const size_t n = blockIdx.x;
    const unsigned vecs = b.columns / W;
    const int32_t target = b.targets[n];
    float *row = logits + n * b.columns;
    Vec<X, W> *to = (Vec<X, W> *)row, out;
    Weights w = {};

    if (target >= 0)
        w = weights_of(b, n);
    for (unsigned first = 0; first < vecs; first += BLOCK) {
        const unsigned i = first + threadIdx.x;
        if (i < vecs && target >= 0) {
            float z[W];
            load_logits(z, row, i, b.rule);
            out = gradients_of<X>(z, w, i * W, (unsigned)target, b.V);
        } else {
            for (int j = 0; j < W; j++)
                out.v[j] = from_float<X>(0.0f);
        }
        if (sizeof(X) < sizeof(float))
            __syncthreads();
        if (i < vecs)
            to[i] = out;
    }
}

float *floats_of(struct dt_view v, size_t N)
{
    assert(v.count == 0 || v.count == N);
    return data_of<float>(v);
}

/* Of the rows from n on; NULL stays NULL. */
template <typename T> T *from(T *values, size_t n)
{
    return values ? values + n : values;
}

} // namespace

extern "C" void dt_cuda_linear_logprob_forward(
    struct dt_stream *stream, const struct dt_logprobs *out, struct dt_view x,
    struct dt_view w, struct dt_view targets, struct dt_view workspace,
    const struct dt_logit_rule *rule, size_t N, size_t C, size_t V)
{
    struct dt_cuda_head h = head_of(stream, x, w, DT_F32, N, C, V);
    assert(out->logp.count == N && out->lse.count == N);
    assert(targets.count == N && rule->temperature > 0.0f);

    if (!dt_cuda_head_begin(&h, workspace))
        return;
    for (size_t first = 0; first < N; first += h.rows) {
        const size_t rows = N - first < h.rows ? N - first : h.rows;
        Forward f = {};
        f.logp = from(floats_of(out->logp, N), first);
        f.lse = from(floats_of(out->lse, N), first);
        f.entropy = from(floats_of(out->entropy, N), first);
        f.collision = from(floats_of(out->collision, N), first);
        f.mean = from(floats_of(out->mean, N), first);
        f.top = from(floats_of(out->top, N), first);
        f.targets = dt_view_i32(targets) + first;
        f.rule = rule_of(rule);
        f.V = (unsigned)V;
        f.columns = (unsigned)h.columns;
        dt_cuda_head_forward(&h, first, rows);
        launch(stream, forward_kernel, (unsigned)rows, BLOCK, f,
               (const float *)dt_view_f32(h.logits));
    }
}

extern "C" void dt_cuda_linear_logprob_backward(
    struct dt_stream *stream, struct dt_view step, struct dt_view dx,
    struct dt_view dw, struct dt_view dlogp, struct dt_view dentropy,
    struct dt_view lse, struct dt_view entropy, struct dt_view x,
    struct dt_view w, struct dt_view targets, struct dt_view workspace,
    const struct dt_logit_rule *rule, size_t N, size_t C, size_t V,
    bool accumulate)
{
    struct dt_cuda_head h = head_of(stream, x, w, DT_F32, N, C, V);
    assert(dx.count == N * C && dlogp.count == N && lse.count == N);
    assert(dentropy.count == 0 || entropy.count == N);
    assert(step.count == DT_STEP_COUNT && targets.count == N);
    assert(rule->temperature > 0.0f);

    h.dx = dx;
    h.dw = dw;
    h.accumulate = accumulate;
    if (!dt_cuda_head_begin(&h, workspace))
        return;
    for (size_t first = 0; first < N; first += h.rows) {
        const size_t rows = N - first < h.rows ? N - first : h.rows;
        Backward b = {};
        b.dlogp = floats_of(dlogp, N) + first;
        b.dentropy = from(floats_of(dentropy, N), first);
        b.lse = floats_of(lse, N) + first;
        b.entropy = from(floats_of(entropy, N), first);
        b.targets = dt_view_i32(targets) + first;
        b.step = dt_view_f64(step);
        b.rule = rule_of(rule);
        b.V = (unsigned)V;
        b.columns = (unsigned)h.columns;
        dt_cuda_head_forward(&h, first, rows);
        with_type(x.dtype, [&](auto type) {
            launch(stream, backward_kernel<decltype(type)>, (unsigned)rows,
                   BLOCK, b, dt_view_f32(h.logits));
        });
        dt_cuda_head_backward(&h, first, rows);
    }
}
