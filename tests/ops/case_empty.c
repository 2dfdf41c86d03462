/* SPDX-License-Identifier: Apache-2.0 */
/*
 * case_empty.c - operations on no rows, as of a micro-batch without a picture
 *
 * They write nothing, but gradients of parameters, which become 0 or stay.
 */
#include "config.h"

#include <string.h>

#include "harness.h"

static const struct dt_view NONE = {0};

/* The gradient of a parameter must be `before`, or 0 without `accumulate`. */
static void check_gradient_of_nothing(const char *what, struct dt_view grad,
                                      const double *before, bool accumulate)
{
    for (size_t i = 0; i < grad.count; i++) {
        const double want = accumulate ? before[i] : 0.0;
        if (element(grad, i) != want)
            fail_msg("%s[%zu] is %.9g, should be %.9g", what, i,
                     element(grad, i), want);
    }
}

static void empty_linear(enum dt_dtype type, enum dt_weight_order order,
                         enum dt_activation act, bool accumulate)
{
    enum { C = 48, OC = 40 };
    struct dt_view x = tensor_of(type, 0), out = tensor_of(type, 0);
    struct dt_view pre = tensor_of(type, 0), w = tensor_of(type, C * OC);
    struct dt_view b = tensor_of(type, OC), dw = tensor(C * OC);
    struct dt_view db = tensor(OC);
    double *dw_before = doubles(dw), *db_before = doubles(db);

    ops->linear_forward(NULL, out, x, w, b, order, 0, C, OC);
    if (ops->linear_add_forward) /* the CPU has none */
        ops->linear_add_forward(NULL, out, pre, x, w, b, order, 0, C, OC);
    ops->linear_activation_forward(NULL, out, pre, x, w, b, order, act, 0, C,
                                   OC);
    ops->linear_backward(NULL, x, dw, db, out, x, w, order, 0, C, OC,
                         accumulate);
    check_gradient_of_nothing("dw", dw, dw_before, accumulate);
    check_gradient_of_nothing("db", db, db_before, accumulate);
    dw = tensor(C * OC);
    db = tensor(OC);
    dw_before = doubles(dw);
    db_before = doubles(db);
    ops->linear_activation_backward(NULL, pre, dw, db, out, x, pre, w, order,
                                    act, 0, C, OC, accumulate);
    check_gradient_of_nothing("dw", dw, dw_before, accumulate);
    check_gradient_of_nothing("db", db, db_before, accumulate);
    db = tensor(OC);
    db_before = doubles(db);
    ops->linear_backward(NULL, x, NONE, db, out, x, w, order, 0, C, OC,
                         accumulate);
    check_gradient_of_nothing("db alone", db, db_before, accumulate);
}

static void empty_low_rank(enum dt_dtype type, double rate, bool accumulate)
{
    enum { C = 40, R = 8, OC = 24 };
    struct dt_view x = tensor_of(type, 0), out = tensor_of(type, 0);
    struct dt_view da = tensor(R * C), db = tensor(OC * R);
    double *da_before = doubles(da), *db_before = doubles(db);
    const struct dt_low_rank pair = {.a = tensor_of(type, R * C),
                                     .b = tensor_of(type, OC * R),
                                     .C = C,
                                     .R = R,
                                     .OC = OC,
                                     .width = OC + 8,
                                     .first = 8,
                                     .scale = 2,
                                     .dropout = dropout_of(rate, 1),
                                     .low = workspace(0),
                                     .dropped = tensor_of(type, 0)};

    ops->low_rank_forward(NULL, out, x, &pair, 0);
    ops->low_rank_backward(NULL, x, da, db, out, x, &pair, 0, accumulate);
    check_gradient_of_nothing("da", da, da_before, accumulate);
    check_gradient_of_nothing("db", db, db_before, accumulate);
}

static void empty_norm(enum dt_dtype type, size_t C, bool centered,
                       bool accumulate)
{
    const struct dt_norm_rule rule = {1e-6f, 0.0f};
    const struct dt_dropout dropout = dropout_of(0.1, 1);
    struct dt_view x = tensor_of(type, 0), w = tensor_of(type, C);
    struct dt_view b = tensor_of(type, centered ? C : 0);
    struct dt_view dw = tensor(C), db = tensor(b.count), rows = tensor(0);
    struct dt_view sums = tensor(ops->norm_sums ? b.count : 0);
    double *dw_before = doubles(dw), *db_before = doubles(db);

    ops->norm_forward(NULL, x, rows, rows, x, w, b, rule, 0, C);
    ops->residual_norm_forward(NULL, x, x, rows, rows, x, x, w, b, rule, 0, C,
                               &dropout);
    ops->norm_backward(NULL, x, dw, db, sums, x, x, w, rows, rows, rule.shift,
                       0, C, accumulate);
    check_gradient_of_nothing("dw of a norm", dw, dw_before, accumulate);
    check_gradient_of_nothing("db of a norm", db, db_before, accumulate);
    check_gradient_of_nothing("sums of a norm", sums, NULL, false);
}

