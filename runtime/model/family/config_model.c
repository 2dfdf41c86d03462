/* SPDX-License-Identifier: Apache-2.0 */
/* config_model.c - reads the keys of a model, which a file has or a part of it
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "model/family/family.h"

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

void dt_config_check_only(const json_t *root, struct dt_error *problems)
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
}

static void parse_mathematics(struct dt_model_config *config,
                              const json_t *root, struct dt_error *problems)
{
    const char *unused = config->family->unused;
    dt_config_check_only(root, problems);
    if (unused && dt_config_value(root, unused))
        dt_config_unexpected(problems, "", unused, "null",
                             json_object_get(root, unused));
    config->gate = config->family->gate;
    dt_config_parse_activation(root, config->family->activation, &config->gate,
                               problems);
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

void dt_config_parse_ids(struct dt_model_config *config, const json_t *root,
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

void dt_config_check_relations(const struct dt_model_config *config,
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

/* The sizes of the class, for those that a part of a file lacks. */
static void set_sizes(struct dt_model_config *config)
{
    const struct dt_sizes *sizes = &config->family->sizes;
    config->vocab_size = sizes->vocab_size;
    config->n_positions = sizes->n_positions;
    config->n_embd = sizes->n_embd;
    config->n_layer = sizes->n_layer;
    config->n_head = sizes->n_head;
    config->n_inner = sizes->n_inner;
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

void dt_config_parse_model(struct dt_model_config *config, const json_t *root,
                           bool part, struct dt_error *problems)
{
    set_defaults(config, root);
    if (part)
        set_sizes(config);
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
    dt_config_parse_ids(config, root, problems);
    dt_config_check_relations(config, problems);
    derive_fields(config);
}
