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
    enum dt_field_type type;
    bool required;
    size_t offset; /* in struct dt_model_config */
    double min, max;
    unsigned scalings; /* of RoPE that have it, a bit for each; 0: it is a key
                          of the file itself */
};

/* "default", "linear", ...: rope_type in config.json; NULL from
 * DT_ROPE_SCALINGS on.
 */
const char *dt_rope_scaling_name(enum dt_rope_scaling scaling);

/* Does a model with this scaling of RoPE have the field? */
bool dt_field_of(const struct dt_field *field,
                 const struct dt_model_config *config);

/* The value of a field as a number; flags are 0 or 1. */
double dt_field_get(const struct dt_model_config *config,
                    const struct dt_field *field);
void dt_field_set(struct dt_model_config *config, const struct dt_field *field,
                  double value);
bool dt_field_in_range(const struct dt_field *field, double value);

/* Adds "<prefix><key>: expected ..., got <got>" to problems. */
void dt_field_unexpected(const struct dt_field *field, const char *prefix,
                         const char *got, struct dt_error *problems);

#endif /* DT_MODEL_CONFIG_FIELDS_H */
