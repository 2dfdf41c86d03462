/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - the linear layer: matrix multiplications and the bias */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/matmul.h"

/* w as the (C, OC) operand of y = x w */
static struct dt_cpu_matrix weight_operand(struct dt_view w,
                                           enum dt_weight_order order, size_t C,
                                           size_t OC)
{
    bool transposed = order == DT_WEIGHT_OUT_IN;

    assert(w.count == C * OC);
    return (struct dt_cpu_matrix){dt_view_data(w), transposed ? C : OC,
                                  transposed};
}

void DT_CPU(linear_forward)(struct dt_stream *stream, struct dt_view out,
                            struct dt_view x, struct dt_view w,
                            struct dt_view b, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC)
{
    const struct dt_cpu_matmul mm = {
        .M = N,
        .N = OC,
        .K = C,
        .a = {dt_view_data(x), C, false},
        .b = weight_operand(w, order, C, OC),
        .type = x.dtype,
        .c_type = out.dtype,
        .c = dt_view_data(out),
        .bias = b.count > 0 ? dt_view_data(b) : NULL,
    };
    (void)stream;
    assert(x.count == N * C && out.count == N * OC && w.dtype == x.dtype);
    assert(b.count == 0 || (b.count == OC && b.dtype == x.dtype));

    DT_CPU(matmul)(&mm);
}

/* db(OC) = or += the sum of dout(N,OC) over rows, in the order of rows */
static void bias_backward(float *db, struct dt_view dout, size_t N, size_t OC,
                          bool accumulate)
{
    enum { WIDTH = 256 };

#pragma omp parallel for schedule(static) if (N * OC > DT_CPU_SMALL)
    for (size_t first = 0; first < OC; first += WIDTH) {
        size_t count = OC - first < WIDTH ? OC - first : WIDTH;
        float buffer[WIDTH], sum[WIDTH];
        for (size_t c = 0; c < count; c++)
            sum[c] = accumulate ? db[first + c] : 0.0f;
        for (size_t n = 0; n < N; n++) {
            const float *g = dt_cpu_read(buffer, dout, n * OC + first, count);
#pragma omp simd
            for (size_t c = 0; c < count; c++)
                sum[c] += g[c];
        }
        memcpy(db + first, sum, count * sizeof(*sum));
    }
}

/* dx(N,C) = dout(N,OC) w^T */
static void input_backward(struct dt_view dx, struct dt_view dout,
                           struct dt_view w, enum dt_weight_order order,
                           size_t N, size_t C, size_t OC)
{
    struct dt_cpu_matmul mm = {
        .M = N,
        .N = C,
        .K = OC,
        .a = {dt_view_data(dout), OC, false},
        .b = weight_operand(w, order, C, OC),
        .type = dout.dtype,
        .c_type = dx.dtype,
        .c = dt_view_data(dx),
    };
    assert(dx.count == N * C && dout.count == N * OC);
    assert(w.dtype == dout.dtype);

    mm.b.transposed = !mm.b.transposed;
    DT_CPU(matmul)(&mm);
}

/* dw = or += x^T dout */
static void weight_backward(struct dt_view dw, struct dt_view dout,
                            struct dt_view x, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC, bool accumulate)
{
    const bool out_in = order == DT_WEIGHT_OUT_IN;
    const struct dt_cpu_matrix in = {dt_view_data(x), C, false};
    const struct dt_cpu_matrix grad = {dt_view_data(dout), OC, false};
    struct dt_cpu_matmul mm = {
        .M = out_in ? OC : C,
        .N = out_in ? C : OC,
        .K = N,
        .a = out_in ? grad : in,
        .b = out_in ? in : grad,
        .type = x.dtype,
        .c_type = DT_F32,
        .c = dt_cpu_f32(dw, C * OC),
        .accumulate = accumulate,
    };
    assert(x.count == N * C && dout.count == N * OC);
    assert(dout.dtype == x.dtype);

    mm.a.transposed = true;
    DT_CPU(matmul)(&mm);
}

void DT_CPU(linear_backward)(struct dt_stream *stream, struct dt_view dx,
                             struct dt_view dw, struct dt_view db,
                             struct dt_view dout, struct dt_view x,
                             struct dt_view w, enum dt_weight_order order,
                             size_t N, size_t C, size_t OC, bool accumulate)
{
    (void)stream;

    if (dw.count != 0)
        weight_backward(dw, dout, x, order, N, C, OC, accumulate);
    if (db.count != 0)
        bias_backward(dt_cpu_f32(db, OC), dout, N, OC, accumulate);
    if (dx.count != 0)
        input_backward(dx, dout, w, order, N, C, OC);
}

void DT_CPU(linear_activation_forward)(struct dt_stream *stream,
                                       struct dt_view out, struct dt_view pre,
                                       struct dt_view x, struct dt_view w,
                                       struct dt_view b,
                                       enum dt_weight_order order,
                                       enum dt_activation activation, size_t N,
                                       size_t C, size_t OC)
{
    DT_CPU(linear_forward)(stream, pre, x, w, b, order, N, C, OC);
    DT_CPU(activation_forward)(stream, out, pre, activation);
}

/* dpre may be pre, so dx goes to x, which is not needed after dw. */
void DT_CPU(linear_activation_backward)(struct dt_stream *stream,
                                        struct dt_view dpre, struct dt_view dw,
                                        struct dt_view db, struct dt_view dout,
                                        struct dt_view x, struct dt_view pre,
                                        struct dt_view w,
                                        enum dt_weight_order order,
                                        enum dt_activation activation, size_t N,
                                        size_t C, size_t OC, bool accumulate)
{
    if (dw.count != 0)
        weight_backward(dw, dout, x, order, N, C, OC, accumulate);
    if (db.count != 0)
        bias_backward(dt_cpu_f32(db, OC), dout, N, OC, accumulate);
    input_backward(x, dout, w, order, N, C, OC);
    DT_CPU(activation_backward)(stream, dpre, x, pre, activation);
}
