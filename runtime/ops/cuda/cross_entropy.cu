/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cross_entropy.cu - the head and its loss, a chunk of rows at a time
 *
 * A chunk takes three matrix multiplications and one kernel, which reads the
 * logits of a row and replaces them by their gradient. A multiprocessor works
 * on two rows at a time. Where its shared memory holds both, each is read once:
 * for GPT-2 in bf16 they are 196.5 KiB of the 228 of sm_90, and without that 25
 * MiB of rows and as much of gradients would share the 50 MiB of an H200's L2
 * until the second read. Where only one block would fit (the same rows in the
 * 164 KiB of sm_80) nothing would be under way while it computes, so those
 * rows, like longer ones, are read twice, the second time from caches as far as
 * these hold them.
 */
#include "config.h"

#include <sysexits.h>

#include "ops/cuda/cuda_head.h"
#include "ops/workspace.h"
#include "tensor/kernel.cuh"

namespace
{

enum { BLOCK = 1024 };
enum { UNIT = 128 }; /* shared memory is given in so many bytes */
/* These multiprocessors hold 1536 threads, all others 2048. */
#if defined(__CUDA_ARCH__) &&                                                  \
    (__CUDA_ARCH__ / 100 == 8 || __CUDA_ARCH__ >= 1100) &&                     \
    __CUDA_ARCH__ != 800
enum { BLOCKS = 1 };
#else
enum { BLOCKS = 2 };
#endif

/* Sums over a row, from which its gradient follows. */
struct RowStats {
    float max;
    float sum; /* of exp(x - max) */
    float all; /* of x, with label smoothing */
};

/* The gradient is factor * exp(x - max) - spread, less `peak` at the target,
 * times the slope of the softcap.
 */
struct Gradient {
    float max, factor, spread, peak;
    float inverse_cap; /* 0: none */
};

/* 2^x to 2 ulp; 0 where exp2f would compute a denormal. */
__device__ float exp2_fast(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* exp(x - max). For logits of 8 or 11 bits exp2 of one fused multiply-add is
 * exact enough: off by less than 1e-5 of itself while logits are below 128.
 */
template <typename X> __device__ float exp_of(float x, float max)
{
    constexpr float LOG2E = 1.44269504f;

    if (sizeof(X) == sizeof(float))
        return expf(x - max);
    return exp2_fast(fmaf(x, LOG2E, -max * LOG2E));
}

/* Logits, by the rule if there is one */
template <typename X, bool RULED, int W>
__device__ void load_logits(float (&to)[W], Vec<X, W> x, const LogitRule &rule)
{
#pragma unroll
    for (int j = 0; j < W; j++) {
        to[j] = to_float(x.v[j]);
        if (RULED)
            to[j] = logit_of(to[j], rule);
    }
}

/* Adds x to the sums. Only the first `there` elements are real; the others are
 * 0.
 */
template <typename X, bool SMOOTH, int W>
__device__ void add_vec(RowStats &row, float (&x)[W], unsigned there)
{
    float top = row.max, sum = 0.0f;

#pragma unroll
    for (int j = 0; j < W && SMOOTH; j++)
        row.all += x[j];
    if (there < W)
        for (int j = 0; j < W; j++)
            x[j] = j < (int)there ? x[j] : -INFINITY;
#pragma unroll
    for (int j = 0; j < W; j++)
        top = fmaxf(top, x[j]);
#pragma unroll
    for (int j = 0; j < W; j++)
        sum += exp_of<X>(x[j], top);
    row.sum = row.sum * exp_of<X>(row.max, top) + sum;
    row.max = top;
}

/* A thread's part of x(V), from the last vector to the first: the vectors read
 * last are replaced first, while a cache still holds them.
 */
template <typename X, bool SMOOTH, bool RULED>
__device__ RowStats read_row(const X *x, unsigned V, const LogitRule &rule)
{
    constexpr int W = wide<X>();
    const unsigned rounds = V / W / BLOCK, i = rounds * BLOCK + threadIdx.x;
    const Vec<X, W> *at = (const Vec<X, W> *)x + i;
    RowStats row = {-INFINITY, 0.0f, 0.0f};
    float v[W];

    if (i * W < V) {
        load_logits<X, RULED>(v, *at, rule);
        add_vec<X, SMOOTH>(row, v, V - i * W);
    }
#pragma unroll 2
    for (unsigned left = rounds; left > 0; left--) {
        at -= BLOCK;
        load_logits<X, RULED>(v, *at, rule);
        add_vec<X, SMOOTH>(row, v, W);
    }
    return row;
}

/* The sums over all threads of the block. */
template <typename X, bool SMOOTH>
__device__ RowStats reduce_row(RowStats part, float (&shared)[WARP])
{
    RowStats row = part;

    row.max = block_max(part.max, shared);
    row.sum = block_sum(part.sum * exp_of<X>(part.max, row.max), shared);
    if (SMOOTH)
        row.all = block_sum(part.all, shared);
    return row;
}

/* x is a logit, and `peak` s.peak if it is the target's, else 0. */
template <typename X>
__device__ float gradient_at(float x, const Gradient &s, float peak)
{
    const float t = x * s.inverse_cap;
    return (exp_of<X>(x, s.max) * s.factor - s.spread - peak) * (1.0f - t * t);
}

/* The gradient of x; only the first `there` columns are real. */
template <typename X, bool RULED, int W>
__device__ Vec<X, W> gradient_of(Vec<X, W> x, const Gradient &s,
                                 const LogitRule &rule, unsigned there)
{
    Vec<X, W> out;
    float v[W];

    load_logits<X, RULED>(v, x, rule);
#pragma unroll
    for (int j = 0; j < W; j++)
        v[j] = gradient_at<X>(v[j], s, 0.0f);
    if (there < W)
        for (int j = 0; j < W; j++)
            v[j] = j < (int)there ? v[j] : 0.0f;
#pragma unroll
    for (int j = 0; j < W; j++)
        out.v[j] = from_float<X>(v[j]);
    return out;
}

/* x(columns), V of them real, becomes the gradient of `logits`, which are x or
 * a copy of it, and `hit` at target.
 */
template <typename X, bool RULED>
__device__ void replace_row(X *x, const X *logits, const Gradient &s,
                            const LogitRule &rule, unsigned target, float hit,
                            unsigned V, unsigned columns)
{
    constexpr int W = wide<X>();
    const unsigned rounds = V / W / BLOCK;
    Vec<X, W> *to = (Vec<X, W> *)x + threadIdx.x;
    const Vec<X, W> *at = (const Vec<X, W> *)logits + threadIdx.x;

#pragma unroll 2
    for (unsigned left = rounds; left > 0; left--, at += BLOCK, to += BLOCK)
        *to = gradient_of<X, RULED>(*at, s, rule, W);
    for (unsigned i = rounds * BLOCK + threadIdx.x; i * W < columns;
         i += BLOCK, at += BLOCK, to += BLOCK)
        *to = gradient_of<X, RULED>(*at, s, rule, i * W < V ? V - i * W : 0);
    if (target / W % BLOCK == threadIdx.x) /* this thread has just written it */
        x[target] = from_float<X>(gradient_at<X>(hit, s, s.peak));
}

template <typename X> __device__ void zero_row(X *x, unsigned columns)
{
    constexpr int W = wide<X>();
    Vec<X, W> zero;

#pragma unroll
    for (int j = 0; j < W; j++)
        zero.v[j] = from_float<X>(0.0f);
    for (unsigned i = threadIdx.x; i * W < columns; i += BLOCK)
        ((Vec<X, W> *)x)[i] = zero;
}

/* Copies x(columns) to shared memory. A thread reads only its own copies, and
 * so waits for no other.
 */
template <typename X>
__device__ void hold_row(X *to, const X *x, unsigned columns)
{
    constexpr int W = wide<X>();

    for (unsigned i = threadIdx.x; i * W < columns; i += BLOCK)
        copy_async(to + i * W, x + i * W);
    copy_commit();
    copy_wait<0>();
}

/* A block computes the loss of a row of logits(gridDim, columns), V of them
 * real, and with `backward` its gradient in place. Blocks go from the last row
 * to the first: matrix multiplications wrote the last rows last, which are
 * still in the L2, and will read the first ones first. HELD: the row is read
 * once, into dynamic shared memory.
 */
template <typename X, bool SMOOTH, bool RULED, bool HELD>
__global__ void __launch_bounds__(BLOCK, BLOCKS)
    loss_kernel(double *losses, X *logits, const int32_t *targets,
                const double *step, float smoothing, LogitRule rule, unsigned V,
                unsigned columns, bool backward)
{
    __shared__ float shared[WARP];
    const size_t n = gridDim.x - 1 - blockIdx.x;
    X *x = logits + n * columns;
    const int32_t target = targets[n];

    if (target < 0) {
        if (backward)
            zero_row(x, columns);
        if (threadIdx.x == 0)
            losses[n] = 0.0;
    } else {
        const float hit =
            RULED ? logit_of(to_float(x[target]), rule) : to_float(x[target]);
        const float spread = SMOOTH ? smoothing / (float)V : 0.0f;
        const X *from = x;
        if constexpr (HELD) {
            DYNAMIC_SHARED(area);
            hold_row((X *)area, x, columns);
            from = (const X *)area;
        }
        RowStats row = reduce_row<X, SMOOTH>(
            read_row<X, SMOOTH, RULED>(from, V, rule), shared);
        float scale = (float)step[DT_STEP_LOSS_SCALE] * rule.scale;
        if (threadIdx.x == 0)
            losses[n] = (double)logf(row.sum) + (double)row.max -
                        (1.0 - (double)smoothing) * (double)hit -
                        (double)spread * (double)row.all;
        Gradient gradient = {row.max, scale / row.sum, scale * spread,
                             scale * (1.0f - smoothing), rule.inverse_cap};
        if (backward)
            replace_row<X, RULED>(x, from, gradient, rule, (unsigned)target,
                                  hit, V, columns);
    }
}

/* step += the sum of losses(count), one block */
__global__ void __launch_bounds__(BLOCK)
    losses_kernel(double *step, const double *losses, unsigned count)
{
    __shared__ double shared[WARP];
    double sum = 0.0;

    for (unsigned i = threadIdx.x; i < count; i += BLOCK)
        sum += losses[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        step[DT_STEP_LOSS] += sum;
}

/* logits(count) by a rule */
__global__ void __launch_bounds__(BLOCK)
    rule_kernel(float *logits, LogitRule rule, size_t count)
{
    const size_t i = blockIdx.x * (size_t)BLOCK + threadIdx.x;

    if (i < count)
        logits[i] = logit_of(logits[i], rule);
}

template <typename X, bool HELD> auto loss_kernel_of(bool smooth, bool ruled)
{
    if (ruled)
        return smooth ? loss_kernel<X, true, true, HELD>
                      : loss_kernel<X, false, true, HELD>;
    return smooth ? loss_kernel<X, true, false, HELD>
                  : loss_kernel<X, false, false, HELD>;
}

/* Bytes of the longest row that a block holds. */
size_t most_held;

/* Finds most_held: as many bytes as leave a multiprocessor the blocks that its
 * threads allow, besides the static shared memory of loss_kernel.
 */
cudaError_t find_most_held()
{
    enum { STATIC = WARP * sizeof(float) };
    int device, threads, whole, block, reserved;
    cudaError_t code = cudaGetDevice(&device);
    const struct {
        int *value;
        enum cudaDeviceAttr name;
    } facts[] = {
        {&threads, cudaDevAttrMaxThreadsPerMultiProcessor},
        {&whole, cudaDevAttrMaxSharedMemoryPerMultiprocessor},
        {&block, cudaDevAttrMaxSharedMemoryPerBlockOptin},
        {&reserved, cudaDevAttrReservedSharedMemoryPerBlock},
    };

    for (const auto &fact : facts)
        if (code == cudaSuccess)
            code = cudaDeviceGetAttribute(fact.value, fact.name, device);
    if (code != cudaSuccess)
        return code;
    const int blocks = threads < 2 * BLOCK ? 1 : threads / BLOCK;
    const int share = whole / blocks - reserved;
    const int most = (share < block ? share : block) - STATIC;
    most_held = most > 0 ? (size_t)most / UNIT * UNIT : 0;
    return cudaSuccess;
}

/* The losses of `rows` rows from `first` on; logits become gradients. */
void chunk_loss(const struct dt_cuda_head &h, struct dt_view step,
                struct dt_view targets, const LogitRule &rule, float smoothing,
                size_t first, size_t rows)
{
    double *losses = (double *)h.stream->workspace, *sums = dt_view_f64(step);
    const int32_t *ids = dt_view_i32(targets) + first;
    const size_t bytes = h.columns * dt_dtype_bytes(h.logits.dtype);
    const bool held = bytes <= most_held, smooth = smoothing > 0.0f;

    with_type(h.x.dtype, [&](auto type) {
        typedef decltype(type) X;
        auto kernel = held ? loss_kernel_of<X, true>(smooth, !is_plain(rule))
                           : loss_kernel_of<X, false>(smooth, !is_plain(rule));
        launch_shared(h.stream, kernel, (unsigned)rows, BLOCK, held ? bytes : 0,
                      losses, data_of<X>(h.logits), ids, (const double *)sums,
                      smoothing, rule, (unsigned)h.V, (unsigned)h.columns,
                      h.dx.count > 0);
    });
    launch(h.stream, losses_kernel, 1, BLOCK, sums, (const double *)losses,
           (unsigned)rows);
}

} // namespace

extern "C" int dt_cuda_loss_open(struct dt_error *err)
{
    cudaError_t code = find_most_held();

    for (auto type : {DT_F32, DT_BF16, DT_F16})
        with_type(type, [&](auto zero) {
            typedef decltype(zero) X;
            for (bool smooth : {false, true})
                for (bool ruled : {false, true})
                    if (code == cudaSuccess)
                        code = allow_shared(
                            loss_kernel_of<X, true>(smooth, ruled), most_held);
        });
    return code == cudaSuccess
               ? 0
               : dt_error_set(err, EX_UNAVAILABLE,
                              "%zu bytes of shared memory for a row of the "
                              "loss: %s",
                              most_held, cudaGetErrorString(code));
}

extern "C" void dt_cuda_linear_cross_entropy(
    struct dt_stream *stream, struct dt_view step, struct dt_view dx,
    struct dt_view dw, struct dt_view x, struct dt_view w,
    struct dt_view targets, struct dt_view workspace,
    const struct dt_logit_rule *rule, float smoothing, size_t N, size_t C,
    size_t V, bool accumulate)
{
    dt_cuda_head h = head_of(stream, x, w, x.dtype, N, C, V);
    assert(rule->temperature == 1.0f);
    assert(step.count == DT_STEP_COUNT && targets.count == N);

    h.dx = dx;
    h.dw = dw;
    h.accumulate = accumulate;
    if (!dt_cuda_head_begin(&h, workspace))
        return;
    for (size_t first = 0; first < N; first += h.rows) {
        const size_t rows = N - first < h.rows ? N - first : h.rows;
        dt_cuda_head_forward(&h, first, rows);
        chunk_loss(h, step, targets, rule_of(rule), smoothing, first, rows);
        if (dx.count > 0)
            dt_cuda_head_backward(&h, first, rows);
    }
}

extern "C" size_t dt_cuda_loss_workspace(enum dt_dtype type, size_t N, size_t C,
                                         size_t V, bool whole)
{
    return dt_workspace_head(type, N, C, V, whole);
}

extern "C" void dt_cuda_apply_logit_rule(struct dt_stream *stream,
                                         struct dt_view logits,
                                         const struct dt_logit_rule *rule)
{
    if (logits.count > 0)
        launch(stream, rule_kernel, blocks_for(logits.count, BLOCK), BLOCK,
               dt_view_f32(logits), rule_of(rule), logits.count);
}
