/* SPDX-License-Identifier: Apache-2.0 */
/* config_layers.c - reads how layers of a model differ: windows, RoPE */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "model/family/family.h"

static bool parse_flag(const json_t *root, const char *key,
                       struct dt_error *problems)
{
    const json_t *value = json_object_get(root, key);
    if (value && !json_is_boolean(value))
        dt_config_unexpected(problems, "", key, "true or false", value);
    return json_is_true(value);
}

/* Whether layer l has a window if layer_types is missing. */
static bool is_sliding(const struct dt_model_config *config, size_t l,
                       size_t number)
{
    switch (config->family->windows) {
    case DT_WINDOWS_UNKNOWN:
    case DT_WINDOWS_NONE:
        break;
    case DT_WINDOWS_ALL:
        return true;
    case DT_WINDOWS_LATE:
        return l >= number;
    case DT_WINDOWS_EXCEPT:
        return (l + 1) % number != 0;
    case DT_WINDOWS_PARSED:
        return !dt_layers_have(&config->full, l);
    }
    return false;
}

/* layer_types: a word for each layer. */
static void parse_types(struct dt_model_config *config, const json_t *types,
                        struct dt_error *problems)
{
    size_t count = json_array_size(types);
    if (count != config->n_layer) {
        dt_error_add(problems, EX_DATAERR,
                     "layer_types: expected a list of %zu, got %zu",
                     config->n_layer, count);
        return;
    }
    config->full = (struct dt_layers){0};
    for (size_t l = 0; l < count; l++) {
        const json_t *type = json_array_get(types, l);
        const char *name = json_is_string(type) ? json_string_value(type) : "";
        if (!strcmp(name, "full_attention")) {
            dt_layers_add(&config->full, l);
        } else if (strcmp(name, "sliding_attention") != 0) {
            dt_config_unexpected(problems, "", "layer_types",
                                 "full_attention or sliding_attention", type);
            return;
        } else if (config->window == 0) {
            dt_error_add(
                problems, EX_DATAERR,
                "layer_types: sliding_attention needs %ssliding_window",
                config->family->types_ask ? "use_sliding_window and " : "");
            return;
        }
    }
}

/* sliding_window; null: none. */
static void parse_window(struct dt_model_config *config, const json_t *root,
                         bool use, struct dt_error *problems)
{
    const struct dt_family *family = config->family;
    const json_t *given = json_object_get(root, "sliding_window");
    config->window = json_is_null(given) ? 0 : family->window;
    dt_config_parse_count(root, "sliding_window", 1, &config->window, problems);
    if (family->types_ask && !use)
        config->window = 0;
    if (family->needs_window && config->window == 0 &&
        !dt_config_value(root, "layer_types"))
        dt_config_unexpected(problems, "", "sliding_window", "an integer > 0",
                             given);
}

/* Of a family that has windows. */
static void parse_windows(struct dt_model_config *config, const json_t *root,
                          struct dt_error *problems)
{
    const struct dt_family *family = config->family;
    const json_t *types = dt_config_value(root, "layer_types");
    const bool use = !family->asks_window ||
                     parse_flag(root, "use_sliding_window", problems);
    size_t full = 0, number = family->windows_number;
    parse_window(config, root, use, problems);
    if (family->windows_key)
        dt_config_parse_count(root, family->windows_key,
                              family->windows == DT_WINDOWS_EXCEPT, &number,
                              problems);
    if (types && !family->no_types)
        parse_types(config, types, problems);
    else
        for (size_t l = 0; l < config->n_layer; l++)
            if (!use || !is_sliding(config, l, number))
                dt_layers_add(&config->full, l);
    for (size_t l = 0; l < config->n_layer; l++)
        full += dt_layers_have(&config->full, l);
    if (full == config->n_layer || config->window == 0) {
        config->window = 0;
        config->full = (struct dt_layers){0};
    }
}

void dt_config_parse_layers(struct dt_model_config *config, const json_t *root,
                            struct dt_error *problems)
{
    const struct dt_family *family = config->family;
    if (family->parse_layers)
        family->parse_layers(config, root, problems);
    if (family->windows == DT_WINDOWS_UNKNOWN)
        dt_error_add(problems, EX_SOFTWARE,
                     "model_type: which layers of %s have sliding windows is "
                     "not known: runtime/model/family/text/%s.c needs .windows",
                     family->type, family->type);
    else if (family->windows != DT_WINDOWS_NONE)
        parse_windows(config, root, problems);
}
