/* SPDX-License-Identifier: Apache-2.0 */
/* smolvlm.c - SmolVLM 2: the same as idefics3 */
#include "config.h"

#include "model/family/vision/vision_rows.h"

static const struct dt_tower_traits smolvlm_tower =
    DT_IDEFICS_TOWER("smolvlm_vision");

const struct dt_vision_family dt_vision_smolvlm = {
    .type = "smolvlm",
    .causal = "SmolVLMForConditionalGeneration",
    .base = "SmolVLMModel",
    .towers = (const struct dt_tower_traits *const[]){&smolvlm_tower, NULL},
    DT_IDEFICS,
};
