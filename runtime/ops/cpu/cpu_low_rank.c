/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_low_rank.c - pairs of low rank that adapt linear layers
 *
 * With l = scale (x a^T), of R columns: out += l b^T. Backward: db = dout^T l;
 * with d = scale (dout b): da = d^T x, dx += d a. An addition to wide rows goes
 * over them once, block by block.
 */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/matmul.h"

/* A block of wide rows, and the depth that is packed for it. */
enum { ROWS = 64, COLUMNS = 256, DEPTH = 64 };

/* Columns of a gradient at a time, for one thread. */
enum { STRIP = 96 };

/* --- products with a pair --- */

/* out += l(N,R) w: columns first .. first + count - 1 of rows of `width`. */
struct update {
    struct dt_view out, w;
    const float *l;
    size_t N, R, width, first, count;
    bool transposed; /* w is (count,R), not (R,count) */
};

/* to(depth, COLUMNS) = rows k.. and columns j.. of w, as fp32 */
static void pack_factor(float *to, const struct update *p, size_t k,
                        size_t depth, size_t j, size_t columns)
{
    const void *data = dt_view_data(p->w);
    float row[DEPTH];

    for (size_t d = 0; d < depth && !p->transposed; d++)
        dt_cpu_widen(to + d * COLUMNS,
                     dt_cpu_at(data, p->w.dtype, (k + d) * p->count + j),
                     p->w.dtype, columns);
    for (size_t c = 0; c < columns && p->transposed; c++) {
        dt_cpu_widen(row, dt_cpu_at(data, p->w.dtype, (j + c) * p->R + k),
                     p->w.dtype, depth);
        for (size_t d = 0; d < depth; d++)
            to[d * COLUMNS + c] = row[d];
    }
}

/* The block at row n and column j. A sum continues from the element's value, in
 * the order of R, whatever the other rows are.
 */
static void update_block(const struct update *p, size_t n, size_t j)
{
    const size_t rows = min_size(ROWS, p->N - n);
    const size_t columns = min_size(COLUMNS, p->count - j);
    const bool exact = p->out.dtype == DT_F32;
    float factor[DEPTH * COLUMNS], wide[ROWS * COLUMNS];
    char *at = (char *)dt_view_data(p->out) +
               (n * p->width + p->first + j) * dt_dtype_bytes(p->out.dtype);
    const size_t step = p->width * dt_dtype_bytes(p->out.dtype);

    for (size_t r = 0; r < rows && !exact; r++)
        dt_cpu_widen(wide + r * COLUMNS, at + r * step, p->out.dtype, columns);
    for (size_t k = 0; k < p->R; k += DEPTH) {
        const size_t depth = min_size(DEPTH, p->R - k);
        pack_factor(factor, p, k, depth, j, columns);
        DT_CPU(tile_matmul)
        (exact ? (float *)(void *)at : wide, exact ? p->width : COLUMNS,
         p->l + n * p->R + k, p->R, 1, factor, COLUMNS, rows, columns, depth,
         true);
    }
    for (size_t r = 0; r < rows && !exact; r++)
        dt_cpu_narrow(at + r * step, wide + r * COLUMNS, p->out.dtype, columns);
}

static void update_rows(const struct update *p)
{
#pragma omp parallel for schedule(static)                                      \
    collapse(2) if (p->N * p->count > DT_CPU_SMALL)
    for (size_t n = 0; n < p->N; n += ROWS)
        for (size_t j = 0; j < p->count; j += COLUMNS)
            update_block(p, n, j);
}

/* d(R,count) = or += l(N,R)^T x, of columns first .. of rows of `width`. */
struct reduction {
    struct dt_view x;
    const float *l;
    float *d;
    size_t N, R, width, first, count;
    bool transposed; /* d is (count,R) */
    bool accumulate;
};

