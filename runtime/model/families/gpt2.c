/* SPDX-License-Identifier: Apache-2.0 */
/* gpt2.c - GPT-2; dropout */
#include "config.h"

#include "model/families/family_rows.h"

const struct dt_family dt_family_gpt2 = {
    .type = "gpt2",
    .causal = "GPT2LMHeadModel",
    .scores = "GPT2ForSequenceClassification",
    .base = "GPT2Model",
    .fields = DT_FIELDS(
        DT_VOCAB_FIELD, DT_COUNT("n_positions", true, n_positions, 1 << 24),
        DT_COUNT("n_embd", true, n_embd, 1 << 16),
        DT_COUNT("n_layer", true, n_layer, DT_MODEL_MAX_LAYERS),
        DT_COUNT("n_head", true, n_head, 1 << 16),
        DT_COUNT("n_inner", false, n_inner, 1 << 20),
        DT_REAL("layer_norm_epsilon", norm_epsilon, 1e-12, 1),
        DT_REAL("embd_pdrop", embd_dropout, 0, 0.99),
        DT_REAL("attn_pdrop", attn_dropout, 0, 0.99),
        DT_REAL("resid_pdrop", resid_dropout, 0, 0.99), DT_WEIGHT_FIELDS),
    .centered = true,
    .in_out = true,
    .pre_norm = true,
    .qkv_biased = true,
    .mlp_biased = true,
    .activation = "activation_function",
    .tied = true,
    .norm_epsilon = 1e-5,
    .dropout = 0.1,
    .windows = DT_WINDOWS_NONE,
    .pad = -1,
};
