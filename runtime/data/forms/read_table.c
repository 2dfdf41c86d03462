/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_table.c - tables of separated values, as in RFC 4180 and pandas
 *
 * The first record names the columns. All values are strings; an empty field is
 * null, as in pandas, and no other text is. A column without a name, in which
 * pandas writes the numbers of rows, is skipped.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/forms/forms_impl.h"

enum {
    FIELDS_MAX = 65536,
};

/* A record: its fields are text up to end[0], up to end[1], ... */
struct record {
    char *text;
    size_t bytes, room;
    size_t *end;
    size_t fields, field_room;
    uint64_t line; /* where it begins */
};

struct table {
    struct dt_bytes *bytes;
    char separator;
    struct record names, row;
};

static int fail(const struct table *table, uint64_t line, const char *what,
                struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "%s:%" PRIu64 ": %s",
                        table->bytes->path, line, what);
}

static void record_fini(struct record *record)
{
    free(record->text);
    free(record->end);
}

/* --- records --- */

static int add_byte(struct table *table, struct record *r, int c,
                    struct dt_error *err)
{
    if (r->bytes == DT_LINE_BYTES)
        return fail(table, r->line,
                    "a record of more than 256 MiB begins here: is a quote "
                    "not closed?",
                    err);
    if (r->bytes == r->room) {
        size_t room = 2 * r->room + 4096;
        char *text = realloc(r->text, room);
        if (!text)
            return dt_error_set(err, EX_OSERR, "data: out of memory");
        r->text = text;
        r->room = room;
    }
    r->text[r->bytes++] = (char)c;
    return 0;
}

static int end_field(struct table *table, struct record *r,
                     struct dt_error *err)
{
    if (r->fields == FIELDS_MAX)
        return fail(table, r->line, "more than 65536 fields", err);
    if (r->fields == r->field_room) {
        size_t room = 2 * r->field_room + 16;
        size_t *end = reallocarray(r->end, room, sizeof(*end));
        if (!end)
            return dt_error_set(err, EX_OSERR, "data: out of memory");
        r->end = end;
        r->field_room = room;
    }
    r->end[r->fields++] = r->bytes;
    return 0;
}

/* Whether c ends a field; the LF of CR LF is taken. */
static bool ends_field(struct table *table, int c, struct dt_error *err)
{
    if (c == '\r' && dt_bytes_look(table->bytes, err) == '\n')
        dt_bytes_next(table->bytes, err);
    return c < 0 || c == table->separator || c == '\n' || c == '\r';
}

/* Reads a field after its first quote. Returns the byte that ends it; -1: the
 * file's end; -2: err.
 */
static int read_quoted(struct table *table, struct record *r,
                       struct dt_error *err)
{
    const uint64_t line = table->bytes->line;
    for (;;) {
        int c = dt_bytes_next(table->bytes, err);
        if (c == -1)
            fail(table, line,
                 "the quote that begins a field here is not "
                 "closed",
                 err);
        if (c < 0)
            return -2;
        if (c == '"' && dt_bytes_look(table->bytes, err) != '"')
            break;
        if (c == '"')
            dt_bytes_next(table->bytes, err);
        if (add_byte(table, r, c, err) < 0)
            return -2;
    }
    int c = dt_bytes_next(table->bytes, err);
    if (ends_field(table, c, err))
        return c;
    fail(table, table->bytes->line,
         "text behind the quote that closes a field: a quote within is "
         "written twice",
         err);
    return -2;
}

/* Reads a field; results as above. */
static int read_field(struct table *table, struct record *r,
                      struct dt_error *err)
{
    int c = dt_bytes_next(table->bytes, err);
    if (c == '"')
        return read_quoted(table, r, err);
    while (!ends_field(table, c, err)) {
        if (add_byte(table, r, c, err) < 0)
            return -2;
        c = dt_bytes_next(table->bytes, err);
    }
    return c;
}

/* Reads the next record that is not an empty line. 1, or 0 at the end. -1: err.
 */
static int read_record(struct table *table, struct record *r,
                       struct dt_error *err)
{
    int c;
    do {
        r->bytes = r->fields = 0;
        r->line = table->bytes->line;
        do {
            c = read_field(table, r, err);
            if (c == -2 || end_field(table, r, err) < 0)
                return -1;
        } while (c == table->separator);
    } while (c >= 0 && r->fields == 1 && r->bytes == 0);
    return r->fields > 1 || r->bytes > 0;
}

