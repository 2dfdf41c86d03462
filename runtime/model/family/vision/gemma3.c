/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemma3.c - Gemma 3: a SigLIP whose patches are averaged before gemma3_text,
 * in which the tokens of a picture see each other
 */
#include "config.h"

#include "model/family/vision/vision_rows.h"

static const struct dt_tower_traits gemma3_tower = {
    .family = {.type = "siglip_vision_model",
               DT_LEARNED,
               .params = normed_params,
               .gate = DT_GELU_TANH,
               .norm_epsilon = 1e-6,
               DT_SIZES(0, 0, 768, 12, 12, 3072),
               .carried = (const char *const[]){"head.", NULL}},
    .channels = "num_channels",
    .image = 224,
    .patch = 16,
};

static const struct dt_param_row gemma3_projector[] = {
    DT_ROW(DT_MERGE_1_W, "mm_input_projection_weight", DT_MERGED, DT_TEXT),
    DT_VECTOR(DT_MERGE_NORM_W, "mm_soft_emb_norm.weight", DT_C),
    {0},
};

/* As many patches become a feature as leave so many of these. */
static void gemma3_parse(struct dt_vision_config *vision,
                         const struct dt_model_config *text, const json_t *root,
                         const json_t *tower, struct dt_error *problems)
{
    const char *key = vision->family->merge_key;
    size_t tokens = 256, side = 1;
    (void)text;
    (void)tower;
    dt_config_parse_size(root, "", key, 1 << 16, &tokens, problems);
    while (side * side < tokens)
        side++;
    vision->pooled = true;
    vision->merge = vision->grid / side;
    if (side * side != tokens || vision->grid % side != 0)
        dt_error_add(problems, EX_DATAERR,
                     "%s: expected a square whose side divides the %zu patches "
                     "of a side (vision_config.image_size / patch_size), got "
                     "%zu",
                     key, vision->grid, tokens);
}

const struct dt_vision_family dt_vision_gemma3 = {
    .type = "gemma3",
    .causal = "Gemma3ForConditionalGeneration",
    .scores = "Gemma3ForSequenceClassification",
    .base = "Gemma3Model",
    .text = &dt_family_gemma3_text,
    .towers = (const struct dt_tower_traits *const[]){&gemma3_tower, NULL},
    DT_LLAVA_NAMES,
    .projector = gemma3_projector,
    .shifted = true,
    .in_out = true,
    .bidirectional = true,
    .ties_root = true,
    .tied = true,
    .merge_key = "mm_tokens_per_image",
    .token = 262144,
    .token_index = "image_token_index",
    .parse = gemma3_parse,
};
