/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_rows.c - matrix multiplications of some dozens of rows by a stored
 * transposed b, such as the logits of the next tokens of a rollout
 *
 * A library packs b for many rows that are not there. Here the result is
 * computed transposed: c^T = b^T a^T. Rows of b^T are read as they are stored,
 * once, and a^T stays in the cache. A sum goes over k in its order, whatever
 * M, the other rows and the threads are.
 */
#include "config.h"

#define ADD_WORDS(sum, w, x) ((sum) + (w) * (x))

#include "ops/cpu/lanes.h"
#include "ops/cpu/strip.h"

/* Rows of c^T whose sums stay in the L2 cache with a block of a^T */
enum { CHUNK = 480 };

_Static_assert(CHUNK % STRIP == 0 && CHUNK % LANES == 0, "no rest in a chunk");

/* A thread's part of a product. */
struct share {
    const struct dt_cpu_matmul *p;
    dt_strip_multiply *multiply;
    struct dt_cpu_matrix a, b;         /* of words, ... */
    enum dt_dtype type;                /* ... which are pairs, or this */
    size_t K, most;                    /* words; of a block of them */
    size_t rows;                       /* of a, in whole vectors */
    float x[DT_CPU_SOME_ROWS * DEPTH]; /* (rows / PANEL, DEPTH, PANEL) a^T */
    float w[STRIP * DEPTH];            /* (STRIP, DEPTH) of b^T */
    float sum[CHUNK * DT_CPU_SOME_ROWS];
};

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* x = words [k, k + depth) of a, transposed; the last row fills the rest */
static void pack_rows(struct share *s, size_t k, size_t depth)
{
    const struct dt_cpu_matrix *a = &s->a;
    dt_vec square[LANES];

    for (size_t i = 0; i < s->rows; i += LANES) {
        float *to = s->x + i / PANEL * PANEL * DEPTH + i % PANEL;
        for (size_t d = 0; d < depth; d += LANES) {
            size_t count = min_size(LANES, depth - d);
            for (size_t r = 0; r < LANES; r++) {
                size_t row = min_size(i + r, s->p->M - 1);
                const void *from =
                    dt_cpu_at(a->data, s->type, row * a->stride + k + d);
                square[r] = count == LANES ? dt_load_lanes(from, s->type)
                                           : dt_load_some(from, s->type, count);
            }
            dt_transpose(square);
            for (size_t r = 0; r < count; r++)
                *(dt_vec *)(to + (d + r) * PANEL) = square[r];
        }
    }
}

/* Columns n... of b, words [k, k + depth) of each: as they are stored, or
 * copies in fp32; behind the last of `count` it is copied again.
 */
static struct dt_strip load_strip(struct share *s, size_t n, size_t count,
                                  size_t k, size_t depth)
{
    const struct dt_cpu_matrix *b = &s->b;
    const size_t bytes = b->stride * dt_dtype_bytes(s->type);
    const char *first = dt_cpu_at(b->data, s->type, n * b->stride + k);
    struct dt_strip strip = {(const float *)first, b->stride,
                             (uintptr_t)first + STRIP * bytes, bytes};

    if (s->type == DT_F32 && count == STRIP)
        return strip;
    strip.row = s->w;
    strip.stride = DEPTH;
    for (size_t i = 0; i < STRIP; i++)
        dt_cpu_widen(s->w + i * DEPTH, first + min_size(i, count - 1) * bytes,
                     s->type, depth);
    return strip;
}

/* Rounds the sums of columns n..., with the bias, to c. */
static void write_columns(struct share *s, size_t n, size_t count)
{
    const struct dt_cpu_matmul *p = s->p;
    const size_t size = dt_dtype_bytes(p->c_type);
    dt_vec square[LANES], bias = {0.0f};

    for (size_t j = 0; j < count; j += LANES) {
        size_t width = min_size(LANES, count - j);
        if (p->bias)
            bias = dt_load_some(dt_cpu_at(p->bias, p->type, n + j), p->type,
                                width);
        for (size_t i = 0; i < p->M; i++) {
            if (i % LANES == 0) {
                for (size_t r = 0; r < LANES; r++)
                    square[r] =
                        *(const dt_vec *)(s->sum + (j + r) * DT_CPU_SOME_ROWS +
                                          i);
                dt_transpose(square);
            }
            square[i % LANES] += bias;
            dt_cpu_narrow((char *)p->c + (i * p->N + n + j) * size,
                          (const float *)&square[i % LANES], p->c_type, width);
        }
    }
}

/* The calling thread's columns */
static void multiply_share(struct share *s)
{
    size_t first, end, columns, depth, packed = SIZE_MAX;

    dt_cpu_share(s->p->N, &first, &end);
    for (size_t n = first; n < end; n += columns) {
        columns = min_size(CHUNK, end - n);
        for (size_t k = 0; k < s->K; k += depth) {
            depth = min_size(s->most, s->K - k);
            if (packed != k)
                pack_rows(s, k, depth);
            packed = k;
            for (size_t j = 0; j < columns; j += STRIP) {
                struct dt_strip strip = load_strip(
                    s, n + j, min_size(STRIP, columns - j), k, depth);
                s->multiply(s->sum + j * DT_CPU_SOME_ROWS, &strip, s->x,
                            s->rows, depth, k > 0);
            }
        }
        write_columns(s, n, columns);
    }
}

static void begin_share(struct share *s, const struct dt_cpu_matmul *p)
{
    s->p = p;
    s->multiply = multiply_strip;
    s->a = p->a;
    s->b = p->b;
    s->type = p->type;
    s->K = p->K;
    s->rows = (p->M + LANES - 1) / LANES * LANES;
#ifdef __AVX512F__
    if (dt_cpu_has_pairs(p)) {
        s->multiply = DT_CPU(multiply_pairs);
        s->a.stride /= 2;
        s->b.stride /= 2;
        s->type = DT_F32;
        s->K /= 2;
    }
#endif
    const size_t blocks = (s->K + DEPTH - 1) / DEPTH;
    s->most = ((s->K + blocks - 1) / blocks + LANES - 1) / LANES * LANES;
}

void DT_CPU(matmul_rows)(const struct dt_cpu_matmul *p)
{
    assert(p->M <= DT_CPU_SOME_ROWS && !p->a.transposed && p->b.transposed);
    assert(!p->accumulate);

#pragma omp parallel
    {
        _Alignas(64) struct share s;
        begin_share(&s, p);
        multiply_share(&s);
    }
}
