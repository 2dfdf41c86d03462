/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_rows.c - matrix multiplications of some dozens of rows, such as the
 * next tokens of a rollout
 *
 * A library packs b for many rows that are not there. Here b is read once. If
 * it is stored transposed, the result is computed transposed, too: c^T = b^T
 * a^T, of rows of b^T as they are stored and of a^T, which is packed and stays
 * in the cache. Else c = a b, of rows of a as they are stored and of columns of
 * b, which are packed, a block at a time. A sum goes over k in its order,
 * whatever M, the other rows and the threads are.
 */
#include "config.h"

#define ADD_WORDS(sum, w, x) ((sum) + (w) * (x))

#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/strip.h"

/* CHUNK: columns of b transposed, whose sums stay in the L2 cache with a block
 * of a^T. Of b as it is, GROUP_DEPTH words of each column are packed; those of
 * a group, GROUP columns, fit into the L1 cache.
 */
enum {
    CHUNK = 480,
    GROUP = DT_CPU_SOME_ROWS,
    GROUPS = 6,
    GROUP_DEPTH = DEPTH / GROUPS,
    GROUP_ROWS = (DT_CPU_SOME_ROWS + STRIP - 1) / STRIP * STRIP,
};

_Static_assert(CHUNK % STRIP == 0 && CHUNK % LANES == 0, "no rest in a chunk");
_Static_assert(GROUPS *GROUP_ROWS <= CHUNK, "sums of groups are as many");
_Static_assert(GROUP_DEPTH % LANES == 0, "words in whole vectors");

/* A thread's part of a product. A word is a number or, with pairs, two. */
struct share {
    const struct dt_cpu_matmul *p;
    dt_strip_multiply *multiply;
    bool pairs;
    enum dt_dtype type; /* of words: pairs are moved like fp32 */
    size_t K, most;     /* words; of a block of them */
    /* (SOME_ROWS / PANEL, DEPTH, PANEL), (STRIP, DEPTH), and sums */
    _Alignas(64) float x[DT_CPU_SOME_ROWS * DEPTH];
    float w[STRIP * DEPTH];
    _Alignas(64) float sum[CHUNK * DT_CPU_SOME_ROWS];
};

/* Word k of row i, of an operand whose rows are stored along k */
static const char *word_at(const struct share *s, const struct dt_cpu_matrix *m,
                           size_t i, size_t k)
{
    return dt_cpu_at(m->data, s->p->type,
                     i * m->stride + (s->pairs ? 2 * k : k));
}

/* The vector of x of word d and rows i... */
static dt_vec *packed_at(struct share *s, size_t i, size_t d)
{
    return (dt_vec *)(s->x + i / PANEL * PANEL * DEPTH + d * PANEL + i % PANEL);
}

/* x = words [k, k + depth) of a, transposed; the last row fills the rest */
static void pack_rows(struct share *s, size_t k, size_t depth)
{
    const size_t M = s->p->M;
    dt_vec square[LANES];

    for (size_t i = 0; i < M; i += LANES) {
        for (size_t d = 0; d < depth; d += LANES) {
            size_t count = min_size(LANES, depth - d);
            for (size_t r = 0; r < LANES; r++) {
                const char *from =
                    word_at(s, &s->p->a, min_size(i + r, M - 1), k + d);
                square[r] = count == LANES ? dt_load_lanes(from, s->type)
                                           : dt_load_some(from, s->type, count);
            }
            dt_transpose(square);
            for (size_t r = 0; r < count; r++)
                *packed_at(s, i, d + r) = square[r];
        }
    }
}

/* `count` words, then 0: numbers, or the upper halves of those of two rows */
static inline dt_vec load_words(const void *from, size_t stride,
                                enum dt_dtype type, bool pairs, size_t count)
{
    typedef uint32_t words __attribute__((vector_size(LANES * 4)));
    const void *odd = dt_cpu_at(from, type, stride);

    if (!pairs && count == LANES)
        return dt_load_lanes(from, type);
    if (!pairs)
        return dt_load_some(from, type, count);
    if (count == LANES)
        return (dt_vec)((words)dt_widen_bf16(from) >> 16 |
                        (words)dt_widen_bf16(odd));
    return (dt_vec)((words)dt_load_some(from, DT_BF16, count) >> 16 |
                    (words)dt_load_some(odd, DT_BF16, count));
}

/* to(depth, PANEL) = words of `columns` columns; pairs, and most often type and
 * columns, are constants at each call.
 */
