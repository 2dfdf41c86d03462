/* SPDX-License-Identifier: Apache-2.0 */
/*
 * norm.cu - LayerNorm, RMSNorm and the residual additions before them
 *
 * One pass over the memory: a row stays in registers of a warp or a block while
 * its sums are made. Rows that are too long or not aligned are read again.
 *
 * Backward, with h = (x - mean) rstd and g = w dout, of a row:
 *   dx += rstd (g - mean(g) - h mean(g h)), for RMSNorm without mean(g)
 *   dw += dout h,  db += dout,  sums = the sum of dx
 * Each block loops over rows there. A thread has the same columns of all of
 * them, and their sums of dw, db and dx in registers.
 */
#include "config.h"

#include "ops/cuda/dropout.cuh"
#include "ops/cuda/parts.cuh"
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

/* out = w (x - mean) rstd + b, where rstd = 1 / sqrt(mean((x - mean)^2) + eps);
 * RMSNorm without mean and b. A row stays in registers of THREADS threads: a
 * warp, or a block.
 */
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

/* The same of long rows: block n reads row n once more for every sum. */
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
    assert(N == 0 || (o->b.count == 0) == (o->mean.count == 0));
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

/* Short rows: warps of a block, each with rows of its own, and blocks that a
 * multiprocessor's registers have room for. Longer rows, one a block: threads
 * of a multiprocessor. The longest rows do not stay in registers.
 */
enum { WARPS = 4, WARP_BLOCKS = 3, ROW_THREADS = 512 };
enum { LONG_PARTS = 256 };

template <int THREADS> struct Shape {
    static constexpr int block = THREADS == WARP ? WARPS * WARP : THREADS;
    static constexpr int rows = THREADS == WARP ? WARPS : 1;
    static constexpr int resident =
        THREADS == WARP ? WARP_BLOCKS : ROW_THREADS / THREADS;
};

template <typename X> struct NormGrad {
    X *dx;
    const X *dout, *x, *w;
    const float *mean, *rstd; /* mean: NULL for RMSNorm */
    float *partial;           /* (blocks, C dw, C db, C sums) */
    float shift;
    size_t N;
    unsigned C, columns; /* columns: of partial */
};

/* The sums over rows that a kernel makes; the value is their number. */
enum { RMS = 1, LAYER = 2, LAYER_AND_DX = 3 };

/* Sums of a and b over the threads of a row. */
template <int THREADS>
__device__ static inline void row_sums(float &a, float &b,
                                       float (&shared)[2][WARP])
{
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    a = warp_sum(a);
    b = warp_sum(b);
    if constexpr (THREADS > WARP) {
        __syncthreads();
        if (lane == 0) {
            shared[0][warp] = a;
            shared[1][warp] = b;
        }
        __syncthreads();
        a = warp_sum(lane < THREADS / WARP ? shared[0][lane] : 0.0f);
        b = warp_sum(lane < THREADS / WARP ? shared[1][lane] : 0.0f);
    }
}

