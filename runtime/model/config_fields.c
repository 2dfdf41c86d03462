/* SPDX-License-Identifier: Apache-2.0 */
/* config_fields.c - the fields of a model's config, their keys and ranges */
#include "config.h"

#include <stdio.h>

#include <xxhash.h>

#include "model/config_fields.h"

#define GPT2 (1u << DT_GPT2)
#define LLAMA (1u << DT_LLAMA)
#define QWEN3 (1u << DT_QWEN3)
#define ROTARY (LLAMA | 1u << DT_MISTRAL | 1u << DT_QWEN2 | QWEN3)
#define ALL (GPT2 | ROTARY)

#define COUNT DT_FIELD_COUNT
#define REAL DT_FIELD_REAL
#define FLAG DT_FIELD_FLAG

#define AT(name) offsetof(struct dt_model_config, name)

const struct dt_field dt_model_fields[] = {
    {"vocab_size", ALL, COUNT, true, AT(vocab_size), 1, 1 << 24},
    {"n_positions", GPT2, COUNT, true, AT(n_positions), 1, 1 << 24},
    {"n_embd", GPT2, COUNT, true, AT(n_embd), 1, 1 << 16},
    {"n_layer", GPT2, COUNT, true, AT(n_layer), 1, 1 << 10},
    {"n_head", GPT2, COUNT, true, AT(n_head), 1, 1 << 16},
    {"n_inner", GPT2, COUNT, false, AT(n_inner), 1, 1 << 20},
    {"layer_norm_epsilon", GPT2, REAL, false, AT(norm_epsilon), 1e-12, 1},
    {"embd_pdrop", GPT2, REAL, false, AT(embd_dropout), 0, 0.99},
    {"attn_pdrop", GPT2, REAL, false, AT(attn_dropout), 0, 0.99},
    {"resid_pdrop", GPT2, REAL, false, AT(resid_dropout), 0, 0.99},
    {"max_position_embeddings", ROTARY, COUNT, true, AT(n_positions), 1,
     1 << 24},
    {"hidden_size", ROTARY, COUNT, true, AT(n_embd), 1, 1 << 16},
    {"num_hidden_layers", ROTARY, COUNT, true, AT(n_layer), 1, 1 << 10},
    {"num_attention_heads", ROTARY, COUNT, true, AT(n_head), 1, 1 << 16},
    {"num_key_value_heads", ROTARY, COUNT, false, AT(n_kv_head), 1, 1 << 16},
    {"head_dim", ROTARY, COUNT, false, AT(head_size), 2, DT_MAX_HEAD_SIZE},
    {"intermediate_size", ROTARY, COUNT, true, AT(n_inner), 1, 1 << 20},
    {"rms_norm_eps", ROTARY, REAL, false, AT(norm_epsilon), 1e-12, 1},
    {"rope_theta", ROTARY, REAL, false, AT(rope_theta), 1, 1e12},
    {"attention_bias", LLAMA | QWEN3, FLAG, false, AT(qkv_bias), 0, 1},
    {"mlp_bias", LLAMA, FLAG, false, AT(mlp_bias), 0, 1},
    {"attention_dropout", ROTARY, REAL, false, AT(attn_dropout), 0, 0.99},
    {"initializer_range", ALL, REAL, false, AT(initializer_range), 0, 10},
    {"tie_word_embeddings", ALL, FLAG, false, AT(tie_word_embeddings), 0, 1},
};
const size_t dt_model_field_count =
    sizeof(dt_model_fields) / sizeof(dt_model_fields[0]);

const struct dt_field dt_rope_fields[] = {
    {"factor", ROTARY, REAL, true, AT(rope_factor), 1, 1e6},
    {"low_freq_factor", ROTARY, REAL, true, AT(rope_low), 1e-6, 1e6},
    {"high_freq_factor", ROTARY, REAL, true, AT(rope_high), 1e-6, 1e6},
    {"original_max_position_embeddings", ROTARY, COUNT, false,
     AT(rope_original), 1, 1 << 24},
};

