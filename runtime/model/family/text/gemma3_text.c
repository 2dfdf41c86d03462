/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemma3_text.c - the language models of Gemma 3: gemma2 with norms of each
 * head in place of the first softcap, and angles of their own in layers with a
 * window
 */
#include "config.h"

#include "model/family/text/family_rows.h"

const struct dt_family dt_family_gemma3_text = {
    .type = "gemma3_text",
    .causal = "Gemma3ForCausalLM",
    .scores = "Gemma3TextForSequenceClassification",
    .base = "Gemma3TextModel",
    DT_GEMMA_LIKE,
    .fields = DT_FIELDS(DT_ROTARY_FIELDS, DT_GEMMA_FIELDS),
    DT_SIZES(262208, 131072, 2304, 26, 8, 9216),
    .unused = "attn_logit_softcapping",
    .head_norm = DT_HEAD_NORM_EACH,
    .windows = DT_WINDOWS_EXCEPT,
    .windows_number = 6,
    .windows_key = "sliding_window_pattern",
    .theta = 1e6,
    .local_theta = 1e4,
};
