/* SPDX-License-Identifier: Apache-2.0 */
/* line.h - a line of JSON, and what messages say of its values */
#ifndef DT_DATA_FORMS_LINE_H
#define DT_DATA_FORMS_LINE_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/error.h"

/* No line may be longer: what has no line break, or unpacks to far more than
 * the file has, is refused before there is no memory.
 */
enum { DT_LINE_BYTES = 1 << 28 };
#define DT_LINE_TOO_LONG "a line of more than 256 MiB: is a line break missing?"

/* Reads a line of at most `most` bytes with its end, and terminates it, as
 * getline does; free *line, which starts as NULL with *room 0. Returns its
 * bytes, 0 at the end of the file; -1: EX_DATAERR, it is longer; EX_IOERR;
 * EX_OSERR; without the file's name.
 */
ssize_t dt_line_read(FILE *file, char **line, size_t *room, size_t most,
                     struct dt_error *err);

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

#endif /* DT_DATA_FORMS_LINE_H */
