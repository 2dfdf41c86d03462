/* SPDX-License-Identifier: Apache-2.0 */
/* config_format.c - writes config.json of a model */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/family/family.h"

#define AT(name) offsetof(struct dt_model_config, name)

static const char *dtype_name(enum dt_dtype dtype)
{
    return dtype == DT_BF16  ? "bfloat16"
           : dtype == DT_F16 ? "float16"
                             : "float32";
}

/* 15 digits print most numbers as they were read, 17 print all exactly. */
static char *dump_json(const json_t *root)
{
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_t *again = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
    bool exact = again && json_equal(root, again);
    json_decref(again);
    if (exact)
        return text;
    free(text);
    return json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
}

/* A softcap of 0 is none. */
static json_t *field_json(const struct dt_model_config *config,
                          const struct dt_field *field)
{
    double value = dt_field_get(config, field);
    bool cap = field->offset == AT(attention_softcap) ||
               field->offset == AT(logits_softcap);
    if (cap && value == 0)
        return json_null();
    return field->type == DT_FIELD_COUNT  ? json_integer((json_int_t)value)
           : field->type == DT_FIELD_REAL ? json_real(value)
                                          : json_boolean(value != 0);
}

static int add_list(json_t *root, const char *key, const float *factors,
                    size_t count)
{
    json_t *list = json_array();
    int result = 0;
    for (size_t j = 0; j < count; j++)
        result |= json_array_append_new(list, json_real((double)factors[j]));
    return result | json_object_set_new(root, key, list);
}

static int add_rope(json_t *root, const struct dt_model_config *config)
{
    enum dt_rope_scaling scaling = config->rope_scaling;
    size_t pairs = dt_model_rotary(config) / 2;
    int result = 0;
    if (config->rotary_factor > 0)
        result |= json_object_set_new(root, "partial_rotary_factor",
                                      json_real(config->rotary_factor));
    if (config->rope_local_theta > 0)
        result |= json_object_set_new(root, "rope_local_base_freq",
                                      json_real(config->rope_local_theta));
    if (scaling == DT_ROPE_DEFAULT)
        return result;
    json_t *rope =
        json_pack("{s:s}", "rope_type", dt_rope_scaling_name(scaling));
    for (const struct dt_field *field = config->family->fields; field->key;
         field++) {
        if (field->scalings && dt_field_of(field, config))
            result |= json_object_set_new(rope, field->key,
                                          field_json(config, field));
    }
    if (scaling == DT_ROPE_LONGROPE)
        result |= add_list(rope, "short_factor", config->rope_short, pairs) |
                  add_list(rope, "long_factor", config->rope_long, pairs) |
                  json_object_set_new(
                      root, "original_max_position_embeddings",
                      json_integer((json_int_t)config->rope_original));
    return result | json_object_set_new(root, "rope_scaling", rope);
}

/* A word for each layer. */
static int add_types(json_t *root, const struct dt_layers *full, size_t count)
{
    json_t *list = json_array();
    int result = 0;
    for (size_t l = 0; l < count; l++)
        result |= json_array_append_new(
            list, json_string(dt_layers_have(full, l) ? "full_attention"
                                                      : "sliding_attention"));
    return result | json_object_set_new(root, "layer_types", list);
}

static int add_window(json_t *root, const struct dt_model_config *config)
{
    const struct dt_layers none = {.bits = {0}};
    const struct dt_family *family = config->family;
    struct dt_layers full = config->full;
    int result = 0;
    if (family->format_layers)
        result |= family->format_layers(root, config);
    if (family->windows == DT_WINDOWS_NONE)
        return result;
    result |= json_object_set_new(root, "sliding_window",
                                  config->window > 0
                                      ? json_integer((json_int_t)config->window)
                                      : json_null());
    if (family->asks_window)
        result |= json_object_set_new(root, "use_sliding_window",
                                      json_boolean(config->window > 0));
    for (size_t l = 0; l < config->n_layer && config->window == 0; l++)
        dt_layers_add(&full, l);
    if (family->windows != DT_WINDOWS_ALL ||
        memcmp(&config->full, &none, sizeof(none)) != 0)
        result |= add_types(root, &full, config->n_layer);
    return result;
}

static int add_ids(json_t *root, const struct dt_model_config *config)
{
    int result = 0;
    if (config->bos >= 0)
        result |= json_object_set_new(root, "bos_token_id",
                                      json_integer(config->bos));
    if (config->pad >= 0)
        result |= json_object_set_new(root, "pad_token_id",
                                      json_integer(config->pad));
    json_t *eos =
        config->eos_count == 1 ? json_integer(config->eos[0]) : json_array();
    for (size_t i = 0; config->eos_count > 1 && i < config->eos_count; i++)
        result |= json_array_append_new(eos, json_integer(config->eos[i]));
    if (config->eos_count > 0)
        return result | json_object_set_new(root, "eos_token_id", eos);
    json_decref(eos);
    return result;
}

