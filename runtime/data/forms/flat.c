/* SPDX-License-Identifier: Apache-2.0 */
/* flat.c - FlatBuffers, as internals.md of FlatBuffers describes them */
#include "config.h"

#include "data/forms/forms_impl.h"

/* Reads a little-endian number; false: it is outside the bytes. */
static bool get(struct dt_flat b, uint64_t at, int width, uint64_t *value)
{
    if (at > b.count || (uint64_t)width > b.count - at)
        return false;
    *value = 0;
    for (int i = width; i-- > 0;)
        *value = *value << 8 | b.bytes[at + (uint64_t)i];
    return true;
}

static int64_t sign_extend(uint64_t value, int width)
{
    const int shift = 64 - 8 * width;
    return (int64_t)(value << shift) >> shift;
}

/* The target of the offset at `at`; 0: it is invalid. */
static size_t follow(struct dt_flat b, uint64_t at)
{
    uint64_t offset;
    if (!get(b, at, 4, &offset) || offset == 0 || offset >= b.count - at)
        return 0;
    return (size_t)(at + offset);
}

struct dt_flat_table dt_flat_root(const void *bytes, size_t count)
{
    const struct dt_flat b = {bytes, count};
    return (struct dt_flat_table){b, follow(b, 0)};
}

/* The place of a field; 0: it is absent. */
static size_t find(struct dt_flat_table t, int field)
{
    uint64_t back, bytes, offset;
    if (t.at == 0 || !get(t.buffer, t.at, 4, &back))
        return 0;
    const int64_t vtable = (int64_t)t.at - sign_extend(back, 4);
    const uint64_t slot = 4 + 2 * (uint64_t)field;
    if (vtable < 0 || !get(t.buffer, (uint64_t)vtable, 2, &bytes) ||
        slot + 2 > bytes ||
        !get(t.buffer, (uint64_t)vtable + slot, 2, &offset) || offset == 0)
        return 0;
    return t.at + (size_t)offset;
}

int64_t dt_flat_number(struct dt_flat_table table, int field, int width,
                       int64_t usual)
{
    uint64_t value;
    size_t at = find(table, field);
    return at > 0 && get(table.buffer, at, width, &value)
               ? sign_extend(value, width)
               : usual;
}

struct dt_flat_table dt_flat_child(struct dt_flat_table table, int field)
{
    size_t at = find(table, field);
    return (struct dt_flat_table){table.buffer,
                                  at > 0 ? follow(table.buffer, at) : 0};
}

struct dt_flat_vector dt_flat_vector(struct dt_flat_table table, int field,
                                     size_t width)
{
    const size_t at = dt_flat_child(table, field).at;
    uint64_t count;
    if (at == 0 || !get(table.buffer, at, 4, &count) ||
        count > (table.buffer.count - at - 4) / width)
        return (struct dt_flat_vector){table.buffer, 0, 0};
    return (struct dt_flat_vector){table.buffer, at + 4, (size_t)count};
}

struct dt_flat_table dt_flat_item(struct dt_flat_vector vector, size_t i)
{
    return (struct dt_flat_table){vector.buffer,
                                  follow(vector.buffer, vector.at + 4 * i)};
}

int64_t dt_flat_item_number(struct dt_flat_vector vector, size_t i,
                            size_t width, size_t offset)
{
    uint64_t value = 0;
    get(vector.buffer, vector.at + i * width + offset, 8, &value);
    return (int64_t)value;
}