size_t dt_rope_field_count(enum dt_rope_scaling scaling)
{
    static const size_t counts[] = {
        [DT_ROPE_DEFAULT] = 0,
        [DT_ROPE_LINEAR] = 1,
        [DT_ROPE_LLAMA3] = 4,
    };
    return counts[scaling];
}

const char *dt_rope_scaling_name(enum dt_rope_scaling scaling)
{
    static const char *const names[] = {
        [DT_ROPE_DEFAULT] = "default",
        [DT_ROPE_LINEAR] = "linear",
        [DT_ROPE_LLAMA3] = "llama3",
    };
    return names[scaling];
}

const char *dt_model_family_name(enum dt_model_family family)
{
    static const char *const names[] = {
        [DT_GPT2] = "gpt2",   [DT_LLAMA] = "llama", [DT_MISTRAL] = "mistral",
        [DT_QWEN2] = "qwen2", [DT_QWEN3] = "qwen3",
    };
    return names[family];
}

const char *dt_model_architecture(enum dt_model_family family)
{
    static const char *const names[] = {
        [DT_GPT2] = "GPT2LMHeadModel",       [DT_LLAMA] = "LlamaForCausalLM",
        [DT_MISTRAL] = "MistralForCausalLM", [DT_QWEN2] = "Qwen2ForCausalLM",
        [DT_QWEN3] = "Qwen3ForCausalLM",
    };
    return names[family];
}

const char *dt_model_score_architecture(enum dt_model_family family)
{
    static const char *const names[] = {
        [DT_GPT2] = "GPT2ForSequenceClassification",
        [DT_LLAMA] = "LlamaForSequenceClassification",
        [DT_MISTRAL] = "MistralForSequenceClassification",
        [DT_QWEN2] = "Qwen2ForSequenceClassification",
        [DT_QWEN3] = "Qwen3ForSequenceClassification",
    };
    return names[family];
}

const char *dt_model_base_architecture(enum dt_model_family family)
{
    static const char *const names[] = {
        [DT_GPT2] = "GPT2Model",       [DT_LLAMA] = "LlamaModel",
        [DT_MISTRAL] = "MistralModel", [DT_QWEN2] = "Qwen2Model",
        [DT_QWEN3] = "Qwen3Model",
    };
    return names[family];
}

bool dt_field_of(const struct dt_field *field, enum dt_model_family family)
{
    return field->families >> family & 1;
}

double dt_field_get(const struct dt_model_config *config,
                    const struct dt_field *field)
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

