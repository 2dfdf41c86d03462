/* SPDX-License-Identifier: Apache-2.0 */
/* llava.c - a tower of CLIP or SigLIP before any language model with RoPE */
#include "config.h"

#include "model/family/vision/vision_rows.h"

static const struct dt_param_row clip_params[] = {
    DT_ROW(DT_CLASS, "embeddings.class_embedding", DT_C, DT_DECAYED),
    DT_LEARNED_PATCHES,
    DT_LEARNED_POSITIONS,
    DT_VECTOR(DT_NORM_0_W, "pre_layrnorm.weight", DT_C),
    DT_VECTOR(DT_NORM_0_B, "pre_layrnorm.bias", DT_C),
    {0},
    DT_LEARNED_BLOCK,
    {0},
    {0},
};

static const struct dt_param_row siglip_params[] = {
    DT_LEARNED_PATCHES,
    DT_PATCH_BIAS,
    DT_LEARNED_POSITIONS,
    {0},
    DT_LEARNED_BLOCK,
    {0},
    {0},
};

static const struct dt_tower_traits clip_tower = {
    .family = {.type = "clip_vision_model",
               DT_LEARNED,
               .params = clip_params,
               .gate = DT_QUICK_GELU,
               .norm_epsilon = 1e-5,
               DT_SIZES(0, 0, 768, 12, 12, 3072),
               .carried = (const char *const[]){"post_layernorm.", NULL}},
    .channels = "num_channels",
    .class_first = true,
    .image = 224,
    .patch = 32,
};

static const struct dt_tower_traits siglip_tower = {
    .family = {.type = "siglip_vision_model",
               DT_LEARNED,
               .params = siglip_params,
               .gate = DT_GELU_TANH,
               .norm_epsilon = 1e-6,
               DT_SIZES(0, 0, 768, 12, 12, 3072),
               .carried =
                   (const char *const[]){"post_layernorm.", "head.", NULL}},
    .channels = "num_channels",
    .image = 224,
    .patch = 16,
};

static const struct dt_param_row llava_projector[] = {
    DT_ROW(DT_MERGE_1_W, "linear_1.weight", DT_INNER, DT_MERGED),
    {DT_MERGE_1_B, "linear_1.bias", DT_INNER, DT_NONE, DT_MERGE_BIASED},
    DT_ROW(DT_MERGE_2_W, "linear_2.weight", DT_TEXT, DT_INNER),
    {DT_MERGE_2_B, "linear_2.bias", DT_TEXT, DT_NONE, DT_MERGE_BIASED},
    {0},
};

/* Adds the output of a block, counted from the embedding, 0, or from the last
 * block, -1.
 */
static void llava_add_tap(struct dt_vision_config *vision, const json_t *layer,
                          struct dt_error *problems)
{
    const json_int_t n = (json_int_t)vision->layers;
    json_int_t tap = json_integer_value(layer);
    char what[96];
    snprintf(what, sizeof(what),
             "an integer from %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT
             ", or a list of at most %d",
             -n - 1, n, DT_VISION_MAX_TAPS);
    if (!json_is_integer(layer) || tap > n || tap < -n - 1 ||
        vision->tap_count == DT_VISION_MAX_TAPS) {
        dt_config_unexpected(problems, "", "vision_feature_layer", what, layer);
        return;
    }
    tap = tap < 0 ? tap + n + 1 : tap;
    vision->taps[vision->tap_count++] = (size_t)tap;
}

static void llava_parse_taps(struct dt_vision_config *vision,
                             const json_t *root, struct dt_error *problems)
{
    json_t *last_but_one = json_integer(-2);
    const json_t *given = dt_config_value(root, "vision_feature_layer");
    const json_t *layers = given ? given : last_but_one;
    vision->tap_count = 0;
    for (size_t i = 0; i < json_array_size(layers); i++)
        llava_add_tap(vision, json_array_get(layers, i), problems);
    if (!json_is_array(layers) || json_array_size(layers) == 0)
        llava_add_tap(vision, layers, problems);
    json_decref(last_but_one);
}

/* Which rows of a picture become features. */
static void llava_parse_strategy(struct dt_vision_config *vision,
                                 const json_t *root, struct dt_error *problems)
{
    const char *key = "vision_feature_select_strategy";
    const json_t *value = dt_config_value(root, key);
    const char *name = value ? json_string_value(value) : "default";
    const bool drops = name && !strcmp(name, "default");
    vision->class_kept = vision->class_first && !drops;
    vision->patch_dropped = !vision->class_first && drops;
    if (!name || (!drops && strcmp(name, "full") != 0))
        dt_config_unexpected(problems, "", key, "default or full", value);
}

static void llava_parse(struct dt_vision_config *vision,
                        const struct dt_model_config *text, const json_t *root,
                        const json_t *tower, struct dt_error *problems)
{
    (void)tower;
    vision->inner = text->n_embd;
    vision->activation = DT_GELU_ERF;
    vision->projector_bias = true;
    dt_config_parse_activation(root, "projector_hidden_act",
                               &vision->activation, problems);
    dt_config_parse_flag(root, "multimodal_projector_bias",
                         &vision->projector_bias, problems);
    llava_parse_taps(vision, root, problems);
    llava_parse_strategy(vision, root, problems);
}

const struct dt_vision_family dt_vision_llava = {
    .type = "llava",
    .causal = "LlavaForConditionalGeneration",
    .base = "LlavaModel",
    .towers = (const struct dt_tower_traits *const[]){&clip_tower,
                                                      &siglip_tower, NULL},
    DT_LLAVA_NAMES,
    .projector = llava_projector,
    .token = 32000,
    .token_index = "image_token_index",
    .parse = llava_parse,
};
