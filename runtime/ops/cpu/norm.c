/* SPDX-License-Identifier: Apache-2.0 */
/*
 * norm.c - LayerNorm, RMSNorm and the residual additions before them
 *
 * With h = (x - mean) rstd, of a row: out = w h + b. RMSNorm has no mean, and
 * RMSNorm over all heads of q, or of k, is the same for a part of each row of
 * qkv.
 */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/dropout.h"

/* A row of C elements, in blocks. */
struct norm {
    struct dt_view out, mean, rstd, x, w, b; /* mean and b absent: RMSNorm */
    struct dt_norm_rule rule;
    size_t C;
};

static float mean_of_row(const struct norm *l, size_t n)
{
    float buffer[DT_CPU_BLOCK], sum = 0.0f;

    for (size_t c = 0; c < l->C; c += DT_CPU_BLOCK) {
        size_t count = dt_cpu_block(c, l->C);
        const float *x = dt_cpu_read(buffer, l->x, n * l->C + c, count);
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < count; i++)
            sum += x[i];
    }
    return sum / (float)l->C;
}

/* The mean of (x - center)^2, in a second pass over the row, which is still in
 * the cache: a variance from the sum of squares would lose digits.
 */
static float square_of_row(const struct norm *l, size_t n, float center)
{
    float buffer[DT_CPU_BLOCK], sum = 0.0f;

    for (size_t c = 0; c < l->C; c += DT_CPU_BLOCK) {
        size_t count = dt_cpu_block(c, l->C);
        const float *x = dt_cpu_read(buffer, l->x, n * l->C + c, count);
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < count; i++)
            sum += (x[i] - center) * (x[i] - center);
    }
    return sum / (float)l->C;
}

static void norm_block(const struct norm *l, size_t n, size_t c, float center,
                       float scale)
{
    float input[DT_CPU_BLOCK], weight[DT_CPU_BLOCK], bias[DT_CPU_BLOCK];
    float output[DT_CPU_BLOCK];
    size_t count = dt_cpu_block(c, l->C), at = n * l->C + c;
    const float *x = dt_cpu_read(input, l->x, at, count);
    const float *w = dt_cpu_read(weight, l->w, c, count);
    float *out = dt_cpu_place(output, l->out, at);
    const float shift = l->rule.shift;

    if (l->b.count != 0) {
        const float *b = dt_cpu_read(bias, l->b, c, count);
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            out[i] = (x[i] - center) * scale * (w[i] + shift) + b[i];
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            out[i] = x[i] * scale * (w[i] + shift);
    }
    dt_cpu_write(l->out, at, out, count);
}

static void norm_row(const struct norm *l, size_t n)
{
    bool centered = l->mean.count != 0;
    float center = centered ? mean_of_row(l, n) : 0.0f;
    float scale = 1.0f / sqrtf(square_of_row(l, n, center) + l->rule.eps);

    for (size_t c = 0; c < l->C; c += DT_CPU_BLOCK)
        norm_block(l, n, c, center, scale);
    if (centered)
        dt_view_f32(l->mean)[n] = center;
    dt_view_f32(l->rstd)[n] = scale;
}

static void check_norm(const struct norm *l, size_t N)
{
    assert(l->out.count == N * l->C && l->x.count == N * l->C);
    assert(l->w.count == l->C && l->rstd.count == N);
    assert(N == 0 || (l->b.count == 0) == (l->mean.count == 0));
    (void)l;
    (void)N;
}

void DT_CPU(norm_forward)(struct dt_stream *stream, struct dt_view out,
                          struct dt_view mean, struct dt_view rstd,
                          struct dt_view x, struct dt_view w, struct dt_view b,
                          struct dt_norm_rule rule, size_t N, size_t C)
{
    const struct norm l = {out, mean, rstd, x, w, b, rule, C};
    (void)stream;

    check_norm(&l, N);
#pragma omp parallel for schedule(static) if (N * C > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++)
        norm_row(&l, n);
}

/* Elements [at, at + count) of sum = x + dropout of y, `first` in their row b.
 */
static void add_residual(struct dt_view sum, struct dt_view x, struct dt_view y,
                         const struct dt_dropout *dropout, size_t at, size_t b,
                         size_t first, size_t count)
{
    float left[DT_CPU_BLOCK], right[DT_CPU_BLOCK], output[DT_CPU_BLOCK];
    const float *l = dt_cpu_read(left, x, at, count);
    const float *r = dt_cpu_read(right, y, at, count);
    float *out = dt_cpu_place(output, sum, at);

    if (dropout->rate > 0.0) {
        memmove(right, r, count * sizeof(*right));
        DT_CPU(dropout_apply)(right, dropout, b, first, count);
        r = right;
    }
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = l[i] + r[i];
    dt_cpu_write(sum, at, out, count);
}

