/* SPDX-License-Identifier: Apache-2.0 */
/* case_linear_activation.c - linear layers before and behind an activation */
#include "config.h"

#include <math.h>

#include "harness.h"

struct layer {
    size_t N, C, OC;
    enum dt_weight_order order;
    enum dt_activation activation;
    bool bias, accumulate, in_place;
};

static size_t weight_at(const struct layer *l, size_t c, size_t o)
{
    return l->order == DT_WEIGHT_IN_OUT ? c * l->OC + o : o * l->C + c;
}

/* out = act(pre): the linear layer, which is rounded for it on some devices.
 */
static void forward_case(enum dt_dtype type, const struct layer *l)
{
    const size_t N = l->N, C = l->C, OC = l->OC;
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, C * OC);
    struct dt_view b = tensor_of(type, l->bias ? OC : 0);
    struct dt_view out = tensor_of(type, N * OC), pre = tensor_of(type, N * OC);
    double *want = zeros(N * OC), *want_pre = zeros(N * OC);

    for (size_t i = 0; i < N * OC; i++) {
        double sum = l->bias ? element(b, i % OC) : 0.0;
        for (size_t c = 0; c < C; c++)
            sum += element(x, i / OC * C + c) *
                   element(w, weight_at(l, c, i % OC));
        want_pre[i] = sum;
        want[i] = reference_activation(l->activation, sum);
    }
    ops->linear_activation_forward(NULL, out, pre, x, w, b, l->order,
                                   l->activation, N, C, OC);
    check_close("pre", pre, want_pre, 1e-6);
    check_close("out", out, want, 2e-6 + rounding(type));
}

/* What the gradients are taken of, as a function of pre. */
struct backward {
    const struct layer *layer;
    double *pre, *d_act; /* (N,C), that of the gradient of act(pre) */
};

static double backward_loss(void *context)
{
    const struct backward *b = context;
    double sum = 0.0;

    for (size_t i = 0; i < b->layer->N * b->layer->C; i++)
        sum +=
            reference_activation(b->layer->activation, b->pre[i]) * b->d_act[i];
    return sum;
}

/* dw and db from x and dout, dx into d_act */
static void reference_backward(const struct layer *l, struct dt_view dout,
                               struct dt_view x, struct dt_view w,
                               double *d_act, double *dw, double *db)
{
    for (size_t i = 0; i < l->N * l->OC; i++) {
        const size_t n = i / l->OC, o = i % l->OC;
        const double g = element(dout, i);
        db[o] += g;
        for (size_t c = 0; c < l->C; c++) {
            d_act[n * l->C + c] += g * element(w, weight_at(l, c, o));
            dw[weight_at(l, c, o)] += g * element(x, n * l->C + c);
        }
    }
}

static void backward_case(enum dt_dtype type, const struct layer *l)
{
    const size_t N = l->N, C = l->C, OC = l->OC, bias = l->bias ? OC : 0;
    struct dt_view pre = tensor_of(type, N * C), x = tensor_of(type, N * C);
    struct dt_view w = tensor_of(type, C * OC), dw = tensor(C * OC);
    struct dt_view dout = tensor_of(type, N * OC), db = tensor(bias);
    struct dt_view dpre = l->in_place ? x : tensor_of(type, N * C);
    struct backward b = {l, doubles(pre), zeros(N * C)};
    double *want_dw = l->accumulate ? doubles(dw) : zeros(C * OC);
    double *want_db = l->accumulate && l->bias ? doubles(db) : zeros(OC);

    ops->activation_forward(NULL, x, pre, l->activation);
    reference_backward(l, dout, x, w, b.d_act, want_dw, want_db);
    ops->linear_activation_backward(NULL, dpre, dw, db, dout, x, pre, w,
                                    l->order, l->activation, N, C, OC,
                                    l->accumulate);
    check_gradient("dpre", dpre, b.pre, backward_loss, &b, NULL);
    check_close("dw", dw, want_dw, 1e-6);
    check_close("db", db, want_db, 1e-6);
}

void test_linear_activation(void **state)
{
    const struct layer LAYERS[] = {
        {1, 1, 1, DT_WEIGHT_IN_OUT, DT_GELU_TANH, true, false, false},
        {7, 5, 3, DT_WEIGHT_OUT_IN, DT_GELU_TANH, true, true, true},
        {16, 64, 32, DT_WEIGHT_IN_OUT, DT_GELU_TANH, true, false, true},
        {33, 24, 72, DT_WEIGHT_OUT_IN, DT_GELU_TANH, false, true, false},
        {19, 67, 35, DT_WEIGHT_IN_OUT, DT_GELU_TANH, false, false, true},
        /* those that no library has, where it would take GELU by tanh */
        {16, 64, 32, DT_WEIGHT_IN_OUT, DT_GELU_ERF, true, false, false},
        {7, 5, 3, DT_WEIGHT_OUT_IN, DT_GELU_ERF, false, true, true},
        {16, 64, 32, DT_WEIGHT_OUT_IN, DT_QUICK_GELU, true, false, true},
        {33, 24, 72, DT_WEIGHT_IN_OUT, DT_SILU, false, true, false},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(LAYERS) / sizeof(LAYERS[0]); j++) {
            forward_case(TYPES[i], &LAYERS[j]);
            backward_case(TYPES[i], &LAYERS[j]);
        }
    }
}