/* Norms of each head with a rotation, and over all heads. */
static void empty_heads(enum dt_dtype type, size_t HS, bool accumulate)
{
    const size_t NH = 4, NKV = 2;
    const struct dt_rope rope = {.NH = NH,
                                 .NKV = NKV,
                                 .HS = HS,
                                 .R = HS,
                                 .positions = tensor_ids(0, 1),
                                 .axis = tensor_ids(HS / 2, 3),
                                 .table = tensor(HS),
                                 .q_norm = tensor_of(type, HS),
                                 .k_norm = tensor_of(type, HS),
                                 .norm = {1e-5f, 0.0f}};
    const struct dt_heads_norm all = {.NH = NH,
                                      .NKV = NKV,
                                      .HS = HS,
                                      .q_norm = tensor_of(type, NH * HS),
                                      .k_norm = tensor_of(type, NKV * HS),
                                      .eps = 1e-5f};
    struct dt_rope plain = rope;
    struct dt_view qkv = tensor_of(type, 0), rstd = tensor(0);
    struct dt_view dq = tensor(HS), dk = tensor(HS);
    double *dq_before = doubles(dq), *dk_before = doubles(dk);

    plain.q_norm = plain.k_norm = NONE;
    ops->rope_forward(NULL, qkv, NONE, qkv, 0, &plain);
    ops->rope_backward(NULL, qkv, NONE, NONE, NONE, NONE, 0, &plain, false);
    ops->rope_forward(NULL, qkv, rstd, qkv, 0, &rope);
    ops->rope_backward(NULL, qkv, dq, dk, qkv, rstd, 0, &rope, accumulate);
    check_gradient_of_nothing("dq_norm", dq, dq_before, accumulate);
    check_gradient_of_nothing("dk_norm", dk, dk_before, accumulate);
    dq = tensor(all.q_norm.count);
    dk = tensor(all.k_norm.count);
    dq_before = doubles(dq);
    dk_before = doubles(dk);
    ops->heads_norm_forward(NULL, qkv, rstd, qkv, 0, &all);
    ops->heads_norm_backward(NULL, qkv, dq, dk, qkv, rstd, 0, &all, accumulate);
    check_gradient_of_nothing("dq of all heads", dq, dq_before, accumulate);
    check_gradient_of_nothing("dk of all heads", dk, dk_before, accumulate);
}

static void empty_attention(enum dt_dtype type, size_t HS, bool bounds,
                            double rate)
{
    struct dt_attention a = {.B = 1,
                             .NH = 4,
                             .NKV = 2,
                             .HS = HS,
                             .scale = 0.1f,
                             .dropout = dropout_of(rate, 1)};
    struct dt_view qkv = tensor_of(type, 0), lse = tensor(0);
    struct dt_view space;

    if (bounds)
        a.first = a.last = tensor_ids(0, 1);
    space = workspace(ops->attention_workspace(type, &a));
    ops->attention_forward(NULL, qkv, lse, qkv, &a);
    ops->attention_backward(NULL, qkv, qkv, qkv, lse, qkv, space, &a);
}

static void empty_embedding(enum dt_dtype type, bool accumulate)
{
    enum { C = 24, V = 5, P = 3 };
    const struct dt_dropout dropout = dropout_of(0.1, 1);
    struct dt_view x = tensor_of(type, 0), ids = tensor_ids(0, V);
    struct dt_view wte = tensor_of(type, V * C), wpe = tensor_of(type, P * C);
    struct dt_view dwte = tensor(V * C), dwpe = tensor(P * C);
    struct dt_view out = tensor_of(type, V * C), same = tensor_of(type, V * C);
    double *dwte_before = doubles(dwte), *dwpe_before = doubles(dwpe);
    const struct dt_sparse sparse = {tensor_ids(1, 1), ids, tensor(0)};

    ops->embedding_forward(NULL, x, ids, ids, wte, wpe, 0, C, &dropout);
    ops->embedding_backward(NULL, dwte, dwpe, x, ids, ids, -1, 0, C,
                            accumulate);
    check_gradient_of_nothing("dwte", dwte, dwte_before, true);
    check_gradient_of_nothing("dwpe", dwpe, dwpe_before, accumulate);
    /* no rows of M, or of N */
    ops->scatter_rows(NULL, out, x, ids, V, C, 0);
    check_gradient_of_nothing("scattered rows", out, NULL, false);
    ops->scatter_rows(NULL, x, x, ids, 0, C, 0);
    dwte_before = doubles(same);
    ops->add_rows(NULL, same, x, ids, V, C, 0);
    ops->add_rows(NULL, x, x, ids, 0, C, 0);
    check_gradient_of_nothing("rows with nothing added", same, dwte_before,
                              true);
    ops->patch_rows(NULL, x, tensor_pixels(0), ids, tensor(3 * 256), 2, 0, 12);
    ops->sparse_matmul(NULL, x, out, &sparse, 0, C, accumulate);
}