void DT_CPU(residual_norm_forward)(struct dt_stream *stream, struct dt_view sum,
                                   struct dt_view out, struct dt_view mean,
                                   struct dt_view rstd, struct dt_view x,
                                   struct dt_view y, struct dt_view w,
                                   struct dt_view b, struct dt_norm_rule rule,
                                   size_t N, size_t C,
                                   const struct dt_dropout *dropout)
{
    const struct norm l = {out, mean, rstd, sum, w, b, rule, C};
    const size_t T = dropout->rate > 0.0 ? N / dropout->rows.count : N;
    (void)stream;
    check_norm(&l, N);
    assert(x.count == N * C && y.count == N * C);

#pragma omp parallel for schedule(static) if (N * C > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        for (size_t c = 0; c < C; c += DT_CPU_BLOCK)
            add_residual(sum, x, y, dropout, n * C + c, n / T, n % T * C + c,
                         dt_cpu_block(c, C));
        norm_row(&l, n);
    }
}

struct norm_grad {
    struct dt_view dx, dout, x, w, mean, rstd; /* mean absent: RMSNorm */
    float shift;
    size_t C;
};

static float row_mean(const struct norm_grad *g, size_t n)
{
    return g->mean.count != 0 ? dt_view_f32(g->mean)[n] : 0.0f;
}

/* With h = (x - mean) rstd and g = w dout, of a row:
 *   dx += rstd (g - mean(g) - h mean(g h)), for RMSNorm without mean(g)
 */
static void norm_backward_row(const struct norm_grad *l, size_t n)
{
    float grad[DT_CPU_BLOCK], input[DT_CPU_BLOCK], weight[DT_CPU_BLOCK];
    float result[DT_CPU_BLOCK];
    float mean = row_mean(l, n), rstd = dt_view_f32(l->rstd)[n];
    float sum = 0.0f, product = 0.0f;

    for (size_t c = 0; c < l->C; c += DT_CPU_BLOCK) {
        size_t count = dt_cpu_block(c, l->C), at = n * l->C + c;
        const float *g = dt_cpu_read(grad, l->dout, at, count);
        const float *x = dt_cpu_read(input, l->x, at, count);
        const float *w = dt_cpu_read(weight, l->w, c, count);
#pragma omp simd reduction(+ : sum, product)
        for (size_t i = 0; i < count; i++) {
            float wg = (w[i] + l->shift) * g[i];
            sum += wg;
            product += wg * (x[i] - mean);
        }
    }
    sum = l->mean.count != 0 ? sum / (float)l->C : 0.0f;
    product *= rstd * rstd / (float)l->C;
    for (size_t c = 0; c < l->C; c += DT_CPU_BLOCK) {
        size_t count = dt_cpu_block(c, l->C), at = n * l->C + c;
        const float *g = dt_cpu_read(grad, l->dout, at, count);
        const float *x = dt_cpu_read(input, l->x, at, count);
        const float *w = dt_cpu_read(weight, l->w, c, count);
        const float *before = dt_cpu_read(result, l->dx, at, count);
        float *dx = dt_cpu_place(result, l->dx, at);
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            dx[i] = before[i] + rstd * ((w[i] + l->shift) * g[i] - sum -
                                        (x[i] - mean) * product);
        dt_cpu_write(l->dx, at, dx, count);
    }
}

/* dw and, unless it is NULL, db of the columns [first, first + count), summed
 * in the order of rows.
 */
static void norm_backward_columns(const struct norm_grad *l, float *restrict dw,
                                  float *restrict db, size_t N, size_t first,
                                  size_t count)
{
    float grad[DT_CPU_BLOCK], input[DT_CPU_BLOCK];

    for (size_t n = 0; n < N; n++) {
        const float *g = dt_cpu_read(grad, l->dout, n * l->C + first, count);
        const float *x = dt_cpu_read(input, l->x, n * l->C + first, count);
        float mean = row_mean(l, n), rstd = dt_view_f32(l->rstd)[n];
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            dw[i] += g[i] * (x[i] - mean) * rstd;
        if (!db)
            continue;
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            db[i] += g[i];
    }
}

