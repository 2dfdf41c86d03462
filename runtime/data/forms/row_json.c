/* SPDX-License-Identifier: Apache-2.0 */
/* row_json.c - writes the values of columns as JSON */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/quick_json.h"
#include "data/forms/row_json.h"

void dt_row_json_name(struct dt_line_out *out, const char *name, size_t bytes,
                      bool first)
{
    dt_line_out_put(out, ",", !first);
    dt_line_out_string(out, name, bytes);
    dt_line_out_put(out, ":", 1);
}

void dt_row_json_null(struct dt_line_out *out)
{
    dt_line_out_put(out, "null", 4);
}

void dt_row_json_bool(struct dt_line_out *out, bool value)
{
    dt_line_out_put(out, value ? "true" : "false", value ? 4 : 5);
}

void dt_row_json_integer(struct dt_line_out *out, int64_t value)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%" PRId64, value);
    dt_line_out_put(out, text, (size_t)n);
}

void dt_row_json_unsigned(struct dt_line_out *out, uint64_t value)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%" PRIu64, value);
    dt_line_out_put(out, text, (size_t)n);
}

/* Writes digits, and .0 if they would be an integer. */
static void put_real(struct dt_line_out *out, const char *text)
{
    dt_line_out_put(out, text, strlen(text));
    if (!strpbrk(text, ".e"))
        dt_line_out_put(out, ".0", 2);
}

void dt_row_json_double(struct dt_line_out *out, double value)
{
    char text[40] = "";
    if (!isfinite(value)) {
        dt_row_json_null(out);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    put_real(out, text);
}

/* Whether a text is one whole value. What else is wrong with a value, a key
 * that occurs twice, or an escaped U+0000, is said when the row is read.
 */
static bool is_json(const char *text, size_t count)
{
    json_t *value = dt_quick_json(text, count);
    if (!value)
        value = json_loadb(
            text, count,
            JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
    json_decref(value);
    return value != NULL;
}

void dt_row_json_text(struct dt_line_out *out, const char *text, size_t count)
{
    if (!is_json(text, count)) {
        dt_row_json_other(out, "a text in a column of JSON that is no JSON");
        return;
    }
    while (count > 0) { /* a line break is between tokens, so a space will do */
        const char *lf = memchr(text, '\n', count);
        const size_t n = lf ? (size_t)(lf - text) : count;
        dt_line_out_put(out, text, n);
        dt_line_out_put(out, " ", lf != NULL);
        text += n + (lf != NULL);
        count -= n + (lf != NULL);
    }
}

void dt_row_json_other(struct dt_line_out *out, const char *type)
{
    dt_line_out_put(out, "{\"not read\":", 12);
    dt_line_out_string(out, type, strlen(type));
    dt_line_out_put(out, "}", 1);
}
