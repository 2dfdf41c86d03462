/* SPDX-License-Identifier: Apache-2.0 */
/* acts.c - the plan of the activations */
#include "config.h"

#include "model/model_impl.h"
#include "model/family/family.h"

enum { ALIGN = 256 };

struct dt_view dt_arena_take(struct dt_arena *arena, enum dt_dtype dtype,
                             size_t rows, size_t cols)
{
    size_t count, bytes, first = arena->used;
    size_t size = dt_dtype_bytes(dtype);
    if (__builtin_mul_overflow(rows, cols, &count) ||
        __builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, ALIGN - 1, &bytes) ||
        __builtin_add_overflow(first, bytes / ALIGN * ALIGN, &arena->used))
        arena->used = SIZE_MAX;
    if (arena->used > arena->peak)
        arena->peak = arena->used;
    return (struct dt_view){arena->buf, first / size, count, dtype};
}

static struct dt_view take_compute(struct dt_arena *arena, size_t rows,
                                   size_t cols)
{
    return dt_arena_take(arena, arena->compute, rows, cols);
}

static struct dt_norm take_norm(struct dt_arena *arena,
                                const struct dt_model_config *config, size_t N)
{
    struct dt_norm norm = {.out = take_compute(arena, N, config->n_embd),
                           .rstd = dt_arena_take(arena, DT_F32, N, 1)};
    if (config->family->centered)
        norm.mean = dt_arena_take(arena, DT_F32, N, 1);
    return norm;
}

static void take_block(struct dt_arena *arena, struct dt_block *block,
                       const struct dt_acts *acts,
                       const struct dt_acts_for *plan, size_t N)
{
    const struct dt_model_config *config = plan->config;
    size_t queries = config->n_head * config->head_size;
    size_t keys = config->n_kv_head * config->head_size;
    const struct dt_family *family = config->family;
    block->qkv = take_compute(arena, N, queries + 2 * keys);
    block->attention = take_compute(arena, N, queries);
    block->lse = dt_arena_take(arena, DT_F32, N, config->n_head);
    block->x_mid = take_compute(arena, N, config->n_embd);
    block->fc = take_compute(
        arena, N, family->gated ? 2 * config->n_inner : config->n_inner);
    if (family->post_norm) {
        block->out = take_compute(arena, N, config->n_embd);
        block->proj = take_compute(arena, N, config->n_embd);
        block->out_rstd = dt_arena_take(arena, DT_F32, N, 1);
        block->proj_rstd = dt_arena_take(arena, DT_F32, N, 1);
    }
    block->norm_1 = block->norm_2 = acts->norm;
    block->act = (struct dt_view){0};
    if (plan->options->save_activations && family->pre_norm) {
        block->norm_1 = take_norm(arena, config, N);
        block->norm_2 = take_norm(arena, config, N);
    }
    if (plan->options->save_activations) {
        block->act = take_compute(arena, N, config->n_inner);
    }
}

static void take_blocks(struct dt_arena *arena, struct dt_block *blocks,
                        const struct dt_acts *acts,
                        const struct dt_acts_for *plan, size_t N)
{
    const size_t first = dt_acts_first_kept(plan->config, plan->options);
    bool train = plan->options->train;
    bool own_tensors = train && !plan->options->recompute;
    struct dt_block block = {0};
    struct dt_view turns[2]; /* the x of the last two blocks */
    for (size_t l = 0; l < plan->config->n_layer; l++) {
        const bool kept = train && l >= first;
        if (l == 0 || (own_tensors && l > first))
            take_block(arena, &block, acts, plan, N);
        if (!kept)
            block.x = block.x_mid;
        else if (plan->options->offload && l >= first + 2)
            block.x = turns[l % 2];
        else
            block.x = take_compute(arena, N, plan->config->n_embd);
        turns[l % 2] = block.x;
        if (blocks)
            blocks[l] = block;
    }
}

/* Without save_activations all blocks share one act. */
static void share_act(struct dt_block *blocks, struct dt_view act,
                      const struct dt_acts_for *plan)
{
    for (size_t l = 0; blocks && l < plan->config->n_layer; l++)
        blocks[l].act = act;
}

/* The most that attention's backward pass needs, with and without a window, for
 * the largest batch: smaller ones get as much, since a plan for fewer rows may
 * want more.
 */
static size_t attention_workspace_of(const struct dt_acts_for *plan)
{
    const struct dt_model_config *config = plan->config;
    const struct dt_model_options *options = plan->options;
    const bool ahead =
        options->ahead ||
        (config->vision && config->vision->family->bidirectional);
    struct dt_attention attention = {
        .B = options->B,
        .T = options->T,
        .NH = config->n_head,
        .NKV = config->n_kv_head,
        .HS = config->head_size,
        .scale = dt_model_attention_scale(config),
        .softcap = (float)config->attention_softcap,
        .first = {.count = options->documents ? options->B * options->T : 0},
        .last = {.count = ahead ? options->B * options->T : 0},
        .dropout = {.rate = options->dropout ? config->attn_dropout : 0},
    };
    attention.documents.tokens = attention.first.count;
    attention.documents.longest = dt_model_longest_document(options);
    attention.documents.spans.count = ahead ? 0 : attention.first.count;
    enum dt_dtype type = options->compute;
    size_t most = 0;
    for (size_t u = 1; u <= config->n_layer && most == 0; u++)
        if (dt_model_window(config, u) == 0)
            most = plan->ops->attention_workspace(type, &attention);
    attention.window = config->window;
    if (config->window > 0) {
        size_t count = plan->ops->attention_workspace(type, &attention);
        most = count > most ? count : most;
    }
    return most;
}

