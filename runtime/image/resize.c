/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.c - resizes as Pillow and as torchvision do, to the bit
 *
 * Both make two passes, one along rows and one along columns, and round to 8
 * bits after each. Output i of a side has its center at (i + 0.5) * scale of
 * the input and is the sum of the inputs around it, weighted by a filter that
 * is as wide as the scale if that is above 1. Weights are computed in double
 * precision, made to add up to 1 and then rounded:
 *
 *   Pillow       to multiples of 2^-22
 *   torchvision  to multiples of 2^-p, so that all of a side fit in 16 bits
 *
 * (Resample.c of Pillow 13; the kernels of ATen for 8-bit images, which
 * torchvision calls on processors with AVX2.) The order of a sum of integers
 * changes nothing, so vectors of any size compute it.
 *
 * One loop serves both passes: a weight belongs to a block of bytes that stand
 * next to each other. Along columns these are bytes of a row. Along rows they
 * are the pixels of a column of 16 rows, which are copied together first.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "image/image.h"

enum {
    ROWS = 16,        /* of a strip, which is resized along rows together */
    BLOCK = 3 * ROWS, /* bytes with the same weight */
    LANES = 8,        /* sums of a vector */
    MOST_BITS = 22,   /* of a weight after the point */
    LOW_BITS = 11,    /* the other half has as many, and a sign */
};

/* The weights of two taps: high * 2^11 + low. */
struct pair {
    int16_t high[2], low[2];
};

/* One side of a resize. Of its outputs, `first` to `first + count` are wanted,
 * and they need the inputs from `low` to `high`.
 */
struct axis {
    uint32_t in, out, first, count, low, high;
    uint32_t *begin;      /* first input of each output */
    uint32_t *taps;       /* and how many it has */
    uint32_t room;        /* pairs of an output */
    struct pair *weights; /* (out, room) */
    unsigned bits;        /* of a weight after the point */
};

/* Rows of pixels within an image. */
struct view {
    const uint8_t *at;
    size_t stride; /* bytes from a row to the next */
};

struct filter {
    double (*at)(double x);
    double support; /* it is zero beyond */
};

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double sinc(double x)
{
    x *= M_PI;
    return x == 0 ? 1 : sin(x) / x;
}

static double lanczos(double x)
{
    return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct filter filters[] = {
    [DT_IMAGE_LANCZOS] = {lanczos, 3},
    [DT_IMAGE_BILINEAR] = {bilinear, 1},
    [DT_IMAGE_BICUBIC] = {bicubic, 2},
};

/* Finds the inputs of output i and their weights. */
static void weigh(const struct axis *axis, uint32_t i,
                  const struct filter *filter, double *weights)
{
    const double scale = (double)axis->in / axis->out;
    const double wide = scale > 1 ? scale : 1, shrink = 1 / wide;
    const double support = filter->support * wide, center = (i + 0.5) * scale;
    const double low = center - support + 0.5, high = center + support + 0.5;
    const uint32_t begin = low < 0 ? 0 : (uint32_t)low;
    const uint32_t end = high > axis->in ? axis->in : (uint32_t)high;
    double sum = 0;
    for (uint32_t k = 0; k < end - begin; k++)
        sum += weights[k] = filter->at((k + begin - center + 0.5) * shrink);
    for (uint32_t k = 0; k < end - begin && sum != 0; k++)
        weights[k] /= sum;
    axis->begin[i] = begin;
    axis->taps[i] = end - begin;
}

/* Bits after the point with which the largest weight fits in 16 bits. */
static unsigned bits_within_16(const double *weights, size_t count)
{
    double most = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < count; i++)
        most = weights[i] > most ? weights[i] : most;
    while (bits < MOST_BITS && (int)(0.5 + most * (2 << bits)) < 1 << 15)
        bits++;
    return bits;
}

