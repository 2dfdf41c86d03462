/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.cu - products with sparse matrices: means and interpolations of rows
 */
#include "config.h"

#include "ops/cuda/rows.cuh"

/* out(N, C) of Y, x(M, C) of X */
template <typename Y, typename X> struct Sparse {
    Y *out;
    const X *x;
    const int32_t *starts, *columns;
    const float *values;
    size_t N;
    unsigned C, per_row;
    bool accumulate;
};

template <typename Y, typename X, int W>
__global__ static void __launch_bounds__(TILE_THREADS)
    sparse_kernel(Sparse<Y, X> a)
{
    const Tile tile = this_tile(a.per_row);
    const unsigned vecs = tile.n < a.N ? a.C / W : 0;

    if (tile.first >= vecs)
        return;
    const int32_t first = a.starts[tile.n], end = a.starts[tile.n + 1];
#pragma unroll
    for (int i = 0; i < TILE_VECS; i++) {
        const unsigned v = tile.first + i * WARP;
        float sum[W] = {}, x[W];
        if (v >= vecs)
            continue;
        for (int32_t e = first; e < end; e++) {
            load_floats<X, W>(x, a.x + (size_t)a.columns[e] * a.C + v * W);
#pragma unroll
            for (int j = 0; j < W; j++)
                sum[j] += a.values[e] * x[j];
        }
        Y *to = a.out + tile.n * a.C + v * W;
        if (a.accumulate) {
            load_floats<Y, W>(x, to);
#pragma unroll
            for (int j = 0; j < W; j++)
                sum[j] += x[j];
        }
        store_floats<Y, W>(to, sum);
    }
}

template <typename Y, typename X>
static void launch_sparse(struct dt_stream *stream, Sparse<Y, X> a)
{
    with_width<X>(aligned(a.C, wide<X>(), sizeof(X), a.out, a.x),
                  [&](auto width) {
                      constexpr int W = decltype(width)::value;
                      a.per_row = tiles_of_row(a.C / W);
                      launch(stream, sparse_kernel<Y, X, W>,
                             tile_blocks(a.N, a.C / W), TILE_THREADS, a);
                  });
}

extern "C" void dt_cuda_sparse_matmul(struct dt_stream *stream,
                                      struct dt_view out, struct dt_view x,
                                      const struct dt_sparse *sparse, size_t N,
                                      size_t C, bool accumulate)
{
    assert(out.count == N * C && C <= INT32_MAX);
    assert(out.dtype == x.dtype || out.dtype == DT_F32);
    if (out.count == 0)
        return;
    assert(sparse->starts.count == N + 1);
    with_type(x.dtype, [&](auto zero) {
        using X = decltype(zero);
        const auto fill = [&](auto a) {
            a.x = data_of<const X>(x);
            a.starts = data_of<const int32_t>(sparse->starts);
            a.columns = data_of<const int32_t>(sparse->columns);
            a.values = data_of<const float>(sparse->values);
            a.N = N;
            a.C = (unsigned)C;
            a.accumulate = accumulate;
            launch_sparse(stream, a);
        };
        if (out.dtype == DT_F32) {
            Sparse<float, X> a = {};
            a.out = data_of<float>(out);
            fill(a);
        } else {
            Sparse<X, X> a = {};
            a.out = data_of<X>(out);
            fill(a);
        }
    });
}