/* A thread's part of a row: PER vectors, THREADS vectors apart. */
template <typename X, int THREADS, int PER, int KIND> struct RowSlice {
    static constexpr int W = wide<X>();
    Vec<X, W> dout[PER], x[PER], dx[PER], w[PER];
    float dw[PER][W], db[PER][W], sums[PER][W];

    __device__ static unsigned column(int p)
    {
        return (threadIdx.x % THREADS + p * THREADS) * W;
    }

    __device__ void load(const NormGrad<X> &a, size_t n)
    {
#pragma unroll
        for (int p = 0; p < PER; p++) {
            if (n < a.N && column(p) < a.C) {
                dout[p] = load_vec<X, W>(a.dout + n * a.C + column(p));
                x[p] = load_vec<X, W>(a.x + n * a.C + column(p));
                dx[p] = load_vec<X, W>(a.dx + n * a.C + column(p));
            }
        }
    }

    /* Adds to dw and db; `sum` of g and `product` of g (x - mean) */
    __device__ void add(const NormGrad<X> &a, float mean, float rstd,
                        float &sum, float &product)
    {
#pragma unroll
        for (int p = 0; p < PER; p++) {
            if (column(p) < a.C) {
                float d[W], in[W], weight[W];
                to_floats<X, W>(d, dout[p]);
                to_floats<X, W>(in, x[p]);
                to_floats<X, W>(weight, w[p]);
#pragma unroll
                for (int i = 0; i < W; i++) {
                    float g = (weight[i] + a.shift) * d[i];
                    float xc = in[i] - mean;
                    dw[p][i] += d[i] * (xc * rstd);
                    db[p][i] += d[i];
                    sum += g;
                    product += g * xc;
                }
            }
        }
    }

    __device__ void store(const NormGrad<X> &a, size_t n, float mean,
                          float rstd, float sum, float product)
    {
#pragma unroll
        for (int p = 0; p < PER; p++) {
            if (column(p) < a.C) {
                float d[W], in[W], weight[W], to[W];
                to_floats<X, W>(d, dout[p]);
                to_floats<X, W>(in, x[p]);
                to_floats<X, W>(weight, w[p]);
                to_floats<X, W>(to, dx[p]);
#pragma unroll
                for (int i = 0; i < W; i++) {
                    float g = (weight[i] + a.shift) * d[i];
                    float xc = in[i] - mean;
                    to[i] += rstd * (g - sum - xc * product);
                }
                const Vec<X, W> rounded = from_floats<X, W>(to);
                store_vec<X, W>(a.dx + n * a.C + column(p), rounded);
                if (KIND == LAYER_AND_DX) {
                    to_floats<X, W>(to, rounded);
#pragma unroll
                    for (int i = 0; i < W; i++)
                        sums[p][i] += to[i];
                }
            }
        }
    }
};

/* to(C) = the sums of all warps, which had whole rows each, in their order.
 * Whole vectors at a time: single elements, W apart, would conflict in the
 * banks of shared memory.
 */
template <int PER, int W, typename Column>
__device__ static inline void add_warps(float *to, const float (&sums)[PER][W],
                                        float *shared, unsigned C,
                                        Column column)
{
    const int warp = threadIdx.x / WARP;

    for (int turn = 0; turn < WARPS; turn++) {
#pragma unroll
        for (int p = 0; p < PER; p++) {
            float sum[W] = {};
            if (warp != turn || column(p) >= C)
                continue;
            if (turn > 0)
                load_floats<float, W>(sum, shared + column(p));
#pragma unroll
            for (int i = 0; i < W; i++)
                sum[i] += sums[p][i];
            store_floats<float, W>(shared + column(p), sum);
        }
        __syncthreads();
    }
    for (unsigned c = threadIdx.x; c < C; c += WARPS * WARP)
        to[c] = shared[c];
    __syncthreads();
}

/* to(C) = the sums of the block's rows */
template <int THREADS, int PER, int W, typename Column>
__device__ static inline void store_sums(float *to, const float (&sums)[PER][W],
                                         float *shared, unsigned C,
                                         Column column)
{
    if constexpr (THREADS == WARP) {
        add_warps<PER, W>(to, sums, shared, C, column);
    } else {
#pragma unroll
        for (int p = 0; p < PER; p++)
            if (column(p) < C)
                store_floats<float, W>(to + column(p), sums[p]);
    }
}

/* A row stays in registers of THREADS threads: a warp (of WARPS in a block), or
 * a block.
 */
