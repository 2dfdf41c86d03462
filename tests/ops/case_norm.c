/* SPDX-License-Identifier: Apache-2.0 */
/* case_norm.c - layer norm and GELU */
#include "config.h"

#include <math.h>

#include "harness.h"

static const double EPS = 1e-5;

struct norm {
    size_t N, C;
    double *x, *w, *b, *dout;
    double *out, *mean, *rstd;
};

static void reference_norm(const struct norm *l)
{
    for (size_t n = 0; n < l->N; n++) {
        const double *x = l->x + n * l->C;
        double mean = 0.0, var = 0.0;
        for (size_t c = 0; c < l->C; c++)
            mean += x[c] / (double)l->C;
        for (size_t c = 0; c < l->C; c++)
            var += (x[c] - mean) * (x[c] - mean) / (double)l->C;
        l->mean[n] = mean;
        l->rstd[n] = 1.0 / sqrt(var + EPS);
        for (size_t c = 0; c < l->C; c++)
            l->out[n * l->C + c] =
                (x[c] - mean) * l->rstd[n] * l->w[c] + l->b[c];
    }
}

static double norm_loss(void *context)
{
    struct norm *l = context;

    reference_norm(l);
    return dot(l->out, l->dout, l->N * l->C);
}

static void norm_case(size_t N, size_t C, bool residual, bool accumulate)
{
    struct dt_view x = tensor(N * C), y = tensor(N * C), sum = tensor(N * C);
    struct dt_view w = tensor(C), b = tensor(C), out = tensor(N * C);
    struct dt_view mean = tensor(N), rstd = tensor(N), dout = tensor(N * C);
    struct dt_view dx = tensor(N * C), dw = tensor(C), db = tensor(C);
    double *dx_before = doubles(dx), *dw_before = doubles(dw);
    double *db_before = doubles(db);
    struct norm l = {N,
                     C,
                     doubles(x),
                     doubles(w),
                     doubles(b),
                     doubles(dout),
                     zeros(N * C),
                     zeros(N),
                     zeros(N)};

    if (residual) {
        for (size_t i = 0; i < N * C; i++)
            l.x[i] += (double)dt_view_f32(y)[i];
        ops->residual_layernorm_forward(NULL, sum, out, mean, rstd, x, y, w, b,
                                        (float)EPS, N, C);
        check_close("sum", sum, l.x, 1e-6);
        x = sum;
    } else {
        ops->layernorm_forward(NULL, out, mean, rstd, x, w, b, (float)EPS, N,
                               C);
    }
    reference_norm(&l);
    check_close("out", out, l.out, 2e-6);
    check_close("mean", mean, l.mean, 2e-6);
    check_close("rstd", rstd, l.rstd, 2e-6);
    ops->layernorm_backward(NULL, dx, dw, db, dout, x, w, mean, rstd, N, C,
                            accumulate);
    check_gradient("dx", dx, l.x, norm_loss, &l, dx_before);
    check_gradient("dw", dw, l.w, norm_loss, &l, accumulate ? dw_before : NULL);
    check_gradient("db", db, l.b, norm_loss, &l, accumulate ? db_before : NULL);
}

void test_layernorm(void **state)
{
    (void)state;
    norm_case(1, 7, false, false);
    norm_case(1, 5, true, true);
    norm_case(11, 33, false, true);
    norm_case(9, 130, true, false);
}

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
static void check_gelu(const char *what, float got, double want, double x)
{
    double allowed = 1e-6 * (fabs(want) + 0.05);

    if (!(fabs((double)got - want) <= allowed))
        fail_msg("%s(%g) is %.9g, should be %.9g", what, x, (double)got, want);
}

void test_gelu(void **state)
{
    enum { COUNT = 20011 };
    struct dt_view x = tensor(COUNT), out = tensor(COUNT);
    struct dt_view dout = tensor(COUNT), dx = tensor(COUNT);
    const float special[] = {0.0f, 1e4f, -1e4f, 1e30f, -1e30f, 1e-30f};
    (void)state;

    for (size_t i = 0; i < COUNT; i++)
        dt_view_f32(x)[i] = ((float)i - COUNT / 2) * 1e-3f;
    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
        dt_view_f32(x)[i] = special[i];
    ops->gelu_forward(NULL, out, x);
    ops->gelu_backward(NULL, dx, dout, x);
    for (size_t i = 0; i < COUNT; i++) {
        double v = (double)dt_view_f32(x)[i], g = (double)dt_view_f32(dout)[i];
        if (fabs(v) < 1e5)
            check_gelu("gelu'", dt_view_f32(dx)[i], g * gelu_slope(v), v);
        check_gelu("gelu", dt_view_f32(out)[i], reference_gelu(v), v);
    }
    dt_view_f32(x)[7] = NAN;
    ops->gelu_forward(NULL, out, x);
    ops->gelu_backward(NULL, dout, dout, x);
    assert_true(isnan(dt_view_f32(out)[7]) && isnan(dt_view_f32(dout)[7]));
    assert_memory_equal(dt_view_f32(dout) + 8, dt_view_f32(dx) + 8,
                        (COUNT - 8) * sizeof(float));
}
