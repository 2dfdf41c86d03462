/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family_rows.h - traits and fields that several families have
 *
 * For the files of families alone, which family.c includes one after the other:
 * a function of theirs begins with the family's name.
 */
#ifndef DT_MODEL_FAMILIES_FAMILY_ROWS_H
#define DT_MODEL_FAMILIES_FAMILY_ROWS_H

#include "model/family/family.h"

/* --- parameters --- */

static const struct dt_param_row llama_params[] = {
    {DT_WTE, "model.embed_tokens.weight", DT_V, DT_C, DT_ALWAYS},
    {0},
    {DT_NORM_1_W, "input_layernorm.weight", DT_C, DT_NONE, DT_PRE_NORM},
    {DT_QKV_W, "self_attn.q_proj.weight", DT_QUERIES, DT_C, DT_APART},
    {DT_QKV_W, "self_attn.k_proj.weight", DT_KEYS, DT_C, DT_APART},
    {DT_QKV_W, "self_attn.v_proj.weight", DT_KEYS, DT_C, DT_APART},
    {DT_QKV_W, "self_attn.qkv_proj.weight", DT_Q, DT_C, DT_FUSED},
    {DT_QKV_B, "self_attn.q_proj.bias", DT_QUERIES, DT_NONE, DT_QKV_BIASED},
    {DT_QKV_B, "self_attn.k_proj.bias", DT_KEYS, DT_NONE, DT_QKV_BIASED},
    {DT_QKV_B, "self_attn.v_proj.bias", DT_KEYS, DT_NONE, DT_QKV_BIASED},
    {DT_Q_NORM, "self_attn.q_norm.weight", DT_HS, DT_NONE, DT_NORM_EACH},
    {DT_K_NORM, "self_attn.k_norm.weight", DT_HS, DT_NONE, DT_NORM_EACH},
    {DT_Q_NORM, "self_attn.q_norm.weight", DT_QUERIES, DT_NONE, DT_NORM_ALL},
    {DT_K_NORM, "self_attn.k_norm.weight", DT_KEYS, DT_NONE, DT_NORM_ALL},
    {DT_OUT_W, "self_attn.o_proj.weight", DT_C, DT_QUERIES, DT_ALWAYS},
    {DT_OUT_B, "self_attn.o_proj.bias", DT_C, DT_NONE, DT_OUT_BIASED},
    {DT_POST_1_W, "post_attention_layernorm.weight", DT_C, DT_NONE,
     DT_POST_NORM},
    {DT_NORM_2_W, "post_attention_layernorm.weight", DT_C, DT_NONE,
     DT_PLAIN_NORM},
    {DT_NORM_2_W, "pre_feedforward_layernorm.weight", DT_C, DT_NONE,
     DT_INNER_NORM},
    {DT_FC_W, "mlp.gate_proj.weight", DT_I, DT_C, DT_APART},
    {DT_FC_W, "mlp.up_proj.weight", DT_I, DT_C, DT_APART},
    {DT_FC_W, "mlp.gate_up_proj.weight", DT_2I, DT_C, DT_FUSED},
    {DT_FC_B, "mlp.gate_proj.bias", DT_I, DT_NONE, DT_MLP_BIASED},
    {DT_FC_B, "mlp.up_proj.bias", DT_I, DT_NONE, DT_MLP_BIASED},
    {DT_PROJ_W, "mlp.down_proj.weight", DT_C, DT_I, DT_ALWAYS},
    {DT_PROJ_B, "mlp.down_proj.bias", DT_C, DT_NONE, DT_MLP_BIASED},
    {DT_POST_2_W, "post_feedforward_layernorm.weight", DT_C, DT_NONE,
     DT_POST_NORM},
    {0},
    {DT_NORM_F_W, "model.norm.weight", DT_C, DT_NONE, DT_ALWAYS},
    {DT_HEAD, "lm_head.weight", DT_V, DT_C, DT_UNTIED},
    {DT_SCORE, "score.weight", DT_ONE, DT_C, DT_SCORED},
    {0},
};

/* --- traits --- */

#define DT_CLASSES(name)                                                       \
    .causal = name "ForCausalLM", .scores = name "ForSequenceClassification",  \
    .base = name "Model"

/* Parameters of Llama, whose MLP has a gate */
#define DT_GATED .params = llama_params, .block = "model.layers.", .gated = true

#define DT_GATED_BY_SILU DT_GATED, .activation = "hidden_act", .gate = DT_SILU

#define DT_LLAMA_LIKE                                                          \
    .pre_norm = true, DT_GATED_BY_SILU, .norm_epsilon = 1e-6, .theta = 1e4,    \
    .pad = -1

#define DT_GEMMA_LIKE                                                          \
    .pre_norm = true, .post_norm = true, .shifted = true,                      \
    .scaled_embedding = true, DT_GATED, .activation = "hidden_activation",     \
    .gate = DT_GELU_TANH, .tied = true, .norm_epsilon = 1e-6, .n_kv_head = 4,  \
    .head_size = 256, .query_scalar = 256, .window = 4096,                     \
    .needs_window = true, .pad = 0

/* Of its class: vocab_size, max_position_embeddings, hidden_size,
 * num_hidden_layers, num_attention_heads, intermediate_size
 */
#define DT_SIZES(...) .sizes = {__VA_ARGS__}

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
