/* SPDX-License-Identifier: Apache-2.0 */
/* case_linear.c - linear layers */
#include "config.h"

#include "harness.h"

struct linear {
    size_t N, C, OC;
    enum dt_weight_order order;
    double *x, *w, *b, *dout; /* b: NULL for none */
    double *out;
};

static void reference_linear(const struct linear *l)
{
    for (size_t n = 0; n < l->N; n++) {
        for (size_t o = 0; o < l->OC; o++) {
            double sum = l->b ? l->b[o] : 0.0;
            for (size_t c = 0; c < l->C; c++)
                sum += l->x[n * l->C + c] *
                       l->w[l->order == DT_WEIGHT_IN_OUT ? c * l->OC + o
                                                         : o * l->C + c];
            l->out[n * l->OC + o] = sum;
        }
    }
}

static double linear_loss(void *context)
{
    struct linear *l = context;

    reference_linear(l);
    return dot(l->out, l->dout, l->N * l->OC);
}

static void linear_case(size_t N, size_t C, size_t OC,
                        enum dt_weight_order order, bool bias, bool accumulate)
{
    struct dt_view x = tensor(N * C), w = tensor(C * OC);
    struct dt_view b = tensor(bias ? OC : 0), out = tensor(N * OC);
    struct dt_view dx = tensor(N * C), dw = tensor(C * OC);
    struct dt_view db = tensor(b.count), dout = tensor(N * OC);
    double *dw_before = doubles(dw), *db_before = doubles(db);
    struct linear l = {N,
                       C,
                       OC,
                       order,
                       doubles(x),
                       doubles(w),
                       bias ? doubles(b) : NULL,
                       doubles(dout),
                       zeros(N * OC)};

    ops->linear_forward(NULL, out, x, w, b, order, N, C, OC);
    reference_linear(&l);
    check_close("out", out, l.out, 1e-6);
    ops->linear_backward(NULL, dx, dw, db, dout, x, w, order, N, C, OC,
                         accumulate);
    check_gradient("dx", dx, l.x, linear_loss, &l, NULL);
    check_gradient("dw", dw, l.w, linear_loss, &l,
                   accumulate ? dw_before : NULL);
    check_gradient("db", db, l.b, linear_loss, &l,
                   accumulate ? db_before : NULL);
}

void test_linear(void **state)
{
    (void)state;
    linear_case(1, 1, 1, DT_WEIGHT_IN_OUT, true, false);
    linear_case(1, 7, 3, DT_WEIGHT_OUT_IN, true, true);
    linear_case(5, 3, 3, DT_WEIGHT_IN_OUT, false, false);
    linear_case(17, 67, 131, DT_WEIGHT_IN_OUT, true, true);
    linear_case(17, 131, 67, DT_WEIGHT_OUT_IN, true, false);
    linear_case(101, 33, 3, DT_WEIGHT_OUT_IN, false, true);
    linear_case(2, 257, 48, DT_WEIGHT_IN_OUT, true, false);
}
