/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_rope.c - reads how a model rotates positions, and computes the angles
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/family/family.h"
#include "model/family/roles.h"

/* An object with keys of RoPE, and the prefix of its keys in messages. */
struct rope_object {
    const json_t *json;
    const char *prefix;
};

/* `type` of transformers 4, `rope_type` since then. */
static bool parse_type(struct dt_model_config *config,
                       const struct rope_object *rope,
                       struct dt_error *problems)
{
    const json_t *type = json_object_get(rope->json, "rope_type");
    bool old = !type && json_object_get(rope->json, "type");
    char known[128] = "one of ";
    if (old)
        type = json_object_get(rope->json, "type");
    const char *name = type ? json_string_value(type) : "default";
    const bool longrope = config->family->longrope;
    const bool axial = config->family->axial;
    /* places are not counted by tokens, or the second table is of windows */
    const bool sections = config->family->sections[0] > 0;
    const bool only_one = sections || config->family->local_theta > 0;
    if (axial && name && !strcmp(name, type ? "axial" : "default"))
        return true;
    if (sections && name && !strcmp(name, "mrope"))
        name = "default";
    if (longrope && name && (!strcmp(name, "su") || !strcmp(name, "yarn")))
        name = "longrope";
    if (axial) {
        dt_config_unexpected(problems, rope->prefix, "rope_type", "axial",
                             type);
        return false;
    }
    for (int s = 0; s < DT_ROPE_SCALINGS; s++) {
        const char *word = dt_rope_scaling_name(s);
        if (longrope && s != DT_ROPE_DEFAULT && s != DT_ROPE_LONGROPE)
            continue;
        if (only_one && s == DT_ROPE_LONGROPE)
            continue;
        if (name && !strcmp(name, word)) {
            config->rope_scaling = s;
            return true;
        }
        sprintf(known + strlen(known), "%s%s", s > 0 ? ", " : "", word);
    }
    dt_config_unexpected(problems, rope->prefix, old ? "type" : "rope_type",
                         known, type);
    return false;
}

static void parse_factors(float *factors, size_t count, const char *key,
                          const struct rope_object *rope,
                          struct dt_error *problems)
{
    const json_t *list = json_object_get(rope->json, key);
    char what[64];
    bool fits = json_array_size(list) == count;
    for (size_t j = 0; j < count && fits; j++) {
        double factor = json_number_value(json_array_get(list, j));
        fits = factor >= 1e-6 && factor <= 1e6;
        factors[j] = (float)factor;
    }
    snprintf(what, sizeof(what), "a list of %zu numbers from 1e-06 to 1e+06",
             count);
    if (!fits)
        dt_config_unexpected(problems, rope->prefix, key, what, list);
}

/* The factor of cosines and sines in YaRN (Peng et al., eq. 22) and longrope
 * (Ding et al., sec. 3.2), unless the file has it.
 */
static double attention_factor(const struct dt_model_config *config)
{
    double factor = config->rope_factor, log_factor = log(factor);
    double mscale = config->rope_mscale, all = config->rope_mscale_all;
    if (factor <= 1)
        return 1;
    if (config->rope_scaling == DT_ROPE_LONGROPE)
        return sqrt(1 + log_factor / log((double)config->rope_original));
    if (mscale > 0 && all > 0)
        return (0.1 * mscale * log_factor + 1) / (0.1 * all * log_factor + 1);
    return 0.1 * log_factor + 1;
}

/* The fields of the scaling, and values that follow from them. */
static void parse_scaling(struct dt_model_config *config,
                          const struct rope_object *rope, const json_t *root,
                          struct dt_error *problems)
{
    const size_t original = config->family->original;
    size_t pairs = dt_model_rotary(config) / 2;
    config->rope_original = config->n_positions;
    config->rope_fast = 32;
    config->rope_slow = 1;
    config->rope_truncate = true;
    config->rope_factor = 0;
    for (const struct dt_field *field = config->family->fields; field->key;
         field++)
        if (field->scalings)
            dt_config_parse_field(config, field, rope->prefix, rope->json,
                                  problems);
    if (original > 0)
        config->rope_original = original;
    /* Phi-3 has it in the file itself, which is read first */
    dt_config_parse_key(config, "original_max_position_embeddings", "", root,
                        problems);
    if (config->rope_scaling == DT_ROPE_LONGROPE) {
        parse_factors(config->rope_short, pairs, "short_factor", rope,
                      problems);
        parse_factors(config->rope_long, pairs, "long_factor", rope, problems);
        if (config->rope_factor == 0 && config->rope_original > 0)
            config->rope_factor =
                (double)config->n_positions / (double)config->rope_original;
    }
    if (!dt_config_value(rope->json, "attention_factor"))
        config->rope_attention = attention_factor(config);
}

