/* SPDX-License-Identifier: Apache-2.0 */
/* int8.c - fp32 in 8 bits on the CPU */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "comm/int8.h"

enum {
    WORD = 16, /* elements that one block of random words is for */
    MOST = 127,
};

/* The largest magnitude of a block; NaN if an element is not finite. Magnitudes
 * are ordered as their bits are, and integers can be compared in any order.
 */
static float largest(const float *x)
{
    static const uint32_t infinity = 0x7f800000;
    uint32_t most = 0;
    float magnitude;
    for (size_t i = 0; i < DT_INT8_BLOCK; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    memcpy(&magnitude, &most, sizeof(magnitude));
    return most < infinity ? magnitude : NAN;
}

/* Elements `first` .. + DT_INT8_BLOCK of the reduction. */
static void pack_block(int8_t *q, const float *x, float factor, uint64_t first,
                       int rank, const struct dt_noise *noise)
{
    uint32_t words[DT_INT8_BLOCK / 4];
    for (size_t i = 0; i < DT_INT8_BLOCK; i += WORD)
        dt_rng_dither(noise->seed, (uint32_t)rank, noise->step,
                      (first + i) / WORD, &words[i / 4]);
#pragma omp simd
    for (size_t i = 0; i < DT_INT8_BLOCK; i++) {
        uint32_t byte = words[i / 4] >> i % 4 * 8 & 0xff;
        float d = ((float)byte + 0.5f) * 0x1p-8f;
        float y = x[i] * factor + d;
        int down = (int)y;
        down -= (float)down > y;
        q[i] = (int8_t)(down > MOST ? MOST : down < -MOST ? -MOST : down);
    }
}

void dt_int8_pack(void *out, const float *x, size_t count, size_t from,
                  int rank, const struct dt_noise *noise)
{
    int8_t *q = out;
    float *scales = (void *)(q + count);
    for (size_t i = 0; i < count; i += DT_INT8_BLOCK) {
        float a = largest(x + i);
        bool finite = isfinite(a), zero = !(a >= 0x1p-100f);
        scales[i / DT_INT8_BLOCK] = !finite ? NAN : zero ? 0 : a / MOST;
        if (finite && !zero)
            pack_block(q + i, x + i, MOST / a, noise->first + from + i, rank,
                       noise);
        else
            for (size_t k = 0; k < DT_INT8_BLOCK; k++)
                q[i + k] = 0;
    }
}

void dt_int8_add(float *acc, const void *packed, size_t count, bool first)
{
    const int8_t *q = packed;
    const float *scales = (const void *)(q + count);
    for (size_t i = 0; i < count; i += DT_INT8_BLOCK) {
        float s = scales[i / DT_INT8_BLOCK];
#pragma omp simd
        for (size_t k = i; k < i + DT_INT8_BLOCK; k++)
            acc[k] = (first ? 0 : acc[k]) + (float)q[k] * s;
    }
}
