/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.cu - the scalars of a step, the sum that decides about it, and AdamW
 *
 * Squares are computed and added in double, as on the CPU: the square of a
 * float is exact there and can neither overflow nor vanish, so the norm is
 * infinite only if a gradient is. That costs a conversion and a fused
 * multiply-add for 4 bytes. A multiprocessor of an H200 does 16 of the former
 * and 64 of the latter a clock: 3.7e12 elements a second on the whole GPU,
 * three times the rate of its memory. On a GPU that does 2 a clock of both,
 * with 128 multiprocessors at 2.5 GHz, GPT-2's 124 million parameters take 0.4
 * ms, the time that 1.2 TB/s of memory bandwidth take.
 *
 * AdamW updates a range in one launch and one pass. Memory sets its time: 28
 * bytes an element (p, m and v both ways, g), 30 with a rounded copy. Exact
 * roots and divisions fit into that time. With p, m and v in bf16 it is 14 or
 * 16, and the random bits, 3 blocks of Philox for 8 elements, take about as
 * long as memory.
 */
#include "config.h"

#include "ops/adamw.h"
#include "ops/cuda/dither.cuh"

namespace
{

enum {
    SUM_BLOCK = 512,
    AHEAD = 4, /* 16-byte loads of a thread at once */
    /* Two rounds of four blocks on each of the 132 multiprocessors of an H200;
     * the same on other GPUs, for the same bits.
     */
    SUM_BLOCKS = 1056,
};

struct StepParams {
    struct dt_step_params of[DT_STEP_OUTCOMES];
};

double *step_scalars(struct dt_view step)
{
    assert(step.count == DT_STEP_COUNT);
    return dt_view_f64(step);
}

/* Clears the sums of the step, and takes its parameters by the outcome of the
 * last one, which only the GPU knows yet.
 */
__global__ void begin_kernel(double *step, StepParams all)
{
    if (threadIdx.x > 0)
        return;
    int outcome = (int)step[DT_STEP_OUTCOME];
    struct dt_step_params params = all.of[DT_STEP_TAKEN];
    /* a dynamic index would put the array into memory */
    if (outcome == DT_STEP_OVERFLOW)
        params = all.of[DT_STEP_OVERFLOW];
    else if (outcome == DT_STEP_EMPTY)
        params = all.of[DT_STEP_EMPTY];
    step[DT_STEP_LOSS] = 0.0;
    step[DT_STEP_TARGETS] = 0.0;
    step[DT_STEP_STOP] = 0.0;
    step[DT_STEP_SQUARES] = 0.0;
    step[DT_STEP_LOSS_SCALE] = params.loss_scale;
    step[DT_STEP_LR] = params.lr;
    step[DT_STEP_BIAS1] = params.bias1;
    step[DT_STEP_BIAS2] = params.bias2;
}

__global__ void add_kernel(double *step, double targets, double stop)
{
    if (threadIdx.x > 0)
        return;
    step[DT_STEP_TARGETS] += targets;
    step[DT_STEP_STOP] += stop;
}

/* grad_scale = min(1, max_norm / norm) / (targets loss_scale), and the outcome:
 * overflow if the norm is not finite.
 */
__global__ void clip_and_check_kernel(double *step, double max_norm)
{
    if (threadIdx.x > 0)
        return;
    double targets = step[DT_STEP_TARGETS];
    double scale =
        targets > 0.0 ? 1.0 / (targets * step[DT_STEP_LOSS_SCALE]) : 0.0;
    double norm = scale * sqrt(step[DT_STEP_SQUARES]);
    double clip = max_norm / (norm + 1e-6);
    if (!(max_norm > 0.0 && clip < 1.0))
        clip = 1.0;
    step[DT_STEP_NORM] = norm;
    step[DT_STEP_GRAD_SCALE] = clip * scale;
    step[DT_STEP_OUTCOME] = !(targets > 0.0)     ? DT_STEP_EMPTY
                            : !(norm < INFINITY) ? DT_STEP_OVERFLOW
                                                 : DT_STEP_TAKEN;
}

template <typename X, int W>
__device__ double add_squares(double sum, const Vec<X, W> &x)
{
    for (int j = 0; j < W; j++) {
        const double each = (double)to_float(x.v[j]);
        sum = fma(each, each, sum);
    }
    return sum;
}

/* part(gridDim) = each block's sum over x(count). Threads take AHEAD vectors at
 * a time; the first block adds the elements that fill no vector.
 */
template <typename X, int W>
__global__ void __launch_bounds__(SUM_BLOCK)
    squares_kernel(double *part, const X *x, size_t count)
{
    __shared__ double shared[WARP];
    const Vec<X, W> *from = (const Vec<X, W> *)x;
    const size_t vecs = count / W, stride = (size_t)gridDim.x * SUM_BLOCK;
    size_t i = (size_t)blockIdx.x * SUM_BLOCK + threadIdx.x;
    double sum[AHEAD] = {0.0};

    for (; i + (AHEAD - 1) * stride < vecs; i += AHEAD * stride) {
        Vec<X, W> loaded[AHEAD];
        for (int k = 0; k < AHEAD; k++)
            loaded[k] = from[i + (size_t)k * stride];
        for (int k = 0; k < AHEAD; k++)
            sum[k] = add_squares<X, W>(sum[k], loaded[k]);
    }
    for (; i < vecs; i += stride)
        sum[0] = add_squares<X, W>(sum[0], from[i]);
    if (blockIdx.x == 0 && threadIdx.x < count % W) {
        double last = (double)to_float(x[vecs * W + threadIdx.x]);
        sum[1] = fma(last, last, sum[1]);
    }
    double all = block_sum((sum[0] + sum[1]) + (sum[2] + sum[3]), shared);
    if (threadIdx.x == 0)
        part[blockIdx.x] = all;
}

/* step += the sum of part(parts), one block */
__global__ void __launch_bounds__(SUM_BLOCK)
    parts_kernel(double *step, const double *part, unsigned parts)
{
    __shared__ double shared[WARP];
    double sum = 0.0;

    for (unsigned i = threadIdx.x; i < parts; i += SUM_BLOCK)
        sum += part[i];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        step[DT_STEP_SQUARES] += sum;
}

} // namespace

