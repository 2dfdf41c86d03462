/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_int8.cu - rounding to 8 bits and adding, with the bits of int8.c
 *
 * A warp has a block of 128 elements, a lane four neighbors of them. Products
 * and sums are rounded one by one, as they are on the CPU.
 */
#include "config.h"

#include "comm/int8.h"
#include "comm/nccl_wire.h"
#include "tensor/kernel.cuh"

namespace
{

enum {
    THREADS = 256,
    EACH = DT_INT8_BLOCK / WARP, /* elements of a lane */
    MOST = 127,
};

/* What the random words depend on. */
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
__device__ float largest(const float (&x)[EACH])
{
    float most = 0, off = 0;
    for (int i = 0; i < EACH; i++) {
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
__global__ void __launch_bounds__(THREADS)
    pack(char *staging, size_t part_bytes, const float *view, size_t first,
         size_t stride, size_t length, unsigned rank, Noise noise)
{
    unsigned part = blockIdx.y, lane = threadIdx.x % WARP;
    size_t block = (size_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    size_t i = block * DT_INT8_BLOCK + lane * EACH;
    if (block * DT_INT8_BLOCK >= length || part == rank)
        return; /* whole warps */
    size_t at = first + part * stride + i;
    float x[EACH];
    for (int k = 0; k < EACH; k++)
        x[k] = view[at + (unsigned)k];
    float a = largest(x);
    bool finite = isfinite(a), zero = !(a >= 0x1p-100f);
    float factor = finite && !zero ? __fdiv_rn(MOST, a) : 0;
    uint32_t word = noise_word(noise, noise.first + at);
    Vec<int8_t, EACH> q;
    for (int k = 0; k < EACH; k++) {
        float d = ((float)(word >> k * 8 & 0xff) + 0.5f) * 0x1p-8f;
        float y = finite && !zero ? __fadd_rn(__fmul_rn(x[k], factor), d) : 0;
        float down = floorf(y);
        q.v[k] = (int8_t)fminf(fmaxf(down, -MOST), MOST);
    }
    char *to = staging + part * part_bytes;
    *(Vec<int8_t, EACH> *)(to + i) = q;
    if (lane == 0)
        ((float *)(to + length))[block] = !finite ? NAN
                                          : zero  ? 0
                                                  : __fdiv_rn(a, MOST);
}

/* own(length) = the sum over parts. */
__global__ void __launch_bounds__(THREADS)
    add(float *own, const char *others, size_t part_bytes, size_t length,
        int parts, int rank)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
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
    size_t per_block = (size_t)THREADS / WARP * DT_INT8_BLOCK;
    assert(wire->view.dtype == DT_F32 && wire->length % DT_INT8_BLOCK == 0);
    launch(stream, pack,
           dim3(blocks_for(wire->length, per_block), (unsigned)wire->parts),
           THREADS, (char *)staging, dt_int8_bytes(wire->length),
           (const float *)dt_view_data(wire->view), wire->first, wire->stride,
           wire->length, (unsigned)rank, n);
}

void dt_wire_reduce_int8(struct dt_stream *stream, const struct dt_wire *wire,
                         const void *others, int rank)
{
    float *view = (float *)dt_view_data(wire->view);
    launch(stream, add, blocks_for(wire->length, THREADS), THREADS,
           view + wire->first + (size_t)rank * wire->stride,
           (const char *)others, dt_int8_bytes(wire->length), wire->length,
           wire->parts, rank);
}
