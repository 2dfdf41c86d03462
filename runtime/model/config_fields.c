/* SPDX-License-Identifier: Apache-2.0 */
/* config_fields.c - the fields of a model's config, their keys and ranges */
#include "config.h"

#include "model/config_fields.h"

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
    return field->scalings == 0 || field->scalings >> config->rope_scaling & 1;
}

double dt_field_get(const struct dt_model_config *config,
                    const struct dt_field *field)
{
    const void *at = (const char *)config + field->offset;
    switch (field->type) {
    case DT_FIELD_COUNT:
        return (double)*(const size_t *)at;
    case DT_FIELD_REAL:
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
    case DT_FIELD_COUNT:
        *(size_t *)at = (size_t)value;
        break;
    case DT_FIELD_REAL:
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
    if (field->type == DT_FIELD_FLAG)
        dt_error_add(problems, EX_DATAERR,
                     "%s%s: expected true or false, got %s", prefix, field->key,
                     got);
    else
        dt_error_add(problems, EX_DATAERR,
                     "%s%s: expected %s from %.15g to %.15g, got %s", prefix,
                     field->key,
                     field->type == DT_FIELD_COUNT ? "an integer" : "a number",
                     field->min, field->max, got);
}
