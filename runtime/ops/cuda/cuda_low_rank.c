/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_low_rank.c - pairs of low rank as matrix multiplications
 *
 * With l = x a^T, of R columns: out += scale l b^T. Backward: db = scale dout^T
 * l; with d = dout b: da = scale d^T x, dx += scale d a. l and d are rounded to
 * X, which the library needs of an operand, as PEFT rounds them.
 */
#include "config.h"

#include "ops/cuda/cuda.h"

/* (N,R) X in the memory of the workspace `low` */
static struct dt_view low_of(const struct dt_low_rank *pair, size_t N)
{
    const enum dt_dtype type = pair->a.dtype;
    struct dt_view low = pair->low;

    assert(low.dtype == DT_F32 && low.count >= N * pair->R);
    low.offset *= sizeof(float) / dt_dtype_bytes(type);
    low.count = N * pair->R;
    low.dtype = type;
    return low;
}

/* The columns of `pair` in rows of `width`; the last one ends with the row. No
 * rows have none.
 */
static struct dt_view columns_of(struct dt_view wide,
                                 const struct dt_low_rank *pair, size_t N)
{
    if (N == 0)
        return dt_view_slice(wide, 0, 0);
    return dt_view_slice(wide, pair->first, (N - 1) * pair->width + pair->OC);
}

/* x, after dropout if there is any. */
static struct dt_view drop_input(struct dt_stream *stream, struct dt_view x,
                                 const struct dt_low_rank *pair, size_t N)
{
    struct dt_view dropped = x;

    if (pair->dropout.rate == 0)
        return x;
    dropped = dt_view_slice(pair->dropped, 0, x.count);
    dt_cuda_dropout_backward(stream, dropped, x, N, pair->C, &pair->dropout);
    return dropped;
}

static void check_pair(const struct dt_low_rank *pair, struct dt_view x,
                       struct dt_view wide, size_t N)
{
    (void)pair, (void)x, (void)wide, (void)N;
    assert(x.count == N * pair->C && wide.count == N * pair->width);
    assert(pair->a.count == pair->R * pair->C && pair->a.dtype == x.dtype);
    assert(pair->b.count == pair->OC * pair->R && pair->b.dtype == x.dtype);
    assert(wide.dtype == x.dtype && pair->first + pair->OC <= pair->width);
}

/* l = x a^T */
static void reduce_input(struct dt_stream *stream, struct dt_view low,
                         struct dt_view x, const struct dt_low_rank *pair,
                         size_t N)
{
    const struct dt_cuda_matmul mm = {
        .M = N,
        .N = pair->R,
        .K = pair->C,
        .tb = true,
        .a = x,
        .b = pair->a,
        .d = low,
    };
    dt_cuda_matmul(stream, &mm);
}

void dt_cuda_low_rank_forward(struct dt_stream *stream, struct dt_view out,
                              struct dt_view x, const struct dt_low_rank *pair,
                              size_t N)
{
    const struct dt_view low = low_of(pair, N);
    const struct dt_cuda_matmul mm = {
        .M = N,
        .N = pair->OC,
        .K = pair->R,
        .tb = true,
        .a = low,
        .b = pair->b,
        .d = columns_of(out, pair, N),
        .ldd = pair->width,
        .scale = pair->scale,
        .accumulate = true,
    };

    check_pair(pair, x, out, N);
    if (pair->scale == 0.0f || N == 0)
        return;
    reduce_input(stream, low, drop_input(stream, x, pair, N), pair, N);
    dt_cuda_matmul(stream, &mm);
}

/* Of a pair that counts for nothing, as struct dt_cuda_matmul has no scale 0,
 * or of no rows.
 */
static void zero_sums(struct dt_stream *stream, struct dt_view da,
                      struct dt_view db, bool accumulate)
{
    if (accumulate)
        return;
    dt_cuda_zero(stream, da);
    dt_cuda_zero(stream, db);
}

/* d(M,N) = or += scale a^T b, sums over the rows of the batch */
static void sum_rows(struct dt_stream *stream, struct dt_cuda_matmul *mm,
                     const struct dt_low_rank *pair, size_t N, bool accumulate)
{
    assert(mm->d.dtype == DT_F32 && mm->d.count == mm->M * mm->N);
    mm->K = N;
    mm->ta = true;
    mm->scale = pair->scale;
    mm->accumulate = accumulate;
    dt_cuda_matmul(stream, mm);
}

/* dx += scale d a, through dropout if there is any */
static void input_backward(struct dt_stream *stream, struct dt_view dx,
                           struct dt_view low, const struct dt_low_rank *pair,
                           size_t N)
{
    const bool drops = pair->dropout.rate > 0;
    const struct dt_cuda_matmul mm = {
        .M = N,
        .N = pair->C,
        .K = pair->R,
        .a = low,
        .b = pair->a,
        .d = drops ? dt_view_slice(pair->dropped, 0, dx.count) : dx,
        .scale = pair->scale,
        .accumulate = !drops,
    };

    dt_cuda_matmul(stream, &mm);
    if (drops)
        dt_cuda_add_dropped(stream, dx, mm.d, N, pair->C, &pair->dropout);
}

void dt_cuda_low_rank_backward(struct dt_stream *stream, struct dt_view dx,
                               struct dt_view da, struct dt_view db,
                               struct dt_view dout, struct dt_view x,
                               const struct dt_low_rank *pair, size_t N,
                               bool accumulate)
{
    const struct dt_view low = low_of(pair, N);
    const struct dt_view columns = columns_of(dout, pair, N);
    const struct dt_cuda_matmul reduce = {
        .M = N,
        .N = pair->R,
        .K = pair->OC,
        .a = columns,
        .lda = pair->width,
        .b = pair->b,
        .d = low,
    };
    struct dt_cuda_matmul b_sum = {
        .M = pair->OC,
        .N = pair->R,
        .a = columns,
        .lda = pair->width,
        .b = low,
        .d = db,
    };
    struct dt_cuda_matmul a_sum = {
        .M = pair->R,
        .N = pair->C,
        .a = low,
        .d = da,
    };

    check_pair(pair, x, dout, N);
    assert(dx.count == 0 || (dx.count == x.count && dx.dtype == x.dtype));
    if (pair->scale == 0.0f || N == 0) {
        zero_sums(stream, da, db, accumulate);
        return;
    }
    a_sum.b = drop_input(stream, x, pair, N);
    reduce_input(stream, low, a_sum.b, pair, N);
    sum_rows(stream, &b_sum, pair, N, accumulate);
    dt_cuda_matmul(stream, &reduce);
    sum_rows(stream, &a_sum, pair, N, accumulate);
    if (dx.count > 0)
        input_backward(stream, dx, low, pair, N);
}
