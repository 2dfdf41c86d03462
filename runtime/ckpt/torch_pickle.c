/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_pickle.c - makes tensors of the calls in a pickle, and calls nothing
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/torch_machine.h"
#include "ckpt/torch_pickle.h"

static const char *const kinds[] = {
    [PICKLE_NONE] = "None",         [PICKLE_BOOLEAN] = "a truth value",
    [PICKLE_INTEGER] = "a number",  [PICKLE_TEXT] = "a text",
    [PICKLE_TUPLE] = "a tuple",     [PICKLE_DICT] = "a dictionary",
    [PICKLE_GLOBAL] = "a function", [PICKLE_STORAGE] = "a storage",
    [PICKLE_TENSOR] = "a tensor"};

struct tensor {
    struct pickle_tensor t; /* without a name */
    bool ordered;           /* its elements are in the order of the shape */
};

/* Functions that may be named, and types of storages. */
static const struct {
    const char *module, *name, *dtype; /* dtype: a type */
} globals[] = {
    {"collections", "OrderedDict", NULL},
    {"torch._utils", "_rebuild_tensor_v2", NULL},
    {"torch._utils", "_rebuild_parameter", NULL},
    {"torch", "FloatStorage", "F32"},
    {"torch", "HalfStorage", "F16"},
    {"torch", "BFloat16Storage", "BF16"},
    {"torch", "DoubleStorage", "F64"},
    {"torch", "LongStorage", "I64"},
    {"torch", "IntStorage", "I32"},
    {"torch", "ShortStorage", "I16"},
    {"torch", "CharStorage", "I8"},
    {"torch", "ByteStorage", "U8"},
    {"torch", "BoolStorage", "BOOL"},
};
enum { ORDERED_DICT, REBUILD_TENSOR, REBUILD_PARAMETER };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static int op_global(struct pickle_machine *m, struct dt_error *err)
{
    char text[200];
    const char *module, *name;
    size_t n, k;
    if (pickle_take_line(m, &module, &n, err) < 0 ||
        pickle_take_line(m, &name, &k, err) < 0)
        return -1;
    for (size_t i = 0; i < LENGTH(globals); i++)
        if (strlen(globals[i].module) == n &&
            memcmp(globals[i].module, module, n) == 0 &&
            strlen(globals[i].name) == k &&
            memcmp(globals[i].name, name, k) == 0)
            return pickle_push(
                m, (struct pickle_value){.kind = PICKLE_GLOBAL, .at = i}, err);
    snprintf(text, sizeof(text),
             "%.*s.%.*s is not part of a dictionary of tensors; it was not "
             "called",
             (int)(n < 60 ? n : 60), module, (int)(k < 60 ? k : 60), name);
    return pickle_bad(m, text, err);
}

/* --- storages and tensors --- */

/* Pops a tuple that begins with values of `count` > 0 kinds. NULL: err. */
static const struct pickle_value *pop_tuple(struct pickle_machine *m,
                                            const enum pickle_kind *wanted,
                                            size_t count, struct dt_error *err)
{
    struct pickle_value tuple;
    if (pickle_pop(m, &tuple, err) < 0)
        return NULL;
    bool fits = tuple.kind == PICKLE_TUPLE && tuple.count >= count;
    for (size_t i = 0; fits && i < count; i++)
        fits = pickle_value(&m->items, tuple.at + i)->kind == wanted[i];
    if (fits)
        return pickle_value(&m->items, tuple.at);
    pickle_bad(m, "arguments that torch.save does not write", err);
    return NULL;
}

/* OrderedDict() */
static int make_dict(struct pickle_machine *m, struct dt_error *err)
{
    struct pickle_value tuple;
    if (pickle_pop(m, &tuple, err) < 0)
        return -1;
    return tuple.kind == PICKLE_TUPLE && tuple.count == 0
               ? pickle_op_dict(m, err)
               : pickle_bad(m, "a dictionary that is made of something", err);
}

/* BINPERSID: ("storage", type, name, place, elements) */
static int op_storage(struct pickle_machine *m, struct dt_error *err)
{
    static const enum pickle_kind wanted[] = {
        PICKLE_TEXT, PICKLE_GLOBAL, PICKLE_TEXT, PICKLE_TEXT, PICKLE_INTEGER};
    const struct pickle_value *v = pop_tuple(m, wanted, LENGTH(wanted), err);
    if (!v)
        return -1;
    if (v[0].bytes != 7 || memcmp(v[0].text, "storage", 7) != 0 ||
        !globals[v[1].at].dtype || v[4].number < 0)
        return pickle_bad(m, "a storage that torch.save does not write", err);
    return pickle_push(m,
                       (struct pickle_value){.kind = PICKLE_STORAGE,
                                             .text = v[2].text,
                                             .bytes = v[2].bytes,
                                             .number = v[4].number,
                                             .at = v[1].at},
                       err);
}

