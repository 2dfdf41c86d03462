/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_few.c - matrix multiplications of few rows, such as next tokens
 *
 * Reading b from memory is most of their time, so b is read once, in the order
 * in which it is stored, and nothing is packed. The order of a sum depends on K
 * and the order of b alone: not on M, N, the other rows or the threads.
 */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/matmul.h"

#define INLINE static inline __attribute__((always_inline))

/* WIDTH: columns of a block, whose sums stay in the cache with the most rows of
 * a. DEPTH: stored rows of b that are added to them at a time, at most.
 * DOT_ROWS: rows of a that are multiplied by a stored row of b at a time; that
 * row is fetched AHEAD bytes before it is needed. PARTS: the rows of b are cut
 * into so many, if it is not transposed.
 */
enum {
    WIDTH = 1024,
    DEPTH = 8,
    DOT_ROWS = 8,
    AHEAD = 4096,
    PARTS = 4,
};

/* Sums of a block. */
typedef float block_sums[DT_CPU_FEW_ROWS * WIDTH];

/* The columns [first, first + count) of a product; if b is not transposed, of
 * its rows [top, bottom).
 */
struct block {
    const struct dt_cpu_matmul *p;
    size_t first, count, top, bottom;
    float *sum;
    size_t stride; /* from one row of sums to the next */
};

/* `count` elements, then 0; all is a constant at each call */
INLINE dt_vec load(const void *from, enum dt_dtype type, bool all, size_t count)
{
    return all ? dt_load_lanes(from, type) : dt_load_some(from, type, count);
}

/* Prefetches the line at this address, which may lie after the end of b, into
 * the L2 cache.
 */
INLINE void fetch(uintptr_t address)
{
    __builtin_prefetch((const void *)address, 0, 2);
}

/* --- b transposed: dot products of stored rows --- */

/* Rows of a meet a row of the stored b, which is read as it comes: a processor
 * does not see that several rows go on at a time.
 */
struct dots {
    const char *x[DOT_ROWS], *w;
    dt_vec sum[DOT_ROWS];
};

/* Adds `count` products, at most LANES, from element k on. */
INLINE void add_products(struct dots *t, enum dt_dtype type, size_t rows,
                         size_t k, bool all, size_t count)
{
    const size_t at = k * dt_dtype_bytes(type);
    const dt_vec w = load(t->w + at, type, all, count);

    fetch((uintptr_t)t->w + at + AHEAD);
#pragma GCC unroll 16
    for (size_t i = 0; i < rows; i++)
        t->sum[i] += load(t->x[i] + at, type, all, count) * w;
}

static float sum_lanes(dt_vec v)
{
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++)
            v[i] += v[i + width];
    }
    return v[0];
}

/* Column j of rows i...; where there are fewer than `rows`, the last is
 * computed again. rows is a constant at each call.
 */
INLINE void dot_rows(struct block *b, enum dt_dtype type, size_t rows, size_t i,
                     size_t j)
{
    const struct dt_cpu_matmul *p = b->p;
    const size_t whole = p->K - p->K % LANES;
    struct dots t;

    t.w = dt_cpu_at(p->b.data, type, (b->first + j) * p->b.stride);
#pragma GCC unroll 16
    for (size_t r = 0; r < rows; r++) {
        t.x[r] =
            dt_cpu_at(p->a.data, type, min_size(i + r, p->M - 1) * p->a.stride);
        t.sum[r] = (dt_vec){0.0f};
    }
    for (size_t k = 0; k < whole; k += LANES)
        add_products(&t, type, rows, k, true, LANES);
    if (whole < p->K)
        add_products(&t, type, rows, whole, false, p->K - whole);
#pragma GCC unroll 16
    for (size_t r = 0; r < rows; r++)
        b->sum[(i + r) * b->stride + j] = sum_lanes(t.sum[r]);
}

INLINE void dot_block(struct block *b, enum dt_dtype type)
{
    const size_t M = b->p->M;

    for (size_t j = 0; j < b->count; j++) {
        for (size_t i = 0; i < M; i += DOT_ROWS) {
            if (M - i == 1)
                dot_rows(b, type, 1, i, j);
            else if (M - i <= DOT_ROWS / 2)
                dot_rows(b, type, DOT_ROWS / 2, i, j);
            else
                dot_rows(b, type, DOT_ROWS, i, j);
        }
    }
}

/* --- b as it is: multiples of stored rows --- */

