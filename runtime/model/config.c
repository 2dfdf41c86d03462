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
#include "model/family.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

#define AT(name) offsetof(struct dt_model_config, name)
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
    char known[1024] = "one of ";
    size_t used = strlen(known);
    config->family = dt_model_family_find(
        json_is_string(type) ? json_string_value(type) : "");
    for (size_t i = 0; dt_families[i] && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                 i > 0 ? ", " : "", dt_families[i]->type);
    if (!config->family)
        dt_config_unexpected(problems, "", "model_type", known, type);
    return config->family;
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
    const struct dt_family *family = config->family;
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
    const struct dt_family *family = config->family;
    const json_t *act = json_object_get(root, family->activation);
    const char *name = json_string_value(act);
    config->gate = family->gate;
    if (act && is_named(name, gelu))
        config->gate = family->gated ? DT_GELU_TANH : family->gate;
    else if (act && family->gated && is_named(name, silu))
        config->gate = DT_SILU;
    else if (act)
        dt_config_unexpected(
            problems, "", family->activation,
            family->gated ? "silu or gelu_pytorch_tanh" : "gelu_new", act);
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
    const char *unused = config->family->unused;
    if (unused && dt_config_value(root, unused))
        dt_config_unexpected(problems, "", unused, "null",
                             json_object_get(root, unused));
    parse_activation(config, root, problems);
}

/* A softcap: null is none; a missing key that of the family's first models. */
static void parse_softcap(struct dt_model_config *config, size_t offset,
                          double *cap, const json_t *root,
                          struct dt_error *problems)
{
    const char *key = dt_model_config_key(config, offset);
    const json_t *value = key ? json_object_get(root, key) : NULL;
    if (json_is_null(value))
        *cap = 0;
    else if (value && json_number_value(value) == 0)
        dt_config_unexpected(problems, "", key, "a number > 0, or null", value);
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
    const int32_t own = config->family->pad;
    const json_t *value = json_object_get(root, "pad_token_id");
    const json_int_t V = (json_int_t)config->vocab_size;
    const json_int_t id =
        json_is_integer(value) ? json_integer_value(value) : 0;
    config->pad = parse_id(config, "pad_token_id", value, problems);
    if (!value && own < V)
        config->pad = own;
    config->padding_row = config->family->pads_nothing ? -1
                          : id < 0 && id >= -V         ? (int32_t)(V + id)
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

/* Adds problems between several fields. Fields with a problem of their own are
 * 0.
 */
static void check_relations(const struct dt_model_config *config,
                            struct dt_error *problems)
{
    size_t C = config->n_embd, NH = config->n_head, NKV = config->n_kv_head;
    bool derived =
        !dt_model_config_key(config, AT(head_size)) || config->head_size == 0;
    size_t HS = derived && NH > 0 ? C / NH : config->head_size;
    if (derived && NH > 0 && C % NH != 0)
        dt_error_add(problems, EX_DATAERR,
                     "%s: %zu is not a multiple of %s %zu",
                     dt_model_config_key(config, AT(n_embd)), C,
                     dt_model_config_key(config, AT(n_head)), NH);
    else if (HS % 2 != 0 || HS > DT_MAX_HEAD_SIZE)
        dt_error_add(
            problems, EX_DATAERR,
            "%s: expected heads of an even size up to %d, got %zu",
            dt_model_config_key(config, derived ? AT(n_head) : AT(head_size)),
            DT_MAX_HEAD_SIZE, HS);
    if (NKV > 0 && NH % NKV != 0)
        dt_error_add(problems, EX_DATAERR,
                     "num_key_value_heads: %zu does not divide "
                     "num_attention_heads %zu",
                     NKV, NH);
    if (config->rope_scaling == DT_ROPE_LLAMA3 && config->rope_low > 0 &&
        config->rope_high > 0 && config->rope_high <= config->rope_low)
        dt_error_add(problems, EX_DATAERR,
                     "high_freq_factor: expected more than low_freq_factor "
                     "%.15g, got %.15g",
                     config->rope_low, config->rope_high);
}

/* The defaults of optional keys. Those of missing head counts and sizes hold
 * for missing keys alone: with null they are derived from other fields.
 */
static void set_defaults(struct dt_model_config *config, const json_t *root)
{
    const struct dt_family *family = config->family;
    config->norm_epsilon = family->norm_epsilon;
    config->initializer_range = 0.02;
    config->tie_word_embeddings = family->tied;
    config->rope_theta = family->theta;
    config->query_scalar = family->query_scalar;
    config->attention_softcap = family->attention_softcap;
    config->logits_softcap = family->logits_softcap;
    config->embd_dropout = config->attn_dropout = config->resid_dropout =
        family->dropout;
    if (family->multipliers)
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
    const struct dt_family *family = config->family;
    config->qkv_bias |= family->qkv_biased;
    config->mlp_bias |= family->mlp_biased;
    config->out_bias = config->qkv_bias && !family->out_plain;
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
    for (const struct dt_field *field = config->family->fields; field->key;
         field++)
        if (!field->scalings)
            dt_config_parse_field(config, field, "", root, problems);
    parse_mathematics(config, root, problems);
    parse_softcap(config, AT(attention_softcap), &config->attention_softcap,
                  root, problems);
    parse_softcap(config, AT(logits_softcap), &config->logits_softcap, root,
                  problems);
    if (!config->family->learns_positions)
        dt_config_parse_rope(config, root, problems);
    dt_config_parse_layers(config, root, problems);
    parse_ids(config, root, problems);
    check_relations(config, problems);
    derive_fields(config);
}

int dt_model_config_check(const struct dt_model_config *config,
                          struct dt_error *err)
{
    struct dt_error problems = {0};
    for (const struct dt_field *field = config->family->fields; field->key;
         field++) {
        double value = dt_field_get(config, field);
        char got[32];
        snprintf(got, sizeof(got), "%.15g", value);
        if (dt_field_of(field, config) && !dt_field_in_range(field, value))
            dt_field_unexpected(field, "", got, &problems);
    }
    check_relations(config, &problems);
    if (problems.text[0])
        return dt_error_set(err, EX_CONFIG, "%s", problems.text);
    return 0;
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
