/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.cu - zeros, conversions, sums and dropout, element by element */
#include "config.h"

#include "ops/cuda/dither.cuh"
#include "ops/cuda/dropout.cuh"
#include "ops/cuda/rows.cuh"

extern "C" void dt_cuda_zero(struct dt_stream *stream, struct dt_view x)
{
    if (x.count > 0)
        dt_cuda_check(
            cudaMemsetAsync(dt_view_data(x), 0, dt_view_bytes(x), stream->cuda),
            "cudaMemsetAsync");
}

/* to = from, rounded to the nearest if To is narrower; all loads of a thread
 * come before its first store.
 */
template <typename To, typename From, int W>
__global__ static void __launch_bounds__(TILE_THREADS)
    convert_kernel(To *to, const From *from, size_t vecs)
{
    const size_t first = flat_first();
    Vec<From, W> loaded[TILE_VECS];

#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        size_t v = first + i * TILE_THREADS;
        if (v < vecs)
            loaded[i] = load_vec<From, W>(from + v * W);
    }
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        size_t v = first + i * TILE_THREADS;
        if (v < vecs) {
            float x[W];
            to_floats<From, W>(x, loaded[i]);
            store_floats<To, W>(to + v * W, x);
        }
    }
}

/* Four at a time: 16 bytes of the wider type, contiguous on both sides. */
template <typename To, typename From>
static void launch_convert(struct dt_stream *stream, struct dt_view out,
                           struct dt_view x)
{
    To *to = data_of<To>(out);
    const From *from = data_of<const From>(x);
    if (aligned(x.count, 4, sizeof(To), to) &&
        aligned(x.count, 4, sizeof(From), from))
        launch(stream, convert_kernel<To, From, 4>, flat_blocks(x.count / 4),
               TILE_THREADS, to, from, x.count / 4);
    else
        launch(stream, convert_kernel<To, From, 1>, flat_blocks(x.count),
               TILE_THREADS, to, from, x.count);
}

extern "C" void dt_cuda_convert(struct dt_stream *stream, struct dt_view out,
                                struct dt_view x)
{
    assert(out.count == x.count);
    assert(out.dtype == DT_F32 || x.dtype == DT_F32);
    if (x.count == 0)
        return;
    if (x.dtype == DT_F32)
        with_type(out.dtype, [&](auto zero) {
            launch_convert<decltype(zero), float>(stream, out, x);
        });
    else
        with_type(x.dtype, [&](auto zero) {
            launch_convert<float, decltype(zero)>(stream, out, x);
        });
}

/* to += from */
template <typename X, int W>
__global__ static void __launch_bounds__(TILE_THREADS)
    add_kernel(float *to, const X *from, size_t vecs)
{
    const size_t first = flat_first();

#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        size_t v = first + i * TILE_THREADS;
        if (v < vecs) {
            float sum[W], x[W];
            load_floats<float, W>(sum, to + v * W);
            load_floats<X, W>(x, from + v * W);
            for (int j = 0; j < W; j++)
                sum[j] += x[j];
            store_floats<float, W>(to + v * W, sum);
        }
    }
}

/* Four at a time: 16 bytes of fp32. */
extern "C" void dt_cuda_add(struct dt_stream *stream, struct dt_view out,
                            struct dt_view x)
{
    float *to = dt_view_f32(out);
    assert(out.count == x.count);
    if (x.count == 0)
        return;
    with_stored_type(x.dtype, [&](auto zero) {
        typedef decltype(zero) X;
        const X *from = data_of<const X>(x);
        if (aligned(x.count, 4, sizeof(float), to) &&
            aligned(x.count, 4, sizeof(X), from))
            launch(stream, add_kernel<X, 4>, flat_blocks(x.count / 4),
                   TILE_THREADS, to, from, x.count / 4);
        else
            launch(stream, add_kernel<X, 1>, flat_blocks(x.count), TILE_THREADS,
                   to, from, x.count);
    });
}

/* to = from, or += from, rounded at random */
template <int W>
__global__ static void __launch_bounds__(TILE_THREADS)
    add_dithered_kernel(__nv_bfloat16 *to, const float *from, bool accumulate,
                        struct dt_dither dither, size_t vecs)
{
    const size_t first = flat_first();

#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        size_t v = first + i * TILE_THREADS;
        if (v < vecs) {
            float sum[W] = {}, x[W];
            if (accumulate)
                load_floats<__nv_bfloat16, W>(sum, to + v * W);
            load_floats<float, W>(x, from + v * W);
            for (int j = 0; j < W; j++)
                x[j] = accumulate ? sum[j] + x[j] : x[j];
            store_dithered<W>(to + v * W, x, dither, DT_DITHER_GRAD, v * W);
        }
    }
}

extern "C" void dt_cuda_add_dithered(struct dt_stream *stream,
                                     struct dt_view out, struct dt_view x,
                                     bool accumulate,
                                     const struct dt_dither *dither)
{
    constexpr int W = DT_DITHER_BLOCK;
    __nv_bfloat16 *to = data_of<__nv_bfloat16>(out);
    const float *from = dt_view_f32(x);
    assert(out.dtype == DT_BF16 && out.count == x.count);
    assert(dither->first % W == 0);
    if (x.count == 0)
        return;
    if (aligned(x.count, W, sizeof(*to), to) &&
        aligned(x.count, W, sizeof(*from), from))
        launch(stream, add_dithered_kernel<W>, flat_blocks(x.count / W),
               TILE_THREADS, to, from, accumulate, *dither, x.count / W);
    else
        launch(stream, add_dithered_kernel<1>, flat_blocks(x.count),
               TILE_THREADS, to, from, accumulate, *dither, x.count);
}

