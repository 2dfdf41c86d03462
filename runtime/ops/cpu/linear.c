/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - the linear layer: matrix products and the bias */
#include "config.h"

#include "ops/cpu/cpu.h"

/* w as the (C, OC) operand of y = x w */
static struct dt_cpu_matrix weight(struct dt_view w, enum dt_weight_order order,
                                   size_t C, size_t OC)
{
    bool transposed = order == DT_WEIGHT_OUT_IN;

    return (struct dt_cpu_matrix){dt_cpu_f32(w, C * OC), transposed ? C : OC,
                                  transposed};
}

void DT_CPU(linear_forward)(struct dt_stream *stream, struct dt_view out,
                            struct dt_view x, struct dt_view w,
                            struct dt_view b, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC)
{
    struct dt_cpu_matrix from = {dt_cpu_f32(x, N * C), C, false};
    float *to = dt_cpu_f32(out, N * OC);
    const float *bias;
    (void)stream;

    DT_CPU(matmul)(to, from, weight(w, order, C, OC), N, OC, C, false);
    if (b.count == 0)
        return;
    bias = dt_cpu_f32(b, OC);
#pragma omp parallel for schedule(static)
    for (size_t n = 0; n < N; n++) {
#pragma omp simd
        for (size_t c = 0; c < OC; c++)
            to[n * OC + c] += bias[c];
    }
}

/* db(OC) = or += the sum of g(N,OC) over rows, in the order of rows */
static void bias_backward(float *db, const float *g, size_t N, size_t OC,
                          bool accumulate)
{
#pragma omp parallel
    {
        size_t first, end;
        dt_cpu_share(OC, &first, &end);
        for (size_t c = first; c < end && !accumulate; c++)
            db[c] = 0.0f;
        for (size_t n = 0; n < N; n++) {
#pragma omp simd
            for (size_t c = first; c < end; c++)
                db[c] += g[n * OC + c];
        }
    }
}

void DT_CPU(linear_backward)(struct dt_stream *stream, struct dt_view dx,
                             struct dt_view dw, struct dt_view db,
                             struct dt_view dout, struct dt_view x,
                             struct dt_view w, enum dt_weight_order order,
                             size_t N, size_t C, size_t OC, bool accumulate)
{
    const float *from = dt_cpu_f32(x, N * C);
    const float *g = dt_cpu_f32(dout, N * OC);
    float *weight_grad = dt_cpu_f32(dw, C * OC);
    struct dt_cpu_matrix rows = {g, OC, false};
    struct dt_cpu_matrix turned = weight(w, order, C, OC);
    (void)stream;

    turned.transposed = !turned.transposed;
    DT_CPU(matmul)(dt_cpu_f32(dx, N * C), rows, turned, N, C, OC, false);
    if (order == DT_WEIGHT_IN_OUT)
        DT_CPU(matmul)
        (weight_grad, (struct dt_cpu_matrix){from, C, true}, rows, C, OC, N,
         accumulate);
    else
        DT_CPU(matmul)
        (weight_grad, (struct dt_cpu_matrix){g, OC, true},
         (struct dt_cpu_matrix){from, C, false}, OC, C, N, accumulate);
    if (db.count != 0)
        bias_backward(dt_cpu_f32(db, OC), g, N, OC, accumulate);
}