static void round_weight(struct pair *pair, int which, double weight,
                         unsigned bits)
{
    const int32_t rounded =
        (int32_t)((weight < 0 ? -0.5 : 0.5) + weight * (1 << bits));
    pair->high[which] = (int16_t)(rounded >> LOW_BITS);
    pair->low[which] = (int16_t)(rounded & ((1 << LOW_BITS) - 1));
}

static void axis_fini(struct axis *axis)
{
    free(axis->begin);
    free(axis->taps);
    free(axis->weights);
}

/* The inputs that the wanted outputs have; `begin` counts from the first. */
static void find_range(struct axis *axis)
{
    const uint32_t last = axis->first + axis->count - 1;
    axis->low = axis->begin[axis->first];
    axis->high = axis->begin[last] + axis->taps[last];
    for (uint32_t i = axis->first; i <= last; i++)
        axis->begin[i] -= axis->low;
}

/* Computes the weights of a side. The caller set in, out, first and count, and
 * calls axis_fini in any case.
 */
static int axis_init(struct axis *axis, const struct dt_image_resize *how,
                     struct dt_error *err)
{
    const struct filter *filter = &filters[how->filter];
    const double scale = (double)axis->in / axis->out;
    axis->low = axis->first;
    axis->high = axis->first + axis->count;
    if (axis->in == axis->out)
        return 0;
    axis->room = (uint32_t)ceil(filter->support * (scale > 1 ? scale : 1)) + 1;
    const size_t most = 2 * (size_t)axis->room, count = axis->out * most;
    double *weights = calloc(count, sizeof(*weights));
    axis->begin = calloc(axis->out, sizeof(*axis->begin));
    axis->taps = calloc(axis->out, sizeof(*axis->taps));
    axis->weights = calloc(count / 2, sizeof(*axis->weights));
    if (!weights || !axis->begin || !axis->taps || !axis->weights) {
        free(weights);
        return dt_error_set(err, EX_OSERR, "out of memory for a resize");
    }
    for (uint32_t i = 0; i < axis->out; i++)
        weigh(axis, i, filter, weights + i * most);
    axis->bits = how->backend == DT_IMAGE_PILLOW
                     ? MOST_BITS
                     : bits_within_16(weights, count);
    for (size_t i = 0; i < count; i++)
        round_weight(&axis->weights[i / 2], i % 2, weights[i], axis->bits);
    free(weights);
    find_range(axis);
    return 0;
}

/* Writes weighted sums of `taps` blocks that are `stride` bytes apart. */
typedef void sum_f(uint8_t to[BLOCK], const uint8_t *from, size_t stride,
                   const struct pair *weights, uint32_t taps, unsigned bits);

