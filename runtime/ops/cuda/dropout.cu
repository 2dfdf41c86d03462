/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.cu - dropout of a tensor, and its gradient, which is the same */
#include "config.h"

#include "ops/cuda/dropout.cuh"
#include "ops/cuda/rows.cuh"

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
