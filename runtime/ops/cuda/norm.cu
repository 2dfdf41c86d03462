/* SPDX-License-Identifier: Apache-2.0 */
/*
 * norm.cu - LayerNorm, RMSNorm and the residual additions before them
 *
 * One pass over the memory: a row stays in registers of a warp or a block while
 * its sums are made. Rows that are too long or not aligned are read again.
 */
#include "config.h"

#include "ops/cuda/dropout.cuh"
#include "ops/cuda/rows.cuh"

/* Elements of a short row that a thread has; threads of a long row. */
enum { PER_THREAD = 32, LONG_THREADS = 512 };

/* Input of the norm: x, x + y, x + dropout of y */
enum kind { PLAIN, ADD, DROP };

template <typename X> struct Norm {
    X *sum, *out;
    float *mean, *rstd; /* mean, b: NULL for RMSNorm */
    const X *x, *y, *w, *b;
    float eps, shift;
    size_t N;
    unsigned C;
    Drops drops;
};

/* The sum over the threads of a row. */
template <int THREADS>
__device__ static inline float row_sum(float x, float (&shared)[WARP])
{
    if constexpr (THREADS == WARP)
        return warp_sum(x);
    else
        return block_sum(x, shared);
}

/* x = the input of the norm, rounded as it is stored in sum(n, c ...) */
template <typename X, int W, enum kind KIND>
__device__ static inline void add_vec(float (&x)[W], const Norm<X> &a,
                                      const Vec<X, W> &xs, const Vec<X, W> &ys,
                                      const DropRow &drops, size_t n,
                                      unsigned c)
{
    to_floats<X, W>(x, xs);
    if constexpr (KIND != PLAIN) {
        float y[W];
        to_floats<X, W>(y, ys);
        if constexpr (KIND == DROP)
            apply_dropout<W>(y, a.drops, drops, c);
#pragma unroll
        for (int i = 0; i < W; i++)
            y[i] += x[i];
        const Vec<X, W> sum = from_floats<X, W>(y);
        store_vec<X, W>(a.sum + n * a.C + c, sum);
        to_floats<X, W>(x, sum);
    }
}

/* out(n, c ...) */
template <typename X, int W>
__device__ static inline void norm_vec(const float (&x)[W], const Norm<X> &a,
                                       size_t n, unsigned c, float center,
                                       float scale)
{
    float w[W], b[W], y[W];

    load_floats<X, W>(w, a.w + c);
    if (a.b)
        load_floats<X, W>(b, a.b + c);
#pragma unroll
    for (int i = 0; i < W; i++) {
        y[i] = (x[i] - center) * scale * (w[i] + a.shift);
        if (a.b)
            y[i] += b[i];
    }
    store_floats<X, W>(a.out + n * a.C + c, y);
}

/* A row stays in registers of THREADS threads: a warp, or a block. */
template <typename X, int THREADS, enum kind KIND>
__global__ static void __launch_bounds__(THREADS < 128 ? 128 : THREADS)
    norm_kernel(Norm<X> a)
{
    constexpr int W = wide<X>(), PER = PER_THREAD / W;
    __shared__ float shared[WARP];
    const size_t n = THREADS == WARP
                         ? (size_t)blockIdx.x * 4 + threadIdx.x / WARP
                         : blockIdx.x;
    const unsigned lane = threadIdx.x % THREADS;
    const unsigned vecs = n < a.N ? a.C / W : 0;
    Vec<X, W> xs[PER], ys[PER];
    float x[PER][W], sum = 0.0f, square = 0.0f;
    DropRow drops = {};

#pragma unroll
    for (int p = 0; p < PER; p++) {
        unsigned v = lane + p * THREADS;
        if (v < vecs) {
            xs[p] = load_vec<X, W>(a.x + n * a.C + v * W);
            if constexpr (KIND != PLAIN)
                ys[p] = load_vec<X, W>(a.y + n * a.C + v * W);
        }
    }
    if (KIND == DROP && n < a.N)
        drops = drop_row(a.drops, n, a.C);
#pragma unroll
    for (int p = 0; p < PER; p++) {
        unsigned v = lane + p * THREADS;
        if (v < vecs) {
            add_vec<X, W, KIND>(x[p], a, xs[p], ys[p], drops, n, v * W);
#pragma unroll
            for (int i = 0; i < W; i++)
                sum += x[p][i];
        }
    }
    const float center =
        a.mean ? row_sum<THREADS>(sum, shared) / (float)a.C : 0.0f;
#pragma unroll
    for (int p = 0; p < PER; p++) {
#pragma unroll
        for (int i = 0; i < W; i++) {
            float d = x[p][i] - center;
            if (lane + p * THREADS < vecs)
                square += d * d;
        }
    }
    const float scale =
        rsqrtf(row_sum<THREADS>(square, shared) / (float)a.C + a.eps);
#pragma unroll
    for (int p = 0; p < PER; p++) {
        unsigned v = lane + p * THREADS;
        if (v < vecs)
            norm_vec<X, W>(x[p], a, n, v * W, center, scale);
    }
    if (lane == 0 && n < a.N) {
        if (a.mean)
            a.mean[n] = center;
        a.rstd[n] = scale;
    }
}

