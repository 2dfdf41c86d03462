/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_few.c - matrix multiplications of few rows, such as next tokens
 *
 * Reading b from memory is most of their time, so b is read once, in the order
 * in which it is stored, and nothing is packed. The order of a sum depends on
 * K, N and the order of b alone: not on M, the other rows or the threads.
 */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/lanes.h"
#include "ops/cpu/matmul.h"

#define INLINE static inline __attribute__((always_inline))

/* Columns of a block, whose sums stay in the cache; stored rows of b that are
 * added to them at a time; and rows of a that are multiplied by a stored row of
 * b at a time, of which AHEAD bytes are fetched before they are needed. If rows
 * of b are no longer than a block, its rows are in PARTS.
 */
enum {
    WIDTH = 1024,
    DEPTH = 8,
    DOT_ROWS = 8,
    AHEAD = 4096,
    PARTS = 4,
};

/* The columns [first, first + count) of a product; if b is not transposed, of
 * its rows [top, bottom).
 */
struct block {
    const struct dt_cpu_matmul *p;
    size_t first, count, top, bottom;
    float sum[DT_CPU_FEW_ROWS * WIDTH];
};

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* `count` elements, then 0; all is a constant at each call */
INLINE dt_vec load(const void *from, enum dt_dtype type, bool all, size_t count)
{
    return all ? dt_load_lanes(from, type) : dt_load_some(from, type, count);
}

/* Has the line at `row` fetched into the L2 cache, `ahead` bytes before it is
 * needed: what a thread reads are pieces of rows, too short for a processor to
 * see that they go on. It may be behind the end of b.
 */
INLINE void fetch_ahead(const char *row, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)row + ahead), 0, 2);
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

    fetch_ahead(t->w + at, AHEAD);
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
        b->sum[(i + r) * WIDTH + j] = sum_lanes(t.sum[r]);
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

/* Adds x(M, DEPTH) times the rows k.. of b to LANES sums from column j on, rows
 * after `depth` being 0.
 */
INLINE void add_lanes(struct block *b, const float *x, enum dt_dtype type,
                      size_t k, size_t depth, size_t j, bool all)
{
    const struct dt_cpu_matmul *p = b->p;
    const size_t ahead = DEPTH * p->b.stride * dt_dtype_bytes(type);
    dt_vec w[DEPTH];

#pragma GCC unroll 16
    for (size_t d = 0; d < DEPTH; d++) {
        const char *row =
            dt_cpu_at(p->b.data, type, (k + d) * p->b.stride + b->first + j);
        w[d] = (dt_vec){0.0f};
        if (d < depth) {
            w[d] = load(row, type, all, b->count - j);
            fetch_ahead(row, ahead);
        }
    }
    for (size_t i = 0; i < p->M; i++) {
        dt_vec sum = {0.0f};
#pragma GCC unroll 16
        for (size_t d = 0; d < DEPTH; d++)
            sum += x[i * DEPTH + d] * w[d];
        *(dt_vec *)(b->sum + i * WIDTH + j) += sum;
    }
}

INLINE void add_rows(struct block *b, enum dt_dtype type)
{
    const struct dt_cpu_matmul *p = b->p;
    const size_t whole = b->count - b->count % LANES;
    const size_t used = whole + (whole < b->count ? LANES : 0);

    for (size_t i = 0; i < p->M; i++)
        memset(b->sum + i * WIDTH, 0, used * sizeof(*b->sum));
    for (size_t k = b->top; k < b->bottom; k += DEPTH) {
        const size_t depth = min_size(DEPTH, b->bottom - k);
        float x[DT_CPU_FEW_ROWS * DEPTH];
        if (depth < DEPTH)
            memset(x, 0, sizeof(x));
        for (size_t i = 0; i < p->M; i++)
            dt_cpu_widen(x + i * DEPTH,
                         dt_cpu_at(p->a.data, type, i * p->a.stride + k), type,
                         depth);
        for (size_t j = 0; j < whole && depth == DEPTH; j += LANES)
            add_lanes(b, x, type, k, DEPTH, j, true);
        for (size_t j = 0; j < whole && depth < DEPTH; j += LANES)
            add_lanes(b, x, type, k, depth, j, true);
        if (whole < b->count)
            add_lanes(b, x, type, k, depth, whole, false);
    }
}