/* sum(depth, STRIP) = the columns j.. of rows k.. of d, in the order of N */
static void reduce_strip(const struct reduction *p, float *sum, size_t k,
                         size_t depth, size_t j, size_t columns)
{
    float wide[ROWS * STRIP];

    if (p->N == 0)
        memset(sum, 0, depth * STRIP * sizeof(*sum));
    for (size_t n = 0; n < p->N; n += ROWS) {
        const size_t rows = min_size(ROWS, p->N - n);
        const size_t at = n * p->width + p->first + j;
        const bool exact = p->x.dtype == DT_F32;
        for (size_t r = 0; r < rows && !exact; r++)
            dt_cpu_widen(
                wide + r * STRIP,
                dt_cpu_at(dt_view_data(p->x), p->x.dtype, at + r * p->width),
                p->x.dtype, columns);
        DT_CPU(tile_matmul)
        (sum, STRIP, p->l + n * p->R + k, 1, p->R,
         exact ? dt_view_f32(p->x) + at : wide, exact ? p->width : STRIP, depth,
         columns, rows, n > 0);
    }
}

static void reduce_rows(const struct reduction *p)
{
#pragma omp parallel for schedule(static) if (p->N * p->count > DT_CPU_SMALL)
    for (size_t j = 0; j < p->count; j += STRIP) {
        const size_t columns = min_size(STRIP, p->count - j);
        for (size_t k = 0; k < p->R; k += DEPTH) {
            const size_t depth = min_size(DEPTH, p->R - k);
            float sum[DEPTH * STRIP];
            reduce_strip(p, sum, k, depth, j, columns);
            for (size_t i = 0; i < depth * columns; i++) {
                const size_t r = k + i / columns, c = j + i % columns;
                float *to =
                    p->d + (p->transposed ? c * p->R + r : r * p->count + c);
                *to = sum[i / columns * STRIP + i % columns] +
                      (p->accumulate ? *to : 0.0f);
            }
        }
    }
}

/* The product with a pair's matrix, of R columns: low = scale * product */
static void reduce_columns(const struct dt_cpu_matmul *product,
                           const struct dt_low_rank *pair)
{
    float *x = product->c;
    const size_t count = product->M * product->N;
    assert(pair->low.count >= count);
    assert(pair->a.count == pair->R * pair->C);
    assert(pair->b.count == pair->OC * pair->R);

    DT_CPU(matmul)(product);
#pragma omp parallel for simd schedule(static) if (count > DT_CPU_SMALL)
    for (size_t i = 0; i < count; i++)
        x[i] *= pair->scale;
}

/* low = scale x a^T */
static void reduce_input(struct dt_view x, const struct dt_low_rank *pair,
                         size_t N)
{
    reduce_columns(
        &(struct dt_cpu_matmul){
            .M = N,
            .N = pair->R,
            .K = pair->C,
            .a = {dt_view_data(x), pair->C, false},
            .b = {dt_view_data(pair->a), pair->C, true},
            .type = x.dtype,
            .c_type = DT_F32,
            .c = dt_view_f32(pair->low),
        },
        pair);
}

/* low = scale dout b */
static void reduce_gradient(struct dt_view dout, const struct dt_low_rank *pair,
                            size_t N)
{
    reduce_columns(
        &(struct dt_cpu_matmul){
            .M = N,
            .N = pair->R,
            .K = pair->OC,
            .a = {dt_cpu_at(dt_view_data(dout), dout.dtype, pair->first),
                  pair->width, false},
            .b = {dt_view_data(pair->b), pair->R, false},
            .type = dout.dtype,
            .c_type = DT_F32,
            .c = dt_view_f32(pair->low),
        },
        pair);
}

/* x, after dropout if there is any. */
static struct dt_view drop_input(struct dt_stream *stream, struct dt_view x,
                                 const struct dt_low_rank *pair, size_t N)
{
    if (pair->dropout.rate == 0)
        return x;
    struct dt_view dropped = dt_view_slice(pair->dropped, 0, x.count);
    DT_CPU(dropout_backward)
    (stream, dropped, x, N, pair->C, &pair->dropout);
    return dropped;
}

