/* SPDX-License-Identifier: Apache-2.0 */
/* attention_documents.cu - where the documents of a run are, for cuDNN */
#include "config.h"

#include "ops/cuda/cuda_attention.h"
#include "tensor/kernel.cuh"

namespace
{

enum { THREADS = 256 };

struct Sizes {
    size_t B, T, NH, NKV, HS;
    float scale;
};

/* A run is filled up with documents of no positions at the end of the batch, as
 * other users of cuDNN have them: so starts never decrease. None can have a
 * position instead, since all positions may be those of other documents.
 */
__global__ void places_kernel(struct dt_document_run run, const dt_document *spans,
                              int64_t tokens, int64_t qkv_row, int64_t out_row)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

    if (i > run.count)
        return;
    const int64_t length = i < run.count ? spans[i].count : 0;
    const int64_t row = length > 0 ? spans[i].first : tokens;
    if (i < run.count)
        run.lengths[i] = (int32_t)length;
    run.qkv_starts[i] = row * qkv_row;
    run.out_starts[i] = row * out_row;
}

/* Element i of padded(count, NH, length) is that of rows(B, NH, T). */
__global__ void rows_kernel(float *padded, float *rows, const dt_document *spans,
                            size_t count, size_t NH, size_t length, size_t T,
                            bool gather)
{
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const size_t t = i % length, head = i / length % NH;

    if (i >= count * NH * length)
        return;
    const dt_document span = spans[i / length / NH];
    const size_t n = (size_t)span.first + t;
    const bool there = t < (size_t)span.count;
    float *const row = &rows[(n / T * NH + head) * T + n % T];
    if (gather)
        padded[i] = there ? *row : 0.0f;
    else if (there)
        *row = padded[i];
}

/* Whether a document is position t of row b alone. */
__device__ bool is_alone(const int32_t *first, size_t n, size_t T)
{
    const size_t t = n % T;

    return (size_t)first[n] == t &&
           (t + 1 == T || (size_t)first[n + 1] == t + 1);
}

/* out = v and lse = the score, a warp for each position that is alone */
template <typename X>
__global__ void alone_forward_kernel(X *out, float *lse, const X *qkv,
                                     const int32_t *first, Sizes z)
{
    const size_t n = blockIdx.x * (size_t)(THREADS / WARP) + threadIdx.x / WARP;
    const size_t lane = threadIdx.x % WARP;

    if (n >= z.B * z.T || !is_alone(first, n, z.T))
        return;
    for (size_t h = 0; h < z.NH; h++) {
        const X *q = qkv + (n * (z.NH + 2 * z.NKV) + h) * z.HS;
        const X *k = q + (z.NH - h + h / (z.NH / z.NKV)) * z.HS;
        const X *v = k + z.NKV * z.HS;
        float sum = 0.0f;
        for (size_t d = lane; d < z.HS; d += WARP) {
            out[(n * z.NH + h) * z.HS + d] = v[d];
            sum += to_float(q[d]) * to_float(k[d]);
        }
        sum = warp_sum(sum);
        if (lane == 0)
            lse[(n / z.T * z.NH + h) * z.T + n % z.T] = sum * z.scale;
    }
}

/* The probability is 1 whatever q and k are: only v has a gradient. */
template <typename X>
__global__ void alone_backward_kernel(X *dqkv, const X *dout,
                                      const int32_t *first, Sizes z)
{
    const size_t n = blockIdx.x * (size_t)(THREADS / WARP) + threadIdx.x / WARP;
    const size_t shared = z.NH / z.NKV, width = z.NKV * z.HS;
    X *to = dqkv + n * (z.NH + 2 * z.NKV) * z.HS;

    if (n >= z.B * z.T || !is_alone(first, n, z.T))
        return;
    for (size_t i = threadIdx.x % WARP; i < z.NH * z.HS + width; i += WARP)
        to[i] = from_float<X>(0.0f);
    for (size_t i = threadIdx.x % WARP; i < width; i += WARP) {
        float sum = 0.0f;
        for (size_t h = 0; h < shared; h++)
            sum += to_float(
                dout[(n * z.NH + i / z.HS * shared + h) * z.HS + i % z.HS]);
        to[z.NH * z.HS + width + i] = from_float<X>(sum);
    }
}

Sizes sizes_of(const struct dt_attention *a)
{
    return {a->B, a->T, a->NH, a->NKV, a->HS, a->scale};
}

unsigned blocks_of(const struct dt_attention *a)
{
    return blocks_for(a->B * a->T, THREADS / WARP);
}

} // namespace

extern "C" void dt_cuda_document_alone(struct dt_stream *stream,
                                       struct dt_view out, struct dt_view lse,
                                       struct dt_view qkv,
                                       const struct dt_attention *a)
{
    with_type(qkv.dtype, [=](auto x) {
        using X = decltype(x);
        launch(stream, alone_forward_kernel<X>, blocks_of(a), THREADS,
               data_of<X>(out), dt_view_f32(lse), data_of<X>(qkv),
               data_of<int32_t>(a->first), sizes_of(a));
    });
}

extern "C" void dt_cuda_document_alone_backward(struct dt_stream *stream,
                                                struct dt_view dqkv,
                                                struct dt_view dout,
                                                const struct dt_attention *a)
{
    with_type(dqkv.dtype, [=](auto x) {
        using X = decltype(x);
        launch(stream, alone_backward_kernel<X>, blocks_of(a), THREADS,
               data_of<X>(dqkv), data_of<X>(dout), data_of<int32_t>(a->first),
               sizes_of(a));
    });
}

extern "C" void dt_cuda_document_places(struct dt_stream *stream,
                                        const struct dt_document_run *run,
                                        const struct dt_attention *a)
{
    launch(stream, places_kernel, blocks_for((size_t)run->count + 1, THREADS),
           THREADS, *run, (const dt_document *)run->spans,
           (int64_t)(a->B * a->T), (int64_t)((a->NH + 2 * a->NKV) * a->HS), (int64_t)(a->NH * a->HS));
}

extern "C" void dt_cuda_document_rows(struct dt_stream *stream, float *padded,
                                      struct dt_view rows,
                                      const struct dt_document_run *run,
                                      const struct dt_attention *a, bool gather)
{
    const size_t count = (size_t)run->count, length = (size_t)run->length;

    launch(stream, rows_kernel, blocks_for(count * a->NH * length, THREADS),
           THREADS, padded, dt_view_f32(rows), (const dt_document *)run->spans,
           count, a->NH, length, a->T, gather);
}