/* Adds x(M, depth) times the rows k.. of b to LANES sums from column j on. Each
 * product is added to its sum alone, so that no bit depends on depth, which is
 * a constant at each call.
 */
INLINE void add_lanes(struct block *b, const float *x, enum dt_dtype type,
                      size_t k, size_t depth, size_t j, bool all)
{
    const struct dt_cpu_matmul *p = b->p;
    dt_vec w[DEPTH];

#pragma GCC unroll 16
    for (size_t d = 0; d < depth; d++)
        w[d] = load(
            dt_cpu_at(p->b.data, type, (k + d) * p->b.stride + b->first + j),
            type, all, b->count - j);
    for (size_t i = 0; i < p->M; i++) {
        float *to = b->sum + i * b->stride + j;
        dt_vec sum = *(const dt_vec *)to;
#pragma GCC unroll 16
        for (size_t d = 0; d < depth; d++)
            sum += x[i * depth + d] * w[d];
        *(dt_vec *)to = sum;
    }
}

/* Adds share d of `depth` of the columns, while row d of the next rows is
 * fetched: row after row, since scattered reads of memory are slower.
 */
INLINE void add_share(struct block *b, const float *x, enum dt_dtype type,
                      size_t k, size_t depth, size_t d)
{
    enum { LINE = 64 };
    const struct dt_cpu_matmul *p = b->p;
    const size_t bytes = depth * LANES * dt_dtype_bytes(type);
    const size_t vecs = b->count / LANES;
    uintptr_t next = (uintptr_t)dt_cpu_at(
        p->b.data, type, (k + depth + d) * p->b.stride + b->first);

    for (size_t v = vecs * d / depth; v < vecs * (d + 1) / depth; v++) {
#pragma GCC unroll 16
        for (size_t at = 0; at < bytes; at += LINE)
            fetch(next + at);
        next += bytes;
        add_lanes(b, x, type, k, depth, v * LANES, true);
    }
}

/* Adds the rows of b from k on, `depth` at a time; returns the first of those
 * that are left.
 */
INLINE size_t add_deep(struct block *b, enum dt_dtype type, size_t k,
                       size_t depth)
{
    const struct dt_cpu_matmul *p = b->p;
    const size_t whole = b->count - b->count % LANES;
    float x[DT_CPU_FEW_ROWS * DEPTH];

    for (; k + depth <= b->bottom; k += depth) {
        for (size_t i = 0; i < p->M; i++)
            dt_cpu_widen(x + i * depth,
                         dt_cpu_at(p->a.data, type, i * p->a.stride + k), type,
                         depth);
        for (size_t d = 0; d < depth; d++)
            add_share(b, x, type, k, depth, d);
        if (whole < b->count)
            add_lanes(b, x, type, k, depth, whole, false);
    }
    return k;
}

/* The fewer rows b has at a time, the more it is read as it comes, and the more
 * often sums of many rows are loaded.
 */
INLINE void add_rows(struct block *b, enum dt_dtype type)
{
    const size_t M = b->p->M, vecs = (b->count + LANES - 1) / LANES;
    size_t k = b->top;

    for (size_t i = 0; i < M; i++)
        memset(b->sum + i * b->stride, 0, vecs * LANES * sizeof(*b->sum));
    if (M <= DEPTH / 4)
        k = add_deep(b, type, k, DEPTH / 4);
    else if (M <= DEPTH / 2)
        k = add_deep(b, type, k, DEPTH / 2);
    else
        k = add_deep(b, type, k, DEPTH);
    add_deep(b, type, k, 1);
}

/* --- both --- */

/* Rounds the sums, with the bias, to c. */
static void write_block(struct block *b)
{
    const struct dt_cpu_matmul *p = b->p;
    block_sums bias;

    if (p->bias)
        dt_cpu_widen(bias, dt_cpu_at(p->bias, p->type, b->first), p->type,
                     b->count);
    for (size_t i = 0; i < p->M; i++) {
        float *sum = b->sum + i * b->stride;
        for (size_t j = 0; p->bias && j < b->count; j++)
            sum[j] += bias[j];
        dt_cpu_narrow((char *)p->c +
                          (i * p->N + b->first) * dt_dtype_bytes(p->c_type),
                      sum, p->c_type, b->count);
    }
}

/* type is a constant at each call, so that no loop asks for it. */
INLINE void multiply_type(struct block *b, enum dt_dtype type)
{
    if (b->p->b.transposed)
        dot_block(b, type);
    else
        add_rows(b, type);
}

