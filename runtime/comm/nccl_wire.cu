/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_wire.cu - rounding and adding what travels as bf16 */
#include "config.h"

#include "comm/nccl_wire.h"
#include "tensor/kernel.cuh"

namespace
{

enum {
    BLOCK = 256,
    EACH = 8, /* elements of a thread: 16 bytes of bf16 */
};

typedef __nv_bfloat16 bf16;
typedef Vec<bf16, EACH> Wire;

/* Where a kernel finds the elements of one part, and how many there are. */
struct Range {
    size_t first, stride, end, length;

    __device__ size_t place(unsigned part, size_t i) const
    {
        return first + part * stride + i;
    }
    __device__ size_t left(size_t at) const
    {
        return at < end ? end - at : 0;
    }
};

/* EACH elements of a view, W at a time; only the first `count` are there. */
template <int W, typename X>
__device__ void load(float (&to)[EACH], const X *from, size_t count)
{
    for (int i = 0; i < EACH; i += W) {
        if ((size_t)(i + W) <= count) {
            Vec<X, W> v = *(const Vec<X, W> *)(from + i);
            for (int k = 0; k < W; k++)
                to[i + k] = to_float(v.v[k]);
        } else {
            for (int k = i; k < i + W; k++)
                to[k] = (size_t)k < count ? to_float(from[k]) : 0.0f;
        }
    }
}

template <int W, typename X>
__device__ void store(X *to, const float (&from)[EACH], size_t count)
{
    for (int i = 0; i < EACH; i += W) {
        if ((size_t)(i + W) <= count) {
            Vec<X, W> v;
            for (int k = 0; k < W; k++)
                v.v[k] = from_float<X>(from[i + k]);
            *(Vec<X, W> *)(to + i) = v;
        } else {
            for (int k = i; k < i + W; k++)
                if ((size_t)k < count)
                    to[k] = from_float<X>(from[k]);
        }
    }
}

template <int W, typename X>
__global__ void __launch_bounds__(BLOCK)
    narrow(Wire *staging, const X *view, Range range)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * EACH;
    float x[EACH];
    Wire w;
    if (i >= range.length)
        return;
    size_t at = range.place(blockIdx.y, i);
    load<W>(x, view + at, range.left(at));
    for (int k = 0; k < EACH; k++)
        w.v[k] = from_float<bf16>(x[k]);
    staging[(blockIdx.y * range.length + i) / EACH] = w;
}

template <int W, typename X>
__global__ void __launch_bounds__(BLOCK)
    widen(X *view, const Wire *staging, Range range, unsigned part)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * EACH;
    float x[EACH];
    if (i >= range.length)
        return;
    part += blockIdx.y;
    size_t at = range.place(part, i);
    Wire w = staging[(part * range.length + i) / EACH];
    for (int k = 0; k < EACH; k++)
        x[k] = to_float(w.v[k]);
    store<W>(view + at, x, range.left(at));
}

/* The greater one; what is not a number stays, as on the cpu. */
__device__ float greater(float a, float b)
{
    return a > b || a != a ? a : b;
}

template <bool MAX>
__global__ void __launch_bounds__(BLOCK)
    reduce(Wire *own, const Wire *others, size_t length, int parts, int rank)
{
    size_t i = ((size_t)blockIdx.x * BLOCK + threadIdx.x) * EACH;
    float acc[EACH];
    Wire w;
    if (i >= length)
        return;
#pragma unroll 4
    for (int p = 0; p < parts; p++) {
        w = (p == rank ? own : others + p * (length / EACH))[i / EACH];
        for (int k = 0; k < EACH; k++) {
            float x = to_float(w.v[k]);
            if (p == 0)
                acc[k] = x;
            else
                acc[k] = MAX ? greater(acc[k], x) : acc[k] + x;
        }
    }
    for (int k = 0; k < EACH; k++)
        w.v[k] = from_float<bf16>(acc[k]);
    own[i / EACH] = w;
}

Range range_of(const struct dt_wire *wire)
{
    return Range{wire->first, wire->stride, wire->end, wire->length};
}

dim3 grid_of(const struct dt_wire *wire, int parts)
{
    return dim3(blocks_for(wire->length, BLOCK * EACH), (unsigned)parts);
}

/* Calls f(X()) with the C type of the view. */
template <typename F> void with_view(const struct dt_wire *wire, F f)
{
    if (wire->view.dtype == DT_BF16)
        f(bf16());
    else
        f(float());
}

/* May all parts be read 16 bytes at a time? */
template <typename X> bool wide_enough(const struct dt_wire *wire)
{
    const X *data = (const X *)dt_view_data(wire->view);
    return aligned(wire->stride, wide<X>(), sizeof(X), data + wire->first);
}

} // namespace

void dt_wire_narrow(struct dt_stream *stream, const struct dt_wire *wire,
                    void *staging)
{
    with_view(wire, [&](auto type) {
        using X = decltype(type);
        launch(stream,
               wide_enough<X>(wire) ? narrow<wide<X>(), X> : narrow<1, X>,
               grid_of(wire, wire->parts), BLOCK, (Wire *)staging,
               (const X *)dt_view_data(wire->view), range_of(wire));
    });
}

void dt_wire_reduce(struct dt_stream *stream, const struct dt_wire *wire,
                    void *own, const void *others, int rank, enum dt_reduce op)
{
    launch(stream, op == DT_MAX ? reduce<true> : reduce<false>,
           grid_of(wire, 1), BLOCK, (Wire *)own, (const Wire *)others,
           wire->length, wire->parts, rank);
}

void dt_wire_widen(struct dt_stream *stream, const struct dt_wire *wire,
                   const void *staging, int part, int count)
{
    with_view(wire, [&](auto type) {
        using X = decltype(type);
        launch(stream, wide_enough<X>(wire) ? widen<wide<X>(), X> : widen<1, X>,
               grid_of(wire, count), BLOCK, (X *)dt_view_data(wire->view),
               (const Wire *)staging, range_of(wire), (unsigned)part);
    });
}
