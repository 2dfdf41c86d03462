/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heads_norm.c - RMSNorm over all heads of q, and over all heads of k
 *
 * As norm.c, of parts of the rows of qkv. Backward, in place: dw += dy x rstd,
 * dx = rstd (w dy - x rstd^2 mean(w dy x))
 */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"

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
