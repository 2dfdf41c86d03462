/* SPDX-License-Identifier: Apache-2.0 */
/* config_fields.c - the fields of a model's config, their keys and ranges */
#include "config.h"

#include <stdio.h>

#include "model/config_fields.h"

#define GPT2 (1u << DT_GPT2)
#define LLAMA (1u << DT_LLAMA)
#define QWEN3 (1u << DT_QWEN3)
#define GEMMA (1u << DT_GEMMA2 | 1u << DT_GEMMA3)
#define GRANITE (1u << DT_GRANITE)
#define OLMO2 (1u << DT_OLMO2)
#define PHI3 (1u << DT_PHI3)
#define SMOLLM3 (1u << DT_SMOLLM3)
#define ALL ((1u << DT_FAMILIES) - 1)
#define ROTARY (ALL & ~GPT2)

#define LINEAR (1u << DT_ROPE_LINEAR)
#define LLAMA3 (1u << DT_ROPE_LLAMA3)
#define DYNAMIC (1u << DT_ROPE_DYNAMIC)
#define YARN (1u << DT_ROPE_YARN)
#define LONGROPE (1u << DT_ROPE_LONGROPE)

#define COUNT DT_FIELD_COUNT
#define REAL DT_FIELD_REAL
#define FLAG DT_FIELD_FLAG