static const char *field(const struct record *r, size_t i, size_t *bytes)
{
    size_t begin = i > 0 ? r->end[i - 1] : 0;
    *bytes = r->end[i] - begin;
    return r->text ? r->text + begin : "";
}

/* --- the table --- */

static int check_name(const struct table *table, size_t i, struct dt_error *err)
{
    const struct record *r = &table->names;
    char shown[100];
    size_t n, m;
    const char *name = field(r, i, &n);
    for (size_t k = 0; n > 0 && k < i; k++) {
        const char *other = field(r, k, &m);
        if (n != m || memcmp(name, other, n) != 0)
            continue;
        snprintf(shown, sizeof(shown), "%.*s", (int)(n < 80 ? n : 80), name);
        dt_line_printable(shown, shown, sizeof(shown));
        return dt_error_set(err, EX_DATAERR,
                            "%s:%" PRIu64 ": two columns of the name %s",
                            table->bytes->path, r->line, shown);
    }
    return 0;
}

/* A header of one name that contains another separator is an error. */
static int check_separator(const struct table *table, struct dt_error *err)
{
    static const struct {
        char separator;
        const char *name;
    } all[] = {{',', "commas"}, {'\t', "tabs"}, {';', "semicolons"}};
    const struct record *r = &table->names;
    char what[100];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && r->fields == 1; i++)
        if (memchr(r->text, all[i].separator, r->bytes)) {
            snprintf(what, sizeof(what),
                     "names of columns separated by %s, expected %s",
                     all[i].name, all[table->separator == '\t'].name);
            return fail(table, r->line, what, err);
        }
    return 0;
}

static int read_names(struct table *table, struct dt_error *err)
{
    int rc = read_record(table, &table->names, err);
    if (rc == 0)
        return fail(table, 1, "empty: expected the names of columns", err);
    if (rc > 0 && table->names.bytes == 0)
        return fail(table, table->names.line, "expected the names of columns",
                    err);
    if (rc > 0 && check_separator(table, err) < 0)
        return -1;
    for (size_t i = 0; rc > 0 && i < table->names.fields; i++)
        rc = check_name(table, i, err) < 0 ? -1 : 1;
    return rc < 0 ? -1 : 0;
}

static void put_row(const struct table *table, struct dt_line_out *out)
{
    size_t n, m;
    char before = '{';
    for (size_t i = 0; i < table->names.fields; i++) {
        const char *name = field(&table->names, i, &n);
        const char *text = field(&table->row, i, &m);
        if (n == 0)
            continue;
        dt_line_out_put(out, &before, 1);
        dt_line_out_string(out, name, n);
        dt_line_out_put(out, ":", 1);
        if (m > 0)
            dt_line_out_string(out, text, m);
        else
            dt_line_out_put(out, "null", 4);
        before = ',';
    }
    dt_line_out_put(out, "}", 1);
}

static int read_rows(struct table *table, struct dt_line_out *out,
                     struct dt_error *err)
{
    int rc;
    while ((rc = read_record(table, &table->row, err)) > 0) {
        const struct record *row = &table->row;
        if (row->fields != table->names.fields)
            return dt_error_set(err, EX_DATAERR,
                                "%s:%" PRIu64 ": %zu fields, but the first "
                                "line names %zu columns",
                                table->bytes->path, row->line, row->fields,
                                table->names.fields);
        dt_line_out_skip(out, row->line);
        put_row(table, out);
        int more = dt_line_out_end(out, err);
        if (more)
            return more < 0 ? -1 : 0;
    }
    return rc;
}

static int read_table(struct dt_bytes *bytes, char separator,
                      struct dt_line_out *out, struct dt_error *err)
{
    struct table table = {.bytes = bytes, .separator = separator};
    int rc = dt_bytes_skip_mark(bytes, err);
    if (rc == 0)
        rc = read_names(&table, err);
    if (rc == 0)
        rc = read_rows(&table, out, err);
    record_fini(&table.names);
    record_fini(&table.row);
    return rc;
}

int dt_read_csv(struct dt_bytes *bytes, struct dt_line_out *out,
                struct dt_error *err)
{
    return read_table(bytes, ',', out, err);
}

int dt_read_tsv(struct dt_bytes *bytes, struct dt_line_out *out,
                struct dt_error *err)
{
    return read_table(bytes, '\t', out, err);
}
