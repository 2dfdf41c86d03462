/* SPDX-License-Identifier: Apache-2.0 */
/* config_compare.c - whether two models compute alike */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "model/family/family.h"

#define AT(name) offsetof(struct dt_model_config, name)
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Whether a field says how the model computes. */
static bool field_computes(const struct dt_field *field)
{
    const size_t others[] = {AT(n_positions), AT(initializer_range),
                             AT(embd_dropout), AT(attn_dropout),
                             AT(resid_dropout)};
    for (size_t i = 0; i < LENGTH(others); i++)
        if (field->offset == others[i])
            return false;
    return true;
}

/* A property as a number, and in words if it has some. */
struct trait {
    const char *prefix, *key; /* prefix NULL: none */
    double value;
    const char *word;
    enum dt_field_type type;
};

enum { TRAITS = 11, VISION_TRAITS = 16 };

/* A list as a number. */
static double digest(const void *list, size_t bytes)
{
    return (double)(XXH3_64bits(list, bytes) >> 11);
}

static void list_traits(const struct dt_model_config *c,
                        struct trait traits[TRAITS])
{
    static const char *const heads[] = {"a head over tokens", "a score"};
    const bool factors = c->rope_scaling == DT_ROPE_LONGROPE;
    const struct trait all[TRAITS] = {
        {NULL, "model_type", digest(c->family->type, strlen(c->family->type)),
         c->family->type, DT_FIELD_REAL},
        {NULL, "architectures", c->scores, heads[c->scores], DT_FIELD_REAL},
        {NULL, c->family->activation, c->gate, dt_activation_name(c->gate),
         DT_FIELD_REAL},
        {NULL, "rope_scaling.rope_type", c->rope_scaling,
         dt_rope_scaling_name(c->rope_scaling), DT_FIELD_REAL},
        {NULL, "rope_scaling.short_factor",
         factors ? digest(c->rope_short, sizeof(c->rope_short)) : 0, "a list",
         DT_FIELD_REAL},
        {NULL, "rope_scaling.long_factor",
         factors ? digest(c->rope_long, sizeof(c->rope_long)) : 0, "a list",
         DT_FIELD_REAL},
        {NULL, "rope_local_base_freq", c->rope_local_theta, NULL,
         DT_FIELD_REAL},
        {NULL, "partial_rotary_factor", c->rotary_factor, NULL, DT_FIELD_REAL},
        {NULL, "sliding_window", (double)c->window, NULL, DT_FIELD_COUNT},
        {NULL, "layer_types",
         c->window > 0 ? digest(&c->full, sizeof(c->full)) : 0, "a list",
         DT_FIELD_REAL},
        {NULL, "no_rope_layers", digest(&c->unrotated, sizeof(c->unrotated)),
         "a list", DT_FIELD_REAL},
    };
    memcpy(traits, all, sizeof(all));
}

/* Those of a model with a tower that are neither of its language model nor of
 * the tower's blocks.
 */
static void list_vision_traits(const struct dt_model_config *c,
                               struct trait traits[VISION_TRAITS])
{
    static const char *const strategies[] = {"full", "default"};
    static const char of_tower[] = "vision_config.";
    const struct dt_vision_config *v = c->vision;
    const char *type = v->family->type;
    const double merged =
        (double)(v->pooled ? dt_vision_features(v, v->grid, v->grid)
                           : v->merge);
    const bool drops = v->patch_dropped || (v->class_first && !v->class_kept);
    const struct trait all[VISION_TRAITS] = {
        {NULL, "model_type", digest(type, strlen(type)), type, DT_FIELD_REAL},
        {of_tower, "model_type",
         digest(v->tower.family->type, strlen(v->tower.family->type)),
         v->tower.family->type, DT_FIELD_REAL},
        {of_tower, "patch_size", (double)v->patch, NULL, DT_FIELD_COUNT},
        {of_tower, "temporal_patch_size", (double)v->frames, NULL,
         DT_FIELD_COUNT},
        {of_tower, "image_size", (double)(v->grid * v->patch), NULL,
         DT_FIELD_COUNT},
        {of_tower, "window_size", (double)(v->window * v->merge * v->patch),
         NULL, DT_FIELD_COUNT},
        {of_tower, "intermediate_size", (double)v->tower.n_inner, NULL,
         DT_FIELD_COUNT}, /* of Qwen2-VL, mlp_ratio */
        {of_tower, "fullatt_block_indexes",
         digest(&v->tower.full, sizeof(v->tower.full)), "a list",
         DT_FIELD_REAL},
        {of_tower, "num_position_embeddings", (double)(v->places * v->places),
         NULL, DT_FIELD_COUNT},
        {of_tower, "deepstack_visual_indexes", digest(v->deep, sizeof(v->deep)),
         "a list", DT_FIELD_REAL},
        {NULL, "vision_feature_layer", digest(v->taps, sizeof(v->taps)),
         "a list", DT_FIELD_REAL},
        {NULL, "vision_feature_select_strategy", drops, strategies[drops],
         DT_FIELD_REAL},
        {NULL, v->family->merge_key, merged, NULL, DT_FIELD_COUNT},
        {NULL, "projector_hidden_act", v->activation,
         dt_activation_name(v->activation), DT_FIELD_REAL},
        {NULL, "multimodal_projector_bias", v->projector_bias, NULL,
         DT_FIELD_FLAG},
        {NULL, "mrope_section",
         digest(c->rope_section, sizeof(c->rope_section)), "a list",
         DT_FIELD_REAL},
    };
    memcpy(traits, all, sizeof(all));
}

