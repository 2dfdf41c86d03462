/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpt2.c - forward and backward of GPT-2, unit by unit
 *
 * Letters as in ops.h; I is n_inner, the width of the MLP. A block is
 *
 *     x_mid = x     + attn.c_proj(attention(attn.c_attn(ln_1(x))))
 *     x'    = x_mid + mlp.c_proj(gelu(mlp.c_fc(ln_2(x_mid))))
 *
 * The second sum is left to the unit above, which adds and norms in one pass:
 * between units the residual stream is the pair (x_mid, branch).
 */
#include "config.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/gpt2.h"
#include "model/model.h"

/* Elements of the logits that are alive at a time: 64 MiB. */
enum { LOGITS_ELEMENTS = 1 << 24 };

/* What a layer norm keeps for its backward pass. */
struct norm {
    struct dt_view out;  /* (N, C) */
    struct dt_view mean; /* (N) */
    struct dt_view rstd; /* (N) */
};

/* What a block keeps for its backward pass. */
struct block {
    struct dt_view x;         /* (N, C) the residual stream, coming in */
    struct norm ln_1;         /* of x */
    struct dt_view qkv;       /* (B, T, 3, NH, HS) */
    struct dt_view attention; /* (B, T, NH, HS) */
    struct dt_view lse;       /* (B, NH, T) */
    struct dt_view x_mid;     /* (N, C) the stream between the two branches */
    struct norm ln_2;         /* of x_mid */
    struct dt_view fc;        /* (N, I) */
    struct dt_view gelu;      /* (N, I) */
};

/* All activations of one batch, in one buffer. */
struct activations {
    struct dt_view x;        /* (N, C) the residual stream at the top */
    struct norm ln_f;        /* of x */
    struct dt_view logits;   /* (some rows, V) scratch of the loss */
    struct dt_view branch;   /* (N, C) what a branch adds to the stream */
    struct dt_view d_stream; /* (N, C) gradient of the stream */
    struct dt_view d_branch; /* (N, C) gradient inside a branch */
    struct dt_view d_wide;   /* (N, max(3C, I)) same, where it is wider */
};

struct dt_model {
    struct dt_model_config config;
    const struct dt_layout *layout;
    const struct dt_ops *ops;
    struct dt_view weights, grads;
    struct dt_buffer *buf; /* of the activations */
    size_t B, T;           /* of the batch at hand */
    struct activations acts;
    struct block *blocks; /* (n_layer) */
};

/* --- activations --- */

/* A buffer being cut into tensors. */
struct arena {
    struct dt_buffer *buf; /* NULL: only count */
    size_t used;           /* elements; SIZE_MAX once they overflow */
};

/* The next rows x cols floats, 64-byte aligned. */
static struct dt_view take(struct arena *arena, size_t rows, size_t cols)
{
    size_t count, padded, first = arena->used;
    if (__builtin_mul_overflow(rows, cols, &count) ||
        __builtin_add_overflow(count, 15, &padded) ||
        __builtin_add_overflow(first, padded & ~(size_t)15, &arena->used))
        arena->used = SIZE_MAX;
    return (struct dt_view){arena->buf, first, count, DT_F32};
}

static struct norm take_norm(struct arena *arena, size_t N, size_t C)
{
    struct norm norm;
    norm.out = take(arena, N, C);
    norm.mean = take(arena, N, 1);
    norm.rstd = take(arena, N, 1);
    return norm;
}

static struct block take_block(struct arena *arena,
                               const struct dt_model_config *config, size_t N)
{
    size_t C = config->n_embd, I = config->n_inner;
    struct block block;
    block.x = take(arena, N, C);
    block.ln_1 = take_norm(arena, N, C);
    block.qkv = take(arena, N, 3 * C);
    block.attention = take(arena, N, C);
    block.lse = take(arena, N, config->n_head);
    block.x_mid = take(arena, N, C);
    block.ln_2 = take_norm(arena, N, C);
    block.fc = take(arena, N, I);
    block.gelu = take(arena, N, I);
    return block;
}

/* Rows of logits that are computed at a time. */
static size_t logits_rows(size_t N, size_t V)
{
    size_t rows = LOGITS_ELEMENTS / V > 0 ? LOGITS_ELEMENTS / V : 1;
    return rows < N ? rows : N;
}