extern "C" void dt_cuda_step_begin(
    struct dt_stream *stream, struct dt_view step,
    const struct dt_step_params params[DT_STEP_OUTCOMES])
{
    StepParams copy;

    for (int i = 0; i < DT_STEP_OUTCOMES; i++)
        copy.of[i] = params[i];
    launch(stream, begin_kernel, 1, WARP, step_scalars(step), copy);
}

extern "C" void dt_cuda_step_add(struct dt_stream *stream, struct dt_view step,
                                 double targets, double stop)
{
    launch(stream, add_kernel, 1, WARP, step_scalars(step), targets, stop);
}

extern "C" void dt_cuda_clip_and_check(struct dt_stream *stream,
                                       struct dt_view step, double max_norm)
{
    launch(stream, clip_and_check_kernel, 1, WARP, step_scalars(step),
           max_norm);
}

extern "C" void dt_cuda_sum_of_squares(struct dt_stream *stream,
                                       struct dt_view step, struct dt_view x)
{
    unsigned blocks = SUM_BLOCKS;
    double *part = (double *)stream->workspace;

    if (x.count == 0)
        return;
    with_stored_type(x.dtype, [&](auto zero) {
        typedef decltype(zero) X;
        const X *from = data_of<const X>(x);
        const size_t each = SUM_BLOCK * wide<X>();
        if (x.count < SUM_BLOCKS * each)
            blocks = blocks_for(x.count, each);
        with_width<X>(aligned(0, wide<X>(), sizeof(X), from), [&](auto width) {
            launch(stream, squares_kernel<X, decltype(width)::value>, blocks,
                   SUM_BLOCK, part, from, x.count);
        });
    });
    launch(stream, parts_kernel, 1, SUM_BLOCK, step_scalars(step),
           (const double *)part, blocks);
}

