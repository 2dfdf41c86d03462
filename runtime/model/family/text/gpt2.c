/* SPDX-License-Identifier: Apache-2.0 */
/* gpt2.c - GPT-2; dropout */
#include "config.h"

#include "model/family/text/family_rows.h"

static const struct dt_param_row gpt2_params[] = {
    {DT_WTE, "transformer.wte.weight", DT_V, DT_C, DT_ALWAYS},
    {DT_WPE, "transformer.wpe.weight", DT_P, DT_C, DT_ALWAYS},
    {0},
    {DT_NORM_1_W, "ln_1.weight", DT_C, DT_NONE, DT_ALWAYS},
    {DT_NORM_1_B, "ln_1.bias", DT_C, DT_NONE, DT_ALWAYS},
    {DT_QKV_W, "attn.c_attn.weight", DT_C, DT_Q, DT_ALWAYS},
    {DT_QKV_B, "attn.c_attn.bias", DT_Q, DT_NONE, DT_ALWAYS},
    {DT_OUT_W, "attn.c_proj.weight", DT_C, DT_C, DT_ALWAYS},
    {DT_OUT_B, "attn.c_proj.bias", DT_C, DT_NONE, DT_ALWAYS},
    {DT_NORM_2_W, "ln_2.weight", DT_C, DT_NONE, DT_ALWAYS},
    {DT_NORM_2_B, "ln_2.bias", DT_C, DT_NONE, DT_ALWAYS},
    {DT_FC_W, "mlp.c_fc.weight", DT_C, DT_I, DT_ALWAYS},
    {DT_FC_B, "mlp.c_fc.bias", DT_I, DT_NONE, DT_ALWAYS},
    {DT_PROJ_W, "mlp.c_proj.weight", DT_I, DT_C, DT_ALWAYS},
    {DT_PROJ_B, "mlp.c_proj.bias", DT_C, DT_NONE, DT_ALWAYS},
    {0},
    {DT_NORM_F_W, "transformer.ln_f.weight", DT_C, DT_NONE, DT_ALWAYS},
    {DT_NORM_F_B, "transformer.ln_f.bias", DT_C, DT_NONE, DT_ALWAYS},
    {DT_HEAD, "lm_head.weight", DT_V, DT_C, DT_UNTIED},
    {DT_SCORE, "score.weight", DT_ONE, DT_C, DT_SCORED},
    {0},
};

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
    .params = gpt2_params,
    .block = "transformer.h.",
    .centered = true,
    .learns_positions = true,
    .pads_nothing = true,
    .in_out = true,
    .pre_norm = true,
    .qkv_biased = true,
    .mlp_biased = true,
    .activation = "activation_function",
    .gate = DT_GELU_TANH,
    .tied = true,
    .norm_epsilon = 1e-5,
    .dropout = 0.1,
    .windows = DT_WINDOWS_NONE,
    .pad = -1,
};
