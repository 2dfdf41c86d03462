/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_schema.c - the fields of an Arrow schema */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/forms/arrow.h"

enum { DEPTH_MAX = 16, FIELDS_MAX = 10000 };

/* Numbers of the union Type. */
enum type {
    NONE,
    NULLS,
    INT,
    FLOATING_POINT,
    BINARY,
    UTF8,
    BOOL,
    DECIMAL,
    DATE,
    TIME,
    TIMESTAMP,
    INTERVAL,
    LIST,
    STRUCT,
    UNION,
    FIXED_SIZE_BINARY,
    FIXED_SIZE_LIST,
    MAP,
    DURATION,
    LARGE_BINARY,
    LARGE_UTF8,
    LARGE_LIST
};

int dt_arrow_bad(const struct dt_arrow *arrow, const char *what,
                 struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "%s: not a whole Arrow file: %s",
                        arrow->path, what);
}

static int refuse(const struct dt_arrow *arrow,
                  const struct dt_arrow_field *field, const char *what,
                  struct dt_error *err)
{
    char name[100];
    snprintf(name, sizeof(name), "%.*s",
             (int)(field->name_bytes < 80 ? field->name_bytes : 80),
             field->name);
    for (char *p = name; *p; p++)
        *p = (unsigned char)*p < ' ' ? '?' : *p;
    return dt_error_set(err, EX_DATAERR, "%s: column %s: %s", arrow->path, name,
                        what);
}

/* Dates, decimals and the like, in bytes of a value. */
static size_t fixed_width(int type, struct dt_flat_table t)
{
    switch (type) {
    case DECIMAL:
        return (size_t)dt_flat_number(t, 2, 4, 128) / 8;
    case DATE:
        return dt_flat_number(t, 0, 2, 1) == 0 ? 4 : 8;
    case TIME:
        return (size_t)dt_flat_number(t, 1, 4, 32) / 8;
    case INTERVAL: {
        int64_t unit = dt_flat_number(t, 0, 2, 0);
        return unit == 0 ? 4 : unit == 1 ? 8 : 16;
    }
    case FIXED_SIZE_BINARY:
        return (size_t)dt_flat_number(t, 0, 4, 0);
    default: /* TIMESTAMP, DURATION */
        return 8;
    }
}

static enum dt_arrow_kind kind_of(int type, bool is_signed)
{
    switch (type) {
    case NULLS:
        return ARROW_NULL;
    case INT:
        return is_signed ? ARROW_INTEGER : ARROW_UNSIGNED;
    case FLOATING_POINT:
        return ARROW_FLOAT;
    case BINARY:
    case LARGE_BINARY:
        return ARROW_BYTES;
    case UTF8:
    case LARGE_UTF8:
        return ARROW_TEXT;
    case BOOL:
        return ARROW_BOOL;
    case LIST:
    case LARGE_LIST:
    case MAP:
        return ARROW_LIST;
    case STRUCT:
        return ARROW_STRUCT;
    case FIXED_SIZE_LIST:
        return ARROW_FIXED_LIST;
    default:
        return ARROW_FIXED;
    }
}

/* Sets kind and width of a field of a type. -1: err. */
static int set_type(const struct dt_arrow *arrow, struct dt_arrow_field *field,
                    int type, struct dt_flat_table t, struct dt_error *err)
{
    if (type <= NONE || type == UNION || type > LARGE_LIST)
        return refuse(arrow, field,
                      "a union, a view or run-ends of Arrow, which are not "
                      "read: write plain columns",
                      err);
    field->kind = kind_of(type, dt_flat_number(t, 1, 1, 0) != 0);
    switch (field->kind) {
    case ARROW_INTEGER:
    case ARROW_UNSIGNED:
        field->width = (size_t)dt_flat_number(t, 0, 4, 0) / 8;
        break;
    case ARROW_FLOAT: /* half, single, double: halves are not read */
        field->width = (size_t)2 << (dt_flat_number(t, 0, 2, 0) & 3);
        field->kind = field->width == 2 ? ARROW_FIXED : ARROW_FLOAT;
        break;
    case ARROW_TEXT:
    case ARROW_BYTES:
    case ARROW_LIST:
        field->width = type >= LARGE_BINARY ? 8 : 4;
        break;
    case ARROW_FIXED_LIST:
        field->width = (size_t)dt_flat_number(t, 0, 4, 0);
        break;
    case ARROW_FIXED:
        field->width = fixed_width(type, t);
        break;
    default:
        break;
    }
    const bool number = field->kind == ARROW_INTEGER ||
                        field->kind == ARROW_UNSIGNED ||
                        field->kind == ARROW_FLOAT;
    if (field->width > 1 << 20 ||
        (number && field->width != 1 && field->width != 2 &&
         field->width != 4 && field->width != 8))
        return dt_arrow_bad(arrow, "a type of an unknown width", err);
    return 0;
}

