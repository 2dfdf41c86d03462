/* SPDX-License-Identifier: Apache-2.0 */
/* case_attention.c - causal attention: groups, documents, window, dropout */
#include "config.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "harness.h"

struct attention {
    const struct dt_attention *args;
    double *qkv, *dout, *out, *lse;
    double *score;   /* (T) */
    double *factors; /* (B, NH, T, T), of dropout */
};

static size_t row_width(const struct dt_attention *a)
{
    return (a->NH + 2 * a->NKV) * a->HS;
}

static size_t first_seen(const struct dt_attention *a, size_t b, size_t t)
{
    size_t start = a->doc_start.count
                       ? (size_t)dt_view_i32(a->doc_start)[b * a->T + t]
                       : 0;
    size_t edge = a->window && t >= a->window ? t - a->window + 1 : 0;

    return start > edge ? start : edge;
}

/* One query: position t of head h of row b. */
static void reference_query(const struct attention *r, size_t b, size_t h,
                            size_t t)
{
    const struct dt_attention *a = r->args;
    const size_t width = row_width(a), HS = a->HS;
    const double *q = r->qkv + (b * a->T + t) * width + h * HS;
    const double *k =
        r->qkv + b * a->T * width + (a->NH + h / (a->NH / a->NKV)) * HS;
    const double *factors = r->factors + ((b * a->NH + h) * a->T + t) * a->T;
    double *out = r->out + ((b * a->T + t) * a->NH + h) * HS;
    double most = -INFINITY, sum = 0.0;

    for (size_t s = first_seen(a, b, t); s <= t; s++) {
        r->score[s] = dot(q, k + s * width, HS) * (double)a->scale;
        if (a->softcap > 0.0f)
            r->score[s] =
                (double)a->softcap * tanh(r->score[s] / (double)a->softcap);
        most = fmax(most, r->score[s]);
    }
    for (size_t s = first_seen(a, b, t); s <= t; s++) {
        r->score[s] = exp(r->score[s] - most);
        sum += r->score[s];
    }
    memset(out, 0, HS * sizeof(*out));
    for (size_t s = first_seen(a, b, t); s <= t; s++) {
        double p = r->score[s] / sum * factors[s];
        for (size_t d = 0; d < HS; d++)
            out[d] += p * k[s * width + a->NKV * HS + d];
    }
    r->lse[(b * a->NH + h) * a->T + t] = most + log(sum);
}

static double attention_loss(void *context)
{
    struct attention *r = context;
    const struct dt_attention *a = r->args;

    for (size_t i = 0; i < a->B * a->NH * a->T; i++)
        reference_query(r, i / a->T / a->NH, i / a->T % a->NH, i % a->T);
    return dot(r->out, r->dout, a->B * a->T * a->NH * a->HS);
}

struct dt_view documents(size_t B, size_t T, size_t longest)
{
    struct dt_view doc_start = tensor_ids(longest ? B * T : 0, 1);
    size_t length = 1;

    for (size_t b = 0; b < B && longest; b++) {
        for (size_t start = 0; start < T; start += length) {
            length = length % longest + 1;
            for (size_t t = start; t < start + length && t < T; t++)
                dt_view_i32(doc_start)[b * T + t] = (int32_t)start;
        }
    }
    return doc_start;
}

struct sizes {
    size_t B, T, NH, NKV, HS;
    double size; /* of the scores, so that the running maximum moves */
    size_t longest, window;
    double rate;
    float softcap, scale; /* scale 0: HS^-0.5 */
};

static float scale_of(struct sizes z)
{
    return z.scale > 0.0f ? z.scale : (float)(1.0 / sqrt((double)z.HS));
}