#define AT(name) offsetof(struct dt_model_config, name)
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* clang-format off */
const struct dt_field dt_model_fields[] = {
    {"vocab_size", ALL, COUNT, true, AT(vocab_size), 1, 1 << 24, 0},
    {"n_positions", GPT2, COUNT, true, AT(n_positions), 1, 1 << 24, 0},
    {"n_embd", GPT2, COUNT, true, AT(n_embd), 1, 1 << 16, 0},
    {"n_layer", GPT2, COUNT, true, AT(n_layer), 1, DT_MODEL_MAX_LAYERS, 0},
    {"n_head", GPT2, COUNT, true, AT(n_head), 1, 1 << 16, 0},
    {"n_inner", GPT2, COUNT, false, AT(n_inner), 1, 1 << 20, 0},
    {"layer_norm_epsilon", GPT2, REAL, false, AT(norm_epsilon), 1e-12, 1, 0},
    {"embd_pdrop", GPT2, REAL, false, AT(embd_dropout), 0, 0.99, 0},
    {"attn_pdrop", GPT2, REAL, false, AT(attn_dropout), 0, 0.99, 0},
    {"resid_pdrop", GPT2 | PHI3, REAL, false, AT(resid_dropout), 0, 0.99, 0},
    {"max_position_embeddings", ROTARY, COUNT, true, AT(n_positions), 1,
     1 << 24, 0},
    {"hidden_size", ROTARY, COUNT, true, AT(n_embd), 1, 1 << 16, 0},
    {"num_hidden_layers", ROTARY, COUNT, true, AT(n_layer), 1,
     DT_MODEL_MAX_LAYERS, 0},
    {"num_attention_heads", ROTARY, COUNT, true, AT(n_head), 1, 1 << 16, 0},
    {"num_key_value_heads", ROTARY, COUNT, false, AT(n_kv_head), 1, 1 << 16,
     0},
    {"head_dim", ROTARY, COUNT, false, AT(head_size), 2, DT_MAX_HEAD_SIZE, 0},
    {"intermediate_size", ROTARY, COUNT, true, AT(n_inner), 1, 1 << 20, 0},
    {"rms_norm_eps", ROTARY, REAL, false, AT(norm_epsilon), 1e-12, 1, 0},
    {"rope_theta", ROTARY, REAL, false, AT(rope_theta), 1, 1e12, 0},
    {"attention_bias", LLAMA | QWEN3 | GEMMA | GRANITE | OLMO2 | SMOLLM3, FLAG,
     false, AT(qkv_bias), 0, 1, 0},
    {"mlp_bias", LLAMA | GRANITE | SMOLLM3, FLAG, false, AT(mlp_bias), 0, 1,
     0},
    {"attention_dropout", ROTARY, REAL, false, AT(attn_dropout), 0, 0.99, 0},
    {"initializer_range", ALL, REAL, false, AT(initializer_range), 0, 10, 0},
    {"tie_word_embeddings", ALL, FLAG, false, AT(tie_word_embeddings), 0, 1,
     0},
    {"query_pre_attn_scalar", GEMMA, REAL, false, AT(query_scalar), 1e-6, 1e9,
     0},
    {"attn_logit_softcapping", 1u << DT_GEMMA2, REAL, false,
     AT(attention_softcap), 0, 1e9, 0},
    {"final_logit_softcapping", GEMMA, REAL, false, AT(logits_softcap), 0, 1e9,
     0},
    {"embedding_multiplier", GRANITE, REAL, false, AT(embedding_multiplier),
     1e-6, 1e6, 0},
    {"residual_multiplier", GRANITE, REAL, false, AT(residual_multiplier),
     1e-6, 1e6, 0},
    {"attention_multiplier", GRANITE, REAL, false, AT(attention_multiplier),
     1e-6, 1e6, 0},
    {"logits_scaling", GRANITE, REAL, false, AT(logits_scaling), 1e-6, 1e6, 0},
    {"factor", ROTARY, REAL, true, AT(rope_factor), 1, 1e6,
     LINEAR | LLAMA3 | DYNAMIC | YARN},
    {"factor", ROTARY, REAL, false, AT(rope_factor), 1, 1e6, LONGROPE},
    {"low_freq_factor", ROTARY, REAL, true, AT(rope_low), 1e-6, 1e6, LLAMA3},
    {"high_freq_factor", ROTARY, REAL, true, AT(rope_high), 1e-6, 1e6, LLAMA3},
    {"original_max_position_embeddings", ROTARY, COUNT, false,
     AT(rope_original), 1, 1 << 24, LLAMA3 | YARN | LONGROPE},
    {"beta_fast", ROTARY, REAL, false, AT(rope_fast), 1e-6, 1e6, YARN},
    {"beta_slow", ROTARY, REAL, false, AT(rope_slow), 1e-6, 1e6, YARN},
    {"mscale", ROTARY, REAL, false, AT(rope_mscale), 0, 1e6, YARN},
    {"mscale_all_dim", ROTARY, REAL, false, AT(rope_mscale_all), 0, 1e6, YARN},
    {"attention_factor", ROTARY, REAL, false, AT(rope_attention), 0, 1e6,
     YARN | LONGROPE},
    {"truncate", ROTARY, FLAG, false, AT(rope_truncate), 0, 1, YARN},
};
/* clang-format on */
const size_t dt_model_field_count = LENGTH(dt_model_fields);

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
    return field->families >> config->family & 1 &&
           (field->scalings == 0 ||
            field->scalings >> config->rope_scaling & 1);
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

/* The key of the family for the field at `offset`. */
static const char *key_of(const struct dt_model_config *config, size_t offset)
{
    const struct dt_field *field = dt_model_fields;
    while (field->offset != offset || !dt_field_of(field, config))
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
            key_of(config, AT(n_embd)), C, key_of(config, AT(n_head)), NH);
    else if (HS % 2 != 0 || HS > DT_MAX_HEAD_SIZE)
        dt_error_add(problems, EX_DATAERR,
                     "%s: expected heads of an even size up to %d, got %zu",
                     key_of(config, derived ? AT(n_head) : AT(head_size)),
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

int dt_model_config_check(const struct dt_model_config *config,
                          struct dt_error *err)
{
    struct dt_error problems = {0};
    for (size_t i = 0; i < dt_model_field_count; i++) {
        const struct dt_field *field = &dt_model_fields[i];
        double value = dt_field_get(config, field);
        char got[32];
        snprintf(got, sizeof(got), "%.15g", value);
        if (dt_field_of(field, config) && !dt_field_in_range(field, value))
            dt_field_unexpected(field, "", got, &problems);
    }
    dt_model_config_relations(config, &problems);
    if (problems.text[0])
        return dt_error_set(err, EX_CONFIG, "%s", problems.text);
    return 0;
}
