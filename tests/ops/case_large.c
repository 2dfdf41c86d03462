/* SPDX-License-Identifier: Apache-2.0 */
/*
 * case_large.c - tensors as models have them, on hardware
 *
 * More than a tile, a block and a wave in every direction, and sizes that are
 * multiples of nothing. Nothing is asserted here: the bridge compares each call
 * with the CPU backend, which the other cases compare with double precision.
 */
#include "config.h"

#include "harness.h"
#include "tensor/tensor.h"

static void linear(enum dt_dtype type, enum dt_weight_order order, size_t N,
                   size_t C, size_t OC)
{
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, C * OC);
    struct dt_view b = tensor_of(type, OC), out = tensor_of(type, N * OC);
    struct dt_view pre = tensor_of(type, N * OC), wide = tensor(N * OC);
    struct dt_view dx = tensor_of(type, N * C), act = tensor_of(type, N * C);
    struct dt_view dw = tensor(C * OC), db = tensor(OC);

    ops->linear_forward(NULL, out, x, w, b, order, N, C, OC);
    ops->linear_forward(NULL, wide, x, w, b, order, N, C, OC);
    if (ops->linear_add_forward) /* the CPU has none */
        ops->linear_add_forward(NULL, pre, out, x, w, b, order, N, C, OC);
    ops->linear_backward(NULL, dx, dw, db, out, x, w, order, N, C, OC, true);
    ops->linear_activation_forward(NULL, out, pre, x, w, b, order, DT_GELU_TANH,
                                   N, C, OC);
    ops->activation_forward(NULL, act, x, DT_GELU_TANH);
    ops->linear_activation_backward(NULL, x, dw, db, out, act, x, w, order,
                                    DT_GELU_TANH, N, C, OC, false);
}

void test_large_linear(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        linear(TYPES[i], DT_WEIGHT_IN_OUT, 2048, 768, 3072);
        linear(TYPES[i], DT_WEIGHT_OUT_IN, 1000, 1032, 776);
        linear(TYPES[i], DT_WEIGHT_IN_OUT, 333, 770, 1027);
        linear(TYPES[i], DT_WEIGHT_OUT_IN, 257, 1023, 515);
    }
}

static void norm(enum dt_dtype type, size_t B, size_t T, size_t C,
                 bool centered, double rate)
{
    const size_t N = B * T, bias = centered ? C : 0;
    const struct dt_norm_rule rule = {1e-5f, 0.0f};
    struct dt_dropout dropout = dropout_of(rate, B);
    struct dt_view x = tensor_of(type, N * C), y = tensor_of(type, N * C);
    struct dt_view w = tensor_of(type, C), b = tensor_of(type, bias);
    struct dt_view out = tensor_of(type, N * C), rstd = tensor(N);
    struct dt_view mean = tensor(centered ? N : 0), dw = tensor(C);
    struct dt_view db = tensor(bias), dout = tensor_of(type, N * C);
    struct dt_view none = tensor(0);
    struct dt_view sums = tensor(ops->norm_sums ? bias : 0);

    ops->norm_forward(NULL, out, mean, rstd, x, w, b, rule, N, C);
    ops->residual_norm_forward(NULL, x, out, mean, rstd, x, y, w, b, rule, N, C,
                               &dropout);
    ops->norm_backward(NULL, y, dw, db, none, dout, x, w, mean, rstd, 0.0f, N,
                       C, false);
    ops->norm_backward(NULL, y, dw, db, sums, dout, x, w, mean, rstd, 0.0f, N,
                       C, true);
    ops->dropout_backward(NULL, out, dout, N, C, &dropout);
}

void test_large_norm(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        norm(TYPES[i], 8, 1024, 768, true, 0.0);
        norm(TYPES[i], 3, 700, 1600, true, 0.1);
        norm(TYPES[i], 2, 333, 1027, true, 0.1);
        norm(TYPES[i], 4, 512, 4096, false, 0.0);
        norm(TYPES[i], 1, 77, 16384, false, 0.0);
        norm(TYPES[i], 5, 4001, 96, false, 0.5);
    }
}

