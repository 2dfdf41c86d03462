/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - JSON files that other programs have written */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/foreign.h"
#include "base/json.h"
#include "base/quick_json.h"

enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL };

/* What is behind the string that begins at s. */
static char *string_end(char *s)
{
    for (s++; *s && *s != '"'; s++)
        if (*s == '\\' && s[1])
            s++;
    return *s ? s + 1 : s;
}

/* Writes U+0000 in the string from s to end, if it is a key, as DT_JSON_NUL. */
static void mend_key(char *s, char *end)
{
    if (end[strspn(end, " \t\r\n")] != ':')
        return;
    for (; s < end; s += *s == '\\' ? 2 : 1)
        if (strncmp(s, "\\u0000", 6) == 0)
            memcpy(s, "\\uFDD0", 6);
}

/* Writes integers beyond 64 bits with an exponent, 123...789 as 123...e+3, and
 * keys without U+0000: all of the same length, so that positions of errors
 * stay.
 */
static void mend(char *text)
{
    for (char *s = text; *s;) {
        size_t n = strspn(s, "+-.0123456789Ee");
        if (*s == '"') {
            char *end = string_end(s);
            mend_key(s, end);
            s = end;
            continue;
        }
        errno = 0;
        if (n > 0 && strspn(s, "-0123456789") == n &&
            (strtoll(s, NULL, 10), errno == ERANGE))
            memcpy(s + n - 3, "e+3", 3);
        s += n > 0 ? n : 1;
    }
}

static json_t *parse_mended(const char *text, json_error_t *why)
{
    char *copy = strdup(text);
    if (!copy)
        return NULL;
    mend(copy);
    json_t *root = json_loads(copy, FLAGS, why);
    free(copy);
    return root;
}

json_t *dt_json_parse(const char *path, const char *text, struct dt_error *err)
{
    json_error_t why;
    const size_t bytes = strlen(text);
    if (dt_foreign_pointer(path, text, bytes, err) < 0)
        return NULL;
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) {
        dt_error_set(err, EX_DATAERR,
                     "%s: begins with a byte order mark, which JSON has not: "
                     "`sed -i '1s/^\\xef\\xbb\\xbf//' FILE` removes it",
                     path);
        return NULL;
    }
    json_t *root = dt_quick_json(text, bytes);
    if (!root)
        root = json_loads(text, FLAGS, &why);
    if (!root && (json_error_code(&why) == json_error_numeric_overflow ||
                  json_error_code(&why) == json_error_null_byte_in_key))
        root = parse_mended(text, &why);
    if (root)
        return root;
    for (char *p = why.text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    dt_error_set(err, EX_DATAERR, "%s:%d:%d: %s", path, why.line, why.column,
                 why.text);
    return NULL;
}

const char *dt_json_type_name(json_type type)
{
    switch (type) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    case JSON_TRUE:
    case JSON_FALSE:
        break;
    }
    return "a boolean";
}
