/* SPDX-License-Identifier: Apache-2.0 */
/* case_kv.c - decoding: the cache of keys and values, and attention to it */
#include "config.h"

#include <math.h>
#include <string.h>

#include "harness.h"

struct sizes {
    size_t B, T, S, NH, NKV, HS, window;
};

static struct dt_kv cache(enum dt_dtype type, struct sizes z)
{
    const size_t count = z.B * z.S * z.NKV * z.HS;

    return (struct dt_kv){z.B,
                          z.S,
                          z.NH,
                          z.NKV,
                          z.HS,
                          z.window,
                          tensor_of(type, count),
                          tensor_of(type, count)};
}

static size_t row_width(const struct dt_kv *kv)
{
    return (kv->NH + 2 * kv->NKV) * kv->HS;
}

/* Every position is stored in its slot, except those that say "nowhere", and
 * nothing else changes.
 */
static void store_case(enum dt_dtype type, struct sizes z)
{
    const size_t width = z.NKV * z.HS;
    struct dt_kv kv = cache(type, z);
    struct dt_view qkv = tensor_of(type, z.B * z.T * row_width(&kv));
    struct dt_view positions = tensor_ids(z.B * z.T, 1);
    double *k = doubles(kv.k), *v = doubles(kv.v);

    for (size_t n = 0; n < z.B * z.T; n++) {
        int32_t slot = n % 3 == 1 ? -1 : (int32_t)(z.S - 1 - n % z.T);
        size_t at = (n / z.T * z.S + (size_t)slot) * width;
        size_t from = n * row_width(&kv) + z.NH * z.HS;
        dt_view_i32(positions)[n] = slot;
        for (size_t i = 0; i < width && slot >= 0; i++) {
            k[at + i] = element(qkv, from + i);
            v[at + i] = element(qkv, from + width + i);
        }
    }
    ops->kv_store(NULL, &kv, qkv, positions, z.T);
    check_close("k", kv.k, k, 0.0);
    check_close("v", kv.v, v, 0.0);
}

/* out(HS) of query q(HS), which attends to slots [first, end) of row b */
static void reference_head(double *out, const double *q, const double *k,
                           const double *v, const struct dt_kv *kv,
                           size_t first, size_t end)
{
    const size_t stride = kv->NKV * kv->HS;
    double sum = 0.0;

    memset(out, 0, kv->HS * sizeof(*out));
    for (size_t s = first; s < end; s++) {
        double p = exp(dot(q, k + s * stride, kv->HS) / sqrt((double)kv->HS));
        sum += p;
        for (size_t d = 0; d < kv->HS; d++)
            out[d] += p * v[s * stride + d];
    }
    for (size_t d = 0; d < kv->HS && sum > 0.0; d++)
        out[d] /= sum;
}

static void attention_case(enum dt_dtype type, struct sizes z)
{
    struct dt_kv kv = cache(type, z);
    struct dt_view qkv = tensor_of(type, z.B * row_width(&kv));
    struct dt_view positions = tensor_ids(z.B, z.S);
    struct dt_view out = tensor_of(type, z.B * z.NH * z.HS);
    double *want = zeros(out.count), *q = doubles(qkv);
    double *k = doubles(kv.k), *v = doubles(kv.v);

    dt_view_i32(positions)[0] = (int32_t)z.S - 1;
    if (z.B > 1)
        dt_view_i32(positions)[1] = 0;
    if (z.B > 2)
        dt_view_i32(positions)[2] = -1;
    for (size_t i = 0; i < z.B * z.NH; i++) {
        size_t b = i / z.NH, h = i % z.NH;
        size_t end = (size_t)(dt_view_i32(positions)[b] + 1);
        size_t first = z.window && end > z.window ? end - z.window : 0;
        size_t at = (b * z.S * z.NKV + h / (z.NH / z.NKV)) * z.HS;
        reference_head(want + i * z.HS, q + b * row_width(&kv) + h * z.HS,
                       k + at, v + at, &kv, first, end);
    }
    ops->kv_attention(NULL, out, qkv, positions, &kv);
    check_close("out", out, want, 2e-6);
}

void test_kv(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        store_case(TYPES[i], (struct sizes){1, 1, 1, 1, 1, 2, 0});
        store_case(TYPES[i], (struct sizes){3, 4, 9, 6, 2, 10, 0});
        attention_case(TYPES[i], (struct sizes){1, 1, 1, 1, 1, 2, 0});
        attention_case(TYPES[i], (struct sizes){3, 1, 33, 6, 2, 10, 0});
        attention_case(TYPES[i], (struct sizes){4, 1, 70, 4, 4, 64, 17});
        attention_case(TYPES[i], (struct sizes){2, 1, 100, 20, 1, 34, 0});
        attention_case(TYPES[i], (struct sizes){1, 1, 200, 8, 2, 128, 0});
        /* so long that several blocks share the slots of a row */
        attention_case(TYPES[i], (struct sizes){2, 1, 600, 2, 1, 8, 0});
        attention_case(TYPES[i], (struct sizes){2, 1, 900, 2, 1, 8, 300});
    }
}