static void embedding(enum dt_dtype type, size_t B, size_t T, size_t C,
                      size_t V)
{
    const size_t N = B * T;
    struct dt_dropout dropout = dropout_of(0.1, B);
    struct dt_view ids = tensor_ids(N, V), positions = tensor_ids(N, T);
    struct dt_view wte = tensor_of(type, V * C), wpe = tensor_of(type, T * C);
    struct dt_view out = tensor_of(type, N * C), dout = tensor_of(type, N * C);
    struct dt_view dwte = tensor(V * C), dwpe = tensor(T * C);

    ops->embedding_forward(NULL, out, ids, positions, wte, wpe, N, C, &dropout);
    ops->embedding_backward(NULL, dwte, dwpe, dout, ids, positions, -1, N, C,
                            false);
    ops->embedding_backward(NULL, dwte, dwpe, dout, ids, positions, -1, N, C,
                            true);
}

void test_large_embedding(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        embedding(TYPES[i], 8, 1024, 768, 50257);
        embedding(TYPES[i], 16, 2048, 72, 7);
        embedding(TYPES[i], 3, 501, 1027, 3000);
    }
}

static void activations(enum dt_dtype type, size_t N, size_t I)
{
    struct dt_view x = tensor_of(type, 2 * N * I), out = tensor_of(type, N * I);
    struct dt_view dout = tensor_of(type, N * I);
    struct dt_view half = dt_view_slice(x, 0, N * I);

    ops->glu_forward(NULL, out, x, DT_SILU, N, I);
    ops->glu_backward(NULL, x, dout, x, DT_GELU_TANH, N, I);
    ops->combine(NULL, out, out, 0.5f, dout, 2.0f);
    ops->activation_forward(NULL, out, half, DT_GELU_TANH);
}

void test_large_activation(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        activations(TYPES[i], 1024, 8192);
        activations(TYPES[i], 77, 11009);
    }
}

static void rope(enum dt_dtype type, size_t N, size_t NH, size_t NKV, size_t HS,
                 bool norms)
{
    enum { P = 2048 };
    const size_t count = N * (NH + 2 * NKV) * HS, heads = NH + NKV;
    const struct dt_rope args = {.NH = NH,
                                 .NKV = NKV,
                                 .HS = HS,
                                 .R = HS,
                                 .positions = tensor_ids(N, P),
                                 .table = tensor(P * HS),
                                 .q_norm = tensor_of(type, norms ? HS : 0),
                                 .k_norm = tensor_of(type, norms ? HS : 0),
                                 .norm = {1e-6f, 0.0f}};
    struct dt_view qkv = tensor_of(type, count), out = tensor_of(type, count);
    struct dt_view rstd = tensor(norms ? N * heads : 0);
    struct dt_view dq = tensor(args.q_norm.count);
    struct dt_view dk = tensor(args.k_norm.count);

    ops->rope_forward(NULL, out, rstd, qkv, N, &args);
    ops->rope_backward(NULL, out, dq, dk, qkv, rstd, N, &args, false);
    ops->rope_backward(NULL, out, dq, dk, qkv, rstd, N, &args, true);
}

void test_large_rope(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        rope(TYPES[i], 2048, 32, 8, 128, false);
        rope(TYPES[i], 2048, 16, 8, 128, true);
        rope(TYPES[i], 701, 9, 3, 66, true);
    }
}

struct sizes {
    size_t B, T, NH, NKV, HS, window, longest;
    double rate;
    float softcap;
    enum ahead ahead;
};

