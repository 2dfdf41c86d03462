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
#include "model/config_parse.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

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
    {"use_bidirectional_attention", "false"}, /* null is the same */
};

/* Sets the family. false: it is unknown, and nothing else can be read. */
static bool parse_family(struct dt_model_config *config, const json_t *root,
                         struct dt_error *problems)
{
    const json_t *type = json_object_get(root, "model_type");
    const char *name = json_string_value(type);
    char known[256] = "one of ";
    for (int family = 0; family < DT_FAMILIES; family++) {
        const char *word = dt_model_family_name(family);
        if (name && !strcmp(name, word)) {
            config->family = family;
            return true;
        }
        sprintf(known + strlen(known), "%s%s", family > 0 ? ", " : "", word);
    }
    dt_config_unexpected(problems, "", "model_type", known, type);
    return false;
}

/* Names of labels; without them transformers has two. */
static void parse_labels(const json_t *root, struct dt_error *problems)
{
    const json_t *labels = json_object_get(root, "id2label");
    if (json_object_size(labels) != 1)
        dt_config_unexpected(problems, "", "id2label",
                             "one label, whose number is the score", labels);
}

static void parse_architecture(struct dt_model_config *config,
                               const json_t *root, struct dt_error *problems)
{
    const struct dt_family *family = dt_family_of(config->family);
    const json_t *list = json_object_get(root, "architectures");
    const json_t *first = json_array_get(list, 0);
    const char *name = json_string_value(first);
    config->scores = name && family->scores && !strcmp(name, family->scores);
    if (config->scores)
        parse_labels(root, problems);
    else if (first && (!name || (strcmp(name, family->causal) != 0 &&
                                 strcmp(name, family->base) != 0)))
        dt_config_unexpected(problems, "", "architectures", family->causal,
                             first);
}

/* The names of an activation; NULL ends them. */
static bool is_named(const char *name, const char *const *names)
{
    while (*names && (!name || strcmp(name, *names) != 0))
        names++;
    return *names;
}

static void parse_activation(struct dt_model_config *config, const json_t *root,
                             struct dt_error *problems)
{
    static const char *const silu[] = {"silu", "swish", NULL};
    static const char *const gelu[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
    const struct dt_family *family = dt_family_of(config->family);
    const json_t *act = json_object_get(root, family->activation);
    const char *name = json_string_value(act);
    config->gate = family->gate;
    if (act && is_named(name, gelu))
        config->gate = family->centered ? family->gate : DT_GATE_GELU;
    else if (act && !family->centered && is_named(name, silu))
        config->gate = DT_GATE_SILU;
    else if (act)
        dt_config_unexpected(
            problems, "", family->activation,
            family->centered ? "gelu_new" : "silu or gelu_pytorch_tanh", act);
}

static void parse_mathematics(struct dt_model_config *config,
                              const json_t *root, struct dt_error *problems)
{
    char text[64];
    for (size_t i = 0; i < LENGTH(only); i++) {
        const json_t *value = json_object_get(root, only[i].key);
        bool unset = json_is_null(value) && !strcmp(only[i].value, "false");
        if (value && !unset &&
            strcmp(dt_config_text(value, text), only[i].value) != 0)
            dt_config_unexpected(problems, "", only[i].key, only[i].value,
                                 value);
    }
    parse_activation(config, root, problems);
}

/* null: no cap; a missing key: that of the first models. transformers ignores
 * that of Gemma 3's attention.
 */
static void parse_softcaps(struct dt_model_config *config, const json_t *root,
                           struct dt_error *problems)
{
    const char *const keys[] = {"attn_logit_softcapping",
                                "final_logit_softcapping"};
    bool gemma = config->family == DT_GEMMA2 || config->family == DT_GEMMA3;
    for (size_t i = 0; i < LENGTH(keys) && gemma; i++) {
        const json_t *value = dt_config_value(root, keys[i]);
        bool refused = i == 0 && config->family == DT_GEMMA3 && value;
        if (refused || (value && json_number_value(value) == 0))
            dt_config_unexpected(problems, "", keys[i],
                                 refused ? "null" : "a number > 0, or null",
                                 value);
    }
    if (config->family == DT_GEMMA2 && !json_object_get(root, keys[0]))
        config->attention_softcap = 50;
    if (config->family == DT_GEMMA2 && !json_object_get(root, keys[1]))
        config->logits_softcap = 30;
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
        dt_config_unexpected(problems, "", key, "a token id", value);
    return id < 0 || id >= (json_int_t)config->vocab_size ? -1 : (int32_t)id;
}

/* The id of padding, by default the family's, and the row of the embedding that
 * transformers makes of it: of a negative id, which old files have for none,
 * PyTorch makes a row from the end. GPT-2's embedding has no such row.
 */
static void parse_padding(struct dt_model_config *config, const json_t *root,
                          struct dt_error *problems)
{
    const int32_t own = dt_family_of(config->family)->pad;
    const json_t *value = json_object_get(root, "pad_token_id");
    const json_int_t V = (json_int_t)config->vocab_size;
    const json_int_t id =
        json_is_integer(value) ? json_integer_value(value) : 0;
    config->pad = parse_id(config, "pad_token_id", value, problems);
    if (!value && own < V)
        config->pad = own;
    config->padding_row = config->family == DT_GPT2 ? -1
                          : id < 0 && id >= -V      ? (int32_t)(V + id)
                                                    : config->pad;
}

static void parse_ids(struct dt_model_config *config, const json_t *root,
                      struct dt_error *problems)
{
    const json_t *eos = json_object_get(root, "eos_token_id");
    size_t count = json_is_array(eos) ? json_array_size(eos) : 1;
    config->bos = parse_id(config, "bos_token_id",
                           json_object_get(root, "bos_token_id"), problems);
    parse_padding(config, root, problems);
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

/* --- all of it --- */

/* The defaults of optional keys. Those of missing head counts and sizes hold
 * for missing keys alone: with null they are derived from other fields.
 */
static void set_defaults(struct dt_model_config *config, const json_t *root)
{
    const struct dt_family *family = dt_family_of(config->family);
    bool gemma = config->family == DT_GEMMA2 || config->family == DT_GEMMA3;
    config->norm_epsilon = family->norm_epsilon;
    config->initializer_range = 0.02;
    config->tie_word_embeddings = family->tied;
    config->rope_theta = family->theta;
    config->query_scalar = gemma ? 256 : 0;
    if (config->family == DT_GPT2)
        config->embd_dropout = config->attn_dropout = config->resid_dropout =
            0.1;
    if (config->family == DT_GRANITE)
        config->embedding_multiplier = config->residual_multiplier =
            config->attention_multiplier = config->logits_scaling = 1;
    if (!json_object_get(root, "num_key_value_heads"))
        config->n_kv_head = family->n_kv_head;
    if (!json_object_get(root, "head_dim"))
        config->head_size = family->head_size;
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
    set_defaults(config, root);
    for (size_t i = 0; i < dt_model_field_count; i++)
        if (!dt_model_fields[i].scalings)
            dt_config_parse_field(config, &dt_model_fields[i], "", root,
                                  problems);
    parse_mathematics(config, root, problems);
    parse_softcaps(config, root, problems);
    if (config->family != DT_GPT2)
        dt_config_parse_rope(config, root, problems);
    dt_config_parse_layers(config, dt_family_of(config->family), root,
                           problems);
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