/* Cuts out everything for N rows; blocks(n_layer) may be NULL to count. */
static struct activations take_all(struct arena *arena, struct block *blocks,
                                   const struct dt_model_config *config,
                                   size_t N, bool train)
{
    size_t C = config->n_embd, I = config->n_inner, V = config->vocab_size;
    struct activations acts = {0};
    acts.x = take(arena, N, C);
    acts.ln_f = take_norm(arena, N, C);
    acts.logits = take(arena, logits_rows(N, V), V);
    acts.branch = take(arena, N, C);
    if (train) {
        acts.d_stream = take(arena, N, C);
        acts.d_branch = take(arena, N, C);
        acts.d_wide = take(arena, N, I > 3 * C ? I : 3 * C);
    }
    struct block block = {0};
    for (size_t l = 0; l < config->n_layer; l++) {
        /* without a backward pass all blocks work in the same place */
        if (train || l == 0)
            block = take_block(arena, config, N);
        if (blocks)
            blocks[l] = block;
    }
    return acts;
}

size_t dt_model_activation_bytes(const struct dt_model_config *config, size_t B,
                                 size_t T, bool train)
{
    struct arena arena = {NULL, 0};
    size_t N, bytes;
    if (__builtin_mul_overflow(B, T, &N))
        return SIZE_MAX;
    take_all(&arena, NULL, config, N, train);
    if (__builtin_mul_overflow(arena.used, sizeof(float), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Lays the activations out for this batch, at most as large as created. */
static void bind_batch(struct dt_model *m, const struct dt_batch *batch)
{
    struct arena arena = {m->buf, 0};
    m->B = batch->B;
    m->T = batch->T;
    m->acts = take_all(&arena, m->blocks, &m->config, m->B * m->T,
                       m->grads.count > 0);
    assert(m->T <= m->config.n_positions);
    assert(arena.used <= m->buf->bytes / sizeof(float));
}

/* --- model --- */

struct dt_model *dt_model_create(const struct dt_model_config *config,
                                 const struct dt_layout *layout,
                                 const struct dt_ops *ops,
                                 struct dt_view weights, struct dt_view grads,
                                 size_t B, size_t T, struct dt_error *err)
{
    size_t bytes = dt_model_activation_bytes(config, B, T, grads.count > 0);
    struct dt_model *m = calloc(1, sizeof(*m));
    struct block *blocks = calloc(config->n_layer, sizeof(*blocks));
    if (!m || !blocks) {
        dt_error_set(err, EX_OSERR, "out of memory");
        goto error;
    }
    *m = (struct dt_model){.config = *config,
                           .layout = layout,
                           .ops = ops,
                           .weights = weights,
                           .grads = grads,
                           .blocks = blocks};
    m->buf = dt_buffer_create(bytes, "activations", err);
    if (!m->buf)
        goto error;
    return m;
error:
    free(blocks);
    free(m);
    return NULL;
}

void dt_model_destroy(struct dt_model *m)
{
    if (!m)
        return;
    dt_buffer_destroy(m->buf);
    free(m->blocks);
    free(m);
}

/* Parameter i (gpt2.h) of unit u: its weight, its gradient. */
static struct dt_view weight(const struct dt_model *m, size_t u, size_t i)
{
    return dt_layout_param(m->layout, m->weights,
                           m->layout->units[u].first_param + i);
}

static struct dt_view grad(const struct dt_model *m, size_t u, size_t i)
{
    return dt_layout_param(m->layout, m->grads,
                           m->layout->units[u].first_param + i);
}

/* The matrix of the head (V, C): its weight, its gradient. */
static struct dt_view head_weight(const struct dt_model *m)
{
    return m->config.tie_word_embeddings
               ? weight(m, 0, WTE)
               : weight(m, m->config.n_layer + 1, LM_HEAD);
}

static struct dt_view head_grad(const struct dt_model *m)
{
    return m->config.tie_word_embeddings
               ? grad(m, 0, WTE)
               : grad(m, m->config.n_layer + 1, LM_HEAD);
}

/* Token ids as a view; `buf` must live as long. */
static struct dt_view ids_view(struct dt_buffer *buf, const int32_t *ids,
                               size_t count)
{
    *buf = (struct dt_buffer){(void *)ids, count * sizeof(*ids)};
    return dt_view_of(buf, DT_I32);
}

/* `count` rows of C elements, from row `first`. */
static struct dt_view rows(struct dt_view v, size_t first, size_t count,
                           size_t C)
{
    return dt_view_slice(v, first * C, count * C);
}

/* --- forward --- */

/* out(N, OC) = x(N, C) w + b; weight i of unit u, its bias is i + 1 */
static void linear(const struct dt_model *m, size_t u, size_t i,
                   struct dt_view out, struct dt_view x, size_t C, size_t OC)
{
    m->ops->linear_forward(NULL, out, x, weight(m, u, i), weight(m, u, i + 1),
                           DT_WEIGHT_IN_OUT, m->B * m->T, C, OC);
}

/* sum(N, C) = x + y, and its norm with weight i and bias i + 1 of unit u */
static void add_norm(const struct dt_model *m, size_t u, size_t i,
                     struct dt_view sum, struct norm norm, struct dt_view x,
                     struct dt_view y, size_t N)
{
    m->ops->residual_layernorm_forward(
        NULL, sum, norm.out, norm.mean, norm.rstd, x, y, weight(m, u, i),
        weight(m, u, i + 1), (float)m->config.layer_norm_epsilon, N,
        m->config.n_embd);
}

static void embedding_forward(struct dt_model *m, const struct dt_batch *batch)
{
    size_t B = m->B, T = m->T, C = m->config.n_embd;
    struct dt_buffer buf;
    m->ops->embedding_forward(NULL, m->blocks[0].x,
                              ids_view(&buf, batch->inputs, B * T),
                              weight(m, 0, WTE), weight(m, 0, WPE), B, T, C);
}

static void block_forward(struct dt_model *m, size_t u)
{
    const struct dt_ops *ops = m->ops;
    const struct block *b = &m->blocks[u - 1];
    struct dt_view branch = m->acts.branch;
    size_t B = m->B, T = m->T, N = B * T;
    size_t C = m->config.n_embd, NH = m->config.n_head, I = m->config.n_inner;

    if (u == 1)
        ops->layernorm_forward(NULL, b->ln_1.out, b->ln_1.mean, b->ln_1.rstd,
                               b->x, weight(m, u, LN_1_W), weight(m, u, LN_1_B),
                               (float)m->config.layer_norm_epsilon, N, C);
    else
        add_norm(m, u, LN_1_W, b->x, b->ln_1, b[-1].x_mid, branch, N);
    linear(m, u, C_ATTN_W, b->qkv, b->ln_1.out, C, 3 * C);
    ops->attention_forward(NULL, b->attention, b->lse, b->qkv, B, T, NH,
                           C / NH);
    linear(m, u, ATTN_PROJ_W, branch, b->attention, C, C);

    add_norm(m, u, LN_2_W, b->x_mid, b->ln_2, b->x, branch, N);
    linear(m, u, C_FC_W, b->fc, b->ln_2.out, C, I);
    ops->gelu_forward(NULL, b->gelu, b->fc);
    linear(m, u, MLP_PROJ_W, branch, b->gelu, I, C);
}

void dt_model_forward(struct dt_model *m, size_t u,
                      const struct dt_batch *batch)
{
    if (u == 0) {
        bind_batch(m, batch);
        embedding_forward(m, batch);
    } else {
        block_forward(m, u);
    }
}

/* Sum and norm at the top of the stream, for `count` rows from `first`. */
static void final_norm(struct dt_model *m, size_t first, size_t count)
{
    const struct activations *a = &m->acts;
    size_t C = m->config.n_embd, L = m->config.n_layer;
    struct norm ln_f = {
        .out = rows(a->ln_f.out, first, count, C),
        .mean = rows(a->ln_f.mean, first, count, 1),
        .rstd = rows(a->ln_f.rstd, first, count, 1),
    };
    add_norm(m, L + 1, LN_F_W, rows(a->x, first, count, C), ln_f,
             rows(m->blocks[L - 1].x_mid, first, count, C),
             rows(a->branch, first, count, C), count);
}

void dt_model_logits(struct dt_model *m, size_t b, size_t t, float *logits)
{
    size_t C = m->config.n_embd, V = m->config.vocab_size;
    size_t row = b * m->T + t;
    struct dt_view out = dt_view_slice(m->acts.logits, 0, V);
    final_norm(m, row, 1);
    m->ops->linear_forward(NULL, out, rows(m->acts.ln_f.out, row, 1, C),
                           head_weight(m), (struct dt_view){0},
                           DT_WEIGHT_OUT_IN, 1, C, V);
    memcpy(logits, dt_view_f32(out), V * sizeof(*logits));
}

/* --- backward --- */

/* dx(N, C) and the gradients of w and b from dout(N, OC) */
static void d_linear(const struct dt_model *m, size_t u, size_t i,
                     struct dt_view dx, struct dt_view dout, struct dt_view x,
                     size_t C, size_t OC, bool accumulate)
{
    m->ops->linear_backward(NULL, dx, grad(m, u, i), grad(m, u, i + 1), dout, x,
                            weight(m, u, i), DT_WEIGHT_IN_OUT, m->B * m->T, C,
                            OC, accumulate);
}

/* Adds to d_stream what comes back through a norm of x. */
static void d_norm(const struct dt_model *m, size_t u, size_t i,
                   struct norm norm, struct dt_view dout, struct dt_view x,
                   bool accumulate)
{
    m->ops->layernorm_backward(NULL, m->acts.d_stream, grad(m, u, i),
                               grad(m, u, i + 1), dout, x, weight(m, u, i),
                               norm.mean, norm.rstd, m->B * m->T,
                               m->config.n_embd, accumulate);
}

double dt_model_loss(struct dt_model *m, const struct dt_batch *batch,
                     bool train, float scale, bool accumulate)
{
    const struct activations *a = &m->acts;
    size_t N = m->B * m->T, C = m->config.n_embd, V = m->config.vocab_size;
    struct dt_view dx = train ? a->d_branch : (struct dt_view){0};
    struct dt_view dw = train ? head_grad(m) : (struct dt_view){0};
    struct dt_buffer buf;

    final_norm(m, 0, N);
    double loss =
        m->ops->linear_cross_entropy(NULL, dx, dw, a->ln_f.out, head_weight(m),
                                     ids_view(&buf, batch->targets, N),
                                     a->logits, scale, N, C, V, accumulate);
    if (train) {
        m->ops->zero(NULL, a->d_stream);
        d_norm(m, m->config.n_layer + 1, LN_F_W, a->ln_f, dx, a->x, accumulate);
    }
    return loss;
}

/* d_stream comes in as the gradient of what the block gives to the unit above
 * and leaves as the gradient of x. A branch starts from d_stream as it is; what
 * comes back through its norm is added.
 */
static void block_backward(struct dt_model *m, size_t u, bool accumulate)
{
    const struct dt_ops *ops = m->ops;
    const struct block *b = &m->blocks[u - 1];
    const struct activations *a = &m->acts;
    size_t B = m->B, T = m->T, N = B * T;
    size_t C = m->config.n_embd, NH = m->config.n_head, I = m->config.n_inner;
    struct dt_view d_fc = dt_view_slice(a->d_wide, 0, N * I);
    struct dt_view d_qkv = dt_view_slice(a->d_wide, 0, N * 3 * C);

    d_linear(m, u, MLP_PROJ_W, d_fc, a->d_stream, b->gelu, I, C, accumulate);
    ops->gelu_backward(NULL, d_fc, d_fc, b->fc);
    d_linear(m, u, C_FC_W, a->d_branch, d_fc, b->ln_2.out, C, I, accumulate);
    d_norm(m, u, LN_2_W, b->ln_2, a->d_branch, b->x_mid, accumulate);

    d_linear(m, u, ATTN_PROJ_W, a->d_branch, a->d_stream, b->attention, C, C,
             accumulate);
    ops->attention_backward(NULL, d_qkv, a->d_branch, b->attention, b->lse,
                            b->qkv, B, T, NH, C / NH);
    d_linear(m, u, C_ATTN_W, a->d_branch, d_qkv, b->ln_1.out, C, 3 * C,
             accumulate);
    d_norm(m, u, LN_1_W, b->ln_1, a->d_branch, b->x, accumulate);
}

/* The lookup always adds: with a tied head wte has the head's share already. */
static void embedding_backward(struct dt_model *m, const struct dt_batch *batch,
                               bool accumulate)
{
    size_t B = m->B, T = m->T, C = m->config.n_embd;
    struct dt_buffer buf;
    if (!m->config.tie_word_embeddings && !accumulate)
        m->ops->zero(NULL, grad(m, 0, WTE));
    m->ops->embedding_backward(
        NULL, grad(m, 0, WTE), grad(m, 0, WPE), m->acts.d_stream,
        ids_view(&buf, batch->inputs, B * T), B, T, C, accumulate);
}

void dt_model_backward(struct dt_model *m, size_t u,
                       const struct dt_batch *batch, bool accumulate)
{
    if (u == 0)
        embedding_backward(m, batch, accumulate);
    else
        block_backward(m, u, accumulate);
}
