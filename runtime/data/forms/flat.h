/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flat.h - reads tables of FlatBuffers, each place checked
 *
 * A table is where its offset to the vtable stands; the vtable gives its size,
 * that of the table and, for each field, where it is in the table, 0: nowhere.
 * What is not within the bytes is absent.
 */
#ifndef DT_DATA_FORMS_FLAT_H
#define DT_DATA_FORMS_FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_flat {
    const uint8_t *bytes;
    size_t count;
};

/* A table; at == 0: there is none. */
struct dt_flat_table {
    struct dt_flat buffer;
    size_t at;
};

/* A vector of `count` items that begin at `at`; an absent one has none. */
struct dt_flat_vector {
    struct dt_flat buffer;
    size_t at, count;
};

/* The table that the bytes begin with a pointer to. */
struct dt_flat_table dt_flat_root(const void *bytes, size_t count);

/* Field number `field`, from 0 on: a number of `width` bytes, sign-extended, or
 * `usual` if it is absent.
 */
int64_t dt_flat_number(struct dt_flat_table table, int field, int width,
                       int64_t usual);
struct dt_flat_table dt_flat_child(struct dt_flat_table table, int field);

/* A vector of items of `width` bytes. */
struct dt_flat_vector dt_flat_vector(struct dt_flat_table table, int field,
                                     size_t width);

/* Item i < count of a vector of tables, and of one of numbers (or structures)
 * with the number at byte `offset` of the item.
 */
struct dt_flat_table dt_flat_item(struct dt_flat_vector vector, size_t i);
int64_t dt_flat_item_number(struct dt_flat_vector vector, size_t i,
                            size_t width, size_t offset);

#endif /* DT_DATA_FORMS_FLAT_H */