void DT_CPU(low_rank_forward)(struct dt_stream *stream, struct dt_view out,
                              struct dt_view x, const struct dt_low_rank *pair,
                              size_t N)
{
    assert(x.count == N * pair->C && out.count == N * pair->width);
    assert(x.dtype == pair->a.dtype && out.dtype == x.dtype);

    reduce_input(drop_input(stream, x, pair, N), pair, N);
    update_rows(&(struct update){
        .out = out,
        .w = pair->b,
        .l = dt_view_f32(pair->low),
        .N = N,
        .R = pair->R,
        .width = pair->width,
        .first = pair->first,
        .count = pair->OC,
        .transposed = true,
    });
}

/* dx += dropout of dropped, which has d a */
static void add_dropped(struct dt_view dx, const struct dt_low_rank *pair,
                        size_t N)
{
    const size_t C = pair->C, T = N / pair->dropout.rows.count;

#pragma omp parallel for schedule(static) if (N * C > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        for (size_t c = 0; c < C; c += DT_CPU_BLOCK) {
            const size_t at = n * C + c, count = dt_cpu_block(c, C);
            float grad[DT_CPU_BLOCK], buffer[DT_CPU_BLOCK], sum[DT_CPU_BLOCK];
            const float *g = dt_cpu_read(buffer, pair->dropped, at, count);
            memcpy(grad, g, count * sizeof(*grad));
            DT_CPU(dropout_apply)
            (grad, &pair->dropout, n / T, n % T * C + c, count);
            const float *before = dt_cpu_read(buffer, dx, at, count);
            float *to = dt_cpu_place(sum, dx, at);
#pragma omp simd
            for (size_t i = 0; i < count; i++)
                to[i] = before[i] + grad[i];
            dt_cpu_write(dx, at, to, count);
        }
    }
}

/* dx += d a, through dropout if there is any */
static void input_backward(struct dt_stream *stream, struct dt_view dx,
                           const struct dt_low_rank *pair, size_t N)
{
    const bool drops = pair->dropout.rate > 0;
    const struct update update = {
        .out = drops ? dt_view_slice(pair->dropped, 0, N * pair->C) : dx,
        .w = pair->a,
        .l = dt_view_f32(pair->low),
        .N = N,
        .R = pair->R,
        .width = pair->C,
        .count = pair->C,
    };
    if (drops)
        DT_CPU(zero)(stream, update.out);
    update_rows(&update);
    if (drops)
        add_dropped(dx, pair, N);
}

void DT_CPU(low_rank_backward)(struct dt_stream *stream, struct dt_view dx,
                               struct dt_view da, struct dt_view db,
                               struct dt_view dout, struct dt_view x,
                               const struct dt_low_rank *pair, size_t N,
                               bool accumulate)
{
    assert(x.count == N * pair->C && dout.count == N * pair->width);
    assert(dx.count == 0 || (dx.count == x.count && dx.dtype == x.dtype));
    assert(x.dtype == pair->a.dtype && dout.dtype == x.dtype);

    x = drop_input(stream, x, pair, N);
    reduce_input(x, pair, N);
    reduce_rows(&(struct reduction){
        .x = dout,
        .l = dt_view_f32(pair->low),
        .d = dt_cpu_f32(db, pair->b.count),
        .N = N,
        .R = pair->R,
        .width = pair->width,
        .first = pair->first,
        .count = pair->OC,
        .transposed = true,
        .accumulate = accumulate,
    });
    reduce_gradient(dout, pair, N);
    reduce_rows(&(struct reduction){
        .x = x,
        .l = dt_view_f32(pair->low),
        .d = dt_cpu_f32(da, pair->a.count),
        .N = N,
        .R = pair->R,
        .width = pair->C,
        .count = pair->C,
        .accumulate = accumulate,
    });
    if (dx.count > 0)
        input_backward(stream, dx, pair, N);
}