static void attention_case(enum dt_dtype type, struct sizes z)
{
    struct dt_attention a = {.B = z.B,
                             .T = z.T,
                             .NH = z.NH,
                             .NKV = z.NKV,
                             .HS = z.HS,
                             .window = z.window,
                             .scale = scale_of(z),
                             .softcap = z.softcap,
                             .doc_start = documents(z.B, z.T, z.longest),
                             .dropout = dropout_of(z.rate, z.B)};
    const size_t count = z.B * z.T * z.NH * z.HS, rows = z.B * z.T;
    struct dt_view qkv = tensor_of(type, rows * row_width(&a));
    struct dt_view out = tensor_of(type, count), lse = tensor(rows * z.NH);
    struct dt_view dqkv = tensor_of(type, qkv.count);
    struct dt_view dout = tensor_of(type, count);
    struct dt_view space = workspace(ops->attention_workspace(type, &a));
    struct attention r = {.args = &a,
                          .dout = doubles(dout),
                          .out = zeros(count),
                          .lse = zeros(lse.count),
                          .score = zeros(z.T)};

    for (size_t i = 0; i < qkv.count; i++)
        set_element(qkv, i, element(qkv, i) * (type == DT_F32 ? z.size : 1.0));
    r.qkv = doubles(qkv);
    r.factors = dropout_factors(&a.dropout, z.B, z.NH * z.T * z.T);
    attention_loss(&r);
    ops->attention_forward(NULL, out, lse, qkv, &a);
    check_close("out", out, r.out, 3e-6 + inner(type));
    check_close("lse", lse, r.lse, 3e-6);
    ops->attention_backward(NULL, dqkv, dout, out, lse, qkv, space, &a);
    check_gradient("dqkv", dqkv, r.qkv, attention_loss, &r, NULL);
}

void test_attention(void **state)
{
    const struct sizes SIZES[] = {
        {1, 1, 1, 1, 2, 1.0, 0, 0, 0.0, 0.0f, 0.0f},
        {2, 5, 3, 3, 6, 1.0, 0, 0, 0.0, 0.0f, 0.0f},
        {1, 64, 2, 2, 16, 1.0, 0, 0, 0.0, 0.0f, 0.0f},
        {1, 65, 1, 1, 10, 4.0, 0, 0, 0.0, 0.0f, 0.0f},
        {1, 131, 1, 1, 64, 1.0, 0, 0, 0.0, 0.0f, 0.0f},
        {1, 67, 2, 2, 70, 2.0, 0, 0, 0.0, 0.0f, 0.0f},
        {2, 9, 1, 1, 130, 1.0, 0, 0, 0.0, 0.0f, 0.0f},
        {1, 33, 6, 2, 8, 1.0, 0, 0, 0.0, 0.0f, 0.0f},
        {2, 70, 4, 1, 34, 1.0, 0, 0, 0.0, 0.0f, 0.0f},
        {1, 40, 17, 1, 4, 1.0, 0, 0, 0.0, 0.0f, 0.0f},
        {1, 150, 2, 1, 12, 1.0, 0, 1, 0.0, 0.0f, 0.0f},
        {1, 150, 2, 1, 12, 1.0, 0, 40, 0.0, 0.0f, 0.0f},
        {2, 140, 2, 1, 12, 3.0, 60, 0, 0.0, 0.0f, 0.0f},
        {2, 99, 4, 2, 16, 1.0, 13, 9, 0.0, 0.0f, 0.0f},
        {1, 70, 4, 2, 16, 2.0, 0, 0, 0.0, 0.0f, 0.9f},
        {1, 70, 4, 2, 16, 4.0, 0, 0, 0.0, 1.5f, 0.7f},
        {2, 99, 2, 1, 34, 2.0, 13, 9, 0.0, 30.0f, 0.0f},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            attention_case(TYPES[i], SIZES[j]);
    }
}

void test_attention_dropout(void **state)
{
    const struct sizes SIZES[] = {
        {1, 1, 1, 1, 2, 1.0, 0, 0, 0.5, 0.0f, 0.0f},
        {2, 5, 3, 3, 6, 1.0, 0, 0, 0.1, 0.0f, 0.0f},
        {2, 68, 2, 2, 16, 1.0, 0, 0, 0.3, 0.0f, 0.0f},
        {1, 131, 4, 2, 10, 2.0, 0, 0, 0.1, 0.0f, 0.0f},
        {1, 99, 2, 1, 64, 1.0, 40, 23, 0.2, 0.0f, 0.0f},
        {1, 66, 1, 1, 8, 1.0, 0, 2, 0.1, 0.0f, 0.0f},
        {1, 70, 2, 1, 64, 1.0, 40, 23, 0.2, 2.0f, 0.0f},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            attention_case(TYPES[i], SIZES[j]);
    }
}

/* One head of 64 positions, the second half another document; workspace for one
 * thread.
 */
struct two {
    struct dt_attention args;
    struct dt_view qkv, out, lse, dout, dqkv;
};

enum { T = 64, HS = 8, WIDTH = 3 * HS };

static struct two two_documents(void)
{
    struct two x = {
        .args = {.B = 1, .T = T, .NH = 1, .NKV = 1, .HS = HS, .scale = 0.35f},
        .qkv = tensor(T * WIDTH),
        .out = tensor(T * HS),
        .lse = tensor(T),
        .dout = tensor(T * HS),
        .dqkv = tensor(T * WIDTH)};

