/* SPDX-License-Identifier: Apache-2.0 */
/*
 * granite.c - multipliers of embedding, attention, branches and logits. There
 * are no sequence classifiers of this family, so no reward models
 */
#include "config.h"

#include "model/family/text/family_rows.h"

const struct dt_family dt_family_granite = {
    .type = "granite",
    .causal = "GraniteForCausalLM",
    .base = "GraniteModel",
    DT_LLAMA_LIKE,
    .fields = DT_FIELDS(
        DT_ROTARY_FIELDS, DT_ATTENTION_BIAS, DT_MLP_BIAS,
        DT_REAL("embedding_multiplier", embedding_multiplier, 1e-6, 1e6),
        DT_REAL("residual_multiplier", residual_multiplier, 1e-6, 1e6),
        DT_REAL("attention_multiplier", attention_multiplier, 1e-6, 1e6),
        DT_REAL("logits_scaling", logits_scaling, 1e-6, 1e6)),
    DT_SIZES(32000, 2048, 4096, 32, 32, 11008),
    .multipliers = true,
    .scales_features = true,
    .windows = DT_WINDOWS_NONE,
};
