/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - reads and checks config.json of a model */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/foreign.h"
#include "base/json.h"
#include "model/config_fields.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

#define FAMILIES "gpt2, llama, mistral, qwen2, qwen3"
#define SCALINGS "default, linear, llama3"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Keys that change the mathematics, with the only supported value. */
static const struct {
    const char *key, *value; /* as JSON */
} only[] = {
    {"scale_attn_weights", "true"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"reorder_and_upcast_attn", "false"},
    {"add_cross_attention", "false"},
    {"quantization_config", "null"},
};

/* The JSON text of a value, shortened, for "got ...". */
static const char *format_value(const json_t *value, char text[64])
{
    char *json = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT)
                       : strdup("nothing");
    snprintf(text, 64, strlen(json ? json : "") < 60 ? "%s" : "%.57s...",
             json ? json : "something else");
    free(json);
    return text;
}

static void add_problem(struct dt_error *problems, const char *prefix,
                        const char *key, const char *what, const json_t *got)
{
    char text[64];
    dt_error_add(problems, EX_DATAERR, "%s%s: expected %s, got %s", prefix, key,
                 what, format_value(got, text));
}

/* --- plain fields --- */

static void parse_field(struct dt_model_config *config,
                        const struct dt_field *field, const char *prefix,
                        const json_t *value, struct dt_error *problems)
{
    char text[64];
    bool fits = field->type == DT_FIELD_COUNT  ? json_is_integer(value)
                : field->type == DT_FIELD_REAL ? json_is_number(value)
                                               : json_is_boolean(value);
    double number = field->type == DT_FIELD_FLAG ? json_is_true(value)
                                                 : json_number_value(value);
    if (fits && dt_field_in_range(field, number))
        dt_field_set(config, field, number);
    else
        dt_field_unexpected(field, prefix, format_value(value, text), problems);
}

static void parse_fields(struct dt_model_config *config,
                         const struct dt_field *fields, size_t count,
                         const char *prefix, const json_t *object,
                         struct dt_error *problems)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(object, fields[i].key);
        bool given = value && !json_is_null(value);
        if (dt_field_of(&fields[i], config->family) &&
            (given || fields[i].required))
            parse_field(config, &fields[i], prefix, value, problems);
    }
}

/* --- other fields --- */

/* Sets the family. false: it is unknown, and nothing else can be read. */
static bool parse_family(struct dt_model_config *config, const json_t *root,
                         struct dt_error *problems)
{
    const json_t *type = json_object_get(root, "model_type");
    const char *name = json_string_value(type);
    for (int family = DT_GPT2; name && family <= DT_QWEN3; family++)
        if (!strcmp(name, dt_model_family_name(family))) {
            config->family = family;
            return true;
        }
    add_problem(problems, "", "model_type", "one of " FAMILIES, type);
    return false;
}

/* Names of labels; without them transformers has two. */
static void parse_labels(const json_t *root, struct dt_error *problems)
{
    const json_t *labels = json_object_get(root, "id2label");
    if (json_object_size(labels) != 1)
        add_problem(problems, "", "id2label",
                    "one label, whose number is the score", labels);
}

static void parse_architecture(struct dt_model_config *config,
                               const json_t *root, struct dt_error *problems)
{
    const char *known = dt_model_architecture(config->family);
    const json_t *list = json_object_get(root, "architectures");
    const json_t *first = json_array_get(list, 0);
    const char *name = json_string_value(first);
    config->scores =
        name && !strcmp(name, dt_model_score_architecture(config->family));
    if (config->scores)
        parse_labels(root, problems);
    else if (first &&
             (!name ||
              (strcmp(name, known) != 0 &&
               strcmp(name, dt_model_base_architecture(config->family)))))
        add_problem(problems, "", "architectures", known, first);
}

static void parse_mathematics(const struct dt_model_config *config,
                              const json_t *root, struct dt_error *problems)
{
    char text[64];
    for (size_t i = 0; i < LENGTH(only); i++) {
        const json_t *value = json_object_get(root, only[i].key);
        if (value && strcmp(format_value(value, text), only[i].value) != 0)
            add_problem(problems, "", only[i].key, only[i].value, value);
    }
    bool gpt2 = config->family == DT_GPT2;
    const char *key = gpt2 ? "activation_function" : "hidden_act";
    const char *want[] = {gpt2 ? "gelu_new" : "silu",
                          gpt2 ? "gelu_pytorch_tanh" : "swish"};
    const json_t *act = json_object_get(root, key);
    const char *name = json_string_value(act);
    if (act && !(name && (!strcmp(name, want[0]) || !strcmp(name, want[1]))))
        add_problem(problems, "", key, want[0], act);
}

/* A token id, or -1 for null. Ids beyond the vocabulary, which published files
 * contain, count as null.
 */
