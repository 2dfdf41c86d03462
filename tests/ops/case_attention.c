/* SPDX-License-Identifier: Apache-2.0 */
/* case_attention.c - attention: groups, bounds, window, dropout */
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
    size_t start =
        a->first.count ? (size_t)dt_view_i32(a->first)[b * a->T + t] : 0;
    size_t edge = a->window && t >= a->window ? t - a->window + 1 : 0;

    return start > edge ? start : edge;
}

static size_t last_seen(const struct dt_attention *a, size_t b, size_t t)
{
    return a->last.count ? (size_t)dt_view_i32(a->last)[b * a->T + t] : t;
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
    const size_t first = first_seen(a, b, t), last = last_seen(a, b, t);
    double *out = r->out + ((b * a->T + t) * a->NH + h) * HS;
    double most = -INFINITY, sum = 0.0;

    for (size_t s = first; s <= last; s++) {
        r->score[s] = dot(q, k + s * width, HS) * (double)a->scale;
        if (a->softcap > 0.0f)
            r->score[s] =
                (double)a->softcap * tanh(r->score[s] / (double)a->softcap);
        most = fmax(most, r->score[s]);
    }
    for (size_t s = first; s <= last; s++) {
        r->score[s] = exp(r->score[s] - most);
        sum += r->score[s];
    }
    memset(out, 0, HS * sizeof(*out));
    for (size_t s = first; s <= last; s++) {
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
    struct dt_view first = tensor_ids(longest ? B * T : 0, 1);
    size_t length = 1;

    for (size_t b = 0; b < B && longest; b++) {
        for (size_t start = 0; start < T; start += length) {
            length = length % longest + 1;
            for (size_t t = start; t < start + length && t < T; t++)
                dt_view_i32(first)[b * T + t] = (int32_t)start;
        }
    }
    return first;
}

void look_ahead(struct dt_attention *a, enum ahead ahead)
{
    const int32_t *start = a->first.count ? dt_view_i32(a->first) : NULL;
    const size_t N = a->B * a->T;
    size_t number = 0;

    if (ahead == NOBODY)
        return;
    a->last = tensor_ids(N, 1);
    for (size_t n = 0, end; n < N; n = end, number++) {
        end = n + 1;
        while (end % a->T != 0 && (!start || start[end] == start[n]))
            end++;
        for (size_t i = n; i < end; i++) {
            bool all = ahead == EVERYBODY || number % 2 == 0;
            dt_view_i32(a->last)[i] = (int32_t)((all ? end - 1 : i) % a->T);
        }
    }
    if (ahead == RUNS)
        a->first = (struct dt_view){0};
}

/* Says where the documents of `first` are, of batches of up to `tokens`. */
static void tell_documents(struct dt_attention *a, size_t tokens)
{
    const size_t words = sizeof(struct dt_document) / sizeof(int32_t);

    a->documents.tokens = tokens;
    a->documents.longest = a->T;
    a->documents.spans = tensor_ids(dt_document_places(tokens) * words, 1);
    dt_documents_find(&a->documents, dt_view_data(a->documents.spans),
                      dt_view_i32(a->first), a->B, a->T);
}

struct sizes {
    size_t B, T, NH, NKV, HS;
    double size; /* of the scores, so that the running maximum moves */
    size_t longest, window;
    double rate;
    float softcap, scale; /* scale 0: HS^-0.5 */
    enum ahead ahead;
};

static float scale_of(struct sizes z)
{
    return z.scale > 0.0f ? z.scale : (float)(1.0 / sqrt((double)z.HS));
}

static struct dt_attention arguments(struct sizes z)
{
    struct dt_attention a = {.B = z.B,
                             .T = z.T,
                             .NH = z.NH,
                             .NKV = z.NKV,
                             .HS = z.HS,
                             .window = z.window,
                             .scale = scale_of(z),
                             .softcap = z.softcap,
                             .first = documents(z.B, z.T, z.longest),
                             .dropout = dropout_of(z.rate, z.B)};

    if (z.longest > 0 && z.ahead == NOBODY)
        tell_documents(&a, z.B * z.T);
    look_ahead(&a, z.ahead);
    return a;
}

static void compare(enum dt_dtype type, struct sizes z, struct dt_attention a)
{
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

static void attention_case(enum dt_dtype type, struct sizes z)
{
    compare(type, z, arguments(z));
}

void test_attention(void **state)
{
    const struct sizes SIZES[] = {
        {1, 1, 1, 1, 2, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {2, 5, 3, 3, 6, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 64, 2, 2, 16, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 65, 1, 1, 10, 4.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 131, 1, 1, 64, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 67, 2, 2, 70, 2.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {2, 9, 1, 1, 130, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 33, 6, 2, 8, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {2, 70, 4, 1, 34, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 40, 17, 1, 4, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 150, 2, 1, 12, 1.0, 0, 1, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 150, 2, 1, 12, 1.0, 0, 40, 0.0, 0.0f, 0.0f, NOBODY},
        {2, 140, 2, 1, 12, 3.0, 60, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {2, 99, 4, 2, 16, 1.0, 13, 9, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 70, 4, 2, 16, 2.0, 0, 0, 0.0, 0.0f, 0.9f, NOBODY},
        {1, 70, 4, 2, 16, 4.0, 0, 0, 0.0, 1.5f, 0.7f, NOBODY},
        {2, 99, 2, 1, 34, 2.0, 13, 9, 0.0, 30.0f, 0.0f, NOBODY},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            if (!is_other_half(i, j))
                attention_case(TYPES[i], SIZES[j]);
    }
}

/* More than a tile of each kernel that there is for a size. */
void test_attention_heads(void **state)
{
    const struct sizes SIZES[] = {
        {1, 70, 2, 1, 64, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 70, 1, 1, 80, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
        {1, 70, 1, 1, 128, 1.0, 0, 0, 0.0, 0.0f, 0.0f, NOBODY},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++)
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            attention_case(TYPES[i], SIZES[j]);
}

void test_attention_dropout(void **state)
{
    const struct sizes SIZES[] = {
        {1, 1, 1, 1, 2, 1.0, 0, 0, 0.5, 0.0f, 0.0f, NOBODY},
        {2, 5, 3, 3, 6, 1.0, 0, 0, 0.1, 0.0f, 0.0f, NOBODY},
        {2, 68, 2, 2, 16, 1.0, 0, 0, 0.3, 0.0f, 0.0f, NOBODY},
        {1, 131, 4, 2, 10, 2.0, 0, 0, 0.1, 0.0f, 0.0f, NOBODY},
        {1, 99, 2, 1, 64, 1.0, 40, 23, 0.2, 0.0f, 0.0f, NOBODY},
        {1, 66, 1, 1, 8, 1.0, 0, 2, 0.1, 0.0f, 0.0f, NOBODY},
        {1, 70, 2, 1, 64, 1.0, 40, 23, 0.2, 2.0f, 0.0f, NOBODY},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            attention_case(TYPES[i], SIZES[j]);
    }
}

/* Documents of these lengths in a row of T positions, the same in each of B
 * rows; then some of one position. A batch might have `spare` more tokens.
 */
static void documents_case(enum dt_dtype type, const size_t *lengths, size_t B,
                           size_t T, size_t window, size_t spare)
{
    const struct sizes z = {B, T,      2,   1,    8,    1.0,
                            0, window, 0.0, 0.0f, 0.0f, NOBODY};
    struct dt_attention a = arguments(z);
    size_t start = 0, end;

    a.first = tensor_ids(B * T, 1);
    for (; start < T; start = end) {
        end = start + (*lengths > 0 ? *lengths++ : 1);
        for (size_t t = start; t < end; t++)
            for (size_t b = 0; b < B; b++)
                dt_view_i32(a.first)[b * T + t] = (int32_t)start;
    }
    tell_documents(&a, B * T + spare);
    compare(type, z, a);
}

/* Around the border of the first class, of 64 positions; one run and several.
 */
void test_attention_documents(void **state)
{
    const size_t ONE[] = {70, 0}, BORDERS[] = {63, 1, 64, 65, 2, 0};
    const size_t SHORT[] = {9, 3, 20, 2, 17, 5, 4, 0}, NONE[] = {0};
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        documents_case(TYPES[i], NONE, 2, 3, 0, 0);
        documents_case(TYPES[i], SHORT, 1, 64, 7, 1000);
    }
    documents_case(DT_F16, ONE, 1, 70, 0, 0);
    documents_case(DT_BF16, SHORT, 2, 60, 0, 0);
    documents_case(DT_BF16, BORDERS, 1, 196, 33, 0);
}

/* Around the borders of tiles, of 64 positions and less. */
void test_attention_bounds(void **state)
{
    const struct sizes SIZES[] = {
        {1, 1, 1, 1, 64, 1.0, 0, 0, 0.0, 0.0f, 0.0f, EVERYBODY},
        {2, 63, 2, 1, 8, 1.0, 0, 0, 0.0, 0.0f, 0.0f, EVERYBODY},
        {1, 64, 1, 1, 72, 2.0, 0, 0, 0.0, 0.0f, 0.0f, EVERYBODY},
        {1, 65, 1, 1, 80, 1.0, 0, 0, 0.0, 0.0f, 0.0f, EVERYBODY},
        {1, 129, 1, 1, 8, 3.0, 0, 0, 0.0, 0.0f, 0.0f, EVERYBODY},
        {2, 140, 2, 1, 4, 3.0, 65, 0, 0.0, 0.0f, 0.0f, EVERYBODY},
        {1, 150, 2, 1, 6, 1.0, 31, 0, 0.0, 0.0f, 0.0f, RUNS},
        {2, 133, 1, 1, 4, 1.0, 64, 40, 0.0, 0.0f, 0.0f, RUNS},
        {1, 99, 9, 1, 4, 1.0, 13, 9, 0.0, 0.0f, 0.0f, EVERYBODY},
        /* by no library, so on tensor cores where there are */
        {1, 64, 1, 1, 64, 1.0, 0, 0, 0.2, 0.0f, 0.0f, EVERYBODY},
        {1, 65, 1, 1, 64, 1.0, 0, 0, 0.0, 5.0f, 0.0f, EVERYBODY},
        {1, 97, 1, 1, 72, 2.0, 0, 0, 0.0, 5.0f, 0.0f, EVERYBODY},
        {1, 130, 1, 1, 80, 1.0, 34, 0, 0.0, 5.0f, 0.0f, EVERYBODY},
        {2, 70, 1, 1, 80, 1.0, 0, 0, 0.0, 5.0f, 0.0f, NOBODY},
        {1, 97, 2, 1, 128, 1.0, 40, 0, 0.0, 5.0f, 0.0f, EVERYBODY},
        {1, 70, 1, 1, 88, 1.0, 33, 0, 0.1, 0.0f, 0.0f, RUNS},
        {1, 133, 2, 1, 16, 1.0, 64, 40, 0.0, 5.0f, 0.0f, RUNS},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            if (!is_other_half(i, j))
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

    x.args.first = tensor_ids(T, 1);
    for (size_t t = T / 2; t < T; t++)
        dt_view_i32(x.args.first)[t] = T / 2;
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

enum kind { ROWS, DOCUMENTS, BOUNDS };

/* The room that is planned for rows, documents of which nothing is known, or
 * positions with bounds on both sides.
 */
static size_t planned_room(enum kind kind, size_t size, size_t window)
{
    struct dt_attention a = {.B = 1,
                             .T = 1100,
                             .NH = 2,
                             .NKV = 2,
                             .HS = size,
                             .scale = 0.35f,
                             .window = window};

    if (kind != ROWS)
        a.first.count = a.T;
    if (kind == BOUNDS)
        a.last.count = a.T;
    if (kind == DOCUMENTS)
        a.documents.tokens = a.documents.longest = a.documents.spans.count =
            a.T;
    return ops->attention_workspace(DT_BF16, &a);
}

/* Where documents are computed one by one, which takes more than the row, they
 * are first tried so, also if a window hides most of the row. Where it does and
 * heads are too large for kernels that skip tiles, the library has its room.
 */
void test_attention_room(void **state)
{
    const size_t row = planned_room(ROWS, 8, 0);
    (void)state;

    if (planned_room(DOCUMENTS, 8, 0) <= row) {
        print_message("# no library computes documents one by one here\n");
        nothing_here();
    }
    assert_true(planned_room(DOCUMENTS, 8, 4) > row);
    assert_int_equal(planned_room(BOUNDS, 136, 4),
                     planned_room(BOUNDS, 136, 0));
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

static void poison(struct dt_view x, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        set_element(x, i, NAN);
}

static void check_same(struct dt_view x, struct dt_view y, size_t first,
                       size_t count)
{
    const size_t bytes = dt_dtype_bytes(x.dtype);

    assert_memory_equal((char *)dt_view_data(x) + first * bytes,
                        (char *)dt_view_data(y) + first * bytes, count * bytes);
}

/* Of images, a tile each, the second one is NaN: the others have the bits that
 * they have without.
 */
static void unseen_case(enum dt_dtype type, size_t images, float softcap,
                        size_t size, size_t window)
{
    enum { TILE = 64, HEADS = 2 };
    const size_t rows = images * TILE, width = (HEADS + 2) * size;
    const struct sizes z = {1, rows,   HEADS, 1,       size, 1.0,
                            0, window, 0.0,   softcap, 0.0f, NOBODY};
    struct dt_attention a = arguments(z);
    struct dt_view qkv = tensor_of(type, rows * width), out[2], lse[2], dqkv[2];
    struct dt_view dout = tensor_of(type, rows * HEADS * size);
    struct dt_view space = workspace(ops->attention_workspace(type, &a));

    a.first = tensor_ids(rows, 1);
    a.last = tensor_ids(rows, 1);
    for (size_t t = 0; t < rows; t++) {
        dt_view_i32(a.first)[t] = (int32_t)(t / TILE * TILE);
        dt_view_i32(a.last)[t] = (int32_t)(t / TILE * TILE + TILE - 1);
    }
    for (size_t i = 0; i < 2; i++) {
        out[i] = tensor_of(type, dout.count);
        lse[i] = tensor(rows * HEADS);
        dqkv[i] = tensor_of(type, qkv.count);
        ops->attention_forward(NULL, out[i], lse[i], qkv, &a);
        ops->attention_backward(NULL, dqkv[i], dout, out[i], lse[i], qkv, space,
                                &a);
        poison(qkv, TILE * width, TILE * width);
        poison(dout, TILE * HEADS * size, TILE * HEADS * size);
    }
    assert_true(isnan(element(out[1], TILE * HEADS * size)));
    for (size_t t = 0; t < rows; t += t == 0 ? 2 * TILE : TILE) {
        check_same(out[0], out[1], t * HEADS * size, TILE * HEADS * size);
        check_same(dqkv[0], dqkv[1], t * width, TILE * width);
        check_same(lse[0], lse[1], t, TILE);
        check_same(lse[0], lse[1], rows + t, TILE);
    }
}

/* A library may multiply NaN by 0, but is not asked where there is much more to
 * mask than to multiply, nor with a softcap.
 */
void test_attention_unseen(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++)
        unseen_case(TYPES[i], 3, 20.0f, 72, 0);
    unseen_case(DT_F32, 3, 0.0f, 16, 0);
    unseen_case(DT_BF16, 24, 0.0f, 8, 64);
}

/* Of two rows, the first one begins with a document of `count` positions, which
 * the second one has from position `first` on, behind another document.
 */
static void place_case(enum dt_dtype type, size_t first, size_t count,
                       size_t NH, size_t window, enum ahead ahead)
{
    enum { ROW = 450, SIZE = 16 };
    struct dt_attention a = {.B = 2,
                             .T = ROW,
                             .NH = NH,
                             .NKV = 1,
                             .HS = SIZE,
                             .window = window,
                             .scale = 0.25f,
                             .first = tensor_ids(2 * ROW, 1)};
    const size_t width = row_width(&a), bytes = dt_dtype_bytes(type);
    struct dt_view qkv = tensor_of(type, 2 * ROW * width);
    struct dt_view out = tensor_of(type, 2 * ROW * NH * SIZE);
    struct dt_view lse = tensor(2 * NH * ROW);
    int32_t *start = dt_view_i32(a.first);
    char *in = dt_view_data(qkv);
    const char *got = dt_view_data(out);

    for (size_t t = 0; t < ROW; t++) {
        start[t] = t < count ? 0 : (int32_t)count;
        start[ROW + t] = t < first           ? 0
                         : t < first + count ? (int32_t)first
                                             : (int32_t)(first + count);
    }
    look_ahead(&a, ahead);
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
        for (size_t j = 0; j < 3; j++) {
            const size_t window = j == 1 ? 40 : 0;
            const enum ahead ahead = j == 2 ? EVERYBODY : NOBODY;
            place_case(TYPES[i], 1, tile - 1, 1, window, ahead);
            place_case(TYPES[i], 3 * tile - 20, 20, 1, window, ahead);
            place_case(TYPES[i], 2 * tile + 7, 30, 5, window, ahead);
            place_case(TYPES[i], tile, 3 * tile + 1, 8, window, ahead);
            place_case(TYPES[i], 5 * tile, tile + 5, 3, window, ahead);
        }
    }
}