/* Sets the shape, and whether strides and shape are of elements in order. */
static int set_shape(struct pickle_machine *m, struct tensor *tensor,
                     const struct pickle_value *shape,
                     const struct pickle_value *strides, struct dt_error *err)
{
    uint64_t count = 1;
    if (shape->count > PICKLE_MAX_DIMS || strides->count != shape->count)
        return pickle_bad(m, "a tensor of more than 8 dimensions", err);
    tensor->t.ndim = (int)shape->count;
    tensor->ordered = true;
    for (size_t d = shape->count; d-- > 0;) {
        const struct pickle_value *size =
            pickle_value(&m->items, shape->at + d);
        const struct pickle_value *stride =
            pickle_value(&m->items, strides->at + d);
        if (size->kind != PICKLE_INTEGER || stride->kind != PICKLE_INTEGER ||
            size->number < 0)
            return pickle_bad(m, "a shape that is not of numbers", err);
        if (size->number > 1 && (uint64_t)stride->number != count)
            tensor->ordered = false;
        tensor->t.shape[d] = (uint64_t)size->number;
        if (__builtin_mul_overflow(count, tensor->t.shape[d], &count))
            return pickle_bad(m, "a shape whose product overflows", err);
    }
    return 0;
}

/* _rebuild_tensor_v2(storage, first, shape, strides, requires_grad, hooks) */
static int rebuild_tensor(struct pickle_machine *m, struct dt_error *err)
{
    static const enum pickle_kind wanted[] = {PICKLE_STORAGE, PICKLE_INTEGER,
                                              PICKLE_TUPLE,   PICKLE_TUPLE,
                                              PICKLE_BOOLEAN, PICKLE_DICT};
    const struct pickle_value *v = pop_tuple(m, wanted, LENGTH(wanted), err);
    if (!v)
        return -1;
    struct tensor tensor = {.t = {.dtype = globals[v[0].at].dtype,
                                  .storage = v[0].text,
                                  .storage_bytes = v[0].bytes,
                                  .first = (uint64_t)v[1].number}};
    if (v[1].number < 0)
        return pickle_bad(m, "a tensor before its storage", err);
    if (set_shape(m, &tensor, &v[2], &v[3], err) < 0)
        return -1;
    const struct pickle_value value = {.kind = PICKLE_TENSOR,
                                       .at = m->tensors.count};
    return pickle_append(&m->tensors, &tensor, sizeof(tensor), err)
               ? pickle_push(m, value, err)
               : -1;
}

/* _rebuild_parameter(tensor, requires_grad, hooks) */
static int rebuild_parameter(struct pickle_machine *m, struct dt_error *err)
{
    static const enum pickle_kind wanted[] = {PICKLE_TENSOR, PICKLE_BOOLEAN,
                                              PICKLE_DICT};
    const struct pickle_value *v = pop_tuple(m, wanted, LENGTH(wanted), err);
    return v ? pickle_push(m, *v, err) : -1;
}

/* Calls, of which three are known. */
static int op_reduce(struct pickle_machine *m, struct dt_error *err)
{
    struct pickle_value function;
    if (pickle_above_mark(m) < 2)
        return pickle_bad(m, "a call without a function", err);
    function = *pickle_value(&m->stack, m->stack.count - 2);
    *pickle_value(&m->stack, m->stack.count - 2) =
        *pickle_value(&m->stack, m->stack.count - 1);
    m->stack.count--;
    if (function.kind != PICKLE_GLOBAL)
        return pickle_bad(m, "a call of something that is no function", err);
    switch (function.at) {
    case ORDERED_DICT:
        return make_dict(m, err);
    case REBUILD_TENSOR:
        return rebuild_tensor(m, err);
    case REBUILD_PARAMETER:
        return rebuild_parameter(m, err);
    default:
        return pickle_bad(m, "a call of a type", err);
    }
}

static int op_stop(struct pickle_machine *m, struct dt_error *err)
{
    (void)err;
    m->stopped = true;
    return 0;
}

