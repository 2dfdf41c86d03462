/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - config.json of a model: read, checked, written back */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "model/model.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

#define MODEL_TYPES "gpt2"
#define ARCHITECTURE "GPT2LMHeadModel"

enum field_type { COUNT, REAL, FLAG };

/* One key of config.json that is a field of struct dt_model_config. */
struct field {
    const char *key;
    enum field_type type;
    bool required;
    size_t offset;
    double min, max;
};

#define AT(name) offsetof(struct dt_model_config, name)

static const struct field fields[] = {
    {"vocab_size", COUNT, true, AT(vocab_size), 1, 1 << 24},
    {"n_positions", COUNT, true, AT(n_positions), 1, 1 << 24},
    {"n_embd", COUNT, true, AT(n_embd), 1, 1 << 16},
    {"n_layer", COUNT, true, AT(n_layer), 1, 1 << 10},
    {"n_head", COUNT, true, AT(n_head), 1, 1 << 16},
    {"n_inner", COUNT, false, AT(n_inner), 1, 1 << 20},
    {"layer_norm_epsilon", REAL, false, AT(layer_norm_epsilon), 1e-12, 1},
    {"initializer_range", REAL, false, AT(initializer_range), 0, 10},
    {"tie_word_embeddings", FLAG, false, AT(tie_word_embeddings), 0, 1},
};

/* Keys that change the mathematics, with the only value we compute. */
static const struct {
    const char *key;
    bool value;
} switches[] = {
    {"scale_attn_weights", true},
    {"scale_attn_by_inverse_layer_idx", false},
    {"reorder_and_upcast_attn", false},
    {"add_cross_attention", false},
};

static const char *const dropouts[] = {"embd_pdrop", "attn_pdrop",
                                       "resid_pdrop"};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void add_unexpected(struct dt_error *problems, const struct field *field,
                           const char *got)
{
    if (field->type == FLAG)
        dt_error_add(problems, EX_DATAERR, "%s: expected true or false, got %s",
                     field->key, got);
    else
        dt_error_add(problems, EX_DATAERR,
                     "%s: expected %s from %.15g to %.15g, got %s", field->key,
                     field->type == COUNT ? "an integer" : "a number",
                     field->min, field->max, got);
}

static double get_field(const struct dt_model_config *config,
                        const struct field *field)
{
    const void *at = (const char *)config + field->offset;
    switch (field->type) {
    case COUNT:
        return (double)*(const size_t *)at;
    case REAL:
        return *(const double *)at;
    default:
        return *(const bool *)at;
    }
}

static void set_field(struct dt_model_config *config, const struct field *field,
                      double value)
{
    void *at = (char *)config + field->offset;
    switch (field->type) {
    case COUNT:
        *(size_t *)at = (size_t)value;
        break;
    case REAL:
        *(double *)at = value;
        break;
    default:
        *(bool *)at = value != 0;
    }
}

static bool in_range(const struct field *field, double value)
{
    return value >= field->min && value <= field->max;
}

/* What no single field can tell. Fields with a problem of their own are 0. */
static void check_relations(const struct dt_model_config *config,
                            struct dt_error *problems)
{
    if (config->n_head > 0 && config->n_embd % config->n_head != 0)
        dt_error_add(problems, EX_DATAERR,
                     "n_embd: %zu is not a multiple of n_head %zu",
                     config->n_embd, config->n_head);
}

int dt_model_config_check(const struct dt_model_config *config,
                          struct dt_error *err)
{
    struct dt_error problems = {0};
    if (strcmp(config->model_type, "gpt2"))
        dt_error_add(&problems, EX_DATAERR,
                     "model_type: expected one of %s, got \"%s\"", MODEL_TYPES,
                     config->model_type);
    for (size_t i = 0; i < LENGTH(fields); i++) {
        double value = get_field(config, &fields[i]);
        char got[32];
        snprintf(got, sizeof(got), "%.15g", value);
        if (!in_range(&fields[i], value))
            add_unexpected(&problems, &fields[i], got);
    }
    check_relations(config, &problems);
    if (problems.text[0])
        return dt_error_set(err, EX_CONFIG, "%s", problems.text);
    return 0;
}

/* The JSON text of a value, shortened, for "got ...". */
static const char *shown(const json_t *value, char text[64])
{
    char *json = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, 64, strlen(json ? json : "") < 60 ? "%s" : "%.57s...",
             json ? json : "something else");
    free(json);
    return text;
}

static void parse_field(struct dt_model_config *config,
                        const struct field *field, const json_t *value,
                        struct dt_error *problems)
{
    char text[64];
    bool fits = field->type == COUNT  ? json_is_integer(value)
                : field->type == REAL ? json_is_number(value)
                                      : json_is_boolean(value);
    double number =
        field->type == FLAG ? json_is_true(value) : json_number_value(value);
    if (fits && in_range(field, number))
        set_field(config, field, number);
    else
        add_unexpected(problems, field, shown(value, text));
}

