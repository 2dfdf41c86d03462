/* SPDX-License-Identifier: Apache-2.0 */
/* case_attention.c - causal attention */
#include "config.h"

#include <math.h>

#include "harness.h"

struct attention {
    size_t B, T, NH, HS;
    double *qkv, *dout, *out, *lse;
    double *score; /* (T) */
};

/* One query: position t of head h of row b. */
static void reference_query(const struct attention *a, size_t b, size_t h,
                            size_t t)
{
    size_t C = a->NH * a->HS;
    const double *q = a->qkv + (b * a->T + t) * 3 * C + h * a->HS;
    const double *k = a->qkv + b * a->T * 3 * C + C + h * a->HS;
    double *out = a->out + (b * a->T + t) * C + h * a->HS;
    double most = -INFINITY, sum = 0.0;

    for (size_t s = 0; s <= t; s++) {
        a->score[s] = dot(q, k + s * 3 * C, a->HS) / sqrt((double)a->HS);
        most = fmax(most, a->score[s]);
    }
    for (size_t s = 0; s <= t; s++) {
        a->score[s] = exp(a->score[s] - most);
        sum += a->score[s];
    }
    for (size_t d = 0; d < a->HS; d++) {
        out[d] = 0.0;
        for (size_t s = 0; s <= t; s++)
            out[d] += a->score[s] / sum * k[s * 3 * C + C + d];
    }
    a->lse[(b * a->NH + h) * a->T + t] = most + log(sum);
}

static void reference_attention(const struct attention *a)
{
    for (size_t b = 0; b < a->B; b++) {
        for (size_t h = 0; h < a->NH; h++) {
            for (size_t t = 0; t < a->T; t++)
                reference_query(a, b, h, t);
        }
    }
}

static double attention_loss(void *context)
{
    struct attention *a = context;

    reference_attention(a);
    return dot(a->out, a->dout, a->B * a->T * a->NH * a->HS);
}

/* `size` multiplies the scores, so that the running maximum moves. */
static void attention_case(size_t B, size_t T, size_t NH, size_t HS, float size)
{
    size_t count = B * T * NH * HS;
    struct dt_view qkv = tensor(3 * count), out = tensor(count);
    struct dt_view lse = tensor(B * NH * T), dqkv = tensor(3 * count);
    struct dt_view dout = tensor(count);
    struct attention a = {B,
                          T,
                          NH,
                          HS,
                          NULL,
                          doubles(dout),
                          zeros(count),
                          zeros(B * NH * T),
                          zeros(T)};

    for (size_t i = 0; i < 3 * count; i++)
        dt_view_f32(qkv)[i] *= size;
    a.qkv = doubles(qkv);
    ops->attention_forward(NULL, out, lse, qkv, B, T, NH, HS);
    reference_attention(&a);
    check_close("out", out, a.out, 3e-6);
    check_close("lse", lse, a.lse, 3e-6);
    ops->attention_backward(NULL, dqkv, dout, out, lse, qkv, B, T, NH, HS);
    check_gradient("dqkv", dqkv, a.qkv, attention_loss, &a, NULL);
}

void test_attention(void **state)
{
    (void)state;
    attention_case(1, 1, 1, 1, 1.0f);
    attention_case(2, 5, 3, 7, 1.0f);
    attention_case(1, 64, 2, 16, 1.0f);
    attention_case(1, 65, 1, 5, 4.0f);
    attention_case(1, 131, 1, 64, 1.0f);
    attention_case(1, 67, 2, 70, 2.0f);
    attention_case(2, 9, 1, 129, 1.0f);
}