static int32_t parse_id(const struct dt_model_config *config, const char *key,
                        const json_t *value, struct dt_error *problems)
{
    json_int_t id = json_integer_value(value);
    if (!value || json_is_null(value))
        return -1;
    if (!json_is_integer(value))
        add_problem(problems, "", key, "a token id", value);
    return id < 0 || id >= (json_int_t)config->vocab_size ? -1 : (int32_t)id;
}

static void parse_ids(struct dt_model_config *config, const json_t *root,
                      struct dt_error *problems)
{
    const json_t *eos = json_object_get(root, "eos_token_id");
    size_t count = json_is_array(eos) ? json_array_size(eos) : 1;
    config->bos = parse_id(config, "bos_token_id",
                           json_object_get(root, "bos_token_id"), problems);
    config->pad = parse_id(config, "pad_token_id",
                           json_object_get(root, "pad_token_id"), problems);
    if (count > DT_MODEL_MAX_EOS) {
        dt_error_add(problems, EX_DATAERR,
                     "eos_token_id: expected at most %d ids, got %zu",
                     DT_MODEL_MAX_EOS, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_is_array(eos) ? json_array_get(eos, i) : eos;
        int32_t id = parse_id(config, "eos_token_id", one, problems);
        if (id >= 0)
            config->eos[config->eos_count++] = id;
    }
}

/* --- positions --- */

static void parse_scaling(struct dt_model_config *config, const char *prefix,
                          const json_t *rope, struct dt_error *problems)
{
    const json_t *type = json_object_get(rope, "rope_type");
    bool old = !type && json_object_get(rope, "type");
    if (old)
        type = json_object_get(rope, "type");
    const char *name = type ? json_string_value(type) : "default";
    int scaling = DT_ROPE_LLAMA3;
    while (name && scaling >= 0 && strcmp(name, dt_rope_scaling_name(scaling)))
        scaling--;
    if (!name || scaling < 0) {
        add_problem(problems, prefix, old ? "type" : "rope_type",
                    "one of " SCALINGS, type);
        return;
    }
    config->rope_scaling = scaling;
    config->rope_original = config->n_positions;
    parse_fields(config, dt_rope_fields, dt_rope_field_count(scaling), prefix,
                 rope, problems);
}

/* transformers 4 has rope_theta and rope_scaling; 5 has both in
 * rope_parameters.
 */
static void parse_rope(struct dt_model_config *config, const json_t *root,
                       struct dt_error *problems)
{
    const char *key = "rope_parameters", *prefix = "rope_parameters.";
    const json_t *rope = json_object_get(root, key);
    if (!rope || json_is_null(rope)) {
        key = "rope_scaling";
        prefix = "rope_scaling.";
        rope = json_object_get(root, key);
    }
    if (!rope || json_is_null(rope))
        return;
    if (!json_is_object(rope)) {
        add_problem(problems, "", key, "an object", rope);
        return;
    }
    for (size_t i = 0; i < dt_model_field_count; i++)
        if (!strcmp(dt_model_fields[i].key, "rope_theta"))
            parse_fields(config, &dt_model_fields[i], 1, prefix, rope,
                         problems);
    parse_scaling(config, prefix, rope, problems);
}

/* --- sliding windows --- */

/* layer_types: the layers with a window must be all from one on. */
static void parse_layer_types(struct dt_model_config *config,
                              const json_t *types, struct dt_error *problems)
{
    size_t count = json_array_size(types), from = count;
    if (count != config->n_layer) {
        dt_error_add(problems, EX_DATAERR,
                     "layer_types: expected a list of %zu, got %zu",
                     config->n_layer, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *type = json_array_get(types, i);
        const char *name = json_is_string(type) ? json_string_value(type) : "";
        bool sliding = !strcmp(name, "sliding_attention");
        if (sliding && from == count)
            from = i;
        if (sliding ? false : strcmp(name, "full_attention") || from < count) {
            add_problem(problems, "", "layer_types",
                        "full_attention, then sliding_attention", type);
            return;
        }
    }
    config->window_from = from;
}

/* Reads an integer >= min. If it is missing or null, *out is unchanged. */
static void parse_optional(const json_t *root, const char *key, json_int_t min,
                           size_t *out, struct dt_error *problems)
{
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value))
        return;
    if (json_is_integer(value) && json_integer_value(value) >= min)
        *out = (size_t)json_integer_value(value);
    else
        add_problem(problems, "", key,
                    min ? "an integer > 0" : "an integer >= 0", value);
}

/* Mistral has a window unless it is null. Qwen has one if use_sliding_window is
 * set, in the layers from max_window_layers on.
 */
