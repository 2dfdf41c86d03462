/* SPDX-License-Identifier: Apache-2.0 */
/* line.h - a line of JSON, and what messages say of its values */
#ifndef DT_DATA_LINE_H
#define DT_DATA_LINE_H

#include <stddef.h>

#include <jansson.h>

#include "base/error.h"

/* Parses a line, which must be an object; release with json_decref. NULL and
 * err: EX_DATAERR, without the file's name.
 */
json_t *dt_line_parse(const char *line, size_t length, struct dt_error *err);

/* What a value is: "a string", "nothing" if it is NULL; all numbers are "a
 * number"; what columns have and JSON has not is called as there.
 */
const char *dt_line_kind(const json_t *value);

/* Copies text from a file for use in a message; control characters become '?'.
 */
void dt_line_printable(const char *text, char *out, size_t size);

/* Lists the keys of an object for a message: "a, b, c", or nothing. */
void dt_line_keys(json_t *root, char *out, size_t size);

#endif /* DT_DATA_LINE_H */
