/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_wire.cu - gradients in bf16 or 8 bits: rounding and adding
 *
 * Of 8 bits a warp has a block of 128 elements, a lane four neighbors of them.
 * Products and sums are rounded one by one, as they are on the CPU: these are
 * the bits of int8.c.
 */
#include "config.h"

#include "comm/comm_impl.h"
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

/* The greater one; a NaN stays, as on the cpu. */
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

/* --- in 8 bits --- */

namespace
{

enum {
    QUARTET = DT_INT8_BLOCK / WARP, /* elements of a lane */
    MOST = 127,
};

/* The random words depend on these. */
struct Noise {
    uint32_t key[2], step, place;
    uint64_t first;
};

/* Word `lane` % 4 of dt_rng_dither (base/rng.h): a byte for each of the four
 * elements from `element` on.
 */
__device__ uint32_t noise_word(const Noise &noise, uint64_t element)
{
    uint64_t block = element / 16;
    uint32_t words[4] = {(uint32_t)block, (uint32_t)(block >> 32), noise.step,
                         noise.place};
    philox(words, noise.key);
    uint32_t low = element / 4 & 1 ? words[1] : words[0];
    uint32_t high = element / 4 & 1 ? words[3] : words[2];
    return element / 4 & 2 ? high : low;
}

/* The largest magnitude of a block; NaN if an element is not finite. */
__device__ float largest(const float (&x)[QUARTET])
{
    float most = 0, off = 0;
    for (int i = 0; i < QUARTET; i++) {
        most = fmaxf(most, fabsf(x[i]));
        off += x[i] * 0;
    }
    for (int step = WARP / 2; step > 0; step /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
        off += __shfl_xor_sync(0xffffffffu, off, step);
    }
    return most + off;
}

/* Parts from blockIdx.y on, of `length` elements, without part `rank`. */
__global__ void __launch_bounds__(BLOCK)
    pack(char *staging, size_t part_bytes, const float *view, size_t first,
         size_t stride, size_t length, unsigned rank, Noise noise)
{
    unsigned part = blockIdx.y, lane = threadIdx.x % WARP;
    size_t block = (size_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP;
    size_t i = block * DT_INT8_BLOCK + lane * QUARTET;
    if (block * DT_INT8_BLOCK >= length || part == rank)
        return; /* whole warps */
    size_t at = first + part * stride + i;
    float x[QUARTET];
    for (int k = 0; k < QUARTET; k++)
        x[k] = view[at + (unsigned)k];
    float a = largest(x);
    bool finite = isfinite(a), zero = !(a >= 0x1p-100f);
    float factor = finite && !zero ? __fdiv_rn(MOST, a) : 0;
    uint32_t word = noise_word(noise, noise.first + at);
    Vec<int8_t, QUARTET> q;
    for (int k = 0; k < QUARTET; k++) {
        float d = ((float)(word >> k * 8 & 0xff) + 0.5f) * 0x1p-8f;
        float y = finite && !zero ? __fadd_rn(__fmul_rn(x[k], factor), d) : 0;
        float down = floorf(y);
        q.v[k] = (int8_t)fminf(fmaxf(down, -MOST), MOST);
    }
    char *to = staging + part * part_bytes;
    *(Vec<int8_t, QUARTET> *)(to + i) = q;
    if (lane == 0)
        ((float *)(to + length))[block] = !finite ? NAN
                                          : zero  ? 0
                                                  : __fdiv_rn(a, MOST);
}

/* own(length) = the sum over parts. */
__global__ void __launch_bounds__(BLOCK)
    add(float *own, const char *others, size_t part_bytes, size_t length,
        int parts, int rank)
{
    size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    float sum = 0;
    if (i >= length)
        return;
    for (int p = 0; p < parts; p++) {
        const char *from = others + (size_t)p * part_bytes;
        float s = p == rank
                      ? own[i]
                      : __fmul_rn((float)((const int8_t *)from)[i],
                                  ((const float *)(from +
                                                   length))[i / DT_INT8_BLOCK]);
        sum = __fadd_rn(sum, s);
    }
    own[i] = sum;
}

} // namespace

void dt_wire_pack_int8(struct dt_stream *stream, const struct dt_wire *wire,
                       void *staging, int rank, const struct dt_noise *noise)
{
    const Noise n = {
        {(uint32_t)noise->seed, (uint32_t)(noise->seed >> 32)},
        (uint32_t)noise->step,
        (uint32_t)rank | 1u << 30,
        noise->first,
    };
    size_t per_block = (size_t)BLOCK / WARP * DT_INT8_BLOCK;
    assert(wire->view.dtype == DT_F32 && wire->length % DT_INT8_BLOCK == 0);
    launch(stream, pack,
           dim3(blocks_for(wire->length, per_block), (unsigned)wire->parts),
           BLOCK, (char *)staging, dt_int8_bytes(wire->length),
           (const float *)dt_view_data(wire->view), wire->first, wire->stride,
           wire->length, (unsigned)rank, n);
}

void dt_wire_reduce_int8(struct dt_stream *stream, const struct dt_wire *wire,
                         const void *others, int rank)
{
    float *view = (float *)dt_view_data(wire->view);
    launch(stream, add, blocks_for(wire->length, BLOCK), BLOCK,
           view + wire->first + (size_t)rank * wire->stride,
           (const char *)others, dt_int8_bytes(wire->length), wire->length,
           wire->parts, rank);
}
