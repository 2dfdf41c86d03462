/* SPDX-License-Identifier: Apache-2.0 */
/* config_compose.c - makes a LLaVA's config.json of those of two models */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/family/family.h"

/* The object of a tower: the file of one, or its part of a file of CLIP or
 * SigLIP, which have a text model of their own. New reference.
 */
static json_t *take_tower(const char *text, struct dt_error *err)
{
    json_t *root = dt_json_parse("the vision model's config.json", text, err);
    json_t *part = json_object_get(root, "vision_config");
    const char *type = json_string_value(json_object_get(root, "model_type"));
    if (!json_is_object(part))
        return root;
    json_incref(part);
    if (type && !json_object_get(part, "model_type"))
        json_object_set_new(part, "model_type",
                            json_sprintf("%s_vision_model", type));
    json_decref(root);
    return part;
}

/* Whether rows of such a tower begin with one that is no patch. */
static bool has_class(const json_t *tower)
{
    const char *type = json_string_value(json_object_get(tower, "model_type"));
    return type && !strcmp(type, "clip_vision_model");
}

int dt_model_config_compose(struct dt_model_config *config, const char *vision,
                            const char *language, int layer, int32_t token,
                            struct dt_error *err)
{
    json_t *tower = take_tower(vision, err);
    json_t *text =
        tower ? dt_json_parse("the language model's config.json", language, err)
              : NULL;
    *config = (struct dt_model_config){0};
    if (!text) {
        json_decref(tower);
        return -1;
    }
    const char *strategy = has_class(tower) ? "default" : "full";
    json_t *root = json_pack(
        "{s:[s], s:s, s:i, s:s, s:b, s:i, s:s, s:o, s:o}", "architectures",
        "LlavaForConditionalGeneration", "model_type", "llava",
        "image_token_index", (int)token, "projector_hidden_act", "gelu",
        "multimodal_projector_bias", 1, "vision_feature_layer", layer,
        "vision_feature_select_strategy", strategy, "text_config", text,
        "vision_config", tower);
    char *json = root ? json_dumps(root, JSON_REAL_PRECISION(17)) : NULL;
    const int rc =
        json ? dt_model_config_parse(config, json, "the composed model", err)
             : dt_error_set(err, EX_OSERR, "out of memory");
    free(json);
    json_decref(root);
    return rc;
}
