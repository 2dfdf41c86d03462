/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_csv.c - writes the records of a run as a table (RFC 4180)
 *
 * The records are read twice: for the names of the columns, then for the lines.
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report_to.h"

struct columns {
    char **names;   /* owned */
    double *values; /* of a line */
    size_t count, room;
};

static void columns_fini(struct columns *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->names[i]);
    free(c->names);
    free(c->values);
}

/* The column of a name; c->count: there is none. Names come in about the same
 * order in each record, so that the search begins behind the last one found.
 */
static size_t columns_find(const struct columns *c, const char *name,
                           size_t last)
{
    for (size_t i = 0; i < c->count; i++) {
        const size_t at = (last + 1 + i) % c->count;
        if (!strcmp(c->names[at], name))
            return at;
    }
    return c->count;
}

static int columns_add(struct columns *c, const char *name)
{
    if (c->count == c->room) {
        const size_t room = c->room ? 2 * c->room : 64;
        char **names = realloc(c->names, room * sizeof(*names));
        if (names)
            c->names = names;
        double *values = realloc(c->values, room * sizeof(*values));
        if (values)
            c->values = values;
        if (!names || !values)
            return -1;
        c->room = room;
    }
    if (!(c->names[c->count] = strdup(name)))
        return -1;
    c->count++;
    return 0;
}

static int columns_read(struct columns *c, struct dt_history *history,
                        struct dt_error *err)
{
    struct dt_report_record record;
    int more;
    while ((more = dt_history_next(history, &record, err)) > 0) {
        size_t at = 0;
        for (size_t i = 0; i < record.count; i++) {
            at = columns_find(c, record.value[i].name, at);
            if (at == c->count && columns_add(c, record.value[i].name) < 0)
                return dt_error_set(err, EX_OSERR, "out of memory");
        }
    }
    return more;
}

/* A name in quotes, if it needs them. */
static void print_name(const char *name, FILE *out)
{
    if (!strpbrk(name, ",\"\r\n")) {
        fprintf(out, ",%s", name);
        return;
    }
    fputs(",\"", out);
    for (; *name; name++)
        fprintf(out, *name == '"' ? "\"\"" : "%c", *name);
    putc('"', out);
}

static void print_number(const char *format, double value, FILE *out)
{
    putc(',', out);
    if (isfinite(value))
        fprintf(out, format, value);
}

static int print_lines(const struct columns *c, struct dt_history *history,
                       FILE *out, struct dt_error *err)
{
    struct dt_report_record record;
    int more;
    fputs("split,step,wall", out);
    for (size_t i = 0; i < c->count; i++)
        print_name(c->names[i], out);
    putc('\n', out);
    while ((more = dt_history_next(history, &record, err)) > 0) {
        size_t at = 0;
        for (size_t i = 0; i < c->count; i++)
            c->values[i] = NAN;
        for (size_t i = 0; i < record.count; i++) {
            at = columns_find(c, record.value[i].name, at);
            if (at < c->count) /* else a run that goes on has a new one */
                c->values[at] = record.value[i].value;
        }
        fprintf(out, "%s,%ld", record.split == DT_SPLIT_EVAL ? "eval" : "train",
                record.step);
        print_number("%.3f", record.wall, out);
        for (size_t i = 0; i < c->count; i++)
            print_number("%.9g", c->values[i], out);
        putc('\n', out);
    }
    return more;
}

/* Writes the lines to the file; -1 also if the disk is full. */
static int write_lines(const struct columns *c, const char *run,
                       const char *path, struct dt_error *err)
{
    struct dt_history *history = dt_history_open(run, err);
    FILE *out = history ? fopen(path, "w") : NULL;
    int rc = -1;
    if (history && !out) {
        dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", path,
                     strerror(errno));
    } else if (history) {
        rc = print_lines(c, history, out, err);
        const bool bad = ferror(out);
        if ((fclose(out) != 0 || bad) && rc == 0)
            rc = dt_error_set(err, EX_IOERR, "%s: cannot write: %s", path,
                              strerror(errno));
    }
    dt_history_destroy(history);
    return rc;
}

int dt_report_csv(const char *run, const char *path, struct dt_error *err)
{
    struct columns columns = {0};
    struct dt_history *history = dt_history_open(run, err);
    int rc = history ? columns_read(&columns, history, err) : -1;
    dt_history_destroy(history);
    if (rc == 0)
        rc = write_lines(&columns, run, path, err);
    columns_fini(&columns);
    return rc;
}