static void multiply_block(struct block *b)
{
    if (b->p->type == DT_F32)
        multiply_type(b, DT_F32);
    else if (b->p->type == DT_BF16)
        multiply_type(b, DT_BF16);
    else
        multiply_type(b, DT_F16);
}

/* b transposed: the calling thread's columns */
static void multiply_share(const struct dt_cpu_matmul *p)
{
    _Alignas(64) block_sums sums;
    struct block b = {.p = p, .sum = sums, .stride = WIDTH};
    size_t first, end;

    dt_cpu_share(p->N, &first, &end);
    for (b.first = first; b.first < end; b.first += b.count) {
        b.count = min_size(WIDTH, end - b.first);
        multiply_block(&b);
        write_block(&b);
    }
}

/* --- b as it is: each thread reads whole rows --- */

/* Columns of a product whose sums of the parts of b are made together. */
struct columns {
    const struct dt_cpu_matmul *p;
    size_t first, count;
    size_t stride;    /* count in whole vectors */
    block_sums *sums; /* (PARTS) of (M, stride) */
};

/* Bound i of `count` cut into `parts`, a multiple of `step`. */
static size_t cut_at(size_t count, size_t i, size_t parts, size_t step)
{
    return min_size(count, (count + step - 1) / step * i / parts * step);
}

/* The calling thread's parts of b. With more threads than parts, several share
 * one by its columns.
 */
static void sum_parts(const struct columns *c)
{
    const size_t threads = (size_t)omp_get_num_threads();
    const size_t groups = PARTS % threads == 0 ? 1 : threads;
    const size_t i = (size_t)omp_get_thread_num();
    const size_t end = (i + 1) * PARTS * groups / threads;
    struct block b = {.p = c->p, .stride = c->stride};

    for (size_t task = i * PARTS * groups / threads, next; task < end;
         task = next) {
        const size_t part = task / groups;
        next = min_size(end, (part + 1) * groups);
        const size_t left =
            cut_at(c->count, task - part * groups, groups, LANES);
        b.top = cut_at(c->p->K, part, PARTS, DEPTH);
        b.bottom = cut_at(c->p->K, part + 1, PARTS, DEPTH);
        b.first = c->first + left;
        b.count = cut_at(c->count, next - part * groups, groups, LANES) - left;
        b.sum = c->sums[part] + left;
        multiply_block(&b);
    }
}

/* The calling thread's columns, from the sums of all parts */
static void add_parts(const struct columns *c)
{
    struct block b = {.p = c->p, .stride = c->stride};
    size_t left, end;

    dt_cpu_share(c->count, &left, &end);
    b.first = c->first + left;
    b.count = end - left;
    b.sum = c->sums[0] + left;
    for (size_t m = 0; m < c->p->M; m++) {
        float *sum = b.sum + m * c->stride;
        for (size_t part = 1; part < PARTS; part++) {
            const float *other = c->sums[part] + left + m * c->stride;
#pragma omp simd
            for (size_t j = 0; j < b.count; j++)
                sum[j] += other[j];
        }
    }
    write_block(&b);
}

/* As many columns at a time as there is room for their sums: with one row of a,
 * all of most models.
 */
static void multiply_parts(const struct dt_cpu_matmul *p)
{
    _Alignas(64) block_sums sums[PARTS];
    const size_t most = DT_CPU_FEW_ROWS * WIDTH / p->M / LANES * LANES;
    const size_t vecs = divide_up(p->N, LANES);
    const size_t width = divide_up(vecs, divide_up(p->N, most)) * LANES;

#pragma omp parallel if (p->M * p->N * p->K > DT_CPU_SMALL_MATMUL)
    for (size_t first = 0; first < p->N; first += width) {
        const size_t count = min_size(width, p->N - first);
        const struct columns c = {p, first, count, width, sums};
        sum_parts(&c);
#pragma omp barrier
        add_parts(&c);
#pragma omp barrier
    }
}

void DT_CPU(matmul_few)(const struct dt_cpu_matmul *p)
{
    assert(p->M < DT_CPU_FEW_ROWS && !p->a.transposed && !p->accumulate);

    if (p->M == 0 || p->N == 0)
        return;
    if (!p->b.transposed) {
        multiply_parts(p);
        return;
    }
#pragma omp parallel if (p->M * p->N * p->K > DT_CPU_SMALL_MATMUL)
    multiply_share(p);
}
