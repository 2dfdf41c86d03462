/* SPDX-License-Identifier: Apache-2.0 */
/* qwen2.c - Qwen2 and 2.5; windows from a layer on, or by layer_types */
#include "config.h"

#include "model/family/text/family_rows.h"

const struct dt_family dt_family_qwen2 = {
    .type = "qwen2",
    DT_CLASSES("Qwen2"),
    DT_LLAMA_LIKE,
    DT_QWEN_WINDOWS,
    .fields = DT_FIELDS(DT_ROTARY_FIELDS),
    DT_SIZES(151936, 32768, 4096, 32, 32, 22016),
    .qkv_biased = true,
    .out_plain = true,
    .n_kv_head = 32,
};