/* --- the machine --- */

static pickle_op_f *const operations[256] = {
    [0x80] = pickle_op_proto,
    ['N'] = pickle_op_none,
    [0x88] = pickle_op_bool,
    [0x89] = pickle_op_bool,
    ['J'] = pickle_op_int,
    ['K'] = pickle_op_int,
    ['M'] = pickle_op_int,
    [0x8a] = pickle_op_long,
    ['X'] = pickle_op_text,
    ['c'] = op_global,
    ['('] = pickle_op_mark,
    ['t'] = pickle_op_tuple,
    [')'] = pickle_op_small_tuple,
    [0x85] = pickle_op_small_tuple,
    [0x86] = pickle_op_small_tuple,
    [0x87] = pickle_op_small_tuple,
    ['}'] = pickle_op_dict,
    ['s'] = pickle_op_set_item,
    ['u'] = pickle_op_set_items,
    ['b'] = pickle_op_build,
    ['q'] = pickle_op_put,
    ['r'] = pickle_op_put,
    ['h'] = pickle_op_get,
    ['j'] = pickle_op_get,
    ['Q'] = op_storage,
    ['R'] = op_reduce,
    ['.'] = op_stop,
};

static int run(struct pickle_machine *m, struct dt_error *err)
{
    while (!m->stopped) {
        m->op = m->at;
        if (m->at == m->count)
            return pickle_bad(m, "the pickle has no end", err);
        const unsigned char op = m->bytes[m->at++];
        if (!operations[op])
            return dt_error_set(err, EX_DATAERR,
                                "data.pkl: byte %zu: operation 0x%02x, which "
                                "torch.save of a dictionary of tensors does "
                                "not need",
                                m->op, op);
        if (operations[op](m, err) < 0)
            return -1;
    }
    return 0;
}

/* Calls add() for an item of the dictionary that was saved. */
static int add_tensor(const struct pickle_machine *m,
                      const struct pickle_entry *e,
                      int (*add)(void *ctx, const struct pickle_tensor *tensor,
                                 struct dt_error *err),
                      void *ctx, struct dt_error *err)
{
    const int shown = (int)(e->key.bytes < 100 ? e->key.bytes : 100);
    if (e->key.kind != PICKLE_TEXT)
        return dt_error_set(err, EX_DATAERR,
                            "data.pkl: expected names of tensors, got %s",
                            kinds[e->key.kind]);
    if (e->value.kind != PICKLE_TENSOR)
        return dt_error_set(err, EX_DATAERR,
                            "data.pkl: \"%.*s\" is %s: expected a tensor",
                            shown, e->key.text, kinds[e->value.kind]);
    const struct tensor *from =
        (const struct tensor *)(const void *)m->tensors.at + e->value.at;
    struct pickle_tensor tensor = from->t;
    tensor.name = e->key.text;
    tensor.name_bytes = e->key.bytes;
    if (!from->ordered)
        return dt_error_set(err, EX_DATAERR,
                            "data.pkl: \"%.*s\" is not in the order of its "
                            "shape: save its contiguous()",
                            shown, e->key.text);
    return add(ctx, &tensor, err);
}

static int add_all(const struct pickle_machine *m,
                   int (*add)(void *ctx, const struct pickle_tensor *tensor,
                              struct dt_error *err),
                   void *ctx, struct dt_error *err)
{
    const struct pickle_entry *entries =
        (const struct pickle_entry *)(void *)m->entries.at;
    if (m->stack.count != 1 || m->marks.count != 0 ||
        pickle_value(&m->stack, 0)->kind != PICKLE_DICT)
        return pickle_bad(m, "expected a dictionary of tensors", err);
    for (size_t i = 0; i < m->entries.count; i++)
        if (entries[i].dict == pickle_value(&m->stack, 0)->at &&
            add_tensor(m, &entries[i], add, ctx, err) < 0)
            return -1;
    return 0;
}

int pickle_read(const void *bytes, size_t count,
                int (*add)(void *ctx, const struct pickle_tensor *tensor,
                           struct dt_error *err),
                void *ctx, struct dt_error *err)
{
    struct pickle_machine m = {.bytes = bytes, .count = count};
    int rc = run(&m, err);
    if (rc == 0)
        rc = add_all(&m, add, ctx, err);
    free(m.stack.at);
    free(m.marks.at);
    free(m.memo.at);
    free(m.items.at);
    free(m.entries.at);
    free(m.tensors.at);
    return rc;
}