static void parse_architecture(struct dt_model_config *config,
                               const json_t *root, struct dt_error *problems)
{
    const json_t *type = json_object_get(root, "model_type");
    const json_t *list = json_object_get(root, "architectures");
    const json_t *first = json_array_get(list, 0);
    char text[64];
    if (!type)
        dt_error_add(problems, EX_DATAERR,
                     "model_type: missing, expected one of %s", MODEL_TYPES);
    else if (!json_is_string(type) || strcmp(json_string_value(type), "gpt2"))
        dt_error_add(problems, EX_DATAERR,
                     "model_type: expected one of %s, got %s", MODEL_TYPES,
                     shown(type, text));
    else if (first && (!json_is_string(first) ||
                       strcmp(json_string_value(first), ARCHITECTURE)))
        dt_error_add(problems, EX_DATAERR, "architectures: expected %s, got %s",
                     ARCHITECTURE, shown(first, text));
    strcpy(config->model_type, "gpt2");
}

static void parse_mathematics(struct dt_model_config *config,
                              const json_t *root, struct dt_error *problems)
{
    char text[64];
    for (size_t i = 0; i < LENGTH(switches); i++) {
        const json_t *value = json_object_get(root, switches[i].key);
        bool want = switches[i].value;
        if (value && !(want ? json_is_true(value) : json_is_false(value)))
            dt_error_add(problems, EX_DATAERR,
                         "%s: only %s is supported, got %s", switches[i].key,
                         want ? "true" : "false", shown(value, text));
    }
    const json_t *act = json_object_get(root, "activation_function");
    const char *name = json_string_value(act);
    if (act && !(name && (!strcmp(name, "gelu_new") ||
                          !strcmp(name, "gelu_pytorch_tanh"))))
        dt_error_add(problems, EX_DATAERR,
                     "activation_function: only gelu_new is supported, got %s",
                     shown(act, text));
    for (size_t i = 0; i < LENGTH(dropouts); i++) {
        const json_t *p = json_object_get(root, dropouts[i]);
        double value = json_number_value(p);
        if (p && !(json_is_number(p) && value >= 0 && value < 1))
            dt_error_add(problems, EX_DATAERR,
                         "%s: expected a number in [0, 1), got %s", dropouts[i],
                         shown(p, text));
        config->has_dropout |= value > 0;
    }
}

/* Fills config (zero but for the defaults) from the object `root`. */
static void parse_object(struct dt_model_config *config, const json_t *root,
                         struct dt_error *problems)
{
    parse_architecture(config, root, problems);
    for (size_t i = 0; i < LENGTH(fields); i++) {
        const json_t *value = json_object_get(root, fields[i].key);
        if (value && !(json_is_null(value) && !fields[i].required))
            parse_field(config, &fields[i], value, problems);
        else if (fields[i].required)
            add_unexpected(problems, &fields[i], "nothing");
    }
    if (config->n_inner == 0)
        config->n_inner = 4 * config->n_embd;
    check_relations(config, problems);
    parse_mathematics(config, root, problems);
}

int dt_model_config_parse(struct dt_model_config *config, const char *json,
                          const char *name, struct dt_error *err)
{
    struct dt_model_config parsed = {
        .layer_norm_epsilon = 1e-5,
        .initializer_range = 0.02,
        .tie_word_embeddings = true,
    };
    struct dt_error problems = {0};
    json_error_t where;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return dt_error_set(err, EX_DATAERR, "%s:%d:%d: not JSON: %s", name,
                            where.line, where.column, where.text);
    if (json_is_object(root))
        parse_object(&parsed, root, &problems);
    else
        dt_error_add(&problems, EX_DATAERR, "expected a JSON object");
    json_decref(root);
    if (problems.text[0])
        return dt_error_set(err, EX_DATAERR, "%s: %s", name, problems.text);
    *config = parsed;
    return 0;
}

int dt_model_config_load(struct dt_model_config *config, const char *dir,
                         struct dt_error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/config.json", dir) >=
        (int)sizeof(path))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", dir);
    char *json = dt_file_read(path, CONFIG_MAX_BYTES, err);
    int result = json ? dt_model_config_parse(config, json, path, err) : -1;
    free(json);
    return result;
}

char *dt_model_config_format(const struct dt_model_config *config, int eos_id,
                             struct dt_error *err)
{
    json_t *root = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f,"
        " s:f, s:b, s:s}",
        "architectures", ARCHITECTURE, "model_type", config->model_type,
        "vocab_size", (json_int_t)config->vocab_size, "n_positions",
        (json_int_t)config->n_positions, "n_embd", (json_int_t)config->n_embd,
        "n_layer", (json_int_t)config->n_layer, "n_head",
        (json_int_t)config->n_head, "n_inner", (json_int_t)config->n_inner,
        "activation_function", "gelu_new", "layer_norm_epsilon",
        config->layer_norm_epsilon, "initializer_range",
        config->initializer_range, "embd_pdrop", 0.0, "attn_pdrop", 0.0,
        "resid_pdrop", 0.0, "tie_word_embeddings",
        (int)config->tie_word_embeddings, "torch_dtype", "float32");
    bool ok = root != NULL;
    if (ok && eos_id >= 0)
        ok = !json_object_set_new(root, "bos_token_id", json_integer(eos_id)) &&
             !json_object_set_new(root, "eos_token_id", json_integer(eos_id));
    /* 15 digits write a decimal number back as it was read */
    char *text =
        ok ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(root);
    if (!text)
        dt_error_set(err, EX_OSERR, "out of memory");
    return text;
}
