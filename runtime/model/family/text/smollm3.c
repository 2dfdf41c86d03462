/* SPDX-License-Identifier: Apache-2.0 */
/* smollm3.c - layers without rotation, windows */
#include "config.h"

#include "model/family/text/family_rows.h"

/* no_rope_layers is a list of 0 and 1; without it each fourth layer rotates
 * nothing. These layers have the windows.
 */
static void smollm3_parse_layers(struct dt_model_config *config,
                                 const json_t *root, struct dt_error *problems)
{
    const json_t *list = dt_config_value(root, "no_rope_layers");
    size_t interval = 4;
    dt_config_parse_count(root, "no_rope_layer_interval", 1, &interval,
                          problems);
    if (list && json_array_size(list) < config->n_layer) {
        dt_config_unexpected(problems, "", "no_rope_layers",
                             "a list with a number for each layer", list);
        return;
    }
    for (size_t l = 0; l < config->n_layer; l++) {
        const json_t *item = json_array_get(list, l);
        json_int_t rotates =
            item ? json_integer_value(item) : (l + 1) % interval != 0;
        if (item && (!json_is_integer(item) || rotates < 0 || rotates > 1)) {
            dt_config_unexpected(problems, "", "no_rope_layers", "0 or 1",
                                 item);
            return;
        }
        dt_layers_add(rotates ? &config->full : &config->unrotated, l);
    }
}

static int smollm3_format_layers(json_t *root,
                                 const struct dt_model_config *config)
{
    json_t *list = json_array();
    int result = 0;
    for (size_t l = 0; l < config->n_layer; l++)
        result |= json_array_append_new(
            list, json_integer(!dt_layers_have(&config->unrotated, l)));
    return result | json_object_set_new(root, "no_rope_layers", list);
}

const struct dt_family dt_family_smollm3 = {
    .type = "smollm3",
    DT_CLASSES("SmolLM3"),
    DT_GATED_BY_SILU,
    .fields = DT_FIELDS(DT_ROTARY_FIELDS, DT_ATTENTION_BIAS, DT_MLP_BIAS),
    DT_SIZES(128256, 32768, 2048, 36, 16, 11008),
    .pre_norm = true,
    .tied = true,
    .norm_epsilon = 1e-6,
    .theta = 2e6,
    .parse_layers = smollm3_parse_layers,
    .format_layers = smollm3_format_layers,
    .windows = DT_WINDOWS_PARSED,
    .asks_window = true,
    .pad = 128004,
    .n_kv_head = 4,
};