static void take_attention(struct dt_arena *arena, struct dt_acts *acts,
                           const struct dt_acts_for *plan, size_t N)
{
    size_t NH = plan->config->n_head, NKV = plan->config->n_kv_head;
    size_t HS = plan->config->head_size;
    enum dt_head_norm norm = plan->config->family->head_norm;
    if (norm != DT_HEAD_NORM_NONE) {
        acts->heads = take_compute(arena, N, (NH + 2 * NKV) * HS);
        acts->head_rstd = dt_arena_take(
            arena, DT_F32, N, norm == DT_HEAD_NORM_ALL ? 2 : NH + NKV);
    }
    if (plan->options->train) {
        acts->d_attention = take_compute(arena, N, NH * HS);
        acts->d_qkv = take_compute(arena, N, (NH + 2 * NKV) * HS);
        acts->attention_workspace =
            dt_arena_take(arena, DT_F32, attention_workspace_of(plan), 1);
    }
}

static void take_values(struct dt_arena *arena, struct dt_acts *acts,
                        const struct dt_acts_for *plan, size_t N)
{
    size_t C = plan->config->n_embd;
    acts->picked = take_compute(arena, N, C);
    acts->d_picked = take_compute(arena, N, C + 1);
    acts->value = dt_arena_take(arena, DT_F32, N, 1);
    acts->collision = dt_arena_take(arena, DT_F32, N, 1);
    acts->lse = dt_arena_take(arena, DT_F32, N, 1);
    acts->weight = dt_arena_take(arena, DT_F32, N, 1);
    if (plan->options->entropies || plan->options->logits)
        acts->entropy = dt_arena_take(arena, DT_F32, N, 1);
    if (plan->options->entropies)
        acts->entropy_weight = dt_arena_take(arena, DT_F32, N, 1);
    if (plan->options->logits) {
        acts->mean = dt_arena_take(arena, DT_F32, N, 1);
        acts->likeliest = dt_arena_take(arena, DT_F32, N, 1);
    }
    if (plan->config->value_head) {
        acts->score = dt_arena_take(arena, DT_F32, N, 1);
        acts->score_weight = dt_arena_take(arena, DT_F32, N, 1);
    }
}

/* The workspace of the loss is that of the largest batch, as attention's is. */
static void take_head(struct dt_arena *arena, struct dt_acts *acts,
                      const struct dt_acts_for *plan, size_t N)
{
    const struct dt_model_options *options = plan->options;
    size_t C = plan->config->n_embd, V = plan->config->vocab_size;
    if (V > 0 && !plan->config->scores) {
        size_t count = 0;
        if (!options->decode)
            count = plan->ops->loss_workspace(options->compute,
                                              options->B * options->T, C, V,
                                              options->whole_head);
        acts->logits = dt_arena_take(arena, DT_F32, count > V ? count : V, 1);
    }
    if (options->values)
        take_values(arena, acts, plan, N);
}

static void take_adapter(struct dt_arena *arena, struct dt_acts *acts,
                         const struct dt_acts_for *plan, size_t N)
{
    const struct dt_model_adapter *adapter = &plan->options->adapter;
    const struct dt_model_config *config = plan->config;
    size_t widest = config->n_embd, heads = config->n_head * config->head_size;
    if (adapter->r == 0)
        return;
    acts->low = dt_arena_take(arena, DT_F32, N, adapter->r);
    if (heads > widest)
        widest = heads;
    if (config->n_inner > widest)
        widest = config->n_inner;
    if (adapter->dropout > 0 && plan->options->train)
        acts->dropped = take_compute(arena, N, widest);
}

/* Sums of d_stream are of use if it is the gradient of biases as it is, and if
 * only norms add to it: features of a tower, which has no vocabulary, do, too.
 */
static bool has_sums(const struct dt_acts_for *plan)
{
    const struct dt_model_options *options = plan->options;
    return plan->ops->norm_sums && options->train && options->adapter.r == 0 &&
           plan->config->family->centered && plan->config->vocab_size > 0 &&
           (!options->dropout || plan->config->resid_dropout == 0);
}

size_t dt_acts_plan(struct dt_acts *acts, struct dt_block *blocks,
                    struct dt_buffer *buf, const struct dt_acts_for *plan)
{
    const struct dt_model_config *config = plan->config;
    bool train = plan->options->train;
    struct dt_arena arena = {.buf = buf, .compute = plan->options->compute};
    size_t N, most, C = config->n_embd;
    if (__builtin_mul_overflow(plan->B, plan->T, &N) ||
        __builtin_mul_overflow(plan->options->B, plan->options->T, &most))
        return SIZE_MAX;
    *acts = (struct dt_acts){0};
    acts->top = take_compute(&arena, N, C);
    acts->norm = take_norm(&arena, config, N);
    acts->branch = take_compute(&arena, N, C);
    if (train)
        acts->d_stream = take_compute(&arena, N, C);
    if (has_sums(plan))
        acts->d_sums = dt_arena_take(&arena, DT_F32, C, 1);
    take_adapter(&arena, acts, plan, N);
    take_blocks(&arena, blocks, acts, plan, N);

    size_t start = arena.used;
    if (!plan->options->save_activations)
        share_act(blocks, take_compute(&arena, N, config->n_inner), plan);
    if (train && plan->options->adapter.r > 0)
        acts->d_act = take_compute(&arena, N, config->n_inner);
    arena.used = start;
    take_attention(&arena, acts, plan, N);
    arena.used = start;
    take_head(&arena, acts, plan, N);
    return arena.peak;
}