namespace
{

enum {
    BLOCK = 256,
    PER_THREAD = 8, /* vectors; enough work to hide the start of a block, and
                       little enough for blocks to end evenly */
};

/* Where the elements are and which of them decay. */
template <typename S, typename G, typename X> struct Range {
    S *p, *m, *v;
    const G *g;
    X *w; /* NULL: no copy */
    const int64_t *bounds;
    unsigned runs;
    size_t origin; /* of element 0, in bounds */
    size_t count;
    struct dt_dither dither;
};

/* The run (struct dt_adamw) of element i. */
__device__ unsigned find_run(const int64_t *bounds, unsigned runs, size_t i)
{
    unsigned low = 0, high = runs;

    while (high - low > 1) {
        unsigned middle = low + (high - low) / 2;
        if ((size_t)bounds[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* to(W) = x, numbers of state of one kind, from element i of the range on. */
template <typename S, int W>
__device__ void store_state(S *to, float (&x)[W],
                            const struct dt_dither &dither,
                            enum dt_dither_kind kind, size_t i)
{
    if constexpr (std::is_same<S, float>::value)
        store_floats<S, W>(to + i, x);
    else
        store_dithered<W>(to + i, x, dither, kind, i);
}

/* Elements [i, i + W) of one run, which decays or does not. */
template <int W, typename S, typename G, typename X>
__device__ void update(const Range<S, G, X> &r, size_t i, bool decays,
                       const struct dt_adamw_factors &factors,
                       const struct dt_adamw_constants &c)
{
    const struct dt_adamw_factors f = dt_adamw_factors_in(factors, decays);
    float p[W], m[W], v[W], g[W]; /* m and v: first and second moment */

    load_floats<S, W>(p, r.p + i);
    load_floats<S, W>(m, r.m + i);
    load_floats<S, W>(v, r.v + i);
    load_floats<G, W>(g, r.g + i);
#pragma unroll
    for (int j = 0; j < W; j++)
        dt_adamw_update(&f, &c, g[j], &p[j], &m[j], &v[j]);
    store_state<S, W>(r.p, p, r.dither, DT_DITHER_WEIGHT, i);
    store_state<S, W>(r.m, m, r.dither, DT_DITHER_M, i);
    store_state<S, W>(r.v, v, r.dither, DT_DITHER_V, i);
    if (r.w)
        store_floats<X, W>(r.w + i, p);
}

/* A block has W * BLOCK * PER_THREAD neighboring elements. A warp reads and
 * writes 16 bytes of state a lane side by side. Vectors in which a run ends,
 * and elements after the last vector, are done one by one.
 */
template <int W, typename S, typename G, typename X>
__global__ void __launch_bounds__(BLOCK)
    adamw_kernel(const double *step, Range<S, G, X> r,
                 struct dt_adamw_constants c)
{
    __shared__ struct dt_adamw_factors shared;
    const size_t first = (size_t)blockIdx.x * (W * BLOCK * PER_THREAD);
    unsigned run = find_run(r.bounds, r.runs, r.origin + first);
    size_t end = (size_t)r.bounds[run + 1] - r.origin;
    size_t i = first + W * threadIdx.x;

    if (step[DT_STEP_OUTCOME] != DT_STEP_TAKEN)
        return;
    if (threadIdx.x == 0)
        shared = dt_adamw_factors_of(step, &c);
    __syncthreads();
    const struct dt_adamw_factors factors = shared;
    for (int turn = 0; turn < PER_THREAD; turn++, i += W * BLOCK) {
        size_t stop = i + W < r.count ? i + W : r.count;
        for (size_t k = i; k < stop; k++) {
            while (k >= end)
                end = (size_t)r.bounds[++run + 1] - r.origin;
            if (k == i && i + W <= end) {
                update<W>(r, i, run % 2, factors, c);
                break;
            }
            update<1>(r, k, run % 2, factors, c);
        }
    }
}

template <typename S, typename G, typename X>
void launch_adamw(struct dt_stream *stream, const double *step,
                  const Range<S, G, X> &r, const struct dt_adamw_constants &c)
{
    constexpr int W = wide<S>();
    const bool is_wide = aligned(0, W, sizeof(S), r.p, r.m, r.v) &&
                         aligned(0, W, sizeof(G), r.g) &&
                         aligned(0, W, sizeof(X), r.w);

    with_width<S>(is_wide, [&](auto width) {
        constexpr int N = decltype(width)::value;
        launch(stream, adamw_kernel<N, S, G, X>,
               blocks_for(r.count, N * BLOCK * PER_THREAD), BLOCK, step, r, c);
    });
}

/* The tensors of an update, of types S, G and X. */
struct Update {
    struct dt_view step, p, w, g, m, v;
    const struct dt_adamw *args;
};

template <typename S, typename G, typename X>
void run_adamw(struct dt_stream *stream, const Update &u)
{
    Range<S, G, X> r;
    r.p = data_of<S>(u.p);
    r.m = data_of<S>(u.m);
    r.v = data_of<S>(u.v);
    r.g = data_of<const G>(u.g);
    r.w = data_of<X>(u.w);
    r.bounds = dt_view_i64(u.args->bounds);
    r.runs = (unsigned)(u.args->bounds.count - 1);
    r.origin = u.args->first;
    r.count = u.p.count;
    r.dither = u.args->dither;
    launch_adamw(stream, dt_view_f64(u.step), r, dt_adamw_constants_of(u.args));
}

} // namespace

extern "C" void dt_cuda_adamw(struct dt_stream *stream, struct dt_view step,
                              struct dt_view p, struct dt_view w,
                              struct dt_view g, struct dt_view m,
                              struct dt_view v, const struct dt_adamw *args)
{
    const Update u = {step, p, w, g, m, v, args};
    assert(step.count == DT_STEP_COUNT && args->bounds.count > 0);
    assert(g.count == p.count && m.count == p.count && v.count == p.count);
    assert(m.dtype == p.dtype && v.dtype == p.dtype);
    assert(w.count == 0 || w.count == p.count);
    assert(w.count == 0 || p.dtype == DT_F32 || w.dtype == p.dtype);
    assert(args->dither.first % DT_DITHER_BLOCK == 0);

    if (p.count == 0)
        return;
    with_stored_type(g.dtype, [&](auto grad) {
        typedef decltype(grad) G;
        if (p.dtype == DT_BF16)
            run_adamw<__nv_bfloat16, G, __nv_bfloat16>(stream, u);
        else
            with_type(w.count > 0 ? w.dtype : DT_F32, [&](auto copy) {
                run_adamw<float, G, decltype(copy)>(stream, u);
            });
    });
}