static void attention(enum dt_dtype type, struct sizes z)
{
    const size_t N = z.B * z.T, count = N * z.NH * z.HS;
    struct dt_attention args = {.B = z.B,
                                .T = z.T,
                                .NH = z.NH,
                                .NKV = z.NKV,
                                .HS = z.HS,
                                .window = z.window,
                                .scale = 0.1f,
                                .softcap = z.softcap,
                                .first = documents(z.B, z.T, z.longest),
                                .dropout = dropout_of(z.rate, z.B)};

    look_ahead(&args, z.ahead);
    struct dt_view qkv = tensor_of(type, N * (z.NH + 2 * z.NKV) * z.HS);
    struct dt_view out = tensor_of(type, count), lse = tensor(N * z.NH);
    struct dt_view dout = tensor_of(type, count);
    struct dt_view dqkv = tensor_of(type, qkv.count);
    struct dt_view space = workspace(ops->attention_workspace(type, &args));

    ops->attention_forward(NULL, out, lse, qkv, &args);
    ops->attention_backward(NULL, dqkv, dout, out, lse, qkv, space, &args);
}

void test_large_attention(void **state)
{
    const struct sizes SIZES[] = {
        {4, 1024, 12, 12, 64, 0, 0, 0.0, 0.0f, NOBODY},
        {1, 2048, 32, 8, 128, 0, 0, 0.0, 0.0f, NOBODY},
        {2, 1024, 8, 8, 64, 0, 0, 0.1, 0.0f, NOBODY},
        {2, 1024, 8, 2, 64, 0, 400, 0.0, 0.0f, NOBODY},
        {2, 1024, 16, 8, 128, 256, 0, 0.0, 0.0f, NOBODY},
        {1, 1000, 5, 5, 80, 0, 0, 0.0, 0.0f, NOBODY},
        {1, 777, 6, 3, 96, 100, 200, 0.2, 0.0f, NOBODY},
        {1, 513, 3, 1, 256, 0, 0, 0.0, 0.0f, NOBODY},
        {1, 600, 8, 4, 256, 256, 0, 0.0, 50.0f, NOBODY},
        {2, 577, 16, 16, 64, 0, 0, 0.0, 0.0f, EVERYBODY},
        {1, 2000, 16, 16, 72, 0, 700, 0.0, 0.0f, EVERYBODY},
        {1, 2048, 16, 16, 80, 64, 64, 0.0, 0.0f, EVERYBODY},
        {1, 1000, 8, 4, 80, 100, 200, 0.0, 9.0f, RUNS},
    };
    (void)state;

    for (size_t i = 0; i < TYPE_COUNT; i++) {
        for (size_t j = 0; j < sizeof(SIZES) / sizeof(SIZES[0]); j++)
            attention(TYPES[i], SIZES[j]);
    }
}

static void kv(enum dt_dtype type, size_t B, size_t S, size_t NH, size_t NKV,
               size_t HS)
{
    const size_t T = S / 2, width = (NH + 2 * NKV) * HS;
    const size_t blocks = (S + DT_KV_BLOCK - 1) / DT_KV_BLOCK;
    const size_t stride = DT_KV_BLOCK * NKV * HS;
    const struct dt_kv args = {.B = B,
                               .NH = NH,
                               .NKV = NKV,
                               .HS = HS,
                               .scale = 0.1f,
                               .blocks = blocks,
                               .stride = stride,
                               .k = tensor_of(type, B * blocks * stride),
                               .v = tensor_of(type, B * blocks * stride),
                               .table = tensor_ids(B * blocks, 1)};
    struct dt_view qkv = tensor_of(type, B * T * width);
    struct dt_view places = tensor_ids(B * T, 1), last = tensor_ids(B, S);
    struct dt_view out = tensor_of(type, B * NH * HS);

    for (size_t i = 0; i < B * blocks; i++)
        dt_view_i32(args.table)[i] = (int32_t)(B * blocks - 1 - i);
    for (size_t n = 0; n < B * T; n++)
        dt_view_i32(places)[n] =
            (int32_t)(n / T * DT_KV_BLOCK * blocks + n % T);
    ops->kv_store(NULL, &args, qkv, places, B * T);
    ops->kv_attention(NULL, out, dt_view_slice(qkv, 0, B * width), last, &args);
}

void test_large_kv(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        kv(TYPES[i], 16, 2048, 32, 8, 128);
        kv(TYPES[i], 3, 1001, 12, 12, 64);
    }
}