static uint8_t cut(int32_t sum, unsigned bits)
{
    sum >>= bits;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void sum_plain(uint8_t to[BLOCK], const uint8_t *from, size_t stride,
                      const struct pair *weights, uint32_t taps, unsigned bits)
{
    int32_t sum[BLOCK];
    for (int i = 0; i < BLOCK; i++)
        sum[i] = 1 << (bits - 1);
    for (uint32_t k = 0; k < taps; k++, from += stride) {
        const struct pair *pair = &weights[k / 2];
        const int32_t weight =
            pair->high[k % 2] * (1 << LOW_BITS) + pair->low[k % 2];
        for (int i = 0; i < BLOCK; i++)
            sum[i] += weight * from[i];
    }
    for (int i = 0; i < BLOCK; i++)
        to[i] = cut(sum[i], bits);
}

#ifdef __x86_64__

/* The products of two taps are added by the multiplication. */
__attribute__((target("avx2"))) static void sum_avx2(
    uint8_t to[BLOCK], const uint8_t *from, size_t stride,
    const struct pair *weights, uint32_t taps, unsigned bits)
{
    enum { VECTORS = BLOCK / LANES };
    __m256i high[VECTORS], low[VECTORS];
#pragma GCC unroll 6
    for (int v = 0; v < VECTORS; v++) {
        high[v] = _mm256_setzero_si256();
        low[v] = _mm256_set1_epi32(1 << (bits - 1));
    }
    for (uint32_t k = 0; k < taps; k += 2, from += 2 * stride, weights++) {
        /* an odd last tap counts once, as the weight of the other one is 0 */
        const uint8_t *next = from + (k + 1 < taps ? stride : 0);
        int32_t both[2];
        memcpy(both, weights, sizeof(both));
        const __m256i w_high = _mm256_set1_epi32(both[0]);
        const __m256i w_low = _mm256_set1_epi32(both[1]);
#pragma GCC unroll 6
        for (int v = 0; v < VECTORS; v++) {
            const __m128i pairs =
                _mm_unpacklo_epi8(_mm_loadu_si64(from + v * LANES),
                                  _mm_loadu_si64(next + v * LANES));
            const __m256i words = _mm256_cvtepu8_epi16(pairs);
            high[v] =
                _mm256_add_epi32(high[v], _mm256_madd_epi16(words, w_high));
            low[v] = _mm256_add_epi32(low[v], _mm256_madd_epi16(words, w_low));
        }
    }
#pragma GCC unroll 6
    for (int v = 0; v < VECTORS; v++) {
        const __m256i sum = _mm256_sra_epi32(
            _mm256_add_epi32(_mm256_slli_epi32(high[v], LOW_BITS), low[v]),
            _mm_cvtsi32_si128((int)bits));
        /* narrowing cuts at 0 and 255 */
        const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(sum),
                                              _mm256_extracti128_si256(sum, 1));
        _mm_storeu_si64(to + v * LANES, _mm_packus_epi16(words, words));
    }
}

static sum_f *find_sum(bool portable)
{
    return !portable && __builtin_cpu_supports("avx2") ? sum_avx2 : sum_plain;
}

#else

static sum_f *find_sum(bool portable)
{
    (void)portable;
    return sum_plain;
}

#endif

/* Resizes along columns: blocks of rows. */
static void resize_columns(const struct axis *y, struct view from,
                           struct dt_image *to, sum_f *sum)
{
    const size_t stride = (size_t)to->width * 3;
    for (uint32_t i = 0; i < y->count; i++) {
        const uint32_t o = y->first + i;
        const uint8_t *in = from.at + y->begin[o] * from.stride;
        uint8_t *out = to->rgb + i * stride;
        for (size_t b = 0; b < stride; b += BLOCK) {
            uint8_t block[BLOCK];
            sum(block, in + b, from.stride, y->weights + (size_t)o * y->room,
                y->taps[o], y->bits);
            memcpy(out + b, block, stride - b < BLOCK ? stride - b : BLOCK);
        }
    }
}

/* Copies pixels of ROWS rows so that those of a column follow each other. A
 * byte too many is copied each time, which the next one overwrites.
 */
static void copy_columns(uint8_t *columns, const uint8_t *const rows[ROWS],
                         size_t count)
{
    for (size_t x = 0; x < count; x++)
        for (int r = 0; r < ROWS; r++)
            memcpy(columns + x * BLOCK + r * 3, rows[r] + x * 3, 4);
}

/* Resizes a strip along rows: each of its columns is a block. */
static void resize_strip(const struct axis *x, const uint8_t *columns,
                         uint8_t *const to[ROWS], sum_f *sum)
{
    for (uint32_t i = 0; i < x->count; i++) {
        const uint32_t o = x->first + i;
        uint8_t block[BLOCK];
        sum(block, columns + (size_t)x->begin[o] * BLOCK, BLOCK,
            x->weights + (size_t)o * x->room, x->taps[o], x->bits);
        for (int r = 0; r < ROWS; r++)
            memcpy(to[r] + (size_t)i * 3, block + r * 3, 3);
    }
}

