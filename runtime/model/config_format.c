/* SPDX-License-Identifier: Apache-2.0 */
/* config_format.c - writes config.json of a model */
#include "config.h"

#include <stdlib.h>

#include "base/json.h"
#include "model/config_fields.h"

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

static int add_field(json_t *root, const struct dt_model_config *config,
                     const struct dt_field *field)
{
    double value = dt_field_get(config, field);
    json_t *json = field->type == DT_FIELD_COUNT
                       ? json_integer((json_int_t)value)
                   : field->type == DT_FIELD_REAL ? json_real(value)
                                                  : json_boolean(value != 0);
    return json_object_set_new(root, field->key, json);
}

static int add_rope(json_t *root, const struct dt_model_config *config)
{
    enum dt_rope_scaling scaling = config->rope_scaling;
    if (scaling == DT_ROPE_DEFAULT)
        return 0;
    json_t *rope =
        json_pack("{s:s}", "rope_type", dt_rope_scaling_name(scaling));
    int result = 0;
    for (size_t i = 0; i < dt_rope_field_count(scaling); i++)
        result |= add_field(rope, config, &dt_rope_fields[i]);
    return result | json_object_set_new(root, "rope_scaling", rope);
}

static int add_window(json_t *root, const struct dt_model_config *config)
{
    json_t *window = config->window > 0
                         ? json_integer((json_int_t)config->window)
                         : json_null();
    if (config->family == DT_GPT2 || config->family == DT_LLAMA) {
        json_decref(window);
        return 0;
    }
    int result = json_object_set_new(root, "sliding_window", window);
    if (config->family != DT_MISTRAL && config->window > 0)
        result |=
            json_object_set_new(root, "use_sliding_window", json_true()) |
            json_object_set_new(root, "max_window_layers",
                                json_integer((json_int_t)config->window_from));
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
    return config->scores ? dt_model_score_architecture(config->family)
                          : dt_model_architecture(config->family);
}

/* A classifier with one label, as transformers writes it. By the id of padding
 * it finds the end of a sequence in a batch; without one it refuses batches.
 */
static int add_scores(json_t *root, const struct dt_model_config *config)
{
    return json_object_set_new(root, "architectures",
                               json_pack("[s]", architecture_of(config))) |
           json_object_set_new(root, "id2label",
                               json_pack("{s:s}", "0", "LABEL_0")) |
           json_object_set_new(root, "label2id",
                               json_pack("{s:i}", "LABEL_0", 0)) |
           json_object_set_new(root, "pad_token_id",
                               config->pad < 0 ? json_null()
                                               : json_integer(config->pad));
}

/* All keys of the family. NULL if out of memory. */
static json_t *build_config(const struct dt_model_config *config)
{
    bool gpt2 = config->family == DT_GPT2;
    json_t *root =
        json_pack("{s:[s], s:s, s:s}", "architectures", architecture_of(config),
                  "model_type", dt_model_family_name(config->family),
                  gpt2 ? "activation_function" : "hidden_act",
                  gpt2 ? "gelu_new" : "silu");
    int result = 0;
    for (size_t i = 0; i < dt_model_field_count; i++)
        if (dt_field_of(&dt_model_fields[i], config->family))
            result |= add_field(root, config, &dt_model_fields[i]);
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

char *dt_model_config_format(const struct dt_model_config *config,
                             enum dt_dtype dtype, struct dt_error *err)
{
    json_t *root = config->text
                       ? dt_json_parse("config.json", config->text, NULL)
                       : build_config(config);
    /* transformers 5 writes both of these keys, 4 neither */
    bool new = json_object_get(root, "dtype") ||
               json_object_get(root, "rope_parameters");
    bool ok = !json_object_set_new(root, new ? "dtype" : "torch_dtype",
                                   json_string(dtype_name(dtype)));
    if (json_object_get(root,
                        "architectures")) /* a base model's have no head */
        ok &= !json_object_set_new(root, "architectures",
                                   json_pack("[s]", architecture_of(config)));
    if (json_integer_value(json_object_get(root, "vocab_size")) !=
        (json_int_t)config->vocab_size) /* it has grown, or had its default */
        ok &= !json_object_set_new(
            root, "vocab_size", json_integer((json_int_t)config->vocab_size));
    if (config->scores)
        ok &= !add_scores(root, config);
    char *text = ok ? dump_json(root) : NULL;
    json_decref(root);
    if (!text)
        dt_error_set(err, EX_OSERR, "out of memory");
    return text;
}