/* Rows of no source are those that are -1. */
static void from_nothing(enum dt_dtype type)
{
    enum { C = 24, N = 5 };
    const struct dt_dropout keep = {0};
    struct dt_view ids = tensor_ids(N, 1), out = tensor_of(type, N * C);
    struct dt_view x = tensor_of(type, 0), patches = tensor_of(type, N * 12);

    memset(dt_view_data(ids), 0xff, dt_view_bytes(ids));
    ops->embedding_forward(NULL, out, ids, NONE, x, NONE, N, C, &keep);
    check_gradient_of_nothing("rows of nothing", out, NULL, false);
    ops->scatter_rows(NULL, x, tensor_of(type, N * C), ids, 0, C, N);
    ops->patch_rows(NULL, patches, tensor_pixels(0), ids, tensor(3 * 256), 1, N,
                    12);
    check_gradient_of_nothing("patches of nothing", patches, NULL, false);
}

static void empty_elements(enum dt_dtype type)
{
    const struct dt_dropout dropout = dropout_of(0.1, 1);
    struct dt_view x = tensor_of(type, 0), f32 = tensor(0);

    ops->activation_forward(NULL, x, x, DT_GELU_ERF);
    ops->activation_backward(NULL, x, x, x, DT_QUICK_GELU);
    ops->glu_forward(NULL, x, x, DT_SILU, 0, 24);
    ops->glu_backward(NULL, x, x, x, DT_SILU, 0, 24);
    ops->dropout_backward(NULL, x, x, 0, 24, &dropout);
    ops->zero(NULL, x);
    ops->convert(NULL, x, f32);
    ops->add(NULL, f32, f32);
    ops->combine(NULL, x, x, 1.0f, x, 2.0f);
}

/* A head of no picked rows. */
static void empty_head(enum dt_dtype type, bool accumulate)
{
    enum { C = 16, V = 70 };
    static const struct dt_logit_rule rule = {1.0f, 0.0f, 1.0f};
    struct dt_view x = tensor_of(type, 0), w = tensor_of(type, V * C);
    struct dt_view targets = tensor_ids(0, V), rows = tensor(0);
    struct dt_view dw = tensor(V * C), step = tensor_step(2.0);
    struct dt_view space = workspace(ops->loss_workspace(type, 1, C, V, false));
    const struct dt_logprobs out = {.logp = rows, .lse = rows};
    double *before = doubles(dw);

    ops->linear_logprob_forward(NULL, &out, x, w, targets, space, &rule, 0, C,
                                V);
    ops->linear_logprob_backward(NULL, step, x, dw, rows, NONE, rows, NONE, x,
                                 w, targets, space, &rule, 0, C, V, accumulate);
    check_gradient_of_nothing("dw of a head", dw, before, accumulate);
}

void test_empty(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * TYPE_COUNT; i++) {
        const enum dt_dtype type = TYPES[i / 2];
        const bool accumulate = i % 2;
        for (enum dt_activation a = DT_SILU; a <= DT_QUICK_GELU; a++)
            empty_linear(type, a % 2 ? DT_WEIGHT_OUT_IN : DT_WEIGHT_IN_OUT, a,
                         accumulate);
        empty_low_rank(type, 0.0, accumulate);
        empty_low_rank(type, 0.5, accumulate);
        empty_norm(type, 33, true, accumulate);
        empty_norm(type, 64, true, accumulate);
        empty_norm(type, 64, false, accumulate);
        empty_heads(type, 34, accumulate);
        empty_heads(type, 64, accumulate);
        empty_attention(type, 72, false, 0.0);
        empty_attention(type, 80, true, 0.0);
        empty_attention(type, 64, true, 0.1);
        empty_embedding(type, accumulate);
        from_nothing(type);
        empty_elements(type);
        empty_head(type, accumulate);
    }
}
