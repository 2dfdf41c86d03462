/* SPDX-License-Identifier: Apache-2.0 */
/* case_kv.c - decoding: the cache of keys and values, and attention to it */
#include "config.h"

#include <math.h>
#include <string.h>

#include "harness.h"

struct sizes {
    size_t B, blocks, NH, NKV, HS, window;
    float softcap;
};

/* A cache of two layers, of which the second is given: every block has keys and
 * values of both. Sequences have blocks here and there.
 */
static struct dt_kv cache(enum dt_dtype type, struct sizes z)
{
    const size_t layer = DT_KV_BLOCK * z.NKV * z.HS, stride = 4 * layer;
    const size_t count = (z.B * z.blocks + 1) * stride;
    struct dt_view pool = tensor_of(type, count);
    struct dt_view table = tensor_ids(z.B * z.blocks, 1);

    for (size_t i = 0; i < table.count; i++) {
        size_t b = i / z.blocks, n = i % z.blocks;
        dt_view_i32(table)[i] = (int32_t)((z.blocks - 1 - n) * z.B + b + 1);
    }
    return (struct dt_kv){
        .B = z.B,
        .NH = z.NH,
        .NKV = z.NKV,
        .HS = z.HS,
        .window = z.window,
        .scale = (float)(1.0 / sqrt((double)z.HS)),
        .softcap = z.softcap,
        .blocks = z.blocks,
        .stride = stride,
        .k = dt_view_slice(pool, 2 * layer, count - 2 * layer),
        .v = dt_view_slice(pool, 3 * layer, count - 3 * layer),
        .table = table,
    };
}

static size_t row_width(const struct dt_kv *kv)
{
    return (kv->NH + 2 * kv->NKV) * kv->HS;
}

/* The element of k or v where position s of sequence b begins. */
static size_t element_at(const struct dt_kv *kv, size_t b, size_t s)
{
    int32_t block = dt_view_i32(kv->table)[b * kv->blocks + s / DT_KV_BLOCK];

    return (size_t)block * kv->stride + s % DT_KV_BLOCK * kv->NKV * kv->HS;
}

/* Every row is stored in its place, except those that say "nowhere", and
 * nothing else changes.
 */
static void store_case(enum dt_dtype type, struct sizes z)
{
    const size_t N = 12, width = z.NKV * z.HS;
    struct dt_kv kv = cache(type, z);
    struct dt_view qkv = tensor_of(type, N * row_width(&kv));
    struct dt_view places = tensor_ids(N, 1);
    /* v is one layer's keys behind k, in the same memory */
    double *k = doubles(kv.k), *v = k + DT_KV_BLOCK * width;

    for (size_t n = 0; n < N; n++) {
        size_t b = n % z.B, s = 7 * n % (z.blocks * DT_KV_BLOCK);
        size_t at = element_at(&kv, b, s);
        size_t from = n * row_width(&kv) + z.NH * z.HS;
        dt_view_i32(places)[n] =
            n % 3 == 1
                ? -1
                : (int32_t)(at / kv.stride * DT_KV_BLOCK + s % DT_KV_BLOCK);
        for (size_t i = 0; i < width && n % 3 != 1; i++) {
            k[at + i] = element(qkv, from + i);
            v[at + i] = element(qkv, from + width + i);
        }
    }
    ops->kv_store(NULL, &kv, qkv, places, N);
    check_close("k and v", kv.k, k, 0.0);
}

/* out(HS) of query q(HS) of sequence b, which attends to positions [first, end)
 * with the head of keys and values that begins at element `head`
 */
static void reference_head(double *out, const double *q, const double *k,
                           const double *v, const struct dt_kv *kv, size_t b,
                           size_t head, size_t first, size_t end)
{
    double sum = 0.0;

    memset(out, 0, kv->HS * sizeof(*out));
    for (size_t s = first; s < end; s++) {
        size_t at = element_at(kv, b, s) + head;
        double score = dot(q, k + at, kv->HS) * (double)kv->scale;
        if (kv->softcap > 0.0f)
            score = (double)kv->softcap * tanh(score / (double)kv->softcap);
        double p = exp(score);
        sum += p;
        for (size_t d = 0; d < kv->HS; d++)
            out[d] += p * v[at + d];
    }
    for (size_t d = 0; d < kv->HS && sum > 0.0; d++)
        out[d] /= sum;
}

/* Nobody has written the rest of a sequence's blocks. */
static void spoil_rest(const struct dt_kv *kv, size_t b, size_t end)
{
    for (size_t s = end; s < kv->blocks * DT_KV_BLOCK; s++) {
        for (size_t i = 0; i < kv->NKV * kv->HS; i++) {
            set_element(kv->k, element_at(kv, b, s) + i, NAN);
            set_element(kv->v, element_at(kv, b, s) + i, NAN);
        }
    }
}

static void attention_case(enum dt_dtype type, struct sizes z, size_t longest)
{
    struct dt_kv kv = cache(type, z);
    struct dt_view qkv = tensor_of(type, z.B * row_width(&kv));
    struct dt_view positions = tensor_ids(z.B, longest);
    struct dt_view out = tensor_of(type, z.B * z.NH * z.HS);
    double *want = zeros(out.count), *q = doubles(qkv);
    double *k = doubles(kv.k), *v = doubles(kv.v);

    dt_view_i32(positions)[0] = (int32_t)longest - 1;
    if (z.B > 1)
        dt_view_i32(positions)[1] = 0;
    if (z.B > 2)
        dt_view_i32(positions)[2] = -1;
    for (size_t b = 0; b < z.B; b++)
        spoil_rest(&kv, b, (size_t)(dt_view_i32(positions)[b] + 1));
    for (size_t i = 0; i < z.B * z.NH; i++) {
        size_t b = i / z.NH, h = i % z.NH;
        size_t end = (size_t)(dt_view_i32(positions)[b] + 1);
        size_t first = z.window && end > z.window ? end - z.window : 0;
        reference_head(want + i * z.HS, q + b * row_width(&kv) + h * z.HS, k, v,
                       &kv, b, h / (z.NH / z.NKV) * z.HS, first, end);
    }
    ops->kv_attention(NULL, out, qkv, positions, &kv);
    check_close("out", out, want, 2e-6);
}

void test_kv(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        const enum dt_dtype type = TYPES[i];
        store_case(type, (struct sizes){1, 1, 1, 1, 2, 0, 0.0f});
        store_case(type, (struct sizes){3, 2, 6, 2, 10, 0, 0.0f});
        attention_case(type, (struct sizes){1, 1, 1, 1, 2, 0, 0.0f}, 1);
        attention_case(type, (struct sizes){3, 2, 6, 2, 10, 0, 0.0f}, 33);
        attention_case(type, (struct sizes){4, 3, 4, 4, 64, 17, 0.0f}, 70);
        attention_case(type, (struct sizes){2, 4, 20, 1, 34, 0, 0.0f}, 100);
        attention_case(type, (struct sizes){1, 7, 8, 2, 128, 0, 0.0f}, 200);
        /* so long that several blocks of threads share a sequence */
        attention_case(type, (struct sizes){2, 19, 2, 1, 8, 0, 0.0f}, 600);
        attention_case(type, (struct sizes){2, 29, 2, 1, 8, 300, 0.0f}, 900);
        attention_case(type, (struct sizes){3, 4, 4, 2, 34, 40, 0.5f}, 100);
        attention_case(type, (struct sizes){2, 19, 2, 1, 8, 0, 20.0f}, 600);
    }
}