/* to = a x + b y, in fp32, rounded once; y may be NULL. */
template <typename X, int W>
__global__ static void __launch_bounds__(TILE_THREADS)
    combine_kernel(X *to, const X *x, float a, const X *y, float b, size_t vecs)
{
    const size_t first = flat_first();
    Vec<X, W> xs[TILE_VECS], ys[TILE_VECS] = {};

#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        size_t v = first + i * TILE_THREADS;
        if (v < vecs) {
            xs[i] = load_vec<X, W>(x + v * W);
            if (y)
                ys[i] = load_vec<X, W>(y + v * W);
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        size_t v = first + i * TILE_THREADS;
        if (v < vecs) {
            float left[W], right[W] = {};
            to_floats<X, W>(left, xs[i]);
            if (y)
                to_floats<X, W>(right, ys[i]);
#pragma unroll
            for (int j = 0; j < W; j++)
                left[j] = a * left[j] + b * right[j];
            store_floats<X, W>(to + v * W, left);
        }
    }
}

extern "C" void dt_cuda_combine(struct dt_stream *stream, struct dt_view out,
                                struct dt_view x, float a, struct dt_view y,
                                float b)
{
    assert(out.count == x.count && (y.count == 0 || y.count == x.count));
    if (x.count == 0)
        return;
    with_type(x.dtype, [&](auto zero) {
        using X = decltype(zero);
        X *to = data_of<X>(out);
        const X *left = data_of<const X>(x), *right = data_of<const X>(y);
        with_width<X>(aligned(x.count, wide<X>(), sizeof(X), to, left, right),
                      [&](auto width) {
                          constexpr int W = decltype(width)::value;
                          launch(stream, combine_kernel<X, W>,
                                 flat_blocks(x.count / W), TILE_THREADS, to,
                                 left, a, right, b, x.count / W);
                      });
    });
}

/* dx = dropout of dout, or += with ADD */
template <typename X, int W, bool ADD>
__global__ static void __launch_bounds__(TILE_THREADS)
    dropout_kernel(X *dx, const X *dout, size_t N, unsigned C, unsigned per_row,
                   Drops drops)
{
    const Tile tile = this_tile(per_row);
    const unsigned vecs = tile.n < N ? C / W : 0;
    Vec<X, W> loaded[TILE_VECS], sum[TILE_VECS];

#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        unsigned v = tile.first + i * WARP;
        if (v < vecs)
            loaded[i] = load_vec<X, W>(dout + tile.n * C + v * W);
        if (ADD && v < vecs)
            sum[i] = load_vec<X, W>(dx + tile.n * C + v * W);
    }
    if (tile.first >= vecs)
        return;
    const DropRow row = drop_row(drops, tile.n, C);
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        unsigned v = tile.first + i * WARP;
        if (v < vecs) {
            float x[W];
            to_floats<X, W>(x, loaded[i]);
            apply_dropout<W>(x, drops, row, v * W);
            if constexpr (ADD) {
                float before[W];
                to_floats<X, W>(before, sum[i]);
#pragma unroll
                for (int j = 0; j < W; j++)
                    x[j] += before[j];
            }
            store_floats<X, W>(dx + tile.n * C + v * W, x);
        }
    }
}

template <bool ADD>
static void launch_dropout(struct dt_stream *stream, struct dt_view dx,
                           struct dt_view dout, size_t N, size_t C,
                           const struct dt_dropout *dropout)
{
    with_type(dx.dtype, [&](auto zero) {
        using X = decltype(zero);
        X *to = data_of<X>(dx);
        const X *from = data_of<const X>(dout);
        with_width<X>(
            aligned(C, wide<X>(), sizeof(X), to, from), [&](auto width) {
                constexpr int W = decltype(width)::value;
                launch(stream, dropout_kernel<X, W, ADD>, tile_blocks(N, C / W),
                       TILE_THREADS, to, from, N, (unsigned)C,
                       tiles_of_row(C / W), drops_of(dropout, N));
            });
    });
}

extern "C" void dt_cuda_dropout_backward(struct dt_stream *stream,
                                         struct dt_view dx, struct dt_view dout,
                                         size_t N, size_t C,
                                         const struct dt_dropout *dropout)
{
    assert(dx.count == N * C && dout.count == N * C);
    if (N * C == 0)
        return;
    if (!(dropout->rate > 0.0)) {
        void *to = dt_view_data(dx), *from = dt_view_data(dout);
        if (to != from)
            dt_cuda_check(
                cudaMemcpyAsync(to, from, N * C * dt_dtype_bytes(dx.dtype),
                                cudaMemcpyDeviceToDevice, stream->cuda),
                "cudaMemcpyAsync of a gradient");
        return;
    }
    launch_dropout<false>(stream, dx, dout, N, C, dropout);
}

void dt_cuda_add_dropped(struct dt_stream *stream, struct dt_view dx,
                         struct dt_view x, size_t N, size_t C,
                         const struct dt_dropout *dropout)
{
    assert(dx.count == N * C && x.count == N * C && dropout->rate > 0.0);
    if (N * C > 0)
        launch_dropout<true>(stream, dx, x, N, C, dropout);
}
