/* SPDX-License-Identifier: Apache-2.0 */
/*
 * case_frozen.c - layers whose weights are frozen
 *
 * Their backward pass is that of layers whose gradients nobody looks at.
 */
#include "config.h"

#include <string.h>

#include "harness.h"

static const struct dt_view NONE = {0};

/* Another tensor like v. */
static struct dt_view copy_of(struct dt_view v)
{
    struct dt_view copy = tensor_of(v.dtype, v.count);

    memcpy(dt_view_data(copy), dt_view_data(v),
           v.count * dt_dtype_bytes(v.dtype));
    return copy;
}

/* Two orders of a sum are the most that may be between the two. */
static void check_same(const char *what, struct dt_view frozen,
                       struct dt_view trained)
{
    check_close(what, frozen, doubles(trained), 1e-6);
}

static void frozen_linear(enum dt_dtype type)
{
    enum { N = 33, C = 48, OC = 20 };
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, C * OC);
    struct dt_view dout = tensor_of(type, N * OC);
    struct dt_view dx = tensor_of(type, N * C), own = tensor_of(type, N * C);
    struct dt_view db = tensor(OC), own_db = tensor(OC);
    struct dt_view dw = tensor(C * OC), own_dw = tensor(C * OC);

    ops->linear_backward(NULL, dx, dw, db, dout, x, w, DT_WEIGHT_OUT_IN, N, C,
                         OC, false);
    ops->linear_backward(NULL, NONE, own_dw, own_db, dout, x, w,
                         DT_WEIGHT_OUT_IN, N, C, OC, false);
    check_same("dw of a layer whose input has no gradient", own_dw, dw);
    check_same("db of such a layer", own_db, db);
    ops->linear_backward(NULL, own, NONE, NONE, dout, x, w, DT_WEIGHT_OUT_IN, N,
                         C, OC, false);
    check_same("dx of a linear layer", own, dx);
    ops->linear_backward(NULL, own, NONE, own_db, dout, x, w, DT_WEIGHT_OUT_IN,
                         N, C, OC, false);
    check_same("dx of one with a bias", own, dx);
    check_same("db of one with a bias", own_db, db);
}

/* RMSNorm or LayerNorm */
static void frozen_norm(enum dt_dtype type, bool centered)
{
    enum { N = 33, C = 48 };
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, C);
    struct dt_view dout = tensor_of(type, N * C), rstd = tensor(N);
    struct dt_view mean = centered ? tensor(N) : NONE;
    struct dt_view dx = tensor_of(type, N * C), own = copy_of(dx);

    ops->norm_backward(NULL, dx, tensor(C), centered ? tensor(C) : NONE, NONE,
                       dout, x, w, mean, rstd, 0.0f, N, C, false);
    ops->norm_backward(NULL, own, NONE, NONE, NONE, dout, x, w, mean, rstd,
                       0.0f, N, C, false);
    check_same("dx of a norm", own, dx);
}

/* Norms of each head, and over all heads. */
static void frozen_heads(enum dt_dtype type)
{
    enum { N = 9, P = 20, NH = 4, NKV = 2, HS = 16, COUNT = N * 8 * HS };
    const struct dt_rope rope = {.NH = NH,
                                 .NKV = NKV,
                                 .HS = HS,
                                 .R = HS,
                                 .positions = tensor_ids(N, P),
                                 .table = tensor((size_t)P * HS),
                                 .q_norm = tensor_of(type, HS),
                                 .k_norm = tensor_of(type, HS),
                                 .norm = {1e-5f, 0.0f}};
    const struct dt_heads_norm all = {.NH = NH,
                                      .NKV = NKV,
                                      .HS = HS,
                                      .q_norm = tensor_of(type, NH * HS),
                                      .k_norm = tensor_of(type, NKV * HS),
                                      .eps = 1e-5f};
    struct dt_view qkv = tensor_of(type, COUNT), dqkv = tensor_of(type, COUNT);
    struct dt_view own = copy_of(dqkv), rstd = tensor(N * (NH + NKV));

    ops->rope_backward(NULL, dqkv, tensor(HS), tensor(HS), qkv, rstd, N, &rope,
                       false);
    ops->rope_backward(NULL, own, NONE, NONE, qkv, rstd, N, &rope, false);
    check_same("dqkv of a rotation", own, dqkv);
    rstd = dt_view_slice(rstd, 0, 2 * (size_t)N);
    own = copy_of(dqkv);
    ops->heads_norm_backward(NULL, dqkv, tensor(all.q_norm.count),
                             tensor(all.k_norm.count), qkv, rstd, N, &all,
                             false);
    ops->heads_norm_backward(NULL, own, NONE, NONE, qkv, rstd, N, &all, false);
    check_same("dqkv of a norm over all heads", own, dqkv);
}

static void frozen_head(enum dt_dtype type)
{
    enum { N = 10, C = 16, V = 70 };
    static const struct dt_logit_rule plain = {1.0f, 0.0f, 1.0f};
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, V * C);
    struct dt_view dx = tensor_of(type, N * C), own = tensor_of(type, N * C);
    struct dt_view targets = tensor_ids(N, V), lse = tensor(N);
    struct dt_view dlogp = tensor(N), step = tensor_step(2.0);
    const size_t space = ops->loss_workspace(type, N, C, V, false);

    ops->linear_cross_entropy(NULL, step, dx, tensor(V * C), x, w, targets,
                              workspace(space), &plain, 0.0f, N, C, V, false);
    ops->linear_cross_entropy(NULL, step, own, NONE, x, w, targets,
                              workspace(space), &plain, 0.0f, N, C, V, false);
    check_same("dx of a head", own, dx);
    ops->linear_logprob_backward(NULL, step, dx, tensor(V * C), dlogp, NONE,
                                 lse, NONE, x, w, targets, workspace(space),
                                 &plain, N, C, V, false);
    ops->linear_logprob_backward(NULL, step, own, NONE, dlogp, NONE, lse, NONE,
                                 x, w, targets, workspace(space), &plain, N, C,
                                 V, false);
    check_same("dx of log-probabilities", own, dx);
}

void test_frozen(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        frozen_linear(TYPES[i]);
        frozen_norm(TYPES[i], false);
        frozen_norm(TYPES[i], true);
        frozen_heads(TYPES[i]);
        frozen_head(TYPES[i]);
    }
}
