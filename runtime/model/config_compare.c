/* SPDX-License-Identifier: Apache-2.0 */
/* config_compare.c - whether two models compute alike */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "model/family.h"

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

/* A property that is none of the fields, as a number, and in words if it has
 * some.
 */
struct trait {
    const char *key;
    double value;
    const char *word;
};

enum { TRAITS = 11 };

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
        {"model_type", digest(c->family->type, strlen(c->family->type)),
         c->family->type},
        {"architectures", c->scores, heads[c->scores]},
        {c->family->activation, c->gate, dt_activation_name(c->gate)},
        {"rope_scaling.rope_type", c->rope_scaling,
         dt_rope_scaling_name(c->rope_scaling)},
        {"rope_scaling.short_factor",
         factors ? digest(c->rope_short, sizeof(c->rope_short)) : 0, "a list"},
        {"rope_scaling.long_factor",
         factors ? digest(c->rope_long, sizeof(c->rope_long)) : 0, "a list"},
        {"rope_local_base_freq", c->rope_local_theta, NULL},
        {"partial_rotary_factor", c->rotary_factor, NULL},
        {"sliding_window", (double)c->window, NULL},
        {"layer_types", c->window > 0 ? digest(&c->full, sizeof(c->full)) : 0,
         "a list"},
        {"no_rope_layers", digest(&c->unrotated, sizeof(c->unrotated)),
         "a list"},
    };
    memcpy(traits, all, sizeof(all));
}

static void print_value(char text[32], double value, enum dt_field_type type)
{
    if (type == DT_FIELD_FLAG)
        snprintf(text, 32, "%s", value != 0 ? "true" : "false");
    else
        snprintf(text, 32, "%.10g", value);
}

static void print_trait(char text[32], const struct trait *trait)
{
    if (trait->word)
        snprintf(text, 32, "%s", trait->word);
    else
        print_value(text, trait->value, DT_FIELD_REAL);
}

/* The index of the first trait that differs, or TRAITS. */
static size_t find_trait(const struct trait *was, const struct trait *is)
{
    size_t i = 0;
    while (i < TRAITS && was[i].value == is[i].value)
        i++;
    return i;
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

const char *dt_model_config_differ(const struct dt_model_config *a,
                                   const struct dt_model_config *b)
{
    struct trait was[TRAITS], is[TRAITS];
    list_traits(a, was);
    list_traits(b, is);
    const size_t i = find_trait(was, is);
    const struct dt_field *field = i < TRAITS ? NULL : find_field(a, b);
    return i < TRAITS ? was[i].key : field ? field->key : NULL;
}

bool dt_model_config_change(const struct dt_model_config *was,
                            const struct dt_model_config *is,
                            struct dt_model_change *change)
{
    struct trait before[TRAITS], now[TRAITS];
    list_traits(was, before);
    list_traits(is, now);
    const size_t i = find_trait(before, now);
    const struct dt_field *field = i < TRAITS ? NULL : find_field(was, is);
    if (i == TRAITS && !field)
        return false;
    if (field) {
        snprintf(change->key, sizeof(change->key), "%s%s",
                 field->scalings ? "rope_scaling." : "", field->key);
        print_value(change->was, dt_field_get(was, field), field->type);
        print_value(change->is, dt_field_get(is, field), field->type);
        return true;
    }
    snprintf(change->key, sizeof(change->key), "%s", now[i].key);
    print_trait(change->was, &before[i]);
    print_trait(change->is, &now[i]);
    if (!strcmp(change->was, change->is))
        snprintf(change->is, sizeof(change->is), "another one");
    return true;
}

uint64_t dt_model_config_hash(const struct dt_model_config *config)
{
    struct trait traits[TRAITS];
    uint64_t hash = 0;
    list_traits(config, traits);
    for (size_t i = 0; i < TRAITS; i++)
        hash = XXH3_64bits_withSeed(&traits[i].value, sizeof(double), hash);
    for (const struct dt_field *field = config->family->fields; field->key;
         field++) {
        double value = dt_field_get(config, field);
        if (dt_field_of(field, config) && field_computes(field))
            hash = XXH3_64bits_withSeed(&value, sizeof(value), hash);
    }
    return hash;
}