static int add_fields(struct dt_arrow *arrow, struct dt_flat_vector fields,
                      int depth, struct dt_error *err);

static int set_name(struct dt_arrow *arrow, struct dt_arrow_field *field,
                    struct dt_flat_table table, struct dt_error *err)
{
    const struct dt_flat_vector name = dt_flat_vector(table, 0, 1);
    field->name = malloc(name.count + 1);
    if (!field->name)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", arrow->path);
    if (name.count > 0)
        memcpy(field->name, name.buffer.bytes + name.at, name.count);
    field->name_bytes = name.count;
    return 0;
}

static bool is_string(struct dt_flat_table table, int field, const char *text)
{
    const struct dt_flat_vector s = dt_flat_vector(table, field, 1);
    return s.count == strlen(text) &&
           memcmp(s.buffer.bytes + s.at, text, s.count) == 0;
}

/* Whether the metadata of a field say that its texts are JSON. */
static bool is_json(struct dt_flat_table table)
{
    const struct dt_flat_vector pairs = dt_flat_vector(table, 6, 4);
    for (size_t i = 0; i < pairs.count; i++) {
        const struct dt_flat_table pair = dt_flat_item(pairs, i);
        if (is_string(pair, 0, "ARROW:extension:name"))
            return is_string(pair, 1, "arrow.json");
    }
    return false;
}

/* Adds a field and all below it. */
static int add_field(struct dt_arrow *arrow, struct dt_flat_table table,
                     int depth, struct dt_error *err)
{
    const size_t f = arrow->count;
    struct dt_arrow_field *field = &arrow->fields[f];
    const struct dt_flat_vector children = dt_flat_vector(table, 5, 4);
    if (table.at == 0 || f == FIELDS_MAX || depth == DEPTH_MAX)
        return dt_arrow_bad(arrow, "its schema is damaged or too large", err);
    arrow->count++;
    if (set_name(arrow, field, table, err) < 0 ||
        set_type(arrow, field, (int)dt_flat_number(table, 2, 1, 0),
                 dt_flat_child(table, 3), err) < 0)
        return -1;
    if (field->kind == ARROW_TEXT && is_json(table))
        field->kind = ARROW_JSON;
    if (dt_flat_child(table, 4).at > 0)
        return refuse(arrow, field,
                      "dictionary-encoded, which is not read: write it as "
                      "plain strings",
                      err);
    const bool list =
        field->kind == ARROW_LIST || field->kind == ARROW_FIXED_LIST;
    if (list ? children.count != 1
             : field->kind != ARROW_STRUCT && children.count > 0)
        return dt_arrow_bad(arrow, "its schema is damaged", err);
    field->children = children.count;
    if (add_fields(arrow, children, depth + 1, err) < 0)
        return -1;
    field->next = arrow->count;
    return 0;
}

static int add_fields(struct dt_arrow *arrow, struct dt_flat_vector fields,
                      int depth, struct dt_error *err)
{
    for (size_t i = 0; i < fields.count; i++)
        if (add_field(arrow, dt_flat_item(fields, i), depth, err) < 0)
            return -1;
    return 0;
}

int dt_arrow_init(struct dt_arrow *arrow, const char *path,
                  struct dt_flat_table schema, struct dt_error *err)
{
    const struct dt_flat_vector fields = dt_flat_vector(schema, 1, 4);
    *arrow = (struct dt_arrow){.path = path};
    arrow->fields = calloc(FIELDS_MAX, sizeof(*arrow->fields));
    if (!arrow->fields)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    if (dt_flat_number(schema, 0, 2, 0) != 0)
        return dt_arrow_bad(arrow, "its numbers are not little-endian", err);
    if (fields.count == 0)
        return dt_arrow_bad(arrow, "it has no columns", err);
    arrow->fields[0].kind = ARROW_STRUCT;
    arrow->fields[0].children = fields.count;
    arrow->count = 1;
    if (add_fields(arrow, fields, 1, err) < 0)
        return -1;
    arrow->fields[0].next = arrow->count;
    return 0;
}

void dt_arrow_fini(struct dt_arrow *arrow)
{
    for (size_t i = 0; i < arrow->count; i++)
        free(arrow->fields[i].name);
    free(arrow->fields);
    *arrow = (struct dt_arrow){0};
}