static const char *architecture_of(const struct dt_model_config *config)
{
    const struct dt_family *family = config->family;
    const struct dt_vision_family *seeing =
        config->vision ? config->vision->family : NULL;
    if (!seeing)
        return config->scores ? family->scores : family->causal;
    if (!config->scores)
        return seeing->causal;
    return seeing->scores ? seeing->scores : seeing->base;
}

/* The object of the language model: a part of the file, or the file. */
static json_t *language_of(json_t *root)
{
    json_t *part = json_object_get(root, "text_config");
    return json_is_object(part) ? part : root;
}

/* Sets the key, or with `there` only a key that is there. -1: out of memory. */
static int set_key(json_t *object, const char *key, bool there, json_t *value)
{
    if (!there || json_object_get(object, key))
        return json_object_set_new(object, key, value);
    json_decref(value);
    return 0;
}

/* A classifier with one label, as transformers writes it. By the id of padding
 * it finds the end of a sequence in a batch; without one it refuses batches.
 */
static int add_scores(json_t *root, const struct dt_model_config *config)
{
    json_t *pad = config->pad < 0 ? json_null() : json_integer(config->pad);
    int result = 0;
    if (language_of(root) != root)
        result = set_key(root, "pad_token_id", true, json_incref(pad));
    return result |
           json_object_set_new(root, "architectures",
                               json_pack("[s]", architecture_of(config))) |
           json_object_set_new(root, "id2label",
                               json_pack("{s:s}", "0", "LABEL_0")) |
           json_object_set_new(root, "label2id",
                               json_pack("{s:i}", "LABEL_0", 0)) |
           json_object_set_new(language_of(root), "pad_token_id", pad);
}

/* All keys of the family. NULL if out of memory. */
static json_t *build_config(const struct dt_model_config *config)
{
    const struct dt_family *family = config->family;
    json_t *root =
        json_pack("{s:[s], s:s, s:s}", "architectures", architecture_of(config),
                  "model_type", family->type, family->activation,
                  dt_activation_name(config->gate));
    int result = 0;
    for (const struct dt_field *field = config->family->fields; field->key;
         field++) {
        if (!field->scalings && dt_field_of(field, config))
            result |= json_object_set_new(root, field->key,
                                          field_json(config, field));
    }
    if (result | add_rope(root, config) | add_window(root, config) |
        add_ids(root, config)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

void dt_model_config_grow(struct dt_model_config *config, size_t vocab_size)
{
    if (vocab_size == config->vocab_size)
        return;
    config->stored_vocab = config->vocab_size;
    config->vocab_size = vocab_size;
}

/* transformers 5 writes `dtype` and rope_parameters, 4 neither. Parts of a file
 * may have their own.
 */
static int set_dtype(json_t *root, enum dt_dtype dtype)
{
    static const char *const parts[] = {"text_config", "vision_config"};
    static const char *const keys[] = {"torch_dtype", "dtype"};
    const bool new = json_object_get(root, "dtype") ||
                     json_object_get(language_of(root), "rope_parameters");
    int result =
        json_object_set_new(root, keys[new], json_string(dtype_name(dtype)));
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++)
            result |= set_key(json_object_get(root, parts[i]), keys[k], true,
                              json_string(dtype_name(dtype)));
    return result;
}

/* It has grown, or had its default. Releases of transformers wrote it twice. */
static int set_vocab_size(json_t *root, size_t vocab_size)
{
    json_t *own = language_of(root);
    const json_int_t V = (json_int_t)vocab_size;
    if (json_integer_value(json_object_get(own, "vocab_size")) == V)
        return 0;
    return set_key(root, "vocab_size", true, json_integer(V)) |
           set_key(own, "vocab_size", false, json_integer(V));
}

char *dt_model_config_format(const struct dt_model_config *config,
                             enum dt_dtype dtype, struct dt_error *err)
{
    json_t *root = config->text
                       ? dt_json_parse("config.json", config->text, NULL)
                       : build_config(config);
    bool ok = set_dtype(root, dtype) == 0;
    /* a base model's have no head */
    ok &= !set_key(root, "architectures", true,
                   json_pack("[s]", architecture_of(config)));
    ok &= !set_vocab_size(root, config->vocab_size);
    if (config->scores)
        ok &= !add_scores(root, config);
    char *text = ok ? dump_json(root) : NULL;
    json_decref(root);
    if (!text)
        dt_error_set(err, EX_OSERR, "out of memory");
    return text;
}