/* Block n reads row n once more for every sum. */
template <typename X, int W, enum kind KIND>
__global__ static void __launch_bounds__(LONG_THREADS) norm_long(Norm<X> a)
{
    __shared__ float shared[WARP];
    const size_t n = blockIdx.x;
    const X *row = (KIND == PLAIN ? a.x : a.sum) + n * a.C;
    float x[W], sum = 0.0f, square = 0.0f;
    DropRow drops = {};

    if (KIND == DROP)
        drops = drop_row(a.drops, n, a.C);
    for (unsigned c = threadIdx.x * W; c < a.C; c += LONG_THREADS * W) {
        Vec<X, W> xs = load_vec<X, W>(a.x + n * a.C + c), ys = {};
        if constexpr (KIND != PLAIN)
            ys = load_vec<X, W>(a.y + n * a.C + c);
        add_vec<X, W, KIND>(x, a, xs, ys, drops, n, c);
        for (int i = 0; i < W; i++)
            sum += x[i];
    }
    const float center = a.mean ? block_sum(sum, shared) / (float)a.C : 0.0f;
    for (unsigned c = threadIdx.x * W; c < a.C; c += LONG_THREADS * W) {
        load_floats<X, W>(x, row + c);
        for (int i = 0; i < W; i++)
            square += (x[i] - center) * (x[i] - center);
    }
    const float scale = rsqrtf(block_sum(square, shared) / (float)a.C + a.eps);
    for (unsigned c = threadIdx.x * W; c < a.C; c += LONG_THREADS * W) {
        load_floats<X, W>(x, row + c);
        norm_vec<X, W>(x, a, n, c, center, scale);
    }
    if (threadIdx.x == 0) {
        if (a.mean)
            a.mean[n] = center;
        a.rstd[n] = scale;
    }
}

template <typename X, enum kind KIND>
static void launch_norm(struct dt_stream *stream, const Norm<X> &a)
{
    constexpr unsigned W = wide<X>();
    const unsigned N = (unsigned)a.N, C = a.C;
    bool wide_rows = aligned(C, W, sizeof(X), a.x, a.y, a.sum, a.out) &&
                     aligned(C, W, sizeof(X), a.w, a.b);

    if (!wide_rows)
        launch(stream, norm_long<X, 1, KIND>, N, LONG_THREADS, a);
    else if (C <= PER_THREAD * WARP)
        launch(stream, norm_kernel<X, WARP, KIND>, blocks_for(N, 4), 4 * WARP,
               a);
    else if (C <= PER_THREAD * 64)
        launch(stream, norm_kernel<X, 64, KIND>, N, 64, a);
    else if (C <= PER_THREAD * 128)
        launch(stream, norm_kernel<X, 128, KIND>, N, 128, a);
    else if (C <= PER_THREAD * 256)
        launch(stream, norm_kernel<X, 256, KIND>, N, 256, a);
    else
        launch(stream, norm_long<X, (int)W, KIND>, N, LONG_THREADS, a);
}

struct operands {
    struct dt_view sum, out, mean, rstd, x, y, w, b;
};

template <typename X>
static Norm<X> norm_of(const struct operands *o, struct dt_norm_rule rule,
                       size_t N, size_t C)
{
    Norm<X> a = {};

    assert(o->out.count == N * C && o->x.count == N * C);
    assert(o->w.count == C && o->rstd.count == N && N <= INT32_MAX);
    assert((o->b.count == 0) == (o->mean.count == 0));
    a.sum = data_of<X>(o->sum);
    a.out = data_of<X>(o->out);
    a.mean = data_of<float>(o->mean);
    a.rstd = data_of<float>(o->rstd);
    a.x = data_of<const X>(o->x);
    a.y = data_of<const X>(o->y);
    a.w = data_of<const X>(o->w);
    a.b = data_of<const X>(o->b);
    a.eps = rule.eps;
    a.shift = rule.shift;
    a.N = N;
    a.C = (unsigned)C;
    return a;
}

extern "C" void dt_cuda_norm_forward(struct dt_stream *stream,
                                     struct dt_view out, struct dt_view mean,
                                     struct dt_view rstd, struct dt_view x,
                                     struct dt_view w, struct dt_view b,
                                     struct dt_norm_rule rule, size_t N,
                                     size_t C)
{
    const struct operands o = {{}, out, mean, rstd, x, {}, w, b};

    if (N * C == 0)
        return;
    with_type(x.dtype, [&](auto zero) {
        using X = decltype(zero);
        launch_norm<X, PLAIN>(stream, norm_of<X>(&o, rule, N, C));
    });
}

extern "C" void dt_cuda_residual_norm_forward(
    struct dt_stream *stream, struct dt_view sum, struct dt_view out,
    struct dt_view mean, struct dt_view rstd, struct dt_view x,
    struct dt_view y, struct dt_view w, struct dt_view b,
    struct dt_norm_rule rule, size_t N, size_t C,
    const struct dt_dropout *dropout)
{
    const struct operands o = {sum, out, mean, rstd, x, y, w, b};

    assert(sum.count == N * C && y.count == N * C);
    if (N * C == 0)
        return;
    with_type(x.dtype, [&](auto zero) {
        using X = decltype(zero);
        Norm<X> a = norm_of<X>(&o, rule, N, C);
        a.drops = drops_of(dropout, N);
        if (a.drops.rows)
            launch_norm<X, DROP>(stream, a);
        else
            launch_norm<X, ADD>(stream, a);
    });
}
