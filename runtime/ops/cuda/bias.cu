/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bias.cu - the gradient of a bias: column sums, also weighted ones
 *
 * A block sums some rows of some columns: each thread W columns of every
 * WARPS-th row, then the sums of the warps in order. If several blocks share
 * columns, a second kernel adds their sums, in order too.
 */
#include "config.h"

#include "ops/cuda/cuda.h"
#include "tensor/kernel.cuh"

enum {
    WARPS = 8,
    AHEAD = 4,          /* rows that a thread loads before it adds them */
    BLOCKS_PER_CORE = 4 /* multiprocessor */
};

/* The factors of rows: that of row n is at[n * stride]. */
template <typename X> struct RowWeights {
    const X *at;
    size_t stride;

    __device__ float weight(size_t n) const
    {
        return to_float(at[n * stride]);
    }
};
struct Unweighted {
    __device__ float weight(size_t) const
    {
        return 1.0f;
    }
};

/* partial(chunks, OC) = sums of `rows` rows each of dout(N,OC) */
template <typename X, int W, typename F>
static __global__ void sum_rows_kernel(float *partial, const X *dout, F factors,
                                       size_t N, size_t OC, size_t rows,
                                       bool accumulate)
{
    typedef Vec<X, W> V;
    __shared__ float sums[WARPS][WARP * W];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const size_t col = ((size_t)blockIdx.x * WARP + lane) * W;
    const size_t first = blockIdx.y * rows;
    const size_t end = first + rows < N ? first + rows : N;
    float sum[W] = {};

    if (col < OC) {
        size_t n = first + warp;
        for (; n + (AHEAD - 1) * WARPS < end; n += AHEAD * WARPS) {
            V x[AHEAD];
            float factor[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                x[i] = *(const V *)&dout[(n + i * WARPS) * OC + col];
                factor[i] = factors.weight(n + i * WARPS);
            }
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
#pragma unroll
                for (int w = 0; w < W; w++)
                    sum[w] += factor[i] * to_float(x[i].v[w]);
        }
        for (; n < end; n += WARPS) {
            V x = *(const V *)&dout[n * OC + col];
            float factor = factors.weight(n);
#pragma unroll
            for (int w = 0; w < W; w++)
                sum[w] += factor * to_float(x.v[w]);
        }
    }
    /* One row for each w, so that lanes use different banks. */
#pragma unroll
    for (int w = 0; w < W; w++)
        sums[warp][w * WARP + lane] = sum[w];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < WARP * W; i += WARPS * WARP) {
        size_t c = ((size_t)blockIdx.x * WARP + i % WARP) * W + i / WARP;
        float total = 0.0f;
        for (int j = 0; j < WARPS; j++)
            total += sums[j][i];
        if (c < OC) {
            float *to = &partial[blockIdx.y * OC + c];
            *to = accumulate ? *to + total : total;
        }
    }
}

/* db(OC) = or += sum of partial(chunks, OC) */
static __global__ void sum_partials_kernel(float *db, const float *partial,
                                           size_t chunks, size_t OC,
                                           bool accumulate)
{
    __shared__ float sums[WARP][WARP];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const size_t c = (size_t)blockIdx.x * WARP + lane;
    float sum = 0.0f;

    if (c < OC)
        for (size_t i = warp; i < chunks; i += WARP)
            sum += partial[i * OC + c];
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && c < OC) {
        float total = accumulate ? db[c] : 0.0f;
        for (int j = 0; j < WARP; j++)
            total += sums[j][lane];
        db[c] = total;
    }
}

template <typename X, int W, typename F>
static void sum_columns(struct dt_stream *stream, float *db, const X *dout,
                        F factors, size_t N, size_t OC, bool accumulate)
{
    const unsigned tiles = blocks_for(OC, WARP * W);
    size_t most = stream->workspace_bytes / 2 / (OC * sizeof(float));
    size_t chunks = blocks_for(
        (size_t)BLOCKS_PER_CORE * (size_t)dt_cuda_facts.multiprocessors, tiles);
    size_t rows;

    chunks = chunks < most ? chunks : most;
    chunks = chunks > 0 ? chunks : 1;
    rows = (N + chunks - 1) / chunks;
    rows = (rows + WARPS - 1) / WARPS * WARPS;
    chunks = blocks_for(N, rows);
    if (chunks <= 1) {
        launch(stream, sum_rows_kernel<X, W, F>, dim3(tiles),
               dim3(WARPS * WARP), db, dout, factors, N, OC, rows, accumulate);
        return;
    }
    float *partial = (float *)stream->workspace;
    launch(stream, sum_rows_kernel<X, W, F>, dim3(tiles, (unsigned)chunks),
           dim3(WARPS * WARP), partial, dout, factors, N, OC, rows, false);
    launch(stream, sum_partials_kernel, dim3(blocks_for(OC, WARP)),
           dim3(WARP * WARP), db, (const float *)partial, chunks, OC,
           accumulate);
}

template <typename X, typename F>
static void launch_sums(struct dt_stream *stream, float *db, const X *dout,
                        F factors, size_t N, size_t OC, bool accumulate)
{
    if (aligned(OC, wide<X>(), sizeof(X), dout))
        sum_columns<X, wide<X>()>(stream, db, dout, factors, N, OC, accumulate);
    else
        sum_columns<X, 1>(stream, db, dout, factors, N, OC, accumulate);
}

/* Sums over no rows */
static void zero_unless(bool accumulate, struct dt_stream *stream,
                        struct dt_view sums)
{
    if (!accumulate)
        dt_cuda_zero(stream, sums);
}

void dt_cuda_bias_backward(struct dt_stream *stream, struct dt_view db,
                           struct dt_view dout, size_t N, size_t OC,
                           bool accumulate)
{
    float *to = dt_view_f32(db);

    assert(db.count == OC && dout.count >= N * OC);
    if (N == 0) {
        zero_unless(accumulate, stream, db);
        return;
    }
    with_type(dout.dtype, [&](auto x) {
        typedef decltype(x) X;
        launch_sums<X>(stream, to, data_of<X>(dout), Unweighted(), N, OC,
                       accumulate);
    });
}

void dt_cuda_weighted_sums(struct dt_stream *stream, struct dt_view sums,
                           struct dt_view x, struct dt_view weights,
                           size_t stride, size_t N, size_t C, bool accumulate)
{
    float *to = dt_view_f32(sums);

    assert(sums.count == C && x.count == N * C);
    if (N == 0) {
        zero_unless(accumulate, stream, sums);
        return;
    }
    assert(weights.count > (N - 1) * stride && weights.dtype == x.dtype);
    with_type(x.dtype, [&](auto zero) {
        typedef decltype(zero) X;
        const RowWeights<X> factors = {data_of<const X>(weights), stride};
        launch_sums<X>(stream, to, data_of<X>(x), factors, N, C, accumulate);
    });
}