void DT_CPU(norm_backward)(struct dt_stream *stream, struct dt_view dx,
                           struct dt_view dw, struct dt_view db,
                           struct dt_view sums, struct dt_view dout,
                           struct dt_view x, struct dt_view w,
                           struct dt_view mean, struct dt_view rstd,
                           float shift, size_t N, size_t C, bool accumulate)
{
    const struct norm_grad l = {dx, dout, x, w, mean, rstd, shift, C};
    float *weight = dw.count != 0 ? dt_cpu_f32(dw, C) : NULL;
    float *bias = db.count != 0 ? dt_cpu_f32(db, C) : NULL;
    (void)stream;
    (void)sums;
    assert(dx.count == N * C && dout.count == N * C && x.count == N * C);
    assert(db.count == 0 || mean.count == N);
    assert(sums.count == 0); /* they would be one more pass */
    assert(weight || !bias);

#pragma omp parallel if (N * C > DT_CPU_SMALL)
    {
        size_t first, end;
#pragma omp for schedule(static) nowait
        for (size_t n = 0; n < N; n++)
            norm_backward_row(&l, n);
        dt_cpu_share(weight ? C : 0, &first, &end);
        for (size_t c = first; c < end && !accumulate; c++) {
            weight[c] = 0.0f;
            if (bias)
                bias[c] = 0.0f;
        }
        for (; first < end; first += DT_CPU_BLOCK)
            norm_backward_columns(&l, weight + first,
                                  bias ? bias + first : NULL, N, first,
                                  dt_cpu_block(first, end));
    }
}

/* --- RMSNorm over all heads of q, and over all heads of k --- */

/* q or k: `width` elements from `first` on of each row. */
struct part {
    struct dt_view w, dw; /* dw absent: forward, or frozen */
    size_t first, width;
};

struct heads {
    struct dt_view out, qkv, rstd; /* out: dqkv in backward */
    struct part parts[2];
    size_t row; /* elements of a row of qkv */
    float eps;
};

static struct heads heads_of(struct dt_view out, struct dt_view qkv,
                             struct dt_view rstd, const struct dt_heads_norm *h)
{
    const size_t q = h->NH * h->HS, k = h->NKV * h->HS;

    assert(h->q_norm.count == q && h->k_norm.count == k);
    assert(out.count == qkv.count);
    return (struct heads){
        .out = out,
        .qkv = qkv,
        .rstd = rstd,
        .parts = {{.w = h->q_norm, .first = 0, .width = q},
                  {.w = h->k_norm, .first = q, .width = k}},
        .row = q + 2 * k,
        .eps = h->eps,
    };
}

static float square_of(const struct heads *h, size_t at, size_t width)
{
    float buffer[DT_CPU_BLOCK], sum = 0.0f;

    for (size_t c = 0; c < width; c += DT_CPU_BLOCK) {
        size_t count = dt_cpu_block(c, width);
        const float *x = dt_cpu_read(buffer, h->qkv, at + c, count);
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < count; i++)
            sum += x[i] * x[i];
    }
    return sum / (float)width;
}

static void norm_part(const struct heads *h, size_t n, size_t p)
{
    const struct part *part = &h->parts[p];
    const size_t at = n * h->row + part->first;
    const float rstd = 1.0f / sqrtf(square_of(h, at, part->width) + h->eps);
    float input[DT_CPU_BLOCK], weight[DT_CPU_BLOCK], output[DT_CPU_BLOCK];

    for (size_t c = 0; c < part->width; c += DT_CPU_BLOCK) {
        size_t count = dt_cpu_block(c, part->width);
        const float *x = dt_cpu_read(input, h->qkv, at + c, count);
        const float *w = dt_cpu_read(weight, part->w, c, count);
        float *to = dt_cpu_place(output, h->out, at + c);
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            to[i] = x[i] * rstd * w[i];
        dt_cpu_write(h->out, at + c, to, count);
    }
    dt_view_f32(h->rstd)[2 * n + p] = rstd;
}

static void copy_values(const struct heads *h, size_t n)
{
    const struct part *k = &h->parts[1];
    const size_t at = n * h->row + k->first + k->width;
    const void *from = dt_cpu_at(dt_view_data(h->qkv), h->qkv.dtype, at);
    void *to = (void *)dt_cpu_at(dt_view_data(h->out), h->out.dtype, at);

    if (to != from)
        memcpy(to, from, k->width * dt_dtype_bytes(h->qkv.dtype));
}