/* --- both --- */

/* Rounds the sums, with the bias, to c. */
static void write_block(struct block *b)
{
    const struct dt_cpu_matmul *p = b->p;
    float bias[WIDTH];

    if (p->bias)
        dt_cpu_widen(bias, dt_cpu_at(p->bias, p->type, b->first), p->type,
                     b->count);
    for (size_t i = 0; i < p->M; i++) {
        float *sum = b->sum + i * WIDTH;
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

/* The calling thread's columns */
static void multiply_share(const struct dt_cpu_matmul *p)
{
    _Alignas(64) struct block b;
    size_t first, end;

    b.p = p;
    b.top = 0;
    b.bottom = p->K;
    dt_cpu_share(p->N, &first, &end);
    for (b.first = first; b.first < end; b.first += b.count) {
        b.count = min_size(WIDTH, end - b.first);
        multiply_block(&b);
        write_block(&b);
    }
}

/* --- short rows of b: each thread reads whole ones --- */

/* Sums of the parts of b, (PARTS, DT_CPU_FEW_ROWS, WIDTH). */
typedef float part_sums[PARTS][DT_CPU_FEW_ROWS * WIDTH];

/* Bound i of `count` cut into `parts`, a multiple of `step`. */
static size_t cut_at(size_t count, size_t i, size_t parts, size_t step)
{
    return min_size(count, (count + step - 1) / step * i / parts * step);
}

/* The calling thread's parts of b. With more threads than parts, several share
 * one by its columns.
 */
static void sum_parts(const struct dt_cpu_matmul *p, struct block *b,
                      part_sums sums)
{
    const size_t threads = (size_t)omp_get_num_threads();
    const size_t groups = PARTS % threads == 0 ? 1 : threads;
    const size_t i = (size_t)omp_get_thread_num();
    const size_t end = (i + 1) * PARTS * groups / threads;

    for (size_t task = i * PARTS * groups / threads, next; task < end;
         task = next) {
        const size_t part = task / groups;
        next = min_size(end, (part + 1) * groups);
        b->top = cut_at(p->K, part, PARTS, DEPTH);
        b->bottom = cut_at(p->K, part + 1, PARTS, DEPTH);
        b->first = cut_at(p->N, task - part * groups, groups, LANES);
        b->count = cut_at(p->N, next - part * groups, groups, LANES) - b->first;
        multiply_block(b);
        for (size_t m = 0; m < p->M; m++)
            memcpy(sums[part] + m * WIDTH + b->first, b->sum + m * WIDTH,
                   b->count * sizeof(float));
    }
}

/* The calling thread's columns, from the sums of all parts */
static void add_parts(const struct dt_cpu_matmul *p, struct block *b,
                      part_sums sums)
{
    size_t end;

    dt_cpu_share(p->N, &b->first, &end);
    b->count = end - b->first;
    for (size_t m = 0; m < p->M; m++) {
        float *sum = b->sum + m * WIDTH;
        memcpy(sum, sums[0] + m * WIDTH + b->first, b->count * sizeof(*sum));
        for (size_t part = 1; part < PARTS; part++) {
            const float *other = sums[part] + m * WIDTH + b->first;
#pragma omp simd
            for (size_t j = 0; j < b->count; j++)
                sum[j] += other[j];
        }
    }
    write_block(b);
}

static void multiply_parts(const struct dt_cpu_matmul *p)
{
    _Alignas(64) part_sums sums;

#pragma omp parallel
    {
        _Alignas(64) struct block b;
        b.p = p;
        sum_parts(p, &b, sums);
#pragma omp barrier
        add_parts(p, &b, sums);
    }
}

void DT_CPU(matmul_few)(const struct dt_cpu_matmul *p)
{
    assert(p->M < DT_CPU_FEW_ROWS && !p->a.transposed && !p->accumulate);

    if (!p->b.transposed && p->N <= WIDTH) {
        multiply_parts(p);
        return;
    }
#pragma omp parallel
    multiply_share(p);
}
