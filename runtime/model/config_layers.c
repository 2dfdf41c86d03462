/* SPDX-License-Identifier: Apache-2.0 */
/* config_layers.c - reads in what layers of a model differ: windows, RoPE */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "model/config_parse.h"

/* Reads an integer >= min. If it is missing or null, *out is unchanged. */
static void parse_optional(const json_t *root, const char *key, json_int_t min,
                           size_t *out, struct dt_error *problems)
{
    const json_t *value = dt_config_value(root, key);
    if (!value)
        return;
    if (json_is_integer(value) && json_integer_value(value) >= min)
        *out = (size_t)json_integer_value(value);
    else
        dt_config_unexpected(problems, "", key,
                             min ? "an integer > 0" : "an integer >= 0", value);
}

static bool parse_flag(const json_t *root, const char *key,
                       struct dt_error *problems)
{
    const json_t *value = json_object_get(root, key);
    if (value && !json_is_boolean(value))
        dt_config_unexpected(problems, "", key, "true or false", value);
    return json_is_true(value);
}

/* SmolLM3: a list of 0 and 1, or each fourth layer rotates nothing. */
static void parse_unrotated(struct dt_model_config *config, const json_t *root,
                            struct dt_error *problems)
{
    const json_t *list = dt_config_value(root, "no_rope_layers");
    size_t interval = 4;
    parse_optional(root, "no_rope_layer_interval", 1, &interval, problems);
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
        if (!rotates)
            dt_layers_add(&config->unrotated, l);
    }
}

/* Whether layer l has a window if layer_types is missing. */
static bool is_sliding(const struct dt_model_config *config,
                       enum dt_windows windows, size_t l, size_t number)
{
    switch (windows) {
    case DT_WINDOWS_UNKNOWN:
    case DT_WINDOWS_NONE:
        break;
    case DT_WINDOWS_ALL:
        return true;
    case DT_WINDOWS_EVEN:
        return l % 2 == 0;
    case DT_WINDOWS_PATTERN:
        return (l + 1) % number != 0;
    case DT_WINDOWS_LATE:
        return l >= number;
    case DT_WINDOWS_UNROTATED:
        return dt_layers_have(&config->unrotated, l);
    }
    return false;
}

/* That number. */
static size_t parse_number(enum dt_windows windows, const json_t *root,
                           struct dt_error *problems)
{
    const bool late = windows == DT_WINDOWS_LATE;
    size_t number = late ? 28 : 6;
    if (late || windows == DT_WINDOWS_PATTERN)
        parse_optional(root,
                       late ? "max_window_layers" : "sliding_window_pattern",
                       late ? 0 : 1, &number, problems);
    return number;
}

/* layer_types: a word for each layer. */
static void parse_types(struct dt_model_config *config, enum dt_windows windows,
                        const json_t *types, struct dt_error *problems)
{
    size_t count = json_array_size(types);
    if (count != config->n_layer) {
        dt_error_add(problems, EX_DATAERR,
                     "layer_types: expected a list of %zu, got %zu",
                     config->n_layer, count);
        return;
    }
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
                windows == DT_WINDOWS_LATE ? "use_sliding_window and " : "");
            return;
        }
    }
}

/* Gemma has layers with a window unless layer_types says otherwise. */
static void require_window(const struct dt_model_config *config,
                           const json_t *root, struct dt_error *problems)
{
    if (config->window == 0 && !dt_config_value(root, "layer_types"))
        dt_config_unexpected(problems, "", "sliding_window", "an integer > 0",
                             json_object_get(root, "sliding_window"));
}

/* sliding_window; null: none. */
static void parse_window(struct dt_model_config *config,
                         const struct dt_family *family, const json_t *root,
                         bool use, struct dt_error *problems)
{
    const json_t *given = json_object_get(root, "sliding_window");
    config->window = json_is_null(given) ? 0 : family->window;
    parse_optional(root, "sliding_window", 1, &config->window, problems);
    if (family->windows == DT_WINDOWS_LATE && !use)
        config->window = 0;
    if (family->windows == DT_WINDOWS_EVEN ||
        family->windows == DT_WINDOWS_PATTERN)
        require_window(config, root, problems);
}

/* Of a family that has windows. */
static void parse_windows(struct dt_model_config *config,
                          const struct dt_family *family, const json_t *root,
                          struct dt_error *problems)
{
    const json_t *types = dt_config_value(root, "layer_types");
    const bool use = !family->asks_window ||
                     parse_flag(root, "use_sliding_window", problems);
    size_t full = 0;
    parse_window(config, family, root, use, problems);
    size_t number = parse_number(family->windows, root, problems);
    if (types && config->family != DT_PHI3)
        parse_types(config, family->windows, types, problems);
    else
        for (size_t l = 0; l < config->n_layer; l++)
            if (!use || !is_sliding(config, family->windows, l, number))
                dt_layers_add(&config->full, l);
    for (size_t l = 0; l < config->n_layer; l++)
        full += dt_layers_have(&config->full, l);
    if (full == config->n_layer || config->window == 0) {
        config->window = 0;
        config->full = (struct dt_layers){0};
    }
}

void dt_config_parse_layers(struct dt_model_config *config,
                            const struct dt_family *family, const json_t *root,
                            struct dt_error *problems)
{
    if (config->family == DT_SMOLLM3)
        parse_unrotated(config, root, problems);
    if (family->windows == DT_WINDOWS_UNKNOWN)
        dt_error_add(problems, EX_SOFTWARE,
                     "model_type: which layers of %s have sliding windows is "
                     "not known: its row in model/family.c needs .windows",
                     family->type);
    else if (family->windows != DT_WINDOWS_NONE)
        parse_windows(config, family, root, problems);
}