void DT_CPU(heads_norm_forward)(struct dt_stream *stream, struct dt_view out,
                                struct dt_view rstd, struct dt_view qkv,
                                size_t N, const struct dt_heads_norm *norm)
{
    const struct heads h = heads_of(out, qkv, rstd, norm);
    (void)stream;
    assert(qkv.count == N * h.row && rstd.count == 2 * N);

#pragma omp parallel for schedule(static) if (qkv.count > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        norm_part(&h, n, 0);
        norm_part(&h, n, 1);
        copy_values(&h, n);
    }
}

/* dw of the columns [first, first + count), summed in the order of rows */
static void add_columns(const struct heads *h, size_t p, size_t N, size_t first,
                        size_t count)
{
    const struct part *part = &h->parts[p];
    float grad[DT_CPU_BLOCK], input[DT_CPU_BLOCK];
    float *dw = dt_view_f32(part->dw) + first;

    for (size_t n = 0; n < N; n++) {
        const size_t at = n * h->row + part->first + first;
        const float rstd = dt_view_f32(h->rstd)[2 * n + p];
        const float *dy = dt_cpu_read(grad, h->out, at, count);
        const float *x = dt_cpu_read(input, h->qkv, at, count);
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            dw[i] += dy[i] * x[i] * rstd;
    }
}

/* The mean of w dy x over a part of row n. */
static float product_of(const struct heads *h, size_t n, size_t p)
{
    const struct part *part = &h->parts[p];
    const size_t at = n * h->row + part->first;
    float grad[DT_CPU_BLOCK], input[DT_CPU_BLOCK], weight[DT_CPU_BLOCK];
    float sum = 0.0f;

    for (size_t c = 0; c < part->width; c += DT_CPU_BLOCK) {
        size_t count = dt_cpu_block(c, part->width);
        const float *dy = dt_cpu_read(grad, h->out, at + c, count);
        const float *x = dt_cpu_read(input, h->qkv, at + c, count);
        const float *w = dt_cpu_read(weight, part->w, c, count);
#pragma omp simd reduction(+ : sum)
        for (size_t i = 0; i < count; i++)
            sum += w[i] * dy[i] * x[i];
    }
    return sum / (float)part->width;
}

/* dx = rstd (w dy - x rstd^2 mean(w dy x)), in the place of dy */
static void norm_part_backward(const struct heads *h, size_t n, size_t p)
{
    const struct part *part = &h->parts[p];
    const size_t at = n * h->row + part->first;
    const float rstd = dt_view_f32(h->rstd)[2 * n + p];
    const float product = product_of(h, n, p) * rstd * rstd;
    float grad[DT_CPU_BLOCK], input[DT_CPU_BLOCK], weight[DT_CPU_BLOCK];

    for (size_t c = 0; c < part->width; c += DT_CPU_BLOCK) {
        size_t count = dt_cpu_block(c, part->width);
        const float *x = dt_cpu_read(input, h->qkv, at + c, count);
        const float *w = dt_cpu_read(weight, part->w, c, count);
        float *dy = dt_cpu_place(grad, h->out, at + c);
        dt_cpu_read(grad, h->out, at + c, count);
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            dy[i] = rstd * (w[i] * dy[i] - x[i] * product);
        dt_cpu_write(h->out, at + c, dy, count);
    }
}

void DT_CPU(heads_norm_backward)(struct dt_stream *stream, struct dt_view dqkv,
                                 struct dt_view dq_norm, struct dt_view dk_norm,
                                 struct dt_view qkv, struct dt_view rstd,
                                 size_t N, const struct dt_heads_norm *norm,
                                 bool accumulate)
{
    struct heads h = heads_of(dqkv, qkv, rstd, norm);
    (void)stream;
    h.parts[0].dw = dq_norm;
    h.parts[1].dw = dk_norm;
    assert(qkv.count == N * h.row && rstd.count == 2 * N);
    assert(dq_norm.count == 0 || dq_norm.count == h.parts[0].width);
    assert(dk_norm.count == 0 || dk_norm.count == h.parts[1].width);

#pragma omp parallel if (qkv.count > DT_CPU_SMALL)
    {
        for (size_t p = 0; p < 2; p++) {
            const struct dt_view dw = h.parts[p].dw;
            size_t first, end;
            dt_cpu_share(dw.count, &first, &end);
            for (size_t c = first; c < end && !accumulate; c++)
                dt_view_f32(dw)[c] = 0.0f;
            for (; first < end; first += DT_CPU_BLOCK)
                add_columns(&h, p, N, first, dt_cpu_block(first, end));
        }
#pragma omp barrier
#pragma omp for schedule(static)
        for (size_t n = 0; n < N; n++) {
            norm_part_backward(&h, n, 0);
            norm_part_backward(&h, n, 1);
        }
    }
}
