/* SPDX-License-Identifier: Apache-2.0 */
/* json_lines.c - lines of JSON: parsed, described in messages, and written */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "data/forms/forms_impl.h"

/* --- lines of JSON --- */

ssize_t dt_line_read(FILE *file, char **line, size_t *room, size_t most,
                     struct dt_error *err)
{
    size_t bytes = 0;
    int c = 0;
    while (c != '\n' && (c = getc_unlocked(file)) != EOF) {
        if (bytes == most)
            return dt_error_set(err, EX_DATAERR, DT_LINE_TOO_LONG);
        if (bytes + 1 >= *room) { /* with the NUL */
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

/* A remedy for invalid JSON, or "" if the error says enough. */
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

json_t *dt_line_value(const json_t *root, const char *key)
{
    json_t *value = json_object_get(root, key);
    return json_is_null(value) ? NULL : value;
}

const char *dt_line_kind(const json_t *value)
{
    const char *other = json_string_value(json_object_get(value, "not read"));
    if (!value)
        return "nothing";
    if (other) /* written by dt_row_json_other */
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

/* --- requests to stop --- */

#define ASK_S 0.1

int dt_stop_check(struct dt_stop *stop, const char *path, struct dt_error *err)
{
    const double now = stop->asked ? dt_clock_now() : 0;
    if (!stop->asked || now < stop->next)
        return 0;
    stop->next = now + ASK_S;
    return stop->asked()
               ? dt_error_set(err, EX_TEMPFAIL, "%s: stopped by a signal", path)
               : 0;
}

/* --- a file byte by byte --- */

int dt_bytes_fill(struct dt_bytes *bytes, struct dt_error *err)
{
    bytes->at = 0;
    return dt_input_read(bytes->input, bytes->buffer, sizeof(bytes->buffer),
                         &bytes->count, err);
}

int dt_bytes_look(struct dt_bytes *bytes, struct dt_error *err)
{
    if (bytes->at == bytes->count && dt_bytes_fill(bytes, err) < 0)
        return -2;
    return bytes->count > 0 ? bytes->buffer[bytes->at] : -1;
}

int dt_bytes_next(struct dt_bytes *bytes, struct dt_error *err)
{
    int c = dt_bytes_look(bytes, err);
    bytes->at += c >= 0;
    bytes->line += c == '\n';
    return c;
}

int dt_bytes_skip_mark(struct dt_bytes *bytes, struct dt_error *err)
{
    if (dt_bytes_fill(bytes, err) < 0)
        return -1;
    if (bytes->count >= 3 && memcmp(bytes->buffer, "\xef\xbb\xbf", 3) == 0)
        bytes->at = 3;
    return 0;
}

/* --- output of lines --- */

enum {
    BUFFER_BYTES = 1 << 18,
};

int dt_line_out_init(struct dt_line_out *out, const char *path, const char *dir,
                     uint64_t most, struct dt_error *err)
{
    *out =
        (struct dt_line_out){.path = path, .fd = -1, .line = 1, .most = most};
    out->buffer = malloc(BUFFER_BYTES);
    if (!out->buffer)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    out->fd = dir ? dt_file_unnamed(dir) : memfd_create("rows", MFD_CLOEXEC);
    if (out->fd >= 0)
        return 0;
    dt_error_set(err, EX_CANTCREAT, "%s: cannot write its rows to %s: %s", path,
                 dir ? dir : "memory", strerror(errno));
    dt_line_out_fini(out);
    return -1;
}

void dt_line_out_fini(struct dt_line_out *out)
{
    if (out->buffer && out->fd >= 0)
        close(out->fd);
    free(out->buffer);
    *out = (struct dt_line_out){.fd = -1};
}

static void write_all(struct dt_line_out *out, const char *bytes, size_t count)
{
    while (count > 0 && !out->failed) {
        ssize_t n = write(out->fd, bytes, count);
        if (n < 0 && errno == EINTR)
            continue;
        out->failed = n <= 0;
        out->cause = errno;
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
}

static void flush(struct dt_line_out *out)
{
    write_all(out, out->buffer, out->count);
    out->count = 0;
}

void dt_line_out_put(struct dt_line_out *out, const void *bytes, size_t count)
{
    out->bytes += count;
    if (count == 0)
        return;
    if (count > BUFFER_BYTES - out->count)
        flush(out);
    if (count > BUFFER_BYTES) {
        write_all(out, bytes, count);
        return;
    }
    memcpy(out->buffer + out->count, bytes, count);
    out->count += count;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

static void put_escape(struct dt_line_out *out, unsigned char c)
{
    char text[8];
    int n = c >= 0x20 ? snprintf(text, sizeof(text), "\\%c", c)
                      : snprintf(text, sizeof(text), "\\u%04x", c);
    dt_line_out_put(out, text, (size_t)n);
}

void dt_line_out_string(struct dt_line_out *out, const char *text, size_t count)
{
    dt_line_out_put(out, "\"", 1);
    for (size_t i = 0, first = 0; i <= count; i++) {
        if (i < count && is_plain((unsigned char)text[i]))
            continue;
        dt_line_out_put(out, text + first, i - first);
        if (i < count)
            put_escape(out, (unsigned char)text[i]);
        first = i + 1;
    }
    dt_line_out_put(out, "\"", 1);
}

static int no_room(const struct dt_line_out *out, struct dt_error *err)
{
    return dt_error_set(err, EX_IOERR,
                        "%s: no room for its rows as lines of JSON: %s "
                        "(data.cache_dir names another place)",
                        out->path, strerror(out->cause));
}

void dt_line_out_skip(struct dt_line_out *out, uint64_t line)
{
    for (; out->line < line; out->line++)
        dt_line_out_put(out, "\n", 1);
}

int dt_line_out_check(const struct dt_line_out *out, struct dt_error *err)
{
    return out->bytes - out->began <= DT_LINE_BYTES
               ? 0
               : dt_error_set(err, EX_DATAERR,
                              "%s: row %" PRIu64 ": more than 256 MiB",
                              out->path, out->line);
}

int dt_line_out_end(struct dt_line_out *out, struct dt_error *err)
{
    dt_line_out_put(out, "\n", 1);
    if (out->failed)
        return no_room(out, err);
    if (out->stop && dt_stop_check(out->stop, out->path, err) < 0)
        return -1;
    out->began = out->bytes;
    return out->line++ >= out->most && out->most > 0;
}

int dt_line_out_map(struct dt_line_out *out, struct dt_map *map,
                    struct dt_error *err)
{
    flush(out);
    *map = (struct dt_map){.bytes = out->bytes};
    if (out->failed)
        return no_room(out, err);
    if (map->bytes == 0)
        return 0;
    void *data = mmap(NULL, map->bytes, PROT_READ, MAP_SHARED, out->fd, 0);
    if (data == MAP_FAILED)
        return dt_error_set(err, EX_IOERR,
                            "%s: cannot map %zu bytes of rows: %s", out->path,
                            map->bytes, strerror(errno));
    map->data = data;
    return 0;
}

/* --- values of columns --- */

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

/* Whether a text is one whole value. Other errors, a key that occurs twice or
 * an escaped U+0000, are reported when the row is read.
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
    while (count > 0) { /* breaks are between tokens: write spaces */
        const char *lf = memchr(text, '\n', count);
        const size_t n = lf ? (size_t)(lf - text) : count;
        dt_line_out_put(out, text, n);
        dt_line_out_put(out, " ", lf != NULL);
        text += n + (lf != NULL);
        count -= n + (lf != NULL);
    }
}

static void put_object(struct dt_line_out *out, const char *key,
                       const char *text)
{
    dt_line_out_put(out, "{", 1);
    dt_row_json_name(out, key, strlen(key), true);
    dt_line_out_string(out, text, strlen(text));
    dt_line_out_put(out, "}", 1);
}

void dt_row_json_other(struct dt_line_out *out, const char *type)
{
    put_object(out, "not read", type);
}

int dt_row_json_bytes(struct dt_line_out *out, const void *data, size_t bytes,
                      struct dt_error *err)
{
    struct dt_error why;
    char name[DT_LINES_NAME];
    if (!out->keep) {
        dt_row_json_other(out, DT_ROW_NOT_READ);
        return 0;
    }
    int rc = out->keep->keep(out->keep->ctx, data, bytes, name, &why);
    if (rc == 0)
        put_object(out, "image", name);
    else if (rc > 0)
        dt_row_json_other(out, why.text);
    else if (err)
        *err = why;
    return rc < 0
               ? dt_error_prefix(err, "%s: row %" PRIu64, out->path, out->line)
               : 0;
}
