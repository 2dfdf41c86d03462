/* SPDX-License-Identifier: Apache-2.0 */
/*
 * case_tower.c - attention of towers: heads of 72 and 80, images of many
 * patches, windows, and none of text's order
 *
 * All elements of the gradient are compared with formulas, since differences
 * would take too long at this size.
 */
#include "config.h"

#include <math.h>

#include "bridge.h"
#include "harness.h"

struct tower {
    const struct dt_attention *args;
    const double *qkv, *dout;
    double *out, *dqkv;
    double *p, *dp; /* (T) */
};

/* The parts q, k, v of position t and head h, as elements of a row. */
static size_t element_at(const struct dt_attention *a, size_t part, size_t h,
                         size_t t)
{
    const size_t heads = a->NH + 2 * a->NKV, group = a->NH / a->NKV;
    const size_t head = part == 0   ? h
                        : part == 1 ? a->NH + h / group
                                    : a->NH + a->NKV + h / group;

    return (t * heads + head) * a->HS;
}

/* One query and what it adds to all gradients. With p = softmax of the scores
 * and dp = dout v: dscore = p (dp - sum of p dp).
 */
static void reference_query(const struct tower *r, size_t h, size_t t)
{
    const struct dt_attention *a = r->args;
    const size_t HS = a->HS, q = element_at(a, 0, h, t),
                 o = (t * a->NH + h) * HS;
    const size_t first = a->first.count ? (size_t)dt_view_i32(a->first)[t] : 0;
    const size_t last = (size_t)dt_view_i32(a->last)[t];
    double most = -INFINITY, sum = 0.0, mean = 0.0;

    for (size_t s = first; s <= last; s++) {
        r->p[s] = dot(r->qkv + q, r->qkv + element_at(a, 1, h, s), HS) *
                  (double)a->scale;
        r->dp[s] = dot(r->dout + o, r->qkv + element_at(a, 2, h, s), HS);
        most = fmax(most, r->p[s]);
    }
    for (size_t s = first; s <= last; s++)
        sum += exp(r->p[s] - most);
    for (size_t s = first; s <= last; s++) {
        r->p[s] = exp(r->p[s] - most) / sum;
        mean += r->p[s] * r->dp[s];
    }
    for (size_t s = first; s <= last; s++) {
        const size_t k = element_at(a, 1, h, s), v = element_at(a, 2, h, s);
        const double ds = r->p[s] * (r->dp[s] - mean) * (double)a->scale;
        for (size_t d = 0; d < HS; d++) {
            r->out[o + d] += r->p[s] * r->qkv[v + d];
            r->dqkv[q + d] += ds * r->qkv[k + d];
            r->dqkv[k + d] += ds * r->qkv[q + d];
            r->dqkv[v + d] += r->p[s] * r->dout[o + d];
        }
    }
}

struct sizes {
    size_t T, NH, NKV, HS;
    size_t longest; /* image or window; 0: one image */
    size_t window;  /* told to the operation */
};

static void tower_case(enum dt_dtype type, struct sizes z)
{
    struct dt_attention a = {.B = 1,
                             .T = z.T,
                             .NH = z.NH,
                             .NKV = z.NKV,
                             .HS = z.HS,
                             .window = z.window,
                             .scale = (float)(1.0 / sqrt((double)z.HS)),
                             .first = documents(1, z.T, z.longest)};
    const size_t count = z.T * z.NH * z.HS;
    struct dt_view qkv = tensor_of(type, z.T * (z.NH + 2 * z.NKV) * z.HS);
    struct dt_view out = tensor_of(type, count), lse = tensor(z.T * z.NH);
    struct dt_view dqkv = tensor_of(type, qkv.count);
    struct dt_view dout = tensor_of(type, count);
    struct dt_view space;
    struct tower r = {.args = &a,
                      .qkv = doubles(qkv),
                      .dout = doubles(dout),
                      .out = zeros(count),
                      .dqkv = zeros(qkv.count),
                      .p = zeros(z.T),
                      .dp = zeros(z.T)};

    look_ahead(&a, EVERYBODY);
    space = workspace(ops->attention_workspace(type, &a));
    for (size_t i = 0; i < z.NH * z.T; i++)
        reference_query(&r, i % z.NH, i / z.NH);
    ops->attention_forward(NULL, out, lse, qkv, &a);
    check_close("out", out, r.out, 3e-6 + inner(type));
    ops->attention_backward(NULL, dqkv, dout, out, lse, qkv, space, &a);
    check_close("dqkv", dqkv, r.dqkv, 3e-6 + rounding(type) + inner(type));
}

/* An emulated GPU takes a minute for an image of 577 patches; with a sanitizer,
 * or for each number of threads, they take seconds, and 97 are two tiles as
 * well.
 */
static bool is_slow(void)
{
#ifdef SANITIZER
    return true;
#else
    return checks_threads() || (ops == &bridge_table && !bridge_is_real());
#endif
}

void test_tower_attention(void **state)
{
    const size_t T = is_slow() ? 97 : 577;
    const struct sizes SIZES[] = {
        {1, 2, 2, 72, 0, 0},  {1, 2, 2, 80, 0, 0}, {T, 1, 1, 72, 0, 0},
        {T, 1, 1, 80, 0, 0},  {T, 2, 2, 64, 0, 0}, {T, 1, 1, 80, 70, 70},
        {T, 2, 1, 72, 33, 0},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            if (!is_other_half(i, j))
                tower_case(TYPES[i], SIZES[j]);
    }
}
