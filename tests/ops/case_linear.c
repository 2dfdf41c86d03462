/* SPDX-License-Identifier: Apache-2.0 */
/* case_linear.c - linear layers and embeddings */
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

static void embedding_case(size_t B, size_t T, size_t C, size_t V, size_t P,
                           bool accumulate)
{
    struct dt_view out = tensor(B * T * C), ids = tensor_ids(B * T, V);
    struct dt_view wte = tensor(V * C), wpe = tensor(P * C);
    struct dt_view dwte = tensor(V * C), dwpe = tensor(P * C);
    struct dt_view dout = tensor(B * T * C);
    double *want = zeros(B * T * C), *token = doubles(dwte);
    double *position = accumulate ? doubles(dwpe) : zeros(P * C);
    const int32_t *id = dt_view_i32(ids);

    ops->embedding_forward(NULL, out, ids, wte, wpe, B, T, C);
    ops->embedding_backward(NULL, dwte, dwpe, dout, ids, B, T, C, accumulate);
    for (size_t n = 0; n < B * T; n++) {
        for (size_t c = 0; c < C; c++) {
            size_t t = n % T * C + c, v = (size_t)id[n] * C + c;
            want[n * C + c] =
                (double)dt_view_f32(wte)[v] + (double)dt_view_f32(wpe)[t];
            token[v] += (double)dt_view_f32(dout)[n * C + c];
            position[t] += (double)dt_view_f32(dout)[n * C + c];
        }
    }
    check_close("out", out, want, 1e-7);
    check_close("dwte", dwte, token, 1e-6);
    check_close("dwpe", dwpe, position, 1e-6);
}

void test_embedding(void **state)
{
    (void)state;
    embedding_case(1, 1, 1, 1, 1, false);
    embedding_case(3, 5, 7, 4, 5, false);
    embedding_case(2, 9, 33, 257, 16, true);
    embedding_case(2, 9, 130, 5, 11, false);
}
