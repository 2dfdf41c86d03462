/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phi3.c - Phi-3 and Phi-4; weights that are fused in the files, a part of
 * each head rotated, a sliding window, dropout
 */
#include "config.h"

#include "model/family/text/family_rows.h"

const struct dt_family dt_family_phi3 = {
    .type = "phi3",
    DT_CLASSES("Phi3"),
    DT_GATED_BY_SILU,
    .fields = DT_FIELDS(DT_ROTARY_FIELDS,
                        DT_REAL("resid_pdrop", resid_dropout, 0, 0.99)),
    DT_SIZES(32064, 4096, 3072, 32, 32, 8192),
    .pre_norm = true,
    .fused = true,
    .norm_epsilon = 1e-5,
    .theta = 1e4,
    .rotates_part = true,
    .longrope = true,
    .original = 4096,
    .windows = DT_WINDOWS_ALL,
    .no_types = true,
    .pad = 32000,
};
