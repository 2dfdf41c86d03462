/* SPDX-License-Identifier: Apache-2.0 */
/* idefics3.c - Idefics 3, and SmolVLM's first releases: tiles, whose features
 * are shuffled together */
#include "config.h"

#include "model/family/vision/vision_rows.h"

static const struct dt_tower_traits idefics3_tower =
    DT_IDEFICS_TOWER("idefics3_vision");

const struct dt_vision_family dt_vision_idefics3 = {
    .type = "idefics3",
    .causal = "Idefics3ForConditionalGeneration",
    .base = "Idefics3Model",
    .towers = (const struct dt_tower_traits *const[]){&idefics3_tower, NULL},
    DT_IDEFICS,
};
