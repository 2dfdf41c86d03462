/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rope.c - RoPE: heads of q and k normed and rotated by their position
 *
 * With the norm y = x rstd w of a head and the pairs (a, b) = y[j], y[j +
 * R/2]: out = (a cos - b sin, b cos + a sin). Backward: dy is dout rotated the
 * other way, and dw += dy x rstd,  dx = rstd (w dy - x rstd^2 mean(w dy x))
 */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"

/* Sums over rows have this many parts, whatever the number of threads. */
enum { PARTS = 32 };

_Static_assert((int)DT_MAX_HEAD_SIZE <= (int)DT_CPU_BLOCK,
               "a head is one block");

static size_t rotated_heads(const struct dt_rope *r)
{
    return r->NH + r->NKV;
}

/* Cosines of row n, then sines: in the table, or gathered into buffer(R) by the
 * axes of the pairs.
 */
static const float *angles_of(const struct dt_rope *r, float *buffer, size_t n,
                              size_t N)
{
    const float *table = dt_view_f32(r->table);
    const int32_t *position = dt_view_i32(r->positions) + n;
    const size_t half = r->R / 2;

    if (r->axis.count == 0)
        return table + (size_t)*position * r->R;
    for (size_t j = 0; j < half; j++) {
        const size_t axis = (size_t)dt_view_i32(r->axis)[j];
        const float *from = table + (size_t)position[axis * N] * r->R;
        buffer[j] = from[j];
        buffer[half + j] = from[half + j];
    }
    return buffer;
}

static void check_rope(const struct dt_rope *r, size_t N)
{
    assert(r->R % 2 == 0 && r->R <= r->HS && r->HS <= DT_MAX_HEAD_SIZE);
    assert(r->axis.count == 0 || r->axis.count == r->R / 2);
    assert(r->positions.count >= N);
    assert(N == 0 || r->positions.count % N == 0);
    (void)r;
    (void)N;
}

/* The weight of the norm of head h; absent without a norm. */
static struct dt_view norm_of(const struct dt_rope *r, size_t h)
{
    return h < r->NH ? r->q_norm : r->k_norm;
}

/* x(R) rotated in place; sign -1 is the transpose. */
static void rotate_head(float *restrict x, const float *restrict table,
                        float sign, size_t R)
{
    float *restrict high = x + R / 2;
    const float *restrict sines = table + R / 2;

#pragma omp simd
    for (size_t j = 0; j < R / 2; j++) {
        float a = x[j], b = high[j], sine = sign * sines[j];
        x[j] = a * table[j] - b * sine;
        high[j] = b * table[j] + a * sine;
    }
}

static float norm_head(float *restrict x, struct dt_view weight,
                       struct dt_norm_rule rule, size_t HS)
{
    float buffer[DT_CPU_BLOCK], sum = 0.0f, rstd;
    const float *w = dt_cpu_read(buffer, weight, 0, HS);

#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < HS; j++)
        sum += x[j] * x[j];
    rstd = 1.0f / sqrtf(sum / (float)HS + rule.eps);
#pragma omp simd
    for (size_t j = 0; j < HS; j++)
        x[j] *= rstd * (w[j] + rule.shift);
    return rstd;
}

static void rope_row(struct dt_view out, struct dt_view rstd,
                     struct dt_view qkv, size_t n, size_t N,
                     const struct dt_rope *r)
{
    const size_t width = (rotated_heads(r) + r->NKV) * r->HS;
    float x[DT_CPU_BLOCK], buffer[DT_MAX_HEAD_SIZE];
    const float *angles = angles_of(r, buffer, n, N);

    for (size_t h = 0; h < rotated_heads(r) + r->NKV; h++) {
        size_t at = n * width + h * r->HS;
        dt_cpu_widen(x, dt_cpu_at(dt_view_data(qkv), qkv.dtype, at), qkv.dtype,
                     r->HS);
        if (h < rotated_heads(r)) {
            if (norm_of(r, h).count != 0)
                dt_view_f32(rstd)[n * rotated_heads(r) + h] =
                    norm_head(x, norm_of(r, h), r->norm, r->HS);
            rotate_head(x, angles, 1.0f, r->R);
        }
        dt_cpu_narrow((void *)dt_cpu_at(dt_view_data(out), out.dtype, at), x,
                      out.dtype, r->HS);
    }
}

