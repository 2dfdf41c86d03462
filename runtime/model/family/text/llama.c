/* SPDX-License-Identifier: Apache-2.0 */
/* llama.c - Llama 2 to 3.3 and models of their form; biases */
#include "config.h"

#include "model/family/text/family_rows.h"

const struct dt_family dt_family_llama = {
    .type = "llama",
    DT_CLASSES("Llama"),
    DT_LLAMA_LIKE,
    .fields = DT_FIELDS(DT_ROTARY_FIELDS, DT_ATTENTION_BIAS, DT_MLP_BIAS),
    DT_SIZES(32000, 2048, 4096, 32, 32, 11008),
    .windows = DT_WINDOWS_NONE,
};
