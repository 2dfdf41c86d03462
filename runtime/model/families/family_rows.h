/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family_rows.h - traits and fields that several families have
 *
 * For the files of families alone, which family.c includes one after the other:
 * a function of theirs begins with the family's name.
 */
#ifndef DT_MODEL_FAMILIES_FAMILY_ROWS_H
#define DT_MODEL_FAMILIES_FAMILY_ROWS_H

#include "model/family.h"

/* --- traits --- */

#define DT_CLASSES(name)                                                       \
    .causal = name "ForCausalLM", .scores = name "ForSequenceClassification",  \
    .base = name "Model"

#define DT_GATED_BY_SILU .activation = "hidden_act", .gate = DT_SILU

#define DT_LLAMA_LIKE                                                          \
    .pre_norm = true, DT_GATED_BY_SILU, .norm_epsilon = 1e-6, .theta = 1e4,    \
    .pad = -1

#define DT_GEMMA_LIKE                                                          \
    .pre_norm = true, .post_norm = true, .shifted = true,                      \
    .scaled_embedding = true, .activation = "hidden_activation",               \
    .gate = DT_GELU_TANH, .tied = true, .norm_epsilon = 1e-6, .n_kv_head = 4,  \
    .head_size = 256, .query_scalar = 256, .window = 4096,                     \
    .needs_window = true, .pad = 0

#define DT_QWEN_WINDOWS                                                        \
    .windows = DT_WINDOWS_LATE, .windows_number = 28,                          \
    .windows_key = "max_window_layers", .asks_window = true,                   \
    .types_ask = true, .window = 4096

/* --- fields of config.json --- */

/* clang-format off */
#define DT_FIELDS(...) (const struct dt_field[]){__VA_ARGS__, {0}}
#define DT_FIELD(key, type, required, member, min, max, scalings) \
    {key, type, required, offsetof(struct dt_model_config, member), min, max, \
     scalings}
#define DT_COUNT(key, required, member, max) \
    DT_FIELD(key, DT_FIELD_COUNT, required, member, 1, max, 0)
#define DT_REAL(key, member, min, max) \
    DT_FIELD(key, DT_FIELD_REAL, false, member, min, max, 0)
#define DT_FLAG(key, member) \
    DT_FIELD(key, DT_FIELD_FLAG, false, member, 0, 1, 0)

#define DT_VOCAB_FIELD DT_COUNT("vocab_size", true, vocab_size, 1 << 24)
#define DT_WEIGHT_FIELDS \
    DT_REAL("initializer_range", initializer_range, 0, 10), \
    DT_FLAG("tie_word_embeddings", tie_word_embeddings)
#define DT_ATTENTION_BIAS DT_FLAG("attention_bias", qkv_bias)
#define DT_MLP_BIAS DT_FLAG("mlp_bias", mlp_bias)
#define DT_GEMMA_FIELDS \
    DT_ATTENTION_BIAS, \
    DT_REAL("query_pre_attn_scalar", query_scalar, 1e-6, 1e9), \
    DT_REAL("final_logit_softcapping", logits_softcap, 0, 1e9)

/* Of an object that scales RoPE, for these scalings */
#define DT_SCALE(key, required, member, min, scalings) \
    DT_FIELD(key, DT_FIELD_REAL, required, member, min, 1e6, scalings)
#define DT_LINEAR (1u << DT_ROPE_LINEAR)
#define DT_LLAMA3 (1u << DT_ROPE_LLAMA3)
#define DT_DYNAMIC (1u << DT_ROPE_DYNAMIC)
#define DT_YARN (1u << DT_ROPE_YARN)
#define DT_LONGROPE (1u << DT_ROPE_LONGROPE)

/* Of all families with RoPE */
#define DT_ROTARY_FIELDS \
    DT_VOCAB_FIELD, \
    DT_COUNT("max_position_embeddings", true, n_positions, 1 << 24), \
    DT_COUNT("hidden_size", true, n_embd, 1 << 16), \
    DT_COUNT("num_hidden_layers", true, n_layer, DT_MODEL_MAX_LAYERS), \
    DT_COUNT("num_attention_heads", true, n_head, 1 << 16), \
    DT_COUNT("num_key_value_heads", false, n_kv_head, 1 << 16), \
    DT_FIELD("head_dim", DT_FIELD_COUNT, false, head_size, 2, \
             DT_MAX_HEAD_SIZE, 0), \
    DT_COUNT("intermediate_size", true, n_inner, 1 << 20), \
    DT_REAL("rms_norm_eps", norm_epsilon, 1e-12, 1), \
    DT_REAL("rope_theta", rope_theta, 1, 1e12), \
    DT_REAL("attention_dropout", attn_dropout, 0, 0.99), \
    DT_WEIGHT_FIELDS, \
    DT_SCALE("factor", true, rope_factor, 1, \
             DT_LINEAR | DT_LLAMA3 | DT_DYNAMIC | DT_YARN), \
    DT_SCALE("factor", false, rope_factor, 1, DT_LONGROPE), \
    DT_SCALE("low_freq_factor", true, rope_low, 1e-6, DT_LLAMA3), \
    DT_SCALE("high_freq_factor", true, rope_high, 1e-6, DT_LLAMA3), \
    DT_FIELD("original_max_position_embeddings", DT_FIELD_COUNT, false, \
             rope_original, 1, 1 << 24, DT_LLAMA3 | DT_YARN | DT_LONGROPE), \
    DT_SCALE("beta_fast", false, rope_fast, 1e-6, DT_YARN), \
    DT_SCALE("beta_slow", false, rope_slow, 1e-6, DT_YARN), \
    DT_SCALE("mscale", false, rope_mscale, 0, DT_YARN), \
    DT_SCALE("mscale_all_dim", false, rope_mscale_all, 0, DT_YARN), \
    DT_SCALE("attention_factor", false, rope_attention, 0, \
             DT_YARN | DT_LONGROPE), \
    DT_FIELD("truncate", DT_FIELD_FLAG, false, rope_truncate, 0, 1, DT_YARN)
/* clang-format on */

#endif /* DT_MODEL_FAMILIES_FAMILY_ROWS_H */