static void print_trait(char text[32], const struct trait *trait)
{
    if (trait->word)
        snprintf(text, 32, "%s", trait->word);
    else if (trait->type == DT_FIELD_FLAG)
        snprintf(text, 32, "%s", trait->value != 0 ? "true" : "false");
    else
        snprintf(text, 32, "%.10g", trait->value);
}

/* The index of the first trait that differs, or `count`. */
static size_t find_trait(const struct trait *was, const struct trait *is,
                         size_t count)
{
    size_t i = 0;
    while (i < count && was[i].value == is[i].value)
        i++;
    return i;
}

static struct trait field_trait(const struct dt_field *field,
                                const struct dt_model_config *config)
{
    return (struct trait){field->scalings ? "rope_scaling." : NULL, field->key,
                          dt_field_get(config, field), NULL, field->type};
}

/* Does the field differ between two models that have it? */
static bool field_differs(const struct dt_field *field,
                          const struct dt_model_config *was,
                          const struct dt_model_config *is)
{
    return dt_field_of(field, was) &&
           dt_field_get(was, field) != dt_field_get(is, field);
}

/* The field that makes `field` differ: the factor of longrope follows from two
 * lengths, unless the file has it.
 */
static const struct dt_field *find_cause(const struct dt_field *field,
                                         const struct dt_model_config *was,
                                         const struct dt_model_config *is)
{
    if (field->offset != AT(rope_factor) ||
        was->rope_scaling != DT_ROPE_LONGROPE)
        return field;
    for (const struct dt_field *length = was->family->fields; length->key;
         length++) {
        if ((length->offset == AT(n_positions) ||
             length->offset == AT(rope_original)) &&
            field_differs(length, was, is))
            return length;
    }
    return field;
}

/* The first field that differs, or NULL. */
static const struct dt_field *find_field(const struct dt_model_config *was,
                                         const struct dt_model_config *is)
{
    for (const struct dt_field *field = was->family->fields; field->key;
         field++) {
        if (field_computes(field) && field_differs(field, was, is))
            return find_cause(field, was, is);
    }
    return NULL;
}

/* The first difference of models, or of towers. */
static bool find_in_model(const struct dt_model_config *was,
                          const struct dt_model_config *is,
                          struct trait pair[2])
{
    struct trait before[TRAITS], now[TRAITS];
    list_traits(was, before);
    list_traits(is, now);
    const size_t i = find_trait(before, now, TRAITS);
    const struct dt_field *field = i < TRAITS ? NULL : find_field(was, is);
    if (i == TRAITS && !field)
        return false;
    pair[0] = field ? field_trait(field, was) : before[i];
    pair[1] = field ? field_trait(field, is) : now[i];
    return true;
}

static bool find_in_vision(const struct dt_model_config *was,
                           const struct dt_model_config *is,
                           struct trait pair[2])
{
    struct trait before[VISION_TRAITS], now[VISION_TRAITS];
    list_vision_traits(was, before);
    list_vision_traits(is, now);
    const size_t i = find_trait(before, now, VISION_TRAITS);
    if (i < VISION_TRAITS) {
        pair[0] = before[i];
        pair[1] = now[i];
        return true;
    }
    if (!find_in_model(&was->vision->tower, &is->vision->tower, pair))
        return false;
    pair[0].prefix = pair[1].prefix = "vision_config.";
    return true;
}

static bool find_difference(const struct dt_model_config *was,
                            const struct dt_model_config *is,
                            struct trait pair[2])
{
    static const char *const words[] = {"nothing", "an object"};
    const bool before = was->vision, now = is->vision;
    pair[0] = (struct trait){NULL, "vision_config", before, words[before],
                             DT_FIELD_REAL};
    pair[1] =
        (struct trait){NULL, "vision_config", now, words[now], DT_FIELD_REAL};
    return before != now || find_in_model(was, is, pair) ||
           (before && find_in_vision(was, is, pair));
}

const char *dt_model_config_differ(const struct dt_model_config *a,
                                   const struct dt_model_config *b)
{
    struct trait pair[2];
    return find_difference(a, b, pair) ? pair[0].key : NULL;
}

bool dt_model_config_change(const struct dt_model_config *was,
                            const struct dt_model_config *is,
                            struct dt_model_change *change)
{
    struct trait pair[2];
    if (!find_difference(was, is, pair))
        return false;
    snprintf(change->key, sizeof(change->key), "%s%s",
             pair[1].prefix ? pair[1].prefix : "", pair[1].key);
    print_trait(change->was, &pair[0]);
    print_trait(change->is, &pair[1]);
    if (!strcmp(change->was, change->is))
        snprintf(change->is, sizeof(change->is), "another one");
    return true;
}

static uint64_t hash_traits(const struct trait *traits, size_t count,
                            uint64_t hash)
{
    for (size_t i = 0; i < count; i++)
        hash = XXH3_64bits_withSeed(&traits[i].value, sizeof(double), hash);
    return hash;
}

static uint64_t hash_model(const struct dt_model_config *config, uint64_t hash)
{
    struct trait traits[TRAITS];
    list_traits(config, traits);
    hash = hash_traits(traits, TRAITS, hash);
    for (const struct dt_field *field = config->family->fields; field->key;
         field++) {
        double value = dt_field_get(config, field);
        if (dt_field_of(field, config) && field_computes(field))
            hash = XXH3_64bits_withSeed(&value, sizeof(value), hash);
    }
    return hash;
}

uint64_t dt_model_config_hash(const struct dt_model_config *config)
{
    struct trait traits[VISION_TRAITS];
    const uint64_t hash = hash_model(config, 0);
    if (!config->vision)
        return hash;
    list_vision_traits(config, traits);
    return hash_model(&config->vision->tower,
                      hash_traits(traits, VISION_TRAITS, hash));
}