    x.args.doc_start = tensor_ids(T, 1);
    for (size_t t = T / 2; t < T; t++)
        dt_view_i32(x.args.doc_start)[t] = T / 2;
    return x;
}

static void run(const struct two *x)
{
    const int threads = omp_get_max_threads();
    struct dt_view space;

    omp_set_num_threads(1);
    space = workspace(ops->attention_workspace(x->qkv.dtype, &x->args));
    omp_set_num_threads(threads);
    ops->attention_forward(NULL, x->out, x->lse, x->qkv, &x->args);
    ops->attention_backward(NULL, x->dqkv, x->dout, x->out, x->lse, x->qkv,
                            space, &x->args);
}

void test_attention_isolation(void **state)
{
    const size_t half = T / 2 * WIDTH;
    struct two a = two_documents(), b = two_documents();
    (void)state;

    memcpy(dt_view_f32(b.dout), dt_view_f32(a.dout), T * HS * sizeof(float));
    memcpy(dt_view_f32(b.qkv) + half, dt_view_f32(a.qkv) + half,
           half * sizeof(float));
    run(&a);
    run(&b);
    assert_memory_equal(dt_view_f32(b.out) + T / 2 * HS,
                        dt_view_f32(a.out) + T / 2 * HS,
                        T / 2 * HS * sizeof(float));
    assert_memory_equal(dt_view_f32(b.dqkv) + half, dt_view_f32(a.dqkv) + half,
                        half * sizeof(float));
    assert_memory_not_equal(dt_view_f32(b.dqkv), dt_view_f32(a.dqkv),
                            half * sizeof(float));
}

/* What is not a number is not lost: an overflow must be noticed. */
void test_attention_nan(void **state)
{
    struct two x = two_documents();
    (void)state;

    set_element(x.qkv, 7 * WIDTH, NAN);      /* a query */
    set_element(x.qkv, 9 * WIDTH + HS, NAN); /* a key */
    run(&x);
    for (size_t t = 0; t < T; t++) {
        bool bad = t == 7 || (t >= 9 && t < T / 2);
        assert_true(isnan(element(x.out, t * HS)) == bad);
        assert_true(isnan(element(x.lse, t)) == bad);
        assert_true(isnan(element(x.dqkv, t * WIDTH)) || !bad);
    }
}

/* Of two rows, the first one begins with a document of `count` positions, which
 * the second one has from position `first` on, behind another document.
 */
static void place_case(enum dt_dtype type, size_t first, size_t count,
                       size_t NH, size_t window)
{
    enum { ROW = 450, SIZE = 16 };
    struct dt_attention a = {.B = 2,
                             .T = ROW,
                             .NH = NH,
                             .NKV = 1,
                             .HS = SIZE,
                             .window = window,
                             .scale = 0.25f,
                             .doc_start = tensor_ids(2 * ROW, 1)};
    const size_t width = row_width(&a), bytes = dt_dtype_bytes(type);
    struct dt_view qkv = tensor_of(type, 2 * ROW * width);
    struct dt_view out = tensor_of(type, 2 * ROW * NH * SIZE);
    struct dt_view lse = tensor(2 * NH * ROW);
    int32_t *start = dt_view_i32(a.doc_start);
    char *in = dt_view_data(qkv);
    const char *got = dt_view_data(out);

    for (size_t t = 0; t < ROW; t++) {
        start[t] = t < count ? 0 : (int32_t)count;
        start[ROW + t] = t < first           ? 0
                         : t < first + count ? (int32_t)first
                                             : (int32_t)(first + count);
    }
    memcpy(in + (ROW + first) * width * bytes, in, count * width * bytes);
    ops->attention_forward(NULL, out, lse, qkv, &a);
    assert_memory_equal(got, got + (ROW + first) * NH * SIZE * bytes,
                        count * NH * SIZE * bytes);
}

/* What key_tile says of where a document may be. */
void test_attention_places(void **state)
{
    const size_t tile = ops->key_tile;
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT && tile > 0; i++) {
        for (size_t window = 0; window <= 40; window += 40) {
            place_case(TYPES[i], 1, tile - 1, 1, window);
            place_case(TYPES[i], 3 * tile - 20, 20, 1, window);
            place_case(TYPES[i], 2 * tile + 7, 30, 5, window);
            place_case(TYPES[i], tile, 3 * tile + 1, 8, window);
            place_case(TYPES[i], 5 * tile, tile + 5, 3, window);
        }
    }
}