static inline void pack_panel(float *to, const char *from, size_t stride,
                              enum dt_dtype type, bool pairs, size_t columns,
                              size_t depth)
{
    const size_t size = dt_dtype_bytes(type);
    const size_t step = (pairs ? 2 : 1) * stride * size;

    for (size_t d = 0; d < depth; d++, from += step, to += PANEL) {
#pragma GCC unroll 4
        for (size_t j = 0; j < columns; j += LANES)
            *(dt_vec *)(to + j) =
                load_words(from + j * size, stride, type, pairs,
                           columns - j < LANES ? columns - j : LANES);
    }
}

/* x = words [k, k + depth) of `count` columns n... of b: those of group g from
 * its depth g GROUP_DEPTH on. pairs is a constant at each call.
 */
static inline void pack_words(struct share *s, size_t n, size_t count, size_t k,
                              size_t depth, bool pairs)
{
    const enum dt_dtype type = pairs ? DT_BF16 : s->type;
    const size_t stride = s->p->b.stride;

    for (size_t j = 0; j < count; j += PANEL) {
        float *to = (float *)packed_at(s, j % GROUP, j / GROUP * GROUP_DEPTH);
        const char *from =
            dt_cpu_at(s->p->b.data, type, (pairs ? 2 : 1) * k * stride + n + j);
        if (count - j < PANEL)
            pack_panel(to, from, stride, type, pairs, count - j, depth);
        else if (type == DT_F32)
            pack_panel(to, from, stride, DT_F32, pairs, PANEL, depth);
        else
            pack_panel(to, from, stride, type, pairs, PANEL, depth);
    }
}

static void pack_columns(struct share *s, size_t n, size_t count, size_t k,
                         size_t depth)
{
    if (s->pairs)
        pack_words(s, n, count, k, depth, true);
    else
        pack_words(s, n, count, k, depth, false);
}

/* Rows i... of an operand, words [k, k + depth) of each: as they are stored, or
 * copies in fp32; if there are fewer than STRIP, the last is copied again.
 */
static struct dt_strip load_strip(struct share *s,
                                  const struct dt_cpu_matrix *m, size_t i,
                                  size_t count, size_t k, size_t depth)
{
    const size_t bytes = m->stride * dt_dtype_bytes(s->p->type);
    const char *first = word_at(s, m, i, k);
    struct dt_strip strip = {(const float *)first, bytes / sizeof(float),
                             (uintptr_t)first + STRIP * bytes, bytes, LINE};

    if (s->type == DT_F32 && count == STRIP)
        return strip;
    strip.row = s->w;
    strip.stride = DEPTH;
    for (size_t r = 0; r < STRIP; r++)
        dt_cpu_widen(s->w + r * DEPTH, first + min_size(r, count - 1) * bytes,
                     s->type, depth);
    return strip;
}

/* Has call i of a block fetch its share of the next block of b, from row k and
 * column n on: STRIP lines of some rows.
 */
static void fetch_columns(const struct share *s, struct dt_strip *strip,
                          size_t i, size_t n, size_t k)
{
    const struct dt_cpu_matrix *b = &s->p->b;
    const size_t bytes = dt_dtype_bytes(s->p->type);
    const size_t parts = GROUPS * GROUP * bytes / (STRIP * LINE);
    const size_t row = (s->pairs ? 2 * k : k) + i / parts * GROUP_DEPTH / WORDS;

    strip->next =
        (uintptr_t)dt_cpu_at(b->data, s->p->type, row * b->stride + n) +
        i % parts * STRIP * LINE;
    strip->next_stride = LINE;
    strip->next_step = b->stride * bytes;
}

/* Rounds `count` lanes to c; gcc copies some floats as slowly as many. */
static void store_lanes(void *to, dt_vec sum, enum dt_dtype type, size_t count)
{
    if (type == DT_F32 && count == LANES)
        *(dt_vec *)to = sum;
    else
        dt_cpu_narrow(to, (const float *)&sum, type, count);
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
            store_lanes((char *)p->c + (i * p->N + n + j) * size,
                        square[i % LANES], p->c_type, width);
        }
    }
}

