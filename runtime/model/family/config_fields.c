/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_fields.c - keys of config.json: their values, their ranges, and
 * messages about wrong ones
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/family/family.h"

const char *dt_rope_scaling_name(enum dt_rope_scaling scaling)
{
    static const char *const names[DT_ROPE_SCALINGS + 1] = {
        [DT_ROPE_DEFAULT] = "default", [DT_ROPE_LINEAR] = "linear",
        [DT_ROPE_LLAMA3] = "llama3",   [DT_ROPE_DYNAMIC] = "dynamic",
        [DT_ROPE_YARN] = "yarn",       [DT_ROPE_LONGROPE] = "longrope",
    };
    return names[scaling];
}

bool dt_field_of(const struct dt_field *field,
                 const struct dt_model_config *config)
{
    return field->scalings == 0 || field->scalings >> config->rope_scaling & 1;
}

double dt_field_get(const struct dt_model_config *config,
                    const struct dt_field *field)
{
    const void *at = (const char *)config + field->offset;
    switch (field->type) {
    case DT_FIELD_COUNT:
        return (double)*(const size_t *)at;
    case DT_FIELD_REAL:
        return *(const double *)at;
    default:
        return *(const bool *)at;
    }
}

static void set_field(struct dt_model_config *config,
                      const struct dt_field *field, double value)
{
    void *at = (char *)config + field->offset;
    switch (field->type) {
    case DT_FIELD_COUNT:
        *(size_t *)at = (size_t)value;
        break;
    case DT_FIELD_REAL:
        *(double *)at = value;
        break;
    default:
        *(bool *)at = value != 0;
    }
}

bool dt_field_in_range(const struct dt_field *field, double value)
{
    return value >= field->min && value <= field->max;
}

void dt_field_unexpected(const struct dt_field *field, const char *prefix,
                         const char *got, struct dt_error *problems)
{
    if (field->type == DT_FIELD_FLAG)
        dt_error_add(problems, EX_DATAERR,
                     "%s%s: expected true or false, got %s", prefix, field->key,
                     got);
    else
        dt_error_add(problems, EX_DATAERR,
                     "%s%s: expected %s from %.15g to %.15g, got %s", prefix,
                     field->key,
                     field->type == DT_FIELD_COUNT ? "an integer" : "a number",
                     field->min, field->max, got);
}

const char *dt_config_text(const json_t *value, char text[64])
{
    char *json = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT)
                       : strdup("nothing");
    snprintf(text, 64, strlen(json ? json : "") < 60 ? "%s" : "%.57s...",
             json ? json : "something else");
    free(json);
    return text;
}

void dt_config_add_word(char *known, size_t room, const char *word)
{
    const size_t used = strlen(known);
    snprintf(known + used, room - used, "%s%s", used > 0 ? ", " : "one of ",
             word);
}

void dt_config_unexpected(struct dt_error *problems, const char *prefix,
                          const char *key, const char *what, const json_t *got)
{
    char text[64];
    dt_error_add(problems, EX_DATAERR, "%s%s: expected %s, got %s", prefix, key,
                 what, dt_config_text(got, text));
}

void dt_config_parse_labels(const json_t *root, struct dt_error *problems)
{
    const json_t *labels = json_object_get(root, "id2label");
    if (json_object_size(labels) != 1)
        dt_config_unexpected(problems, "", "id2label",
                             "one label, whose number is the score", labels);
}

const json_t *dt_config_value(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

void dt_config_parse_field(struct dt_model_config *config,
                           const struct dt_field *field, const char *prefix,
                           const json_t *object, struct dt_error *problems)
{
    const json_t *given = dt_config_value(object, field->key);
    const json_t *value = json_object_get(object, field->key);
    char text[64];
    bool fits = field->type == DT_FIELD_COUNT  ? json_is_integer(value)
                : field->type == DT_FIELD_REAL ? json_is_number(value)
                                               : json_is_boolean(value);
    double number = field->type == DT_FIELD_FLAG ? json_is_true(value)
                                                 : json_number_value(value);
    const bool missing = field->required && dt_field_get(config, field) == 0;
    if (!dt_field_of(field, config) || (!given && !missing))
        return;
    if (fits && dt_field_in_range(field, number))
        set_field(config, field, number);
    else
        dt_field_unexpected(field, prefix, dt_config_text(value, text),
                            problems);
}

void dt_config_parse_key(struct dt_model_config *config, const char *key,
                         const char *prefix, const json_t *object,
                         struct dt_error *problems)
{
    for (const struct dt_field *field = config->family->fields; field->key;
         field++)
        if (!strcmp(field->key, key))
            dt_config_parse_field(config, field, prefix, object, problems);
}

void dt_config_parse_size(const json_t *object, const char *prefix,
                          const char *key, size_t max, size_t *out,
                          struct dt_error *problems)
{
    const json_t *value = dt_config_value(object, key);
    const json_int_t number = json_integer_value(value);
    char what[64];
    snprintf(what, sizeof(what), "an integer from 1 to %zu", max);
    if (value && number >= 1 && number <= (json_int_t)max)
        *out = (size_t)number;
    else if (value)
        dt_config_unexpected(problems, prefix, key, what, value);
}

void dt_config_parse_flag(const json_t *object, const char *key, bool *out,
                          struct dt_error *problems)
{
    const json_t *value = dt_config_value(object, key);
    if (value && !json_is_boolean(value))
        dt_config_unexpected(problems, "", key, "true or false", value);
    else if (value)
        *out = json_is_true(value);
}

/* Names of activations in transformers. */
static const struct {
    const char *name;
    enum dt_activation activation;
} activations[] = {
    {"silu", DT_SILU},
    {"swish", DT_SILU},
    {"gelu_pytorch_tanh", DT_GELU_TANH},
    {"gelu_new", DT_GELU_TANH},
    {"gelu", DT_GELU_ERF},
    {"quick_gelu", DT_QUICK_GELU},
};

const char *dt_activation_name(enum dt_activation activation)
{
    size_t i = 0;
    while (activations[i].activation != activation)
        i++;
    return activations[i].name;
}

void dt_config_parse_activation(const json_t *object, const char *key,
                                enum dt_activation *out,
                                struct dt_error *problems)
{
    const json_t *value = json_object_get(object, key);
    const char *name = json_string_value(value);
    size_t i = 0, count = sizeof(activations) / sizeof(*activations);
    while (i < count && (!name || strcmp(name, activations[i].name) != 0))
        i++;
    if (i < count)
        *out = activations[i].activation;
    else if (value)
        dt_config_unexpected(problems, "", key,
                             "silu, gelu, gelu_pytorch_tanh or quick_gelu",
                             value);
}

void dt_config_parse_count(const json_t *root, const char *key, json_int_t min,
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
