/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_machine.h - the machine of a pickle, and those of its operations that
 * know nothing of tensors; for ckpt/ only
 *
 * Every operation returns -1 with err EX_DATAERR or EX_OSERR.
 */
#ifndef DT_CKPT_TORCH_MACHINE_H
#define DT_CKPT_TORCH_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOLEAN,
    PICKLE_INTEGER,
    PICKLE_TEXT,
    PICKLE_TUPLE,
    PICKLE_DICT,
    PICKLE_GLOBAL,
    PICKLE_STORAGE,
    PICKLE_TENSOR
};

/* A value on the stack. What others refer to is in the machine's arrays. */
struct pickle_value {
    enum pickle_kind kind;
    const char *text; /* of PICKLE_TEXT, and the name of a PICKLE_STORAGE */
    size_t bytes;
    int64_t number; /* PICKLE_INTEGER; elements of a PICKLE_STORAGE */
    size_t at;      /* PICKLE_TUPLE: first of items; PICKLE_DICT, PICKLE_TENSOR:
                       which; PICKLE_GLOBAL,      PICKLE_STORAGE: index in globals */
    size_t count;   /* of a PICKLE_TUPLE's items */
};

/* An array that grows. */
struct pickle_list {
    char *at;
    size_t count, room;
};

struct pickle_machine {
    const unsigned char *bytes;
    size_t count, at, op; /* op: where the operation began */
    struct pickle_list stack, marks, memo, items, entries, tensors;
    size_t dicts;
    bool stopped;
};

/* key: value, in a dictionary */
struct pickle_entry {
    size_t dict;
    struct pickle_value key, value;
};

/* Sets "data.pkl: byte N: what"; returns -1. */
int pickle_bad(const struct pickle_machine *m, const char *what,
               struct dt_error *err);

/* Appends an item of `size` bytes, and returns it; NULL: out of memory. */
void *pickle_append(struct pickle_list *list, const void *item, size_t size,
                    struct dt_error *err);

/* Item i of a list of values. */
static inline struct pickle_value *pickle_value(const struct pickle_list *list,
                                                size_t i)
{
    return (struct pickle_value *)(void *)list->at + i;
}

/* Put a value on the stack, and take the last one above the last mark. */
int pickle_push(struct pickle_machine *m, struct pickle_value value,
                struct dt_error *err);
int pickle_pop(struct pickle_machine *m, struct pickle_value *value,
               struct dt_error *err);

/* How many values are above the last mark. */
size_t pickle_above_mark(const struct pickle_machine *m);

/* The rest of a line, which is passed. */
int pickle_take_line(struct pickle_machine *m, const char **line, size_t *bytes,
                     struct dt_error *err);

typedef int pickle_op_f(struct pickle_machine *m, struct dt_error *err);

pickle_op_f pickle_op_proto;
pickle_op_f pickle_op_none;
pickle_op_f pickle_op_bool;
pickle_op_f pickle_op_int;
pickle_op_f pickle_op_long;
pickle_op_f pickle_op_text;
pickle_op_f pickle_op_mark;
pickle_op_f pickle_op_tuple;
pickle_op_f pickle_op_small_tuple;
pickle_op_f pickle_op_dict;
pickle_op_f pickle_op_set_item;
pickle_op_f pickle_op_set_items;
pickle_op_f pickle_op_build;
pickle_op_f pickle_op_put;
pickle_op_f pickle_op_get;

#endif /* DT_CKPT_TORCH_MACHINE_H */