/* Rounds the sums of a group, columns n..., with the bias, to c. */
static void write_group(const struct dt_cpu_matmul *p, float *sum, size_t n,
                        size_t count)
{
    const size_t size = dt_dtype_bytes(p->c_type);
    float bias[GROUP] = {0.0f};

    if (p->bias)
        dt_cpu_widen(bias, dt_cpu_at(p->bias, p->type, n), p->type, count);
    for (size_t i = 0; i < p->M; i++, sum += GROUP) {
#pragma omp simd
        for (size_t j = 0; j < GROUP; j++)
            sum[j] += bias[j];
        dt_cpu_narrow((char *)p->c + (i * p->N + n) * size, sum, p->c_type,
                      count);
    }
}

static size_t whole_vectors(size_t count)
{
    return (count + LANES - 1) / LANES * LANES;
}

/* The calling thread's columns, with b transposed */
static void multiply_transposed(struct share *s, size_t first, size_t end)
{
    const size_t rows = whole_vectors(s->p->M);
    size_t columns, depth, packed = SIZE_MAX;

    for (size_t n = first; n < end; n += columns) {
        columns = min_size(CHUNK, end - n);
        for (size_t k = 0; k < s->K; k += depth) {
            depth = min_size(s->most, s->K - k);
            if (packed != k)
                pack_rows(s, k, depth);
            packed = k;
            for (size_t j = 0; j < columns; j += STRIP) {
                struct dt_strip strip = load_strip(
                    s, &s->p->b, n + j, min_size(STRIP, columns - j), k, depth);
                s->multiply(s->sum + j * DT_CPU_SOME_ROWS, &strip, s->x, rows,
                            depth, k > 0);
            }
        }
        write_columns(s, n, columns);
    }
}

/* Adds words [k, k + depth) of a times the packed part of b to the sums of
 * `count` columns n... (GROUPS, GROUP_ROWS, GROUP).
 */
static void add_block(struct share *s, size_t n, size_t count, size_t k,
                      size_t depth)
{
    const size_t M = s->p->M;
    const bool deeper = k + depth < s->K;
    size_t calls = 0;

    for (size_t j = 0; j < count; j += GROUP) {
        const float *x = s->x + j / GROUP * GROUP_DEPTH * PANEL;
        float *sum = s->sum + j * GROUP_ROWS;
        for (size_t i = 0; i < M; i += STRIP) {
            struct dt_strip strip =
                load_strip(s, &s->p->a, i, min_size(STRIP, M - i), k, depth);
            fetch_columns(s, &strip, calls++, deeper ? n : n + count,
                          deeper ? k + depth : 0);
            s->multiply(sum + i * GROUP, &strip, x,
                        whole_vectors(min_size(GROUP, count - j)), depth,
                        k > 0);
        }
    }
}

/* The calling thread's columns, with b as it is */
static void multiply_stored(struct share *s, size_t first, size_t end)
{
    size_t columns, depth;

    for (size_t n = first; n < end; n += columns) {
        columns = min_size(GROUPS * GROUP, end - n);
        for (size_t k = 0; k < s->K; k += depth) {
            depth = min_size(GROUP_DEPTH, s->K - k);
            pack_columns(s, n, columns, k, depth);
            add_block(s, n, columns, k, depth);
        }
        for (size_t j = 0; j < columns; j += GROUP)
            write_group(s->p, s->sum + j * GROUP_ROWS, n + j,
                        min_size(GROUP, columns - j));
    }
}

static void begin_share(struct share *s, const struct dt_cpu_matmul *p)
{
    s->p = p;
    s->multiply = multiply_strip;
    s->pairs = false;
    s->type = p->type;
    s->K = p->K;
#ifdef __AVX512F__
    if (dt_cpu_has_pairs(p)) {
        s->multiply = DT_CPU(multiply_pairs);
        s->pairs = true;
        s->type = DT_F32;
        s->K /= 2;
    }
#endif
    const size_t blocks = (s->K + DEPTH - 1) / DEPTH;
    s->most = whole_vectors((s->K + blocks - 1) / blocks);
}

void DT_CPU(matmul_rows)(const struct dt_cpu_matmul *p)
{
    assert(p->M <= DT_CPU_SOME_ROWS && !p->a.transposed && !p->accumulate);

#pragma omp parallel if (p->M * p->N * p->K > DT_CPU_SMALL_MATMUL)
    {
        _Alignas(64) struct share s;
        size_t first, end;
        begin_share(&s, p);
        dt_cpu_share(p->N, &first, &end);
        if (p->b.transposed)
            multiply_transposed(&s, first, end);
        else
            multiply_stored(&s, first, end);
    }
}
