/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cross_entropy.cu - the head and its loss, a chunk of rows at a time
 *
 * A chunk takes three matrix multiplications and one kernel, which reads the
 * logits of a row and replaces them by their gradient: 2 reads and 1 write of a
 * row, of which the second read hits caches. A multiprocessor has two rows at a
 * time: for GPT-2 in bf16 200 KiB of its 256, and 26 MiB of 50 in the L2 of an
 * H200.
 */
#include "config.h"

#include "ops/cuda/cuda.h"
#include "tensor/batch.h"
#include "tensor/kernel.cuh"

namespace
{

enum {
    BLOCK = 1024,
    UNIT = 8,   /* matrix multiplications want multiples of this many columns */
    PAD = 64,   /* columns; rows then begin at multiples of 128 bytes */
    TILE = 256, /* rows of cuBLASLt's largest tiles */
};
/* These multiprocessors hold 1536 threads, all others 2048. */
#if defined(__CUDA_ARCH__) &&                                                  \
    (__CUDA_ARCH__ / 100 == 8 || __CUDA_ARCH__ >= 1100) &&                     \
    __CUDA_ARCH__ != 800
enum { BLOCKS = 1 };
#else
enum { BLOCKS = 2 };
#endif
constexpr size_t MOST_ROWS = 1 << 16;

/* A chunk reads and writes dw once, 8 V C bytes, and its matrix multiplications
 * are 6 rows V C operations: at 4.8 TB/s and 700 TFLOP/s the former takes 195 /
 * rows of the time of the latter, 1.2 % with 16384 rows. Their logits are 1.65
 * GB for GPT-2 in bf16, 2 bytes * 50304 * 16384; more would gain little.
 */
constexpr size_t MOST_BYTES = (size_t)2 << 30;

/* Sums over a row, from which its gradient follows. */
struct RowStats {
    float max;
    float sum; /* of exp(x - max) */
    float all; /* of x, with label smoothing */
};

/* The gradient is factor * exp(x - max) - spread, less `peak` at the target. */
struct Gradient {
    float max, factor, spread, peak;
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

template <typename X, int W>
__device__ void load_vec_floats(float (&to)[W], Vec<X, W> x)
{
#pragma unroll
    for (int j = 0; j < W; j++)
        to[j] = to_float(x.v[j]);
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

/* A thread's part of x(V), from the last vector to the first: what was read
 * last is read first when it is replaced, and is still in a cache.
 */
template <typename X, bool SMOOTH>
__device__ RowStats read_row(const X *x, unsigned V)
{
    constexpr int W = wide<X>();
    const unsigned rounds = V / W / BLOCK, i = rounds * BLOCK + threadIdx.x;
    const Vec<X, W> *at = (const Vec<X, W> *)x + i;
    RowStats row = {-INFINITY, 0.0f, 0.0f};
    float v[W];

    if (i * W < V) {
        load_vec_floats(v, *at);
        add_vec<X, SMOOTH>(row, v, V - i * W);
    }
#pragma unroll 2
    for (unsigned left = rounds; left > 0; left--) {
        at -= BLOCK;
        load_vec_floats(v, *at);
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

template <typename X> __device__ float gradient_at(float x, const Gradient &s)
{
    return exp_of<X>(x, s.max) * s.factor - s.spread;
}

/* The gradient of x; only the first `there` columns are real. */
template <typename X, int W>
__device__ Vec<X, W> gradient_of(Vec<X, W> x, const Gradient &s, unsigned there)
{
    Vec<X, W> out;
    float v[W];

    load_vec_floats(v, x);
#pragma unroll
    for (int j = 0; j < W; j++)
        v[j] = gradient_at<X>(v[j], s);
    if (there < W)
        for (int j = 0; j < W; j++)
            v[j] = j < (int)there ? v[j] : 0.0f;
#pragma unroll
    for (int j = 0; j < W; j++)
        out.v[j] = from_float<X>(v[j]);
    return out;
}

/* x(columns), V of them real, becomes its gradient; x was `hit` at target. */
template <typename X>
__device__ void replace_row(X *x, const Gradient &s, unsigned target, float hit,
                            unsigned V, unsigned columns)
{
    constexpr int W = wide<X>();
    const unsigned rounds = V / W / BLOCK;
    Vec<X, W> *at = (Vec<X, W> *)x + threadIdx.x;

#pragma unroll 2
    for (unsigned left = rounds; left > 0; left--, at += BLOCK)
        *at = gradient_of(*at, s, W);
    for (unsigned i = rounds * BLOCK + threadIdx.x; i * W < columns;
         i += BLOCK, at += BLOCK)
        *at = gradient_of(*at, s, i * W < V ? V - i * W : 0);
    if (target / W % BLOCK == threadIdx.x) /* this thread has just written it */
        x[target] = from_float<X>(gradient_at<X>(hit, s) - s.peak);
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

/* A block computes the loss of a row of logits(gridDim, columns), V of them
 * real, and with `backward` its gradient in place. Blocks go from the last row
 * to the first: matrix multiplications wrote the last rows last, which are
 * still in the L2, and will read the first ones first.
 */
template <typename X, bool SMOOTH>
__global__ void __launch_bounds__(BLOCK, BLOCKS)
    loss_kernel(double *losses, X *logits, const int32_t *targets,
                const double *step, float smoothing, unsigned V,
                unsigned columns, bool backward)
{
    __shared__ float shared[WARP];
    const size_t n = gridDim.x - 1 - blockIdx.x;
    X *x = logits + n * columns;
    const int32_t target = targets[n];

    if (target == DT_IGNORE) {
        if (backward)
            zero_row(x, columns);
        if (threadIdx.x == 0)
            losses[n] = 0.0;
    } else {
        const float hit = to_float(x[target]);
        const float spread = SMOOTH ? smoothing / (float)V : 0.0f;
        RowStats row = reduce_row<X, SMOOTH>(read_row<X, SMOOTH>(x, V), shared);
        float scale = (float)step[DT_STEP_LOSS_SCALE];
        if (threadIdx.x == 0)
            losses[n] = (double)logf(row.sum) + (double)row.max -
                        (1.0 - (double)smoothing) * (double)hit -
                        (double)spread * (double)row.all;
        Gradient gradient = {row.max, scale / row.sum, scale * spread,
                             scale * (1.0f - smoothing)};
        if (backward)
            replace_row(x, gradient, (unsigned)target, hit, V, columns);
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

/* --- chunks --- */

size_t round_up(size_t x, size_t unit)
{
    return (x + unit - 1) / unit * unit;
}

/* Columns of the logits. Matrix multiplications are fastest if extents are
 * multiples of 16 bytes (cuBLAS's documentation, "Tensor Core Usage"), and
 * GPT-2's 50257 is odd.
 */
size_t columns_of(size_t V)
{
    return V % UNIT == 0 ? V : round_up(V, PAD);
}

/* Bytes of a copy of w(V,C) that is padded with rows of zeros to that many
 * columns; 0: w is used as it is. A call copies 4 V C bytes, half the traffic
 * of one dw.
 */
size_t copy_bytes(enum dt_dtype type, size_t C, size_t V)
{
    return V % UNIT == 0 ? 0 : columns_of(V) * C * dt_dtype_bytes(type);
}

/* Rows of a chunk: N in parts of which the logits fit into `bytes`. Parts are
 * equal if that divides N, otherwise they are whole tiles where these fit.
 */
size_t chunk_rows(enum dt_dtype type, size_t N, size_t V, size_t bytes)
{
    size_t most = bytes / (columns_of(V) * dt_dtype_bytes(type));
    most = most < 1 ? 1 : most > MOST_ROWS ? MOST_ROWS : most;
    size_t parts = (N + most - 1) / most, rows = (N + parts - 1) / parts;
    size_t tiles = round_up(rows, TILE);

    return N % parts > 0 && tiles <= most ? tiles : rows;
}

/* The operands of all chunks. */
struct LossOperands {
    struct dt_stream *stream;
    struct dt_view step, dx, dw, x, w, targets;
    struct dt_view padded; /* w, (columns, C) */
    struct dt_view logits; /* (rows of a chunk, columns) */
    size_t C, V, columns;
    float smoothing;
};

/* Copies w to `to` and pads it with zeros. */
struct dt_view pad_weights(const LossOperands &h, struct dt_view to)
{
    const size_t bytes = h.w.count * dt_dtype_bytes(to.dtype);
    char *data = (char *)dt_view_data(to);

    cudaMemcpyAsync(data, dt_view_data(h.w), bytes, cudaMemcpyDeviceToDevice,
                    h.stream->cuda);
    cudaMemsetAsync(data + bytes, 0,
                    to.count * dt_dtype_bytes(to.dtype) - bytes,
                    h.stream->cuda);
    return to;
}

/* The losses of `rows` rows from `first` on; logits become gradients. */
void chunk_loss(const LossOperands &h, size_t first, size_t rows)
{
    double *losses = (double *)h.stream->workspace, *step = dt_view_f64(h.step);
    const int32_t *targets = dt_view_i32(h.targets) + first;

    with_type(h.x.dtype, [&](auto type) {
        typedef decltype(type) X;
        launch(h.stream,
               h.smoothing > 0.0f ? loss_kernel<X, true>
                                  : loss_kernel<X, false>,
               (unsigned)rows, BLOCK, losses, data_of<X>(h.logits), targets,
               (const double *)step, h.smoothing, (unsigned)h.V,
               (unsigned)h.columns, h.dx.count > 0);
    });
    launch(h.stream, losses_kernel, 1, BLOCK, step, (const double *)losses,
           (unsigned)rows);
}

/* dw = or += logits^T x of a chunk. dw has no rows for the padding: its last V
 * % UNIT rows are weighted sums of the rows of x, since the library's tiles are
 * slow for so few.
 */
void chunk_dw(const LossOperands &h, struct dt_view x, bool accumulate)
{
    const size_t rows = x.count / h.C, whole = h.V - h.V % UNIT;
    struct dt_cuda_matmul mm = {};

    mm.M = whole;
    mm.N = h.C;
    mm.K = rows;
    mm.ta = true;
    mm.a = dt_view_slice(h.logits, 0, rows * h.columns);
    mm.lda = h.columns;
    mm.b = x;
    mm.d = dt_view_slice(h.dw, 0, whole * h.C);
    mm.accumulate = accumulate;
    dt_cuda_matmul(h.stream, &mm);
    for (size_t v = whole; v < h.V; v++)
        dt_cuda_weighted_sums(h.stream, dt_view_slice(h.dw, v * h.C, h.C), x,
                              dt_view_slice(h.logits, v, rows * h.columns - v),
                              h.columns, rows, h.C, accumulate);
}

void run_chunk(const LossOperands &h, size_t first, size_t rows,
               bool accumulate)
{
    struct dt_view x = dt_view_slice(h.x, first * h.C, rows * h.C);
    struct dt_view logits = dt_view_slice(h.logits, 0, rows * h.columns);
    struct dt_cuda_matmul head = {}, back = {};

    head.M = rows;
    head.N = h.columns;
    head.K = h.C;
    head.tb = true;
    head.a = x;
    head.b = h.padded;
    head.d = logits;
    dt_cuda_matmul(h.stream, &head);
    chunk_loss(h, first, rows);
    if (h.dx.count == 0)
        return;
    back.M = rows;
    back.N = h.C;
    back.K = h.columns;
    back.a = logits;
    back.b = h.padded;
    back.d = dt_view_slice(h.dx, first * h.C, rows * h.C);
    dt_cuda_matmul(h.stream, &back);
    chunk_dw(h, x, accumulate);
}

/* An F32 view reinterpreted as elements of `type`. */
struct dt_view view_as(struct dt_view workspace, enum dt_dtype type)
{
    const size_t ratio = sizeof(float) / dt_dtype_bytes(type);
    struct dt_view v = {workspace.buf, workspace.offset * ratio,
                        workspace.count * ratio, type};

    return v;
}

} // namespace

extern "C" void dt_cuda_linear_cross_entropy(
    struct dt_stream *stream, struct dt_view step, struct dt_view dx,
    struct dt_view dw, struct dt_view x, struct dt_view w,
    struct dt_view targets, struct dt_view workspace, float smoothing, size_t N,
    size_t C, size_t V, bool accumulate)
{
    const size_t columns = columns_of(V);
    const size_t copy = copy_bytes(x.dtype, C, V);
    LossOperands h = {stream, step, dx, dw, x,       w,        targets,
                      w,      {},   C,  V,  columns, smoothing};
    struct dt_view room = view_as(workspace, x.dtype);
    assert(N > 0 && step.count == DT_STEP_COUNT && targets.count == N);
    assert(x.count == N * C && w.count == V * C && w.dtype == x.dtype);
    assert(dx.count == 0 || (dx.count == N * C && dx.dtype == x.dtype));
    assert(dx.count == 0 || (dw.count == V * C && dw.dtype == DT_F32));
    assert(workspace.dtype == DT_F32);
    assert(workspace.count >= dt_cuda_loss_workspace(x.dtype, 1, C, V));
    assert(aligned(0, 4, sizeof(float), dt_view_f32(workspace)));

    const size_t rows =
        chunk_rows(x.dtype, N, V, workspace.count * sizeof(float) - copy);
    const size_t copied = copy / dt_dtype_bytes(x.dtype);
    h.logits = dt_view_slice(room, copied, rows * columns);
    if (copy > 0)
        h.padded = pad_weights(h, dt_view_slice(room, 0, copied));
    for (size_t first = 0; first < N; first += rows)
        run_chunk(h, first, N - first < rows ? N - first : rows,
                  accumulate || first > 0);
}

extern "C" size_t dt_cuda_loss_workspace(enum dt_dtype type, size_t N, size_t C,
                                         size_t V)
{
    const size_t copy = copy_bytes(type, C, V);
    const size_t room = copy < MOST_BYTES ? MOST_BYTES - copy : 0;
    const size_t row = columns_of(V) * dt_dtype_bytes(type);

    return (copy + chunk_rows(type, N, V, room) * row) / sizeof(float);
}