static void parse_window(struct dt_model_config *config, const json_t *root,
                         struct dt_error *problems)
{
    const json_t *use = json_object_get(root, "use_sliding_window");
    const json_t *types = json_object_get(root, "layer_types");
    bool qwen = config->family == DT_QWEN2 || config->family == DT_QWEN3;
    if (!qwen && config->family != DT_MISTRAL)
        return;
    if (qwen && use && !json_is_boolean(use))
        add_problem(problems, "", "use_sliding_window", "true or false", use);
    config->window = json_is_null(json_object_get(root, "sliding_window")) ||
                             (qwen && !json_is_true(use))
                         ? 0
                         : 4096;
    if (config->window > 0)
        parse_optional(root, "sliding_window", 1, &config->window, problems);
    if (qwen) {
        config->window_from = 28;
        parse_optional(root, "max_window_layers", 0, &config->window_from,
                       problems);
    }
    if (types && !json_is_null(types))
        parse_layer_types(config, types, problems);
    if (config->window_from >= config->n_layer)
        config->window = 0;
}

/* --- all of it --- */

/* The defaults of optional keys. */
static void set_defaults(struct dt_model_config *config)
{
    bool gpt2 = config->family == DT_GPT2;
    config->norm_epsilon = gpt2 ? 1e-5 : 1e-6;
    config->initializer_range = 0.02;
    config->tie_word_embeddings = gpt2;
    config->rope_theta = gpt2 ? 0 : 1e4;
    if (gpt2)
        config->embd_dropout = config->attn_dropout = config->resid_dropout =
            0.1;
}

/* The defaults of missing head counts and sizes. With null, as for Llama by
 * default, they are derived from other fields.
 */
static void set_head_defaults(struct dt_model_config *config,
                              const json_t *root)
{
    enum dt_model_family family = config->family;
    bool qwen = family == DT_QWEN2 || family == DT_QWEN3;
    if (!json_object_get(root, "num_key_value_heads"))
        config->n_kv_head = qwen ? 32 : family == DT_MISTRAL ? 8 : 0;
    if (!json_object_get(root, "head_dim"))
        config->head_size = family == DT_QWEN3 ? 128 : 0;
}

/* Fields that are derived from others. */
static void derive_fields(struct dt_model_config *config)
{
    enum dt_model_family family = config->family;
    if (family == DT_GPT2)
        config->qkv_bias = config->mlp_bias = true;
    if (family == DT_QWEN2)
        config->qkv_bias = true;
    config->out_bias = family != DT_QWEN2 && config->qkv_bias;
    if (config->n_inner == 0)
        config->n_inner = 4 * config->n_embd;
    if (config->n_kv_head == 0)
        config->n_kv_head = config->n_head;
    if (config->head_size == 0 && config->n_head > 0)
        config->head_size = config->n_embd / config->n_head;
}

/* Fills config, which is zero, from the object `root`. */
static void parse_object(struct dt_model_config *config, const json_t *root,
                         struct dt_error *problems)
{
    if (!parse_family(config, root, problems))
        return;
    parse_architecture(config, root, problems);
    set_defaults(config);
    set_head_defaults(config, root);
    parse_fields(config, dt_model_fields, dt_model_field_count, "", root,
                 problems);
    parse_mathematics(config, root, problems);
    if (config->family != DT_GPT2)
        parse_rope(config, root, problems);
    parse_window(config, root, problems);
    parse_ids(config, root, problems);
    dt_model_config_relations(config, problems);
    derive_fields(config);
}

int dt_model_config_parse(struct dt_model_config *config, const char *json,
                          const char *name, struct dt_error *err)
{
    struct dt_error problems = {0};
    json_t *root = dt_json_parse(name, json, err);
    *config = (struct dt_model_config){0};
    if (!root)
        return -1;
    if (json_is_object(root))
        parse_object(config, root, &problems);
    else
        dt_error_add(&problems, EX_DATAERR, "expected a JSON object");
    json_decref(root);
    if (problems.text[0])
        return dt_error_set(err, EX_DATAERR, "%s: %s", name, problems.text);
    if (!(config->text = strdup(json)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    return 0;
}

void dt_model_config_fini(struct dt_model_config *config)
{
    free(config->text);
    config->text = NULL;
}

int dt_model_config_load(struct dt_model_config *config, const char *path,
                         struct dt_error *err)
{
    char file[PATH_MAX];
    struct stat st;
    bool is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    *config = (struct dt_model_config){0};
    if (snprintf(file, sizeof(file), "%s%s", path,
                 is_file ? "" : "/config.json") >= (int)sizeof(file))
        return dt_error_set(err, EX_NOINPUT, "%s: path too long", path);
    if (!is_file && access(file, F_OK) < 0 && dt_foreign_dir(path, err) < 0)
        return -1;
    char *json = dt_file_read(file, CONFIG_MAX_BYTES, err);
    int result = json ? dt_model_config_parse(config, json, file, err) : -1;
    free(json);
    return result;
}
