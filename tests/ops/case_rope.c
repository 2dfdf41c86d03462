/* SPDX-License-Identifier: Apache-2.0 */
/* case_rope.c - rotation by position, and the norms of q and k before it */
#include "config.h"

#include <math.h>

#include "harness.h"

static const double EPS = 1e-6;

struct rope {
    size_t N, NH, NKV, HS;
    bool norms;
    const int32_t *position;
    double *table, *qkv, *q_norm, *k_norm, *dout;
    double *out, *rstd;
};

/* out(HS) from x(HS); weight NULL: no norm */
static void reference_head(const struct rope *r, double *out, double *rstd,
                           const double *x, const double *weight, size_t n)
{
    const double *angle = r->table + (size_t)r->position[n] * r->HS;
    const size_t half = r->HS / 2;

    *rstd = weight ? 1.0 / sqrt(dot(x, x, r->HS) / (double)r->HS + EPS) : 1.0;
    for (size_t j = 0; j < half; j++) {
        double a = x[j] * *rstd * (weight ? weight[j] : 1.0);
        double b = x[half + j] * *rstd * (weight ? weight[half + j] : 1.0);
        out[j] = a * angle[j] - b * angle[half + j];
        out[half + j] = b * angle[j] + a * angle[half + j];
    }
}

static double rope_loss(void *context)
{
    struct rope *r = context;
    const size_t heads = r->NH + r->NKV, width = (heads + r->NKV) * r->HS;

    for (size_t n = 0; n < r->N; n++) {
        for (size_t h = 0; h < heads; h++)
            reference_head(r, r->out + n * width + h * r->HS,
                           r->rstd + n * heads + h,
                           r->qkv + n * width + h * r->HS,
                           !r->norms   ? NULL
                           : h < r->NH ? r->q_norm
                                       : r->k_norm,
                           n);
        for (size_t i = heads * r->HS; i < width; i++)
            r->out[n * width + i] = r->qkv[n * width + i];
    }
    return dot(r->out, r->dout, r->N * width);
}

/* dout of the loss is what dqkv holds before. */
static void backward_case(struct rope *r, const struct dt_rope *args,
                          struct dt_view qkv, struct dt_view rstd,
                          bool accumulate)
{
    struct dt_view dqkv = tensor_of(qkv.dtype, qkv.count);
    struct dt_view dq = tensor(args->q_norm.count);
    struct dt_view dk = tensor(args->k_norm.count);
    double *dq_before = doubles(dq), *dk_before = doubles(dk);

    r->dout = doubles(dqkv);
    ops->rope_backward(NULL, dqkv, dq, dk, qkv, rstd, r->N, args, accumulate);
    check_gradient("dqkv", dqkv, r->qkv, rope_loss, r, NULL);
    check_gradient("dq_norm", dq, r->q_norm, rope_loss, r,
                   accumulate ? dq_before : NULL);
    check_gradient("dk_norm", dk, r->k_norm, rope_loss, r,
                   accumulate ? dk_before : NULL);
}

struct sizes {
    size_t N, NH, NKV, HS;
    bool norms, accumulate;
};

static void rope_case(enum dt_dtype type, struct sizes z)
{
    enum { P = 50 };
    const size_t heads = z.NH + z.NKV, count = z.N * (heads + z.NKV) * z.HS;
    struct dt_view qkv = tensor_of(type, count), out = tensor_of(type, count);
    struct dt_view rstd = tensor(z.norms ? z.N * heads : 0);
    struct dt_rope args = {.NH = z.NH,
                           .NKV = z.NKV,
                           .HS = z.HS,
                           .positions = tensor_ids(z.N, P),
                           .table = tensor(P * z.HS),
                           .q_norm = tensor_of(type, z.norms ? z.HS : 0),
                           .k_norm = tensor_of(type, z.norms ? z.HS : 0),
                           .eps = (float)EPS};
    struct rope r = {.N = z.N,
                     .NH = z.NH,
                     .NKV = z.NKV,
                     .HS = z.HS,
                     .norms = z.norms,
                     .position = dt_view_i32(args.positions),
                     .table = doubles(args.table),
                     .qkv = doubles(qkv),
                     .q_norm = doubles(args.q_norm),
                     .k_norm = doubles(args.k_norm),
                     .dout = zeros(count),
                     .out = zeros(count),
                     .rstd = zeros(z.N * heads)};

    rope_loss(&r);
    ops->rope_forward(NULL, out, rstd, qkv, z.N, &args);
    check_close("out", out, r.out, 1e-6);
    check_close("rstd", rstd, r.rstd, 1e-6);
    backward_case(&r, &args, qkv, rstd, z.accumulate);
    if (z.norms)
        return;
    rope_loss(&r);
    ops->rope_forward(NULL, qkv, rstd, qkv, z.N, &args);
    check_close("out in place", qkv, r.out, 1e-6);
}

void test_rope(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        rope_case(TYPES[i], (struct sizes){1, 1, 1, 2, false, false});
        rope_case(TYPES[i], (struct sizes){7, 6, 2, 10, false, false});
        rope_case(TYPES[i], (struct sizes){3, 4, 4, 64, false, true});
        rope_case(TYPES[i], (struct sizes){1, 1, 1, 2, true, false});
        rope_case(TYPES[i], (struct sizes){5, 6, 3, 34, true, true});
        rope_case(TYPES[i], (struct sizes){70, 4, 1, 128, true, false});
    }
}
