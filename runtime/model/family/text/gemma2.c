/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemma2.c - norms before and after attention and MLP, windows in every other
 * layer, softcaps of scores and logits
 */
#include "config.h"

#include "model/family/text/family_rows.h"

const struct dt_family dt_family_gemma2 = {
    .type = "gemma2",
    DT_CLASSES("Gemma2"),
    DT_GEMMA_LIKE,
    .fields =
        DT_FIELDS(DT_ROTARY_FIELDS, DT_GEMMA_FIELDS,
                  DT_REAL("attn_logit_softcapping", attention_softcap, 0, 1e9)),
    DT_SIZES(256000, 8192, 2304, 26, 8, 9216),
    .attention_softcap = 50,
    .logits_softcap = 30,
    .windows = DT_WINDOWS_EXCEPT,
    .windows_number = 2,
    .theta = 1e4,
};
