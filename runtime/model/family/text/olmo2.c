/* SPDX-License-Identifier: Apache-2.0 */
/*
 * olmo2.c - norms after attention and MLP alone, and over all heads of queries
 * and keys
 */
#include "config.h"

#include "model/family/text/family_rows.h"

const struct dt_family dt_family_olmo2 = {
    .type = "olmo2",
    DT_CLASSES("Olmo2"),
    DT_GATED_BY_SILU,
    .fields = DT_FIELDS(DT_ROTARY_FIELDS, DT_ATTENTION_BIAS),
    DT_SIZES(50304, 2048, 4096, 32, 32, 11008),
    .post_norm = true,
    .head_norm = DT_HEAD_NORM_ALL,
    .norm_epsilon = 1e-5,
    .theta = 1e4,
    .windows = DT_WINDOWS_NONE,
    .pad = 1,
};
