/* SPDX-License-Identifier: Apache-2.0 */
/* config_fields.h - keys of config.json that are fields of a model's config */
#ifndef DT_MODEL_CONFIG_FIELDS_H
#define DT_MODEL_CONFIG_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "model/model.h"

enum dt_field_type {
    DT_FIELD_COUNT, /* size_t */
    DT_FIELD_REAL,  /* double */
    DT_FIELD_FLAG,  /* bool */
};

struct dt_field {
    const char *key;
    unsigned families; /* that have it: a bit for each */
    enum dt_field_type type;
    bool required;
    size_t offset; /* in struct dt_model_config */
    double min, max;
};

extern const struct dt_field dt_model_fields[];
extern const size_t dt_model_field_count;

/* Keys of RoPE's scaling; a kind of scaling has the first few of them. */
extern const struct dt_field dt_rope_fields[];
size_t dt_rope_field_count(enum dt_rope_scaling scaling);

/* "default", "linear", "llama3": rope_type in config.json */
const char *dt_rope_scaling_name(enum dt_rope_scaling scaling);

/* "GPT2LMHeadModel", ...: the supported architecture of the family. */
const char *dt_model_architecture(enum dt_model_family family);

/* "GPT2ForSequenceClassification", ...: the same with config.scores. */
const char *dt_model_score_architecture(enum dt_model_family family);

/* "GPT2Model", ...: the same without a head. If the head is tied to the
 * embedding, its files hold all that the other has.
 */
const char *dt_model_base_architecture(enum dt_model_family family);

/* Does the family have the field? */
bool dt_field_of(const struct dt_field *field, enum dt_model_family family);

/* The value of a field as a number; flags are 0 or 1. */
double dt_field_get(const struct dt_model_config *config,
                    const struct dt_field *field);
void dt_field_set(struct dt_model_config *config, const struct dt_field *field,
                  double value);
bool dt_field_in_range(const struct dt_field *field, double value);

/* Adds "<prefix><key>: expected ..., got <got>" to problems. */
void dt_field_unexpected(const struct dt_field *field, const char *prefix,
                         const char *got, struct dt_error *problems);

/* Adds problems between several fields. Fields with a problem of their own are
 * 0.
 */
void dt_model_config_relations(const struct dt_model_config *config,
                               struct dt_error *problems);

#endif /* DT_MODEL_CONFIG_FIELDS_H */