template <typename X, int THREADS, int PER, int KIND>
__global__ static void __launch_bounds__(Shape<THREADS>::block,
                                         Shape<THREADS>::resident)
    norm_backward_kernel(NormGrad<X> a)
{
    constexpr int W = wide<X>();
    constexpr size_t ROWS = Shape<THREADS>::rows;
    __shared__ float shared[2][WARP];
    alignas(4 * W)
        __shared__ float columns[THREADS == WARP ? PER * W * WARP : 1];
    RowSlice<X, THREADS, PER, KIND> slice;
    float *partial = a.partial + (size_t)blockIdx.x * a.columns;

#pragma unroll
    for (int p = 0; p < PER; p++) {
        if (slice.column(p) < a.C)
            slice.w[p] = load_vec<X, W>(a.w + slice.column(p));
#pragma unroll
        for (int i = 0; i < W; i++)
            slice.dw[p][i] = slice.db[p][i] = slice.sums[p][i] = 0.0f;
    }
    for (size_t first = blockIdx.x * ROWS; first < a.N;
         first += gridDim.x * ROWS) {
        size_t n = THREADS == WARP ? first + threadIdx.x / WARP : first;
        float mean = 0.0f, rstd = 0.0f, sum = 0.0f, product = 0.0f;
        slice.load(a, n);
        if (n < a.N) {
            mean = KIND == RMS ? 0.0f : a.mean[n];
            rstd = a.rstd[n];
            slice.add(a, mean, rstd, sum, product);
        }
        row_sums<THREADS>(sum, product, shared);
        if (n < a.N)
            slice.store(a, n, mean, rstd, KIND == RMS ? 0.0f : sum / (float)a.C,
                        product * (rstd * rstd / (float)a.C));
    }
    store_sums<THREADS>(partial, slice.dw, columns, a.C, slice.column);
    if (KIND >= LAYER)
        store_sums<THREADS>(partial + a.C, slice.db, columns, a.C,
                            slice.column);
    if (KIND == LAYER_AND_DX)
        store_sums<THREADS>(partial + 2 * a.C, slice.sums, columns, a.C,
                            slice.column);
}

/* dx of rows that are too long or not aligned: block n reads row n twice. */
template <typename X>
__global__ static void __launch_bounds__(LONG_THREADS)
    norm_backward_long(NormGrad<X> a)
{
    __shared__ float shared[2][WARP];
    const size_t n = blockIdx.x;
    const X *dout = a.dout + n * a.C, *x = a.x + n * a.C;
    X *dx = a.dx + n * a.C;
    const float mean = a.mean ? a.mean[n] : 0.0f, rstd = a.rstd[n];
    float sum = 0.0f, product = 0.0f;

    for (unsigned c = threadIdx.x; c < a.C; c += LONG_THREADS) {
        float g = (to_float(a.w[c]) + a.shift) * to_float(dout[c]);
        sum += g;
        product += g * (to_float(x[c]) - mean);
    }
    row_sums<LONG_THREADS>(sum, product, shared);
    sum = a.mean ? sum / (float)a.C : 0.0f;
    product *= rstd * rstd / (float)a.C;
    for (unsigned c = threadIdx.x; c < a.C; c += LONG_THREADS) {
        float g = (to_float(a.w[c]) + a.shift) * to_float(dout[c]);
        float xc = to_float(x[c]) - mean;
        dx[c] =
            from_float<X>(to_float(dx[c]) + rstd * (g - sum - xc * product));
    }
}

/* Sums over such rows, once dx is there: a warp takes 32 columns of some of the
 * rows.
 */
template <typename X>
__global__ static void __launch_bounds__(WARP *WARP)
    norm_columns_long(NormGrad<X> a)
{
    __shared__ float shared[WARP][WARP + 1];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const size_t step = (size_t)gridDim.y * WARP;
    unsigned c = blockIdx.x * WARP + lane;
    float sums[LAYER_AND_DX] = {}; /* dw, db, dx */

    if (c < a.C) {
        for (size_t n = blockIdx.y * WARP + warp; n < a.N; n += step) {
            float d = to_float(a.dout[n * a.C + c]);
            float mean = a.mean ? a.mean[n] : 0.0f;
            sums[0] += d * ((to_float(a.x[n * a.C + c]) - mean) * a.rstd[n]);
            sums[1] += d;
            if (a.columns == LAYER_AND_DX * a.C)
                sums[2] += to_float(a.dx[n * a.C + c]);
        }
    }
    c = blockIdx.x * WARP + warp;
    for (unsigned i = 0; i < a.columns / a.C; i++) {
        __syncthreads();
        shared[warp][lane] = sums[i];
        __syncthreads();
        const float sum = warp_sum(shared[lane][warp]);
        if (lane == 0 && c < a.C)
            a.partial[(size_t)blockIdx.y * a.columns + i * a.C + c] = sum;
    }
}