void dt_field_set(struct dt_model_config *config, const struct dt_field *field,
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

bool dt_field_in_range(const struct dt_field *field, double value)
{
    return value >= field->min && value <= field->max;
}

void dt_field_unexpected(const struct dt_field *field, const char *prefix,
                         const char *got, struct dt_error *problems)
{
    if (field->type == FLAG)
        dt_error_add(problems, EX_DATAERR,
                     "%s%s: expected true or false, got %s", prefix, field->key,
                     got);
    else
        dt_error_add(problems, EX_DATAERR,
                     "%s%s: expected %s from %.15g to %.15g, got %s", prefix,
                     field->key,
                     field->type == COUNT ? "an integer" : "a number",
                     field->min, field->max, got);
}

/* Whether a field says how the model computes. */
static bool computes(const struct dt_field *field)
{
    const size_t others[] = {AT(n_positions), AT(initializer_range),
                             AT(embd_dropout), AT(attn_dropout),
                             AT(resid_dropout)};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (field->offset == others[i])
            return false;
    return true;
}

/* The key of the first of `count` fields that differs, or NULL. */
static const char *field_that_differs(const struct dt_model_config *a,
                                      const struct dt_model_config *b,
                                      const struct dt_field *fields,
                                      size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (dt_field_of(&fields[i], a->family) && computes(&fields[i]) &&
            dt_field_get(a, &fields[i]) != dt_field_get(b, &fields[i]))
            return fields[i].key;
    return NULL;
}

const char *dt_model_config_differ(const struct dt_model_config *a,
                                   const struct dt_model_config *b)
{
    if (a->family != b->family)
        return "model_type";
    if (a->scores != b->scores)
        return "architectures";
    if (a->rope_scaling != b->rope_scaling)
        return "rope_type";
    if (a->window != b->window ||
        (a->window > 0 && a->window_from != b->window_from))
        return "sliding_window";
    const char *key =
        field_that_differs(a, b, dt_model_fields, dt_model_field_count);
    return key ? key
               : field_that_differs(a, b, dt_rope_fields,
                                    dt_rope_field_count(a->rope_scaling));
}

static uint64_t hash_fields(const struct dt_model_config *config,
                            const struct dt_field *fields, size_t count,
                            uint64_t hash)
{
    for (size_t i = 0; i < count; i++) {
        double value = dt_field_get(config, &fields[i]);
        if (dt_field_of(&fields[i], config->family) && computes(&fields[i]))
            hash = XXH3_64bits_withSeed(&value, sizeof(value), hash);
    }
    return hash;
}

uint64_t dt_model_config_hash(const struct dt_model_config *config)
{
    const double more[] = {config->family, config->scores, config->rope_scaling,
                           (double)config->window,
                           config->window ? (double)config->window_from : 0};
    uint64_t hash = hash_fields(config, dt_model_fields, dt_model_field_count,
                                XXH3_64bits(more, sizeof(more)));
    return hash_fields(config, dt_rope_fields,
                       dt_rope_field_count(config->rope_scaling), hash);
}

/* The key of the family for the field at `offset`. */
static const char *key_of(enum dt_model_family family, size_t offset)
{
    const struct dt_field *field = dt_model_fields;
    while (field->offset != offset || !dt_field_of(field, family))
        field++;
    return field->key;
}

void dt_model_config_relations(const struct dt_model_config *config,
                               struct dt_error *problems)
{
    enum dt_model_family family = config->family;
    size_t C = config->n_embd, NH = config->n_head, NKV = config->n_kv_head;
    bool derived = family == DT_GPT2 || config->head_size == 0;
    size_t HS = derived && NH > 0 ? C / NH : config->head_size;
    if (derived && NH > 0 && C % NH != 0)
        dt_error_add(
            problems, EX_DATAERR, "%s: %zu is not a multiple of %s %zu",
            key_of(family, AT(n_embd)), C, key_of(family, AT(n_head)), NH);
    else if (HS % 2 != 0 || HS > DT_MAX_HEAD_SIZE)
        dt_error_add(problems, EX_DATAERR,
                     "%s: expected heads of an even size up to %d, got %zu",
                     key_of(family, derived ? AT(n_head) : AT(head_size)),
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

static void check_fields(const struct dt_model_config *config,
                         const struct dt_field *fields, size_t count,
                         struct dt_error *problems)
{
    for (size_t i = 0; i < count; i++) {
        double value = dt_field_get(config, &fields[i]);
        char got[32];
        snprintf(got, sizeof(got), "%.15g", value);
        if (dt_field_of(&fields[i], config->family) &&
            !dt_field_in_range(&fields[i], value))
            dt_field_unexpected(&fields[i], "", got, problems);
    }
}

int dt_model_config_check(const struct dt_model_config *config,
                          struct dt_error *err)
{
    struct dt_error problems = {0};
    check_fields(config, dt_model_fields, dt_model_field_count, &problems);
    check_fields(config, dt_rope_fields,
                 dt_rope_field_count(config->rope_scaling), &problems);
    dt_model_config_relations(config, &problems);
    if (problems.text[0])
        return dt_error_set(err, EX_CONFIG, "%s", problems.text);
    return 0;
}
