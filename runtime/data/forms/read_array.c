/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_array.c - the objects of a JSON array, one a line
 *
 * Elements are copied, not parsed: only strings, brackets and white space are
 * recognized, and the parser of the lines reports errors in them.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "data/forms/forms_impl.h"

static int fail(const struct dt_bytes *bytes, const struct dt_line_out *out,
                const char *what, struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR,
                        "%s: row %" PRIu64 ": line %" PRIu64 ": %s",
                        bytes->path, out->line, bytes->line, what);
}

static int cut_short(const struct dt_bytes *bytes,
                     const struct dt_line_out *out, struct dt_error *err)
{
    return fail(bytes, out, "the file ends within its JSON array", err);
}

/* Takes the next byte that is not white space. -1: there is none; -2: err. */
static int next_token(struct dt_bytes *bytes, struct dt_error *err)
{
    int c;
    do
        c = dt_bytes_next(bytes, err);
    while (c == ' ' || c == '\t' || c == '\r' || c == '\n');
    return c;
}

/* Copies a string after its first quote. */
static int copy_string(struct dt_bytes *bytes, struct dt_line_out *out,
                       struct dt_error *err)
{
    for (bool escaped = false;;) {
        int c = dt_bytes_next(bytes, err);
        if (c < 0)
            return c == -1 ? cut_short(bytes, out, err) : -1;
        if (c == '\n')
            return fail(bytes, out, "a line break in a string: expected \\n",
                        err);
        const char byte = (char)c;
        dt_line_out_put(out, &byte, 1);
        if (dt_line_out_check(out, err) < 0)
            return -1;
        if (c == '"' && !escaped)
            return 0;
        escaped = c == '\\' && !escaped;
    }
}

/* Copies an object after its first brace. */
static int copy_object(struct dt_bytes *bytes, struct dt_line_out *out,
                       struct dt_error *err)
{
    dt_line_out_put(out, "{", 1);
    for (size_t depth = 1; depth > 0;) {
        int c = dt_bytes_next(bytes, err);
        if (c < 0)
            return c == -1 ? cut_short(bytes, out, err) : -1;
        const char byte = c == '\n' ? ' ' : (char)c;
        dt_line_out_put(out, &byte, 1);
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (c == '"' ? copy_string(bytes, out, err) < 0
                     : dt_line_out_check(out, err) < 0)
            return -1;
    }
    return 0;
}

/* Checks that nothing follows the array. */
static int check_end(struct dt_bytes *bytes, struct dt_line_out *out,
                     struct dt_error *err)
{
    int c = next_token(bytes, err);
    if (c == -1)
        return 0;
    return c < 0 ? -1
                 : fail(bytes, out, "the file goes on behind its JSON array",
                        err);
}

int dt_read_array(struct dt_bytes *bytes, struct dt_line_out *out,
                  struct dt_error *err)
{
    if (dt_bytes_skip_mark(bytes, err) < 0)
        return -1;
    int c = next_token(bytes, err); /* the first bracket */
    if (c == '[')
        c = next_token(bytes, err);
    for (bool first = true; c >= 0; first = false) {
        if (first && c == ']')
            return check_end(bytes, out, err);
        if (c != '{')
            return fail(bytes, out, "expected an object in the JSON array",
                        err);
        if (copy_object(bytes, out, err) < 0)
            return -1;
        int more = dt_line_out_end(out, err);
        if (more)
            return more < 0 ? -1 : 0;
        c = next_token(bytes, err);
        if (c == ']')
            return check_end(bytes, out, err);
        if (c >= 0 && c != ',')
            return fail(bytes, out, "expected , or ] behind an object", err);
        c = c < 0 ? c : next_token(bytes, err);
    }
    return c == -1 ? cut_short(bytes, out, err) : -1;
}
