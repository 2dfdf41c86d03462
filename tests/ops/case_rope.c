/* SPDX-License-Identifier: Apache-2.0 */
/* case_rope.c - rotation by position, and the norms of q and k before it */
#include "config.h"

#include <math.h>

#include "harness.h"

static const double EPS = 1e-6;

struct rope {
    size_t N, NH, NKV, HS, R;
    bool norms;
    double shift;
    const int32_t *position, *axis; /* NULL: all 0 */
    double *table, *qkv, *q_norm, *k_norm, *dout;
    double *out, *rstd;
};

/* out(HS) from x(HS); weight NULL: no norm */
static void reference_head(const struct rope *r, double *out, double *rstd,
                           const double *x, const double *weight, size_t n)
{
    const size_t half = r->R / 2;

    *rstd = weight ? 1.0 / sqrt(dot(x, x, r->HS) / (double)r->HS + EPS) : 1.0;
    for (size_t j = 0; j < half; j++) {
        const size_t axis = r->axis ? (size_t)r->axis[j] : 0;
        const double *angle =
            r->table + (size_t)r->position[axis * r->N + n] * r->R + j;
        double a = x[j], b = x[half + j];
        if (weight) {
            a *= *rstd * (weight[j] + r->shift);
            b *= *rstd * (weight[half + j] + r->shift);
        }
        out[j] = a * angle[0] - b * angle[half];
        out[half + j] = b * angle[0] + a * angle[half];
    }
    for (size_t j = r->R; j < r->HS; j++)
        out[j] = x[j];
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
    size_t N, NH, NKV, HS, R;
    bool norms, accumulate;
    double shift;
    size_t axes; /* 0: one row of positions, without a table of axes */
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
                           .R = z.R,
                           .positions =
                               tensor_ids(z.axes ? z.axes * z.N : z.N, P),
                           .axis = tensor_ids(z.axes ? z.R / 2 : 0, z.axes),
                           .table = tensor(P * z.R),
                           .q_norm = tensor_of(type, z.norms ? z.HS : 0),
                           .k_norm = tensor_of(type, z.norms ? z.HS : 0),
                           .norm = {(float)EPS, (float)z.shift}};
    struct rope r = {.N = z.N,
                     .NH = z.NH,
                     .NKV = z.NKV,
                     .HS = z.HS,
                     .R = z.R,
                     .norms = z.norms,
                     .shift = z.shift,
                     .position = dt_view_i32(args.positions),
                     .axis = z.axes ? dt_view_i32(args.axis) : NULL,
                     .table = doubles(args.table),
                     .qkv = doubles(qkv),
                     .q_norm = doubles(args.q_norm),
                     .k_norm = doubles(args.k_norm),
                     .dout = zeros(count),
                     .out = zeros(count),
                     .rstd = zeros(z.N * heads)};

    rope_loss(&r);
    if (z.R == z.HS) {
        ops->rope_forward(NULL, out, rstd, qkv, z.N, &args);
        check_close("out", out, r.out, 1e-6);
        check_close("rstd", rstd, r.rstd, 1e-6);
    }
    backward_case(&r, &args, qkv, rstd, z.accumulate);
    if (z.norms)
        return;
    rope_loss(&r);
    ops->rope_forward(NULL, qkv, rstd, qkv, z.N, &args);
    check_close("out in place", qkv, r.out, 1e-6);
}

void test_rope(void **state)
{
    const struct sizes SIZES[] = {
        {1, 1, 1, 2, 2, false, false, 0.0, 0},
        {7, 6, 2, 10, 10, false, false, 0.0, 0},
        {3, 4, 4, 64, 64, false, true, 0.0, 0},
        {1, 1, 1, 2, 2, true, false, 0.0, 0},
        {5, 6, 3, 34, 34, true, true, 0.0, 0},
        {70, 4, 1, 128, 128, true, false, 0.0, 0},
        {7, 6, 3, 32, 32, true, true, 1.0, 0},
        /* a part of a head */
        {5, 6, 2, 10, 4, false, false, 0.0, 0},
        {9, 4, 2, 64, 48, false, false, 0.0, 0},
        {3, 4, 4, 36, 32, false, true, 0.0, 0},
        /* several axes */
        {1, 1, 1, 2, 2, false, false, 0.0, 1},
        {7, 6, 2, 10, 10, false, false, 0.0, 2},
        {9, 4, 4, 72, 72, false, false, 0.0, 2},
        {5, 2, 2, 80, 80, false, true, 0.0, 2},
        {6, 4, 2, 128, 128, false, false, 0.0, 3},
        {33, 8, 2, 128, 128, true, true, 0.0, 3},
        {5, 6, 3, 34, 34, true, false, 1.0, 3},
        {9, 4, 2, 64, 48, false, false, 0.0, 3},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            rope_case(TYPES[i], SIZES[j]);
    }
}

