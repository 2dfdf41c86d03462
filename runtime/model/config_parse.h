/* SPDX-License-Identifier: Apache-2.0 */
/* config_parse.h - readers of the parts of config.json (private to model/) */
#ifndef DT_MODEL_CONFIG_PARSE_H
#define DT_MODEL_CONFIG_PARSE_H

#include "model/family.h"

/* The JSON text of a value, shortened, for "got ...". Returns text. */
const char *dt_config_text(const json_t *value, char text[64]);

/* Adds "<prefix><key>: expected <what>, got <got>" to problems. */
void dt_config_unexpected(struct dt_error *problems, const char *prefix,
                          const char *key, const char *what, const json_t *got);

/* The value of a key; NULL if it is missing or null. */
const json_t *dt_config_value(const json_t *object, const char *key);

/* Reads a field from its key in `object`; if that is missing or null, and need
 * not be there, the field stays as it is.
 */
void dt_config_parse_field(struct dt_model_config *config,
                           const struct dt_field *field, const char *prefix,
                           const json_t *object, struct dt_error *problems);

/* Reads each field of that key. */
void dt_config_parse_key(struct dt_model_config *config, const char *key,
                         const char *prefix, const json_t *object,
                         struct dt_error *problems);

/* Reads an integer >= min. If it is missing or null, *out is unchanged. */
void dt_config_parse_count(const json_t *root, const char *key, json_int_t min,
                           size_t *out, struct dt_error *problems);

/* Reads what says how positions are rotated, in the spelling of transformers 4
 * or 5. Needs the fields of the file.
 */
void dt_config_parse_rope(struct dt_model_config *config, const json_t *root,
                          struct dt_error *problems);

/* Reads which layers have a window, and in what else they differ. Needs the
 * fields of the file. A family that does not say which layers have windows is a
 * problem, too.
 */
void dt_config_parse_layers(struct dt_model_config *config, const json_t *root,
                            struct dt_error *problems);

#endif /* DT_MODEL_CONFIG_PARSE_H */