/* transformers ignores the key in families that do not rotate a part. */
static void parse_rotary(struct dt_model_config *config,
                         const struct rope_object *rope, const json_t *root,
                         struct dt_error *problems)
{
    const char *key = "partial_rotary_factor", *prefix = rope->prefix;
    const json_t *value = dt_config_value(rope->json, key);
    if (!value) {
        prefix = "";
        value = dt_config_value(root, key);
    }
    double factor = value ? json_number_value(value) : 1;
    bool known = config->family->rotates_part, part = factor > 0 && factor < 1;
    struct dt_model_config rotated = *config;
    rotated.rotary_factor = part ? factor : 0;
    size_t count = dt_model_rotary(&rotated);
    if (factor == 1)
        return;
    if (!known)
        dt_config_unexpected(problems, prefix, key, "1", value);
    else if (!part || count < 2 || count % 2 != 0)
        dt_config_unexpected(problems, prefix, key,
                             "an even part of a head, at most 1", value);
    else
        config->rotary_factor = factor;
}

static void parse_theta(struct dt_model_config *config,
                        const struct rope_object *rope,
                        struct dt_error *problems)
{
    dt_config_parse_key(config, "rope_theta", rope->prefix, rope->json,
                        problems);
}

/* transformers 4 has rope_theta and rope_scaling; 5 has both in
 * rope_parameters, and reads rope_scaling first.
 */
static struct rope_object find_object(const json_t *root,
                                      struct dt_error *problems)
{
    static const char *const keys[][2] = {
        {"rope_scaling", "rope_scaling."},
        {"rope_parameters", "rope_parameters."}};
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = dt_config_value(root, keys[i][0]);
        if (value && !json_is_object(value))
            dt_config_unexpected(problems, "", keys[i][0], "an object", value);
        else if (json_object_size(value) > 0)
            return (struct rope_object){value, keys[i][1]};
    }
    return (struct rope_object){NULL, ""};
}

/* Gemma 3 has an object for layers with a window, which scales nothing, and one
 * for the others; or the keys of transformers 4.
 */
static struct rope_object find_local(struct dt_model_config *config,
                                     const json_t *root,
                                     struct dt_error *problems)
{
    const json_t *both = dt_config_value(root, "rope_parameters");
    const json_t *local = dt_config_value(both, "sliding_attention");
    const json_t *full = dt_config_value(both, "full_attention");
    const json_t *old = dt_config_value(root, "rope_scaling");
    struct dt_model_config other = {.family = config->family,
                                    .rope_theta = config->rope_local_theta};
    const char *key = "rope_local_base_freq";
    struct rope_object rope = {local, "rope_parameters.sliding_attention."};
    if (!local || !dt_config_value(local, "rope_theta")) {
        const json_t *value = dt_config_value(root, key);
        double theta = value ? json_number_value(value) : other.rope_theta;
        if (theta >= 1 && theta <= 1e12)
            other.rope_theta = theta;
        else
            dt_config_unexpected(problems, "", key,
                                 "a number from 1 to 1000000000000", value);
    }
    parse_theta(&other, &rope, problems);
    if (local && parse_type(&other, &rope, problems) &&
        other.rope_scaling != DT_ROPE_DEFAULT)
        dt_config_unexpected(problems, rope.prefix, "rope_type", "default",
                             json_object_get(local, "rope_type"));
    config->rope_local_theta = other.rope_theta;
    if (old && (!json_is_object(old) || full))
        dt_config_unexpected(problems, "", "rope_scaling",
                             "an object, in place of rope_parameters", old);
    else if (old && !json_object_get(old, "rope_type"))
        dt_config_unexpected(problems, "rope_scaling.", "rope_type",
                             "a kind of scaling", NULL);
    else if (old)
        return (struct rope_object){old, "rope_scaling."};
    return (struct rope_object){full, "rope_parameters.full_attention."};
}

/* mrope_interleaved, which transformers does not read, as the class has it. */
static void check_interleaved(const struct dt_model_config *config,
                              const struct rope_object *rope,
                              struct dt_error *problems)
{
    const char *key = "mrope_interleaved";
    const bool turns = config->family->interleaved;
    const json_t *given = dt_config_value(rope->json, key);
    if (given && (!json_is_boolean(given) || json_is_true(given) != turns))
        dt_config_unexpected(problems, rope->prefix, key,
                             turns ? "true" : "false", given);
}

/* mrope_section: the pairs that turn with time, rows and columns. */
static void parse_sections(struct dt_model_config *config,
                           const struct rope_object *rope,
                           struct dt_error *problems)
{
    const size_t *usual = config->family->sections;
    const char *key = "mrope_section";
    const json_t *list = dt_config_value(rope->json, key);
    const size_t pairs = dt_model_rotary(config) / 2;
    size_t sum = 0;
    bool fits = !list || json_array_size(list) == 3;
    char what[64];
    for (size_t a = 0; a < 3 && fits; a++) {
        const json_t *item = json_array_get(list, a);
        const json_int_t n =
            item ? json_integer_value(item) : (json_int_t)usual[a];
        fits =
            n >= 0 && n <= DT_MAX_HEAD_SIZE && (!item || json_is_integer(item));
        config->rope_section[a] = (size_t)n;
        sum += (size_t)n;
    }
    snprintf(what, sizeof(what), "three integers whose sum is %zu, half a head",
             pairs);
    if (!fits || sum != pairs)
        dt_config_unexpected(problems, rope->prefix, key, what, list);
}

