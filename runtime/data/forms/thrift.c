/* SPDX-License-Identifier: Apache-2.0 */
/* thrift.c - numbers, lists and fields of Thrift's compact protocol */
#include "config.h"

#include "data/forms/forms_impl.h"

enum { DEPTH_MAX = 32 };

static uint8_t next_byte(struct dt_thrift *t)
{
    t->bad |= t->at == t->end;
    return t->bad ? 0 : *t->at++;
}

uint64_t dt_thrift_varint(struct dt_thrift *t)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = next_byte(t);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    t->bad = true;
    return 0;
}

static int64_t zigzag(struct dt_thrift *t)
{
    uint64_t value = dt_thrift_varint(t);
    return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

bool dt_thrift_next(struct dt_thrift *t, struct dt_thrift_field *field)
{
    uint8_t byte = next_byte(t);
    field->type = (enum dt_thrift_type)(byte & 15);
    if (t->bad || field->type == THRIFT_STOP)
        return false;
    if (byte >> 4)
        field->id += byte >> 4;
    else
        field->id = (int16_t)zigzag(t);
    return !t->bad;
}

static void pass(struct dt_thrift *t, uint64_t bytes)
{
    if (t->bad || bytes > (uint64_t)(t->end - t->at))
        t->bad = true;
    else
        t->at += bytes;
}

/* The number of items, and their *type. */
static size_t list_head(struct dt_thrift *t, enum dt_thrift_type *type)
{
    uint8_t byte = next_byte(t);
    uint64_t count = byte >> 4;
    *type = (enum dt_thrift_type)(byte & 15);
    if (count == 15)
        count = dt_thrift_varint(t);
    t->bad |= count > (uint64_t)(t->end - t->at);
    return t->bad ? 0 : (size_t)count;
}

static void skip(struct dt_thrift *t, enum dt_thrift_type type, int depth);

/* Skips an item. A boolean in a list or a map is a byte, so that each item has
 * bytes.
 */
static void skip_item(struct dt_thrift *t, enum dt_thrift_type type, int depth)
{
    if (type == THRIFT_TRUE || type == THRIFT_FALSE)
        pass(t, 1);
    else
        skip(t, type, depth);
}

static void skip_list(struct dt_thrift *t, int depth)
{
    enum dt_thrift_type type;
    for (size_t n = list_head(t, &type); n > 0 && !t->bad; n--)
        skip_item(t, type, depth);
}

static void skip_map(struct dt_thrift *t, int depth)
{
    uint64_t count = dt_thrift_varint(t);
    uint8_t types = count > 0 ? next_byte(t) : 0;
    for (; count > 0 && !t->bad; count--) {
        skip_item(t, (enum dt_thrift_type)(types >> 4), depth);
        skip_item(t, (enum dt_thrift_type)(types & 15), depth);
    }
}

static void skip(struct dt_thrift *t, enum dt_thrift_type type, int depth)
{
    struct dt_thrift_field field = {0};
    if (depth == DEPTH_MAX)
        t->bad = true;
    if (t->bad)
        return;
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE:
        break;
    case THRIFT_BYTE:
        pass(t, 1);
        break;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64:
        dt_thrift_varint(t);
        break;
    case THRIFT_DOUBLE:
        pass(t, 8);
        break;
    case THRIFT_BINARY:
        pass(t, dt_thrift_varint(t));
        break;
    case THRIFT_LIST:
    case THRIFT_SET:
        skip_list(t, depth + 1);
        break;
    case THRIFT_MAP:
        skip_map(t, depth + 1);
        break;
    case THRIFT_STRUCT:
        while (dt_thrift_next(t, &field))
            skip(t, field.type, depth + 1);
        break;
    case THRIFT_STOP:
    default:
        t->bad = true;
    }
}

void dt_thrift_skip(struct dt_thrift *t, enum dt_thrift_type type)
{
    skip(t, type, 0);
}

int64_t dt_thrift_integer(struct dt_thrift *t,
                          const struct dt_thrift_field *field)
{
    t->bad |= field->type < THRIFT_I16 || field->type > THRIFT_I64;
    return t->bad ? 0 : zigzag(t);
}

const char *dt_thrift_binary(struct dt_thrift *t,
                             const struct dt_thrift_field *field, size_t *bytes)
{
    *bytes = 0;
    t->bad |= field->type != THRIFT_BINARY;
    uint64_t count = t->bad ? 0 : dt_thrift_varint(t);
    const uint8_t *at = t->at;
    pass(t, count);
    *bytes = t->bad ? 0 : (size_t)count;
    return (const char *)at;
}

size_t dt_thrift_list(struct dt_thrift *t, const struct dt_thrift_field *field,
                      enum dt_thrift_type type)
{
    enum dt_thrift_type found;
    t->bad |= field->type != THRIFT_LIST;
    size_t count = t->bad ? 0 : list_head(t, &found);
    t->bad |= count > 0 && found != type;
    return t->bad ? 0 : count;
}

void dt_thrift_numbers(struct dt_thrift *t,
                       const struct dt_thrift_number *numbers, size_t count)
{
    struct dt_thrift_field field = {0};
    while (dt_thrift_next(t, &field)) {
        size_t i = 0;
        while (i < count && numbers[i].id != field.id)
            i++;
        if (i == count)
            dt_thrift_skip(t, field.type);
        else if (numbers[i].flag)
            *numbers[i].to = field.type == THRIFT_TRUE;
        else
            *numbers[i].to = (uint64_t)dt_thrift_integer(t, &field);
    }
}