/* Equal positions on all axes give the bits of one axis: text in a model that
 * reads images, too.
 */
static void equal_axes_case(enum dt_dtype type, size_t HS, bool norms)
{
    enum { N = 13, NH = 4, NKV = 2, P = 50, AXES = 3 };
    const size_t heads = NH + NKV, count = N * (heads + NKV) * HS;
    struct dt_view qkv = tensor_of(type, count), out = tensor_of(type, count);
    struct dt_view plain = tensor_of(type, count);
    struct dt_view rstd = tensor(norms ? N * heads : 0);
    struct dt_rope args = {.NH = NH,
                           .NKV = NKV,
                           .HS = HS,
                           .R = HS,
                           .positions = tensor_ids(AXES * N, P),
                           .table = tensor(P * HS),
                           .q_norm = tensor_of(type, norms ? HS : 0),
                           .k_norm = tensor_of(type, norms ? HS : 0),
                           .norm = {(float)EPS, 0.0f}};

    for (size_t i = N; i < AXES * N; i++)
        dt_view_i32(args.positions)[i] = dt_view_i32(args.positions)[i % N];
    ops->rope_forward(NULL, plain, rstd, qkv, N, &args);
    args.axis = tensor_ids(HS / 2, AXES);
    ops->rope_forward(NULL, out, rstd, qkv, N, &args);
    assert_memory_equal(dt_view_data(out), dt_view_data(plain),
                        dt_view_bytes(out));
}

void test_rope_equal_axes(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        equal_axes_case(TYPES[i], 64, false);
        equal_axes_case(TYPES[i], 128, true);
        equal_axes_case(TYPES[i], 34, true);
    }
}

/* Norms over all heads of q, and of k. */
struct heads {
    size_t N, q, k; /* widths */
    double *qkv, *q_norm, *k_norm, *dout;
    double *out, *rstd;
};

static double heads_loss(void *context)
{
    struct heads *h = context;
    const size_t width = h->q + 2 * h->k;

    for (size_t n = 0; n < h->N; n++) {
        for (size_t p = 0; p < 2; p++) {
            const size_t at = n * width + p * h->q, count = p ? h->k : h->q;
            const double *x = h->qkv + at, *w = p ? h->k_norm : h->q_norm;
            double rstd = 1.0 / sqrt(dot(x, x, count) / (double)count + EPS);
            h->rstd[2 * n + p] = rstd;
            for (size_t i = 0; i < count; i++)
                h->out[at + i] = x[i] * rstd * w[i];
        }
        for (size_t i = h->q + h->k; i < width; i++)
            h->out[n * width + i] = h->qkv[n * width + i];
    }
    return dot(h->out, h->dout, h->N * width);
}

static void heads_case(enum dt_dtype type, size_t N, size_t NH, size_t NKV,
                       size_t HS, bool accumulate)
{
    const size_t q = NH * HS, k = NKV * HS, count = N * (q + 2 * k);
    const struct dt_heads_norm args = {.NH = NH,
                                       .NKV = NKV,
                                       .HS = HS,
                                       .q_norm = tensor_of(type, q),
                                       .k_norm = tensor_of(type, k),
                                       .eps = (float)EPS};
    struct dt_view qkv = tensor_of(type, count), out = tensor_of(type, count);
    struct dt_view rstd = tensor(2 * N), dq = tensor(q), dk = tensor(k);
    struct dt_view dqkv = tensor_of(type, count);
    double *dq_before = doubles(dq), *dk_before = doubles(dk);
    struct heads h = {N,
                      q,
                      k,
                      doubles(qkv),
                      doubles(args.q_norm),
                      doubles(args.k_norm),
                      doubles(dqkv),
                      zeros(count),
                      zeros(2 * N)};

    heads_loss(&h);
    ops->heads_norm_forward(NULL, out, rstd, qkv, N, &args);
    check_close("out", out, h.out, 1e-6);
    check_close("rstd", rstd, h.rstd, 2e-6);
    ops->heads_norm_backward(NULL, dqkv, dq, dk, qkv, rstd, N, &args,
                             accumulate);
    check_gradient("dqkv", dqkv, h.qkv, heads_loss, &h, NULL);
    check_gradient("dq_norm", dq, h.q_norm, heads_loss, &h,
                   accumulate ? dq_before : NULL);
    check_gradient("dk_norm", dk, h.k_norm, heads_loss, &h,
                   accumulate ? dk_before : NULL);
}

void test_heads_norm(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        heads_case(TYPES[i], 1, 1, 1, 2, false);
        heads_case(TYPES[i], 7, 6, 2, 10, true);
        heads_case(TYPES[i], 3, 40, 8, 32, false);
    }
}