void dt_config_parse_rope(struct dt_model_config *config, const json_t *root,
                          struct dt_error *problems)
{
    struct rope_object rope;
    config->rope_local_theta = config->family->local_theta;
    rope = config->rope_local_theta > 0 ? find_local(config, root, problems)
                                        : find_object(root, problems);
    parse_rotary(config, &rope, root, problems);
    if (config->family->sections[0] > 0) {
        parse_sections(config, &rope, problems);
        check_interleaved(config, &rope, problems);
    }
    if (!rope.json)
        return;
    parse_theta(config, &rope, problems);
    if (parse_type(config, &rope, problems) &&
        config->rope_scaling != DT_ROPE_DEFAULT)
        parse_scaling(config, &rope, root, problems);
}

size_t dt_rope_tables(const struct dt_model_config *config)
{
    if (config->family->learns_positions)
        return 0;
    return config->rope_local_theta > 0 || dt_model_two_lengths(config) ? 2 : 1;
}

/* Llama 3.1: long waves are stretched, short ones are not; in between the
 * factor is interpolated.
 */
static double scale_llama3(const struct dt_model_config *config, double inverse)
{
    double low = config->rope_low, high = config->rope_high;
    double waves = (double)config->rope_original * inverse / (2 * M_PI);
    if (waves > high)
        return inverse;
    if (waves < low)
        return inverse / config->rope_factor;
    double smooth = (waves - low) / (high - low);
    return inverse * ((1 - smooth) / config->rope_factor + smooth);
}

/* The pair that turns so many times in the positions of before (Peng et al.,
 * "YaRN", eq. 17, for pairs).
 */
static double pair_of_turns(const struct dt_model_config *config, double turns)
{
    double waves = (double)config->rope_original / (turns * 2 * M_PI);
    return (double)dt_model_rotary(config) * log(waves) /
           (2 * log(config->rope_theta));
}

/* YaRN: pairs that turn often stay, those that turn rarely are stretched; in
 * between is a ramp.
 */
static double scale_yarn(const struct dt_model_config *config, double inverse,
                         size_t j)
{
    double low = pair_of_turns(config, config->rope_fast);
    double high = pair_of_turns(config, config->rope_slow);
    if (config->rope_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)dt_model_rotary(config) - 1);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax(((double)j - low) / (high - low), 0), 1);
    return inverse * (ramp / config->rope_factor + 1 - ramp);
}

size_t dt_rope_axes(const struct dt_model_config *config)
{
    const size_t *section = config->rope_section;
    return config->family->axial                      ? 2
           : section[0] + section[1] + section[2] > 0 ? 3
                                                      : 1;
}

size_t dt_rope_axis(const struct dt_model_config *config, size_t j)
{
    if (config->family->axial)
        return j >= dt_model_rotary(config) / 4;
    if (config->family->interleaved)
        return j < 3 * config->rope_section[j % 3] ? j % 3 : 0;
    size_t axis = 0, end = config->rope_section[0];
    while (j >= end && axis < 2)
        end += config->rope_section[++axis];
    return axis;
}

double dt_rope_frequency(const struct dt_model_config *config, size_t table,
                         size_t j)
{
    const size_t R = dt_model_rotary(config);
    const size_t turned = config->family->axial ? R / 2 : R;
    double exponent = -2.0 * (double)(j % (turned / 2)) / (double)turned;
    double plain = pow(config->rope_theta, exponent);
    if (table == 1 && config->rope_local_theta > 0)
        return pow(config->rope_local_theta, exponent);
    switch (config->rope_scaling) {
    case DT_ROPE_LINEAR:
        return plain / config->rope_factor;
    case DT_ROPE_LLAMA3:
        return scale_llama3(config, plain);
    case DT_ROPE_YARN:
        return scale_yarn(config, plain, j);
    case DT_ROPE_LONGROPE:
        return plain / (double)(table == 1 ? config->rope_long[j]
                                           : config->rope_short[j]);
    default: /* dynamic scales beyond n_positions, where no document is */
        return plain;
    }
}

void dt_rope_table(const struct dt_model_config *config, size_t table,
                   float *angles, size_t positions)
{
    size_t R = dt_model_rotary(config);
    bool local = table == 1 && config->rope_local_theta > 0;
    bool scaled = config->rope_scaling == DT_ROPE_YARN ||
                  config->rope_scaling == DT_ROPE_LONGROPE;
    float factor = scaled && !local ? (float)config->rope_attention : 1.0f;
    for (size_t j = 0; j < R / 2; j++) {
        /* models were trained with angles rounded to fp32 */
        float frequency = (float)dt_rope_frequency(config, table, j);
        for (size_t p = 0; p < positions; p++) {
            float angle = (float)p * frequency;
            angles[p * R + j] = factor * cosf(angle);
            angles[p * R + R / 2 + j] = factor * sinf(angle);
        }
    }
}