static int resize_rows(const struct axis *x, struct view from,
                       struct dt_image *to, sum_f *sum, struct dt_error *err)
{
    const size_t width = x->high - x->low, stride = (size_t)to->width * 3;
    uint8_t *columns = malloc(width * BLOCK + 1);
    if (!columns)
        return dt_error_set(err, EX_OSERR, "out of memory for a resize");
    for (uint32_t y = 0; y < to->height; y += ROWS) {
        const uint8_t *in[ROWS];
        uint8_t *out[ROWS];
        for (uint32_t r = 0; r < ROWS; r++) { /* the last row again and again */
            const size_t row = y + r < to->height ? y + r : to->height - 1;
            in[r] = from.at + row * from.stride;
            out[r] = to->rgb + row * stride;
        }
        copy_columns(columns, in, width);
        resize_strip(x, columns, out, sum);
    }
    free(columns);
    return 0;
}

static void copy_rows(struct view from, struct dt_image *to)
{
    const size_t stride = (size_t)to->width * 3;
    for (size_t y = 0; y < to->height; y++)
        memcpy(to->rgb + y * stride, from.at + y * from.stride, stride);
}

/* Since version 13 Pillow begins with the columns if these shrink much more
 * than the rows: less is left to do then.
 */
static bool columns_first(const struct axis *y, const struct axis *x,
                          enum dt_image_backend backend)
{
    const int64_t fewer_rows = (int64_t)y->in - y->out;
    const int64_t fewer_columns = (int64_t)x->in - x->out;
    return backend == DT_IMAGE_PILLOW && fewer_rows > 0 &&
           fewer_rows > 2 * fewer_columns;
}

/* Both passes. The first one leaves in `middle` no more than the second one
 * needs.
 */
static int resize(struct dt_image *to, struct view from, const struct axis *y,
                  const struct axis *x, const struct dt_image_resize *how,
                  struct dt_error *err)
{
    sum_f *const sum = find_sum(how->portable);
    struct dt_image middle;
    int rc = -1;
    if (y->in == y->out && x->in == x->out) {
        copy_rows(from, to);
        return 0;
    }
    if (y->in == y->out)
        return resize_rows(x, from, to, sum, err);
    if (x->in == x->out) {
        resize_columns(y, from, to, sum);
        return 0;
    }
    if (columns_first(y, x, how->backend)) {
        if (dt_image_init(&middle, y->count, x->high - x->low, err) < 0)
            return -1;
        resize_columns(y, from, &middle, sum);
        const struct view rest = {middle.rgb, (size_t)middle.width * 3};
        rc = resize_rows(x, rest, to, sum, err);
    } else {
        if (dt_image_init(&middle, y->high - y->low, x->count, err) < 0)
            return -1;
        rc = resize_rows(x, from, &middle, sum, err);
        const struct view rest = {middle.rgb, (size_t)middle.width * 3};
        if (rc == 0)
            resize_columns(y, rest, to, sum);
    }
    dt_image_fini(&middle);
    return rc;
}

int dt_image_resize(struct dt_image *to, const struct dt_image *from,
                    const struct dt_image_resize *how, struct dt_error *err)
{
    const struct dt_image_box *keep = &how->keep;
    struct axis y = {.in = from->height,
                     .out = how->height,
                     .first = keep->top,
                     .count = keep->height};
    struct axis x = {.in = from->width,
                     .out = how->width,
                     .first = keep->left,
                     .count = keep->width};
    int rc = -1;
    *to = (struct dt_image){0};
    if (axis_init(&y, how, err) == 0 && axis_init(&x, how, err) == 0 &&
        dt_image_init(to, keep->height, keep->width, err) == 0) {
        const struct view view = {from->rgb +
                                      ((size_t)y.low * from->width + x.low) * 3,
                                  (size_t)from->width * 3};
        rc = resize(to, view, &y, &x, how, err);
    }
    if (rc < 0)
        dt_image_fini(to);
    axis_fini(&y);
    axis_fini(&x);
    return rc;
}
