/* SPDX-License-Identifier: Apache-2.0 */
/* vec.h - vectors of one variant, and functions that become vector code */
#ifndef DT_OPS_CPU_VEC_H
#define DT_OPS_CPU_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Lanes of a vector, and the tile of a matrix product that fits into the
 * registers: TILE_ROWS x TILE_VECS accumulators, TILE_VECS of b, one of a.
 */
#if defined(__AVX512F__)
enum { LANES = 16, TILE_ROWS = 8, TILE_VECS = 2 };
#elif defined(__AVX2__)
enum { LANES = 8, TILE_ROWS = 6, TILE_VECS = 2 };
#else
enum { LANES = 4, TILE_ROWS = 6, TILE_VECS = 2 };
#endif

/* Loads and stores of any alignment. */
typedef float dt_vec
    __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

/* exp(x) for x <= 88 (larger: as for 88), relative error below 1e-7 * (1 +
 * |x|/64) where the result is a normal number, 0 below that; NaN stays NaN.
 * exp(x) = 2^n exp(r), n = round(x / ln 2); the polynomial is Taylor's with
 * the coefficients of Cephes' expf (Moshier, 1992).
 */
static inline float dt_expf(float x)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: the sum has no fraction */
    float y = x > 88.0f ? 88.0f : x;
    float t = y * 1.44269504f + round;
    float n = t - round;
    float r = y - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    float power;
    uint32_t bits;

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    memcpy(&bits, &t, sizeof(bits));
    bits = (bits + 127) << 23;
    memcpy(&power, &bits, sizeof(power));
    return y < -87.0f ? 0.0f : p * power;
}

/* The largest of most and x(count); NaN counts for nothing. By lanes, because
 * clang makes no vectors of a reduction to the maximum.
 */
static inline float dt_max(const float *x, size_t count, float most)
{
    const size_t whole = count - count % LANES;
    float lane[LANES];

    for (int j = 0; j < LANES; j++)
        lane[j] = most;
    for (size_t i = 0; i < whole; i += LANES) {
#pragma omp simd
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + (size_t)j] > lane[j] ? x[i + (size_t)j] : lane[j];
    }
    for (size_t i = whole; i < count; i++)
        most = x[i] > most ? x[i] : most;
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; j++)
            lane[j] = lane[j] > lane[j + width] ? lane[j] : lane[j + width];
    }
    return most > lane[0] ? most : lane[0];
}

#endif /* DT_OPS_CPU_VEC_H */
