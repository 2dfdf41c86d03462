/* SPDX-License-Identifier: Apache-2.0 */
/* vec.h - vectors of one variant, and functions that become vector code */
#ifndef DT_OPS_CPU_VEC_H
#define DT_OPS_CPU_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

/* Lanes of a vector; the tile of a matrix multiplication that fits into the
 * registers: TILE_ROWS x TILE_VECS accumulators, TILE_VECS of b, one of a; and
 * the same for packed operands, where PACKED_ROWS divides LANES.
 */
#if defined(__AVX512F__)
enum { LANES = 16, TILE_ROWS = 8, TILE_VECS = 2 };
enum { PACKED_ROWS = 8, PACKED_VECS = 3 };
#elif defined(__AVX2__)
enum { LANES = 8, TILE_ROWS = 6, TILE_VECS = 2 };
enum { PACKED_ROWS = 4, PACKED_VECS = 3 };
#else
enum { LANES = 4, TILE_ROWS = 6, TILE_VECS = 2 };
enum { PACKED_ROWS = 4, PACKED_VECS = 2 };
#endif

/* Loads and stores of any alignment. */
typedef float dt_vec
    __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

/* LANES numbers of bf16, from any address, as fp32. gcc 12 would widen them in
 * halves.
 */
static inline dt_vec dt_widen_bf16(const void *from)
{
#if defined(__AVX512F__)
    const __m256i half = _mm256_loadu_si256(from);
    return (dt_vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
#elif defined(__AVX2__)
    const __m128i half = _mm_loadu_si128(from);
    return (dt_vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
#else
    typedef uint16_t halves
        __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
    typedef uint32_t words __attribute__((vector_size(LANES * 4)));

    return (dt_vec)(__builtin_convertvector(*(const halves *)from, words)
                    << 16);
#endif
}

/* Interleaves lanes of a and b: those of the lower or of the upper half. */
#if defined(__AVX512F__)
#define DT_LOWER 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define DT_UPPER 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
#define DT_LOWER 0, 8, 1, 9, 2, 10, 3, 11
#define DT_UPPER 4, 12, 5, 13, 6, 14, 7, 15
#else
#define DT_LOWER 0, 4, 1, 5
#define DT_UPPER 2, 6, 3, 7
#endif

/* Transposes rows(LANES, LANES). A perfect shuffle of all elements rotates the
 * bits of their index by one: log2(LANES) shuffles swap row and lane.
 */
static inline void dt_transpose(dt_vec rows[LANES])
{
    dt_vec next[LANES];

#pragma GCC unroll 4
    for (int bit = 1; bit < LANES; bit *= 2) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++) {
            dt_vec a = rows[i], b = rows[i + LANES / 2];
            next[2 * i] = __builtin_shufflevector(a, b, DT_LOWER);
            next[2 * i + 1] = __builtin_shufflevector(a, b, DT_UPPER);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            rows[i] = next[i];
    }
}

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

/* tanh(x), relative error below 2e-7; NaN stays NaN. Where 1 - exp would lose
 * digits, Taylor's polynomial.
 */
static inline float dt_tanhf(float x)
{
    float size = x < 0.0f ? -x : x, square = x * x;
    float e = dt_expf(-2.0f * size);
    float far = (1.0f - e) / (1.0f + e);
    float near = 62.0f / 2835.0f;

    near = near * square - 17.0f / 315.0f;
    near = near * square + 2.0f / 15.0f;
    near = near * square - 1.0f / 3.0f;
    near = near * (square * x) + x;
    return size < 0.3f ? near : x < 0.0f ? -far : far;
}

/* The maximum of `most` and x(count), NaN ignored. By lanes, because clang does
 * not vectorize a maximum.
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

/* The sum of x(count), in float64. */
static inline double dt_sum(const float *x, size_t count)
{
    double sum = 0.0;

#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i];
    return sum;
}

#endif /* DT_OPS_CPU_VEC_H */
