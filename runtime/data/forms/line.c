/* SPDX-License-Identifier: Apache-2.0 */
/* line.c - parses lines of JSON, and describes their values for messages */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "data/forms/line.h"
#include "base/quick_json.h"

ssize_t dt_line_read(FILE *file, char **line, size_t *room, size_t most,
                     struct dt_error *err)
{
    size_t bytes = 0;
    int c = 0;
    while (c != '\n' && (c = getc_unlocked(file)) != EOF) {
        if (bytes == most)
            return dt_error_set(err, EX_DATAERR, DT_LINE_TOO_LONG);
        if (bytes + 1 >= *room) { /* of its NUL, too */
            const size_t larger = 2 * *room + 4096;
            char *grown = realloc(*line, larger);
            if (!grown)
                return dt_error_set(err, EX_OSERR, "out of memory");
            *line = grown;
            *room = larger;
        }
        (*line)[bytes++] = (char)c;
    }
    if (ferror(file))
        return dt_error_set(err, EX_IOERR, "cannot read: %s", strerror(errno));
    if (bytes > 0)
        (*line)[bytes] = '\0';
    return (ssize_t)bytes;
}

void dt_line_printable(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; text[n] && n + 1 < size; n++)
        out[n] =
            (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
    out[n] = '\0';
}

/* What to do about what is no JSON; "": that is seen. */
static const char *advice_of(const json_error_t *at)
{
    switch (json_error_code(at)) {
    case json_error_invalid_utf8:
        return ": not UTF-8: `iconv -f LATIN1 -t UTF-8` makes UTF-8 of Latin-1";
    case json_error_premature_end_of_input:
        return ": each line must be a whole object: `jq -c . FILE` makes such "
               "lines";
    default:
        return strstr(at->text, "near 'NaN'") ||
                       strstr(at->text, "near '-Infinity'") ||
                       strstr(at->text, "near 'Infinity'")
                   ? ": JSON has no such number: write null"
                   : "";
    }
}

static int syntax_error(const json_error_t *at, struct dt_error *err)
{
    char text[JSON_ERROR_TEXT_LENGTH];
    if (json_error_code(at) == json_error_null_character)
        return dt_error_set(err, EX_DATAERR,
                            "byte %d: U+0000 in a string (\\u0000) is not read "
                            "here: remove it",
                            at->position);
    dt_line_printable(at->text, text, sizeof(text));
    return dt_error_set(err, EX_DATAERR, "byte %d: %s%s", at->position, text,
                        advice_of(at));
}

json_t *dt_line_parse(const char *line, size_t length, struct dt_error *err)
{
    json_error_t at;
    if (length > DT_LINE_BYTES) {
        dt_error_set(err, EX_DATAERR, DT_LINE_TOO_LONG);
        return NULL;
    }
    json_t *root = dt_quick_json(line, length);
    if (!root)
        root = json_loadb(line, length, JSON_REJECT_DUPLICATES, &at);
    if (!root && json_error_code(&at) == json_error_numeric_overflow)
        root =
            json_loadb(line, length,
                       JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &at);
    if (!root) {
        syntax_error(&at, err);
        return NULL;
    }
    if (!json_is_object(root)) {
        dt_error_set(err, EX_DATAERR, "expected an object, got an array");
        json_decref(root);
        return NULL;
    }
    return root;
}

const char *dt_line_kind(const json_t *value)
{
    const char *other = json_string_value(json_object_get(value, "not read"));
    if (!value)
        return "nothing";
    if (other) /* of dt_row_json_other */
        return other;
    return dt_json_type_name(json_is_number(value) ? JSON_REAL
                                                   : json_typeof(value));
}

void dt_line_keys(json_t *root, char *out, size_t size)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    out[0] = '\0';
    json_object_foreach(root, key, value)
    {
        if (n + strlen(key) + 3 >= size)
            continue;
        if (n > 0)
            n += (size_t)snprintf(out + n, size - n, ", ");
        dt_line_printable(key, out + n, size - n);
        n += strlen(key);
    }
}