void DT_CPU(rope_forward)(struct dt_stream *stream, struct dt_view out,
                          struct dt_view rstd, struct dt_view qkv, size_t N,
                          const struct dt_rope *rope)
{
    (void)stream;
    check_rope(rope, N);
    assert(qkv.count == N * (rotated_heads(rope) + rope->NKV) * rope->HS);
    assert(out.count == qkv.count);

#pragma omp parallel for schedule(static) if (qkv.count > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++)
        rope_row(out, rstd, qkv, n, N, rope);
}

/* dy becomes dx; dw += dy x rstd */
static void norm_head_backward(float *restrict dy, float *restrict dw,
                               const float *restrict x, struct dt_view weight,
                               float shift, float rstd, size_t HS)
{
    float buffer[DT_CPU_BLOCK], product = 0.0f;
    const float *w = dt_cpu_read(buffer, weight, 0, HS);

#pragma omp simd reduction(+ : product)
    for (size_t j = 0; j < HS; j++) {
        dw[j] += dy[j] * x[j] * rstd;
        product += (w[j] + shift) * dy[j] * x[j];
    }
    product *= rstd * rstd / (float)HS;
#pragma omp simd
    for (size_t j = 0; j < HS; j++)
        dy[j] = rstd * ((w[j] + shift) * dy[j] - x[j] * product);
}

struct backward_args {
    struct dt_view dqkv, qkv, rstd;
    const struct dt_rope *r;
    size_t N;
};

/* dw: of q_norm, then of k_norm, HS each */
static void rope_row_backward(const struct backward_args *g, float *dw,
                              size_t n)
{
    const struct dt_rope *r = g->r;
    const size_t width = (rotated_heads(r) + r->NKV) * r->HS;
    float grad[DT_CPU_BLOCK], input[DT_CPU_BLOCK], buffer[DT_MAX_HEAD_SIZE];
    const float *angles = angles_of(r, buffer, n, g->N);

    for (size_t h = 0; h < rotated_heads(r); h++) {
        size_t at = n * width + h * r->HS;
        struct dt_view weight = norm_of(r, h);
        float *dy = dt_cpu_place(grad, g->dqkv, at);
        dt_cpu_read(grad, g->dqkv, at, r->HS);
        rotate_head(dy, angles, -1.0f, r->R);
        if (weight.count != 0)
            norm_head_backward(
                dy, h < r->NH ? dw : dw + r->HS,
                dt_cpu_read(input, g->qkv, at, r->HS), weight, r->norm.shift,
                dt_view_f32(g->rstd)[n * rotated_heads(r) + h], r->HS);
        dt_cpu_write(g->dqkv, at, dy, r->HS);
    }
}

/* to(HS) = or += column sums of parts, rows 2 HS apart */
static void add_norm_parts(struct dt_view to, const float *parts, size_t HS,
                           bool accumulate)
{
    float *sum = dt_cpu_f32(to, HS);

    for (size_t j = 0; j < HS; j++) {
        float total = accumulate ? sum[j] : 0.0f;
        for (size_t i = 0; i < PARTS; i++)
            total += parts[i * 2 * HS + j];
        sum[j] = total;
    }
}

void DT_CPU(rope_backward)(struct dt_stream *stream, struct dt_view dqkv,
                           struct dt_view dq_norm, struct dt_view dk_norm,
                           struct dt_view qkv, struct dt_view rstd, size_t N,
                           const struct dt_rope *rope, bool accumulate)
{
    const struct backward_args g = {dqkv, qkv, rstd, rope, N};
    const size_t HS = rope->HS;
    float parts[PARTS * 2 * DT_MAX_HEAD_SIZE];
    (void)stream;
    check_rope(rope, N);
    assert(dqkv.count == N * (rotated_heads(rope) + rope->NKV) * HS);

#pragma omp parallel for schedule(static) if (dqkv.count > DT_CPU_SMALL)
    for (size_t i = 0; i < PARTS; i++) {
        float *dw = parts + i * 2 * HS;
        memset(dw, 0, 2 * HS * sizeof(*dw));
        for (size_t n = N * i / PARTS; n < N * (i + 1) / PARTS; n++)
            rope_row_backward(&g, dw, n);
    }
    if (dq_norm.count != 0)
        add_norm_parts(dq_norm, parts, HS, accumulate);
    if (dk_norm.count != 0)
        add_norm_parts(dk_norm, parts + HS, HS, accumulate);
}
