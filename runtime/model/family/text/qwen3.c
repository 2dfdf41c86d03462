/* SPDX-License-Identifier: Apache-2.0 */
/* qwen3.c - the same as qwen2, with norms of each head */
#include "config.h"

#include "model/family/text/family_rows.h"

const struct dt_family dt_family_qwen3 = {
    .type = "qwen3",
    DT_CLASSES("Qwen3"),
    DT_LLAMA_LIKE,
    DT_QWEN_WINDOWS,
    .fields = DT_FIELDS(DT_ROTARY_FIELDS, DT_ATTENTION_BIAS),
    DT_SIZES(151936, 32768, 4096, 32, 32, 22016),
    .head_norm = DT_HEAD_NORM_EACH,
    .n_kv_head = 32,
    .head_size = 128,
};
