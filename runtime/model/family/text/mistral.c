/* SPDX-License-Identifier: Apache-2.0 */
/* mistral.c - a sliding window, of all layers or by layer_types */
#include "config.h"

#include "model/family/text/family_rows.h"

const struct dt_family dt_family_mistral = {
    .type = "mistral",
    DT_CLASSES("Mistral"),
    DT_LLAMA_LIKE,
    .fields = DT_FIELDS(DT_ROTARY_FIELDS),
    DT_SIZES(32000, 131072, 4096, 32, 32, 14336),
    .windows = DT_WINDOWS_ALL,
    .window = 4096,
    .n_kv_head = 8,
};
