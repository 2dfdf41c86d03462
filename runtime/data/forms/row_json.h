/* SPDX-License-Identifier: Apache-2.0 */
/* row_json.h - values of columns as JSON, as Python writes them */
#ifndef DT_DATA_FORMS_ROW_JSON_H
#define DT_DATA_FORMS_ROW_JSON_H

#include "data/forms/line_out.h"

/* "name": before a value, with a comma unless it is the first of its object. */
void dt_row_json_name(struct dt_line_out *out, const char *name, size_t bytes,
                      bool first);

/* null, true or false, and integers. */
void dt_row_json_null(struct dt_line_out *out);
void dt_row_json_bool(struct dt_line_out *out, bool value);
void dt_row_json_integer(struct dt_line_out *out, int64_t value);
void dt_row_json_unsigned(struct dt_line_out *out, uint64_t value);

/* The shortest number that is the same double; null if it is not finite. */
void dt_row_json_double(struct dt_line_out *out, double value);

/* The value that a text of a JSON column is, on one line. One that is no JSON
 * stands for itself, as below.
 */
void dt_row_json_text(struct dt_line_out *out, const char *text, size_t count);

/* A value of a type that is not read stands for itself, so that whoever needs
 * it finds an object and no text.
 */
void dt_row_json_other(struct dt_line_out *out, const char *type);

#endif /* DT_DATA_FORMS_ROW_JSON_H */
