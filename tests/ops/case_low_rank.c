/* SPDX-License-Identifier: Apache-2.0 */
/* case_low_rank.c - pairs of low rank beside linear layers */
#include "config.h"

#include <string.h>

#include "harness.h"

struct pair {
    size_t B, T, C, R, OC, width, first;
    double scale, rate;
    struct dt_dropout dropout;
    double *factors;          /* (N, C), of dropout */
    double *x, *a, *b, *dout; /* dout(N, width) */
    double *out;              /* (N, width) */
};

static void reference_pair(const struct pair *p)
{
    const size_t N = p->B * p->T;
    for (size_t n = 0; n < N; n++) {
        for (size_t r = 0; r < p->R; r++) {
            double low = 0;
            for (size_t c = 0; c < p->C; c++)
                low += p->x[n * p->C + c] * p->a[r * p->C + c] *
                       p->factors[n * p->C + c];
            for (size_t o = 0; o < p->OC; o++)
                p->out[n * p->width + p->first + o] +=
                    p->scale * low * p->b[o * p->R + r];
        }
    }
}

static double pair_loss(void *context)
{
    struct pair *p = context;
    const size_t count = p->B * p->T * p->width;
    memset(p->out, 0, count * sizeof(*p->out));
    reference_pair(p);
    return dot(p->out, p->dout, count);
}

static void pair_case(enum dt_dtype type, struct pair p, bool accumulate)
{
    const size_t N = p.B * p.T;
    const double slack = inner(type);
    struct dt_view x = tensor_of(type, N * p.C), a = tensor_of(type, p.R * p.C);
    struct dt_view b = tensor_of(type, p.OC * p.R);
    struct dt_view out = tensor_of(type, N * p.width);
    struct dt_view dout = tensor_of(type, N * p.width);
    struct dt_view dx = tensor_of(type, N * p.C);
    struct dt_view da = tensor(p.R * p.C), db = tensor(p.OC * p.R);
    double *dx_before = doubles(dx), *da_before = doubles(da);
    double *db_before = doubles(db);
    p.dropout = dropout_of(p.rate, p.B);
    const struct dt_low_rank pair = {
        .a = a,
        .b = b,
        .C = p.C,
        .R = p.R,
        .OC = p.OC,
        .width = p.width,
        .first = p.first,
        .scale = (float)p.scale,
        .dropout = p.dropout,
        .low = workspace(N * p.R),
        .dropped = tensor_of(type, p.rate > 0 ? N * p.C : 0),
    };

    p.factors = dropout_factors(&p.dropout, p.B, p.T * p.C);
    p.x = doubles(x);
    p.a = doubles(a);
    p.b = doubles(b);
    p.dout = doubles(dout);
    p.out = doubles(out);
    ops->low_rank_forward(NULL, out, x, &pair, N);
    reference_pair(&p);
    check_close("out", out, p.out, 1e-6 + slack);
    ops->low_rank_backward(NULL, dx, da, db, dout, x, &pair, N, accumulate);
    check_rough_gradient("dx", dx, p.x, pair_loss, &p, dx_before, slack);
    check_rough_gradient("da", da, p.a, pair_loss, &p,
                         accumulate ? da_before : NULL, slack);
    check_rough_gradient("db", db, p.b, pair_loss, &p,
                         accumulate ? db_before : NULL, slack);
}

void test_low_rank(void **state)
{
    static const struct pair PAIRS[] = {
        {.B = 1, .T = 16, .C = 1, .R = 1, .OC = 1, .width = 1, .scale = 1},
        {.B = 1,
         .T = 17,
         .C = 67,
         .R = 4,
         .OC = 33,
         .width = 70,
         .first = 37,
         .scale = 0.5},
        {.B = 2,
         .T = 40,
         .C = 260,
         .R = 3,
         .OC = 300,
         .width = 301,
         .first = 1,
         .scale = 0.25},
        {.B = 2,
         .T = 9,
         .C = 40,
         .R = 70,
         .OC = 24,
         .width = 24,
         .scale = 0.1,
         .rate = 0.5},
        {.B = 1,
         .T = 8,
         .C = 16,
         .R = 8,
         .OC = 16,
         .width = 16,
         .scale = 2,
         .rate = 0.5},
        {.B = 1, .T = 3, .C = 5, .R = 2, .OC = 4, .width = 4, .scale = 0},
        {.B = 1, .T = 3, .C = 5, .R = 2, .OC = 4, .width = 4, .scale = 0},
    };
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++)
        for (size_t k = 0; k < sizeof(PAIRS) / sizeof(PAIRS[0]); k++)
            pair_case(TYPES[i], PAIRS[k], k % 2);
}

/* Of few rows each has the bits that it has alone. */
void test_low_rank_few_rows(void **state)
{
    enum { N = 15, C = 131, R = 9, OC = 300 };
    (void)state;
    if (ops->few_rows == 0)
        nothing_here();
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        const enum dt_dtype type = TYPES[i];
        const size_t bytes = OC * dt_dtype_bytes(type);
        struct dt_view x = tensor_of(type, N * C),
                       out = tensor_of(type, N * OC);
        struct dt_view alone = tensor_of(type, N * OC);
        const struct dt_low_rank pair = {
            .a = tensor_of(type, R * C),
            .b = tensor_of(type, OC * R),
            .C = C,
            .R = R,
            .OC = OC,
            .width = OC,
            .scale = 2,
            .low = workspace((size_t)N * R),
        };
        memcpy(dt_view_data(alone), dt_view_data(out), N * bytes);
        ops->low_rank_forward(NULL, out, x, &pair, N);
        for (size_t n = 0; n < N; n++)
            ops->low_rank_forward(NULL, dt_view_slice(alone, n * OC, OC),
                                  dt_view_slice(x, n * C, C), &pair, 1);
        assert_memory_equal(dt_view_data(out), dt_view_data(alone), N * bytes);
    }
}