/* Returns how many parts there are. */
template <typename X>
static size_t launch_long(struct dt_stream *stream, const NormGrad<X> &a)
{
    size_t parts =
        parts_that_fit(stream, a.columns, blocks_for(a.N, 4 * (size_t)WARP));
    if (parts > LONG_PARTS)
        parts = LONG_PARTS;
    launch(stream, norm_backward_long<X>, (unsigned)a.N, LONG_THREADS, a);
    launch(stream, norm_columns_long<X>,
           dim3(blocks_for(a.C, WARP), (unsigned)parts), WARP * WARP, a);
    return parts;
}

template <typename X, int THREADS, int HELD>
static size_t launch_short(struct dt_stream *stream, const NormGrad<X> &a)
{
    constexpr int PER = HELD / wide<X>();
    const unsigned threads = Shape<THREADS>::block;
    const size_t blocks = blocks_for(a.N, Shape<THREADS>::rows);
    const size_t resident =
        (size_t)dt_cuda_facts.multiprocessors * Shape<THREADS>::resident;
    const size_t parts = parts_that_fit(stream, a.columns,
                                        blocks < resident ? blocks : resident);

    auto kernel = norm_backward_kernel<X, THREADS, PER, RMS>;
    if (a.columns == LAYER * a.C)
        kernel = norm_backward_kernel<X, THREADS, PER, LAYER>;
    if (a.columns == LAYER_AND_DX * a.C)
        kernel = norm_backward_kernel<X, THREADS, PER, LAYER_AND_DX>;
    launch(stream, kernel, (unsigned)parts, threads, a);
    return parts;
}

template <typename X>
static size_t launch_backward(struct dt_stream *stream, const NormGrad<X> &a)
{
    if (!aligned(a.C, wide<X>(), sizeof(X), a.dx, a.dout, a.x, a.w))
        return launch_long(stream, a);
    if (a.C <= WARP * 24)
        return launch_short<X, WARP, 24>(stream, a);
    if (a.C <= 64 * 16)
        return launch_short<X, 64, 16>(stream, a);
    if (a.C <= 128 * 16)
        return launch_short<X, 128, 16>(stream, a);
    if (a.C <= 256 * 16)
        return launch_short<X, 256, 16>(stream, a);
    if (a.C <= 512 * 16)
        return launch_short<X, 512, 16>(stream, a);
    return launch_long(stream, a);
}

extern "C" void dt_cuda_norm_backward(struct dt_stream *stream,
                                      struct dt_view dx, struct dt_view dw,
                                      struct dt_view db, struct dt_view sums,
                                      struct dt_view dout, struct dt_view x,
                                      struct dt_view w, struct dt_view mean,
                                      struct dt_view rstd, float shift,
                                      size_t N, size_t C, bool accumulate)
{
    const Sums all = {
        {data_of<float>(dw), data_of<float>(db), data_of<float>(sums)},
        {accumulate, accumulate, false}};
    /* no rows have no mean either */
    const int kind = mean.count == 0 && db.count == 0 ? RMS
                     : sums.count == 0                ? LAYER
                                                      : LAYER_AND_DX;
    size_t parts = 0;

    assert(dx.count == N * C && dout.count == N * C && x.count == N * C);
    assert(w.count == C && rstd.count == N && N <= INT32_MAX);
    assert(dw.count == C || (dw.count == 0 && db.count == 0));
    assert(db.count == 0 || mean.count == N);
    assert(sums.count == 0 || (sums.count == C && db.count == C));
    if (N * C > 0) {
        with_type(x.dtype, [&](auto zero) {
            using X = decltype(zero);
            NormGrad<X> a = {};
            a.dx = data_of<X>(dx);
            a.dout = data_of<const X>(dout);
            a.x = data_of<const X>(x);
            a.w = data_of<const X>(w);
            a.mean = data_of<const float>(mean);
            a.rstd = data_of<const float>(rstd);
            a.partial = (float *)stream->workspace;
            a.shift = shift;
            a.N = N;
            a.C = (unsigned)C;
            a.columns = (unsigned)(kind * C);
            parts = launch_backward<X>(stream, a);
        });
    }
    if (dw.count > 0)
        add_parts(stream, all, (const float *)stream->workspace, parts, C,
                  kind * C);
}
