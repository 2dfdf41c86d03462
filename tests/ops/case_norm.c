/* SPDX-License-Identifier: Apache-2.0 */
/* case_norm.c - LayerNorm and RMSNorm */
#include "config.h"

#include <math.h>

#include "harness.h"

static const double EPS = 1e-5;

struct norm {
    size_t N, C;
    bool centered; /* LayerNorm */
    double shift;  /* of the weights */
    double *x, *w, *b, *dout;
    double *out, *mean, *rstd;
};

static void reference_norm(const struct norm *l)
{
    for (size_t n = 0; n < l->N; n++) {
        const double *x = l->x + n * l->C;
        double mean = 0.0, var = 0.0;
        for (size_t c = 0; c < l->C && l->centered; c++)
            mean += x[c] / (double)l->C;
        for (size_t c = 0; c < l->C; c++)
            var += (x[c] - mean) * (x[c] - mean) / (double)l->C;
        l->mean[n] = mean;
        l->rstd[n] = 1.0 / sqrt(var + EPS);
        for (size_t c = 0; c < l->C; c++)
            l->out[n * l->C + c] =
                (x[c] - mean) * l->rstd[n] * (l->w[c] + l->shift) +
                (l->centered ? l->b[c] : 0.0);
    }
}

static double norm_loss(void *context)
{
    struct norm *l = context;

    reference_norm(l);
    return dot(l->out, l->dout, l->N * l->C);
}

/* x += dropout of y */
static void add(struct norm *l, struct dt_view y, size_t B,
                const struct dt_dropout *dropout)
{
    double *factors = dropout_factors(dropout, B, l->N / B * l->C);

    for (size_t i = 0; i < l->N * l->C; i++)
        l->x[i] += element(y, i) * factors[i];
}

/* Sums over rows of what dx has become. */
static double *sums_of(struct dt_view dx, size_t C)
{
    double *sums = zeros(C);

    for (size_t i = 0; i < dx.count; i++)
        sums[i % C] += element(dx, i);
    return sums;
}

struct sizes {
    size_t B, T, C;
    bool centered, residual, accumulate;
    double rate, shift;
};

static void norm_case(enum dt_dtype type, struct sizes z, bool with_sums)
{
    const size_t N = z.B * z.T, C = z.C, bias = z.centered ? C : 0;
    struct dt_dropout dropout = dropout_of(z.rate, z.B);
    struct dt_view x = tensor_of(type, N * C), y = tensor_of(type, N * C);
    struct dt_view w = tensor_of(type, C), b = tensor_of(type, bias);
    struct dt_view out = tensor_of(type, N * C), rstd = tensor(N);
    struct dt_view mean = tensor(z.centered ? N : 0);
    struct dt_view dout = tensor_of(type, N * C), dx = tensor_of(type, N * C);
    struct dt_view dw = tensor(C), db = tensor(bias);
    struct dt_view sums = tensor(with_sums ? C : 0);
    double *dx_before = doubles(dx), *dw_before = doubles(dw);
    double *db_before = doubles(db);
    const struct dt_norm_rule rule = {(float)EPS, (float)z.shift};
    struct norm l = {
        N,          C,          z.centered,    z.shift,      doubles(x),
        doubles(w), doubles(b), doubles(dout), zeros(N * C), zeros(N),
        zeros(N)};

    if (z.residual) {
        add(&l, y, z.B, &dropout);
        ops->residual_norm_forward(NULL, x, out, mean, rstd, x, y, w, b, rule,
                                   N, C, &dropout);
        check_close("sum", x, l.x, 1e-6);
        l.x = doubles(x);
    } else {
        ops->norm_forward(NULL, out, mean, rstd, x, w, b, rule, N, C);
    }
    reference_norm(&l);
    check_close("out", out, l.out, 2e-6);
    check_close("mean", mean, l.mean, 2e-6);
    check_close("rstd", rstd, l.rstd, 2e-6);
    ops->norm_backward(NULL, dx, dw, db, sums, dout, x, w, mean, rstd,
                       rule.shift, N, C, z.accumulate);
    check_gradient("dx", dx, l.x, norm_loss, &l, dx_before);
    check_gradient("dw", dw, l.w, norm_loss, &l,
                   z.accumulate ? dw_before : NULL);
    if (z.centered)
        check_gradient("db", db, l.b, norm_loss, &l,
                       z.accumulate ? db_before : NULL);
    if (with_sums)
        check_close("sums", sums, sums_of(dx, C), 2e-6);
}

void test_norm(void **state)
{
    const struct sizes SIZES[] = {
        {1, 1, 7, true, false, false, 0.0, 0.0},
        {1, 1, 5, true, true, true, 0.0, 0.0},
        {11, 1, 33, true, false, true, 0.0, 0.0},
        {3, 3, 130, true, true, false, 0.3, 0.0},
        {2, 2, 1100, true, true, true, 0.1, 0.0},
        {1, 1, 3, false, false, true, 0.0, 0.0},
        {2, 5, 67, false, true, false, 0.0, 0.0},
        {3, 4, 33, false, true, true, 0.5, 0.0},
        {1, 3, 2049, false, false, false, 0.0, 0.0},
        /* rows that are read 16 bytes at a time, by more and more threads */
        {2, 200, 8, true, true, false, 0.0, 0.0},
        {3, 2, 264, false, true, true, 0.3, 0.0},
        {1, 9, 768, true, true, false, 0.0, 0.0},
        {1, 3, 1024, true, false, true, 0.0, 0.0},
        {2, 1, 2056, true, true, true, 0.1, 0.0},
        {1, 9, 4104, false, true, false, 0.0, 0.0},
        /* weights that stand for 1 + w */
        {3, 4, 33, false, false, true, 0.0, 1.0},
        {2, 9, 256, false, true, false, 0.0, 1.0},
        {1, 2, 1032, false, true, false, 0.0, 1.0},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++) {
            norm_case(TYPES[i], SIZES[j], false);
            if (ops->norm_sums && SIZES[j].centered)
                norm_case(TYPES[i], SIZES[j], true);
        }
    }
}
