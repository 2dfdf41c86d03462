/* SPDX-License-Identifier: Apache-2.0 */
/* case_activation.c - GELU, and the activations of gated MLPs */
#include "config.h"

#include <math.h>

#include "harness.h"

static const double SPECIAL[] = {0.0, 1e4, -1e4, 1e30, -1e30, 1e-30};
enum { SPECIAL_COUNT = sizeof(SPECIAL) / sizeof(SPECIAL[0]) };

static double reference_gelu(double x)
{
    double u = sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);

    return 0.5 * x * (1.0 + tanh(u));
}

static double gelu_slope(double x)
{
    double u = sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
    double du = sqrt(2.0 / M_PI) * (1.0 + 3.0 * 0.044715 * x * x);

    return 0.5 * (1.0 + tanh(u)) + 0.5 * x * (1.0 - tanh(u) * tanh(u)) * du;
}

/* 1e-6 relative, or 5e-8 absolute: gelu' has a zero, and far down tanh in
 * double has no digits left.
 */
static void check_gelu(const char *what, struct dt_view v, size_t i,
                       double want, double x)
{
    double got = element(v, i);
    double allowed =
        fp32(1e-6) * (fabs(want) + 0.05) + rounding(v.dtype) * fabs(want);

    if (!(fabs(got - want) <= allowed))
        fail_msg("%s(%g) is %.9g, should be %.9g", what, x, got, want);
}

/* dpre = dout * gelu'(pre): the gradient of one row in front of a layer with
 * one output, whose weights are dout
 */
static void gelu_backward(struct dt_view dpre, struct dt_view dout,
                          struct dt_view pre)
{
    const struct dt_view none = {0};
    struct dt_view x = tensor_of(pre.dtype, pre.count);
    struct dt_view one = tensor_of(pre.dtype, 1);

    set_element(one, 0, 1.0);
    ops->linear_gelu_backward(NULL, dpre, tensor(pre.count), none, one, x, pre,
                              dout, DT_WEIGHT_OUT_IN, 1, pre.count, 1, false);
}

static void gelu_case(enum dt_dtype type)
{
    enum { COUNT = 20011 };
    struct dt_view x = tensor_of(type, COUNT), out = tensor_of(type, COUNT);
    struct dt_view dout = tensor_of(type, COUNT), dx = tensor_of(type, COUNT);
    struct dt_view own = tensor_of(type, COUNT);

    for (size_t i = 0; i < COUNT; i++)
        set_element(x, i, ((double)i - COUNT / 2) * 1e-3);
    for (size_t i = 0; i < SPECIAL_COUNT && type != DT_F16; i++)
        set_element(x, i, SPECIAL[i]);
    ops->gelu_forward(NULL, out, x);
    gelu_backward(dx, dout, x);
    ops->gelu_backward(NULL, own, dout, x);
    for (size_t i = 0; i < COUNT; i++) {
        double v = element(x, i), g = element(dout, i);
        if (fabs(v) < 1e5)
            check_gelu("gelu'", dx, i, g * gelu_slope(v), v);
        if (fabs(v) < 1e5)
            check_gelu("gelu' alone", own, i, g * gelu_slope(v), v);
        check_gelu("gelu", out, i, reference_gelu(v), v);
    }
    set_element(x, 7, NAN);
    ops->gelu_forward(NULL, out, x);
    gelu_backward(x, dout, x);
    assert_true(isnan(element(out, 7)) && isnan(element(x, 7)));
    for (size_t i = 8; i < COUNT; i++)
        assert_true(element(x, i) == element(dx, i));
}

void test_gelu(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++)
        gelu_case(TYPES[i]);
}

struct glu {
    size_t N, I;
    enum dt_gate gate;
    double *x, *dout, *out;
};

static double glu_loss(void *context)
{
    struct glu *s = context;

    for (size_t i = 0; i < s->N * s->I; i++) {
        const double *x = s->x + i / s->I * 2 * s->I + i % s->I;
        double gate = s->gate == DT_GATE_SILU ? x[0] / (1.0 + exp(-x[0]))
                                              : reference_gelu(x[0]);
        s->out[i] = gate * x[s->I];
    }
    return dot(s->out, s->dout, s->N * s->I);
}

static void glu_case(enum dt_dtype type, enum dt_gate gate, size_t N, size_t I,
                     double size)
{
    struct dt_view x = tensor_of(type, 2 * N * I), out = tensor_of(type, N * I);
    struct dt_view dout = tensor_of(type, N * I);
    struct dt_view dx = tensor_of(type, 2 * N * I);
    struct glu s = {N, I, gate, NULL, doubles(dout), zeros(N * I)};

    for (size_t i = 0; i < x.count; i++)
        set_element(x, i, element(x, i) * size);
    s.x = doubles(x);
    glu_loss(&s);
    ops->glu_forward(NULL, out, x, gate, N, I);
    check_close("out", out, s.out, 1e-6);
    ops->glu_backward(NULL, dx, dout, x, gate, N, I);
    check_gradient("dx", dx, s.x, glu_loss, &s, NULL);
}

/* Far out nothing overflows; NaN stays NaN. */
static void glu_special(enum dt_gate gate)
{
    struct dt_view x = tensor(2 * SPECIAL_COUNT), out = tensor(SPECIAL_COUNT);
    struct dt_view dout = tensor(SPECIAL_COUNT), dx = tensor(2 * SPECIAL_COUNT);
    double *want = zeros(SPECIAL_COUNT);

    for (size_t i = 0; i < SPECIAL_COUNT; i++) {
        double size =
            gate == DT_GATE_GELU && fabs(SPECIAL[i]) > 1e5 ? 1e3 : 1e30;
        set_element(x, i, fmax(fmin(SPECIAL[i], size), -size));
        want[i] = fmax(element(x, i), 0.0) * element(x, SPECIAL_COUNT + i);
    }
    ops->glu_forward(NULL, out, x, gate, 1, SPECIAL_COUNT);
    ops->glu_backward(NULL, dx, dout, x, gate, 1, SPECIAL_COUNT);
    check_close("far out", out, want, 1e-6);
    for (size_t i = 0; i < dx.count; i++)
        assert_true(isfinite(element(dx, i)));
    set_element(x, 2, NAN);
    ops->glu_forward(NULL, out, x, gate, 1, SPECIAL_COUNT);
    assert_true(isnan(element(out, 2)));
}

void test_glu(void **state)
{
    (void)state;
    for (enum dt_gate gate = DT_GATE_SILU; gate <= DT_GATE_GELU; gate++) {
        for (size_t i = 0; i < TYPE_COUNT; i++) {
            glu_case(TYPES[i], gate, 1, 1, 1.0);
            glu_case(TYPES[i], gate, 5, 33, 4.0);
            glu_case(TYPES[i], gate, 2, 1030, 1.0);
            glu_case(TYPES[i], gate, 3, 1032, 1.0);
            glu_case(TYPES[i], gate, 3, 257, 8.0);
        }
        glu_special(gate);
    }
}
