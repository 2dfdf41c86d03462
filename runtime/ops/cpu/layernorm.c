/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm.c - layer norm and the residual additions before it */
#include "config.h"

#include <math.h>

#include "ops/cpu/cpu.h"

/* Two passes over a row that stays in the cache: a variance from the sum of
 * squares would lose digits.
 */
static void norm_row(float *restrict out, float *mean, float *rstd,
                     const float *restrict x, const float *restrict w,
                     const float *restrict b, float eps, size_t C)
{
    float sum = 0.0f, squares = 0.0f, center, scale;

#pragma omp simd reduction(+ : sum)
    for (size_t c = 0; c < C; c++)
        sum += x[c];
    center = sum / (float)C;
#pragma omp simd reduction(+ : squares)
    for (size_t c = 0; c < C; c++)
        squares += (x[c] - center) * (x[c] - center);
    scale = 1.0f / sqrtf(squares / (float)C + eps);
#pragma omp simd
    for (size_t c = 0; c < C; c++)
        out[c] = (x[c] - center) * scale * w[c] + b[c];
    *mean = center;
    *rstd = scale;
}

void DT_CPU(layernorm_forward)(struct dt_stream *stream, struct dt_view out,
                               struct dt_view mean, struct dt_view rstd,
                               struct dt_view x, struct dt_view w,
                               struct dt_view b, float eps, size_t N, size_t C)
{
    float *to = dt_cpu_f32(out, N * C);
    float *m = dt_cpu_f32(mean, N);
    float *r = dt_cpu_f32(rstd, N);
    const float *from = dt_cpu_f32(x, N * C);
    const float *weight = dt_cpu_f32(w, C);
    const float *bias = dt_cpu_f32(b, C);
    (void)stream;

#pragma omp parallel for schedule(static)
    for (size_t n = 0; n < N; n++)
        norm_row(to + n * C, &m[n], &r[n], from + n * C, weight, bias, eps, C);
}

void DT_CPU(residual_layernorm_forward)(struct dt_stream *stream,
                                        struct dt_view sum, struct dt_view out,
                                        struct dt_view mean,
                                        struct dt_view rstd, struct dt_view x,
                                        struct dt_view y, struct dt_view w,
                                        struct dt_view b, float eps, size_t N,
                                        size_t C)
{
    float *total = dt_cpu_f32(sum, N * C);
    float *to = dt_cpu_f32(out, N * C);
    float *m = dt_cpu_f32(mean, N);
    float *r = dt_cpu_f32(rstd, N);
    const float *left = dt_cpu_f32(x, N * C);
    const float *right = dt_cpu_f32(y, N * C);
    const float *weight = dt_cpu_f32(w, C);
    const float *bias = dt_cpu_f32(b, C);
    (void)stream;

#pragma omp parallel for schedule(static)
    for (size_t n = 0; n < N; n++) {
        float *row = total + n * C;
#pragma omp simd
        for (size_t c = 0; c < C; c++)
            row[c] = left[n * C + c] + right[n * C + c];
        norm_row(to + n * C, &m[n], &r[n], row, weight, bias, eps, C);
    }
}

/* dx += rstd (w g - mean(w g) - h mean(w g h)), h = (x - mean) rstd. */
static void backward_row(float *restrict dx, const float *restrict g,
                         const float *restrict x, const float *restrict w,
                         float mean, float rstd, size_t C)
{
    float sum = 0.0f, product = 0.0f;

#pragma omp simd reduction(+ : sum, product)
    for (size_t c = 0; c < C; c++) {
        float wg = w[c] * g[c];
        sum += wg;
        product += wg * (x[c] - mean);
    }
    sum /= (float)C;
    product *= rstd * rstd / (float)C;
#pragma omp simd
    for (size_t c = 0; c < C; c++)
        dx[c] += rstd * (w[c] * g[c] - sum - (x[c] - mean) * product);
}

/* dw and db of the columns [first, end), each summed in the order of rows. */
static void backward_columns(float *restrict dw, float *restrict db,
                             const float *restrict g, const float *restrict x,
                             const float *mean, const float *rstd, size_t N,
                             size_t C, size_t first, size_t end)
{
    for (size_t n = 0; n < N; n++) {
        float m = mean[n], r = rstd[n];
#pragma omp simd
        for (size_t c = first; c < end; c++) {
            dw[c] += g[n * C + c] * (x[n * C + c] - m) * r;
            db[c] += g[n * C + c];
        }
    }
}

void DT_CPU(layernorm_backward)(struct dt_stream *stream, struct dt_view dx,
                                struct dt_view dw, struct dt_view db,
                                struct dt_view dout, struct dt_view x,
                                struct dt_view w, struct dt_view mean,
                                struct dt_view rstd, size_t N, size_t C,
                                bool accumulate)
{
    float *to = dt_cpu_f32(dx, N * C);
    float *weight_grad = dt_cpu_f32(dw, C);
    float *bias_grad = dt_cpu_f32(db, C);
    const float *g = dt_cpu_f32(dout, N * C);
    const float *from = dt_cpu_f32(x, N * C);
    const float *weight = dt_cpu_f32(w, C);
    const float *m = dt_cpu_f32(mean, N);
    const float *r = dt_cpu_f32(rstd, N);
    (void)stream;

#pragma omp parallel
    {
        size_t first, end;
#pragma omp for schedule(static) nowait
        for (size_t n = 0; n < N; n++)
            backward_row(to + n * C, g + n * C, from + n * C, weight, m[n],
                         r[n], C);
        dt_cpu_share(C, &first, &end);
        for (size_t c = first; c < end && !accumulate; c++)
            weight_grad[c] = bias_grad[c] = 0.0f;
        backward_columns(weight_grad, bias_grad, g, from, m, r, N, C, first,
                         end);
    }
}