static void loss(enum dt_dtype type, size_t N, size_t C, size_t V,
                 float smoothing)
{
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, V * C);
    struct dt_view dx = tensor_of(type, N * C), dw = tensor(V * C);
    struct dt_view targets = tensor_ids(N, V), step = tensor_step(0.5);
    struct dt_view space = workspace(ops->loss_workspace(type, N, C, V, false));
    const struct dt_logit_rule rule = {1.0f, smoothing > 0.0f ? 30.0f : 0.0f,
                                       1.0f};

    for (size_t n = 5; n < N; n += 3)
        dt_view_i32(targets)[n] = DT_IGNORE;
    for (size_t i = 0; i < w.count; i++)
        set_element(w, i, element(w, i) * 0.1);
    ops->linear_cross_entropy(NULL, step, dx, dw, x, w, targets, space, &rule,
                              smoothing, N, C, V, false);
    ops->linear_cross_entropy(NULL, step, dx, dw, x, w, targets, space, &rule,
                              smoothing, N, C, V, true);
}

void test_large_loss(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        loss(TYPES[i], 2048, 768, 50257, 0.0f);
        loss(TYPES[i], 300, 256, 128256, 0.1f);
        loss(TYPES[i], 5000, 127, 1003, 0.0f);
    }
}

static void logprob(enum dt_dtype type, size_t N, size_t C, size_t V)
{
    struct dt_view x = tensor_of(type, N * C), w = tensor_of(type, V * C);
    struct dt_view dx = tensor_of(type, N * C), dw = tensor(V * C);
    const struct dt_logit_rule rule = {1.0f, 0.0f, 0.8f};
    const struct dt_logprobs out = {tensor(N), tensor(N), tensor(N),
                                    tensor(N), tensor(N), tensor(N)};
    struct dt_view targets = tensor_ids(N, V);
    struct dt_view space = workspace(ops->loss_workspace(type, N, C, V, false));

    for (size_t n = 5; n < N; n += 3)
        dt_view_i32(targets)[n] = DT_IGNORE;
    for (size_t i = 0; i < w.count; i++)
        set_element(w, i, element(w, i) * 0.1);
    ops->linear_logprob_forward(NULL, &out, x, w, targets, space, &rule, N, C,
                                V);
    ops->linear_logprob_backward(NULL, tensor_step(0.5), dx, dw, out.logp,
                                 out.collision, out.lse, out.entropy, x, w,
                                 targets, space, &rule, N, C, V, true);
}

void test_large_logprob(void **state)
{
    (void)state;
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        logprob(TYPES[i], 2048, 768, 50257);
        logprob(TYPES[i], 300, 256, 128256);
        logprob(TYPES[i], 5000, 127, 1003);
    }
}

void test_large_update(void **state)
{
    const size_t COUNT = 20000003;
    const int64_t BOUNDS[] = {0, 1000, 777777, 777778, 20000003};
    struct dt_view p = tensor(COUNT), g = tensor(COUNT), step = tensor_step(1);
    struct dt_view m = tensor(COUNT), v = tensor(COUNT);
    struct dt_view w = tensor_of(DT_BF16, COUNT);
    const struct dt_adamw args = {.beta1 = 0.9,
                                  .beta2 = 0.95,
                                  .eps = 1e-8,
                                  .weight_decay = 0.1,
                                  .rate = 1.0,
                                  .bounds = tensor_bounds(5, BOUNDS)};
    const struct dt_step_params params[DT_STEP_OUTCOMES] = {
        {1.0, 0.01, 0.1, 0.05}};
    (void)state;

    for (size_t i = 0; i < COUNT; i++)
        set_element(v, i, 0.1 + element(v, i) * element(v, i));
    ops->step_begin(NULL, step, params);
    ops->step_add(NULL, step, 10.0, 0.0);
    ops->sum_of_squares(NULL, step, g);
    ops->clip_and_check(NULL, step, 1.0);
    ops->adamw(NULL, step, p, w, g, m, v, &args);
    ops->convert(NULL, w, p);
    ops->convert(NULL, p, w);
    ops->zero(NULL, dt_view_slice(w, 1, COUNT - 3));
}
