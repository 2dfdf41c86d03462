/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_machine.c - the stack and the memo of a pickle
 *
 * The operations are those of Python's pickletools, protocol 2.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/torch_machine.h"

int pickle_bad(const struct pickle_machine *m, const char *what,
               struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "data.pkl: byte %zu: %s", m->op, what);
}

/* --- arrays --- */

void *pickle_append(struct pickle_list *list, const void *item, size_t size,
                    struct dt_error *err)
{
    if (list->count == list->room) {
        size_t room = 2 * list->room + 64;
        char *at = reallocarray(list->at, room, size);
        if (!at) {
            dt_error_set(err, EX_OSERR, "out of memory");
            return NULL;
        }
        list->at = at;
        list->room = room;
    }
    return memcpy(list->at + list->count++ * size, item, size);
}

int pickle_push(struct pickle_machine *m, struct pickle_value value,
                struct dt_error *err)
{
    return pickle_append(&m->stack, &value, sizeof(value), err) ? 0 : -1;
}

size_t pickle_above_mark(const struct pickle_machine *m)
{
    const size_t *marks = (const size_t *)(const void *)m->marks.at;
    return m->stack.count - (m->marks.count ? marks[m->marks.count - 1] : 0);
}

int pickle_pop(struct pickle_machine *m, struct pickle_value *value,
               struct dt_error *err)
{
    if (pickle_above_mark(m) == 0)
        return pickle_bad(m, "nothing is on the stack", err);
    *value = *pickle_value(&m->stack, --m->stack.count);
    return 0;
}

/* Takes the last mark away; sets where the values above it begin. */
static int pop_mark(struct pickle_machine *m, size_t *first,
                    struct dt_error *err)
{
    if (m->marks.count == 0)
        return pickle_bad(m, "no mark is on the stack", err);
    *first = m->stack.count - pickle_above_mark(m);
    m->marks.count--;
    return 0;
}

/* --- what follows an operation --- */

static const unsigned char *take(struct pickle_machine *m, uint64_t count,
                                 struct dt_error *err)
{
    if (count > m->count - m->at) {
        pickle_bad(m, "the pickle ends within an operation", err);
        return NULL;
    }
    const unsigned char *bytes = m->bytes + m->at;
    m->at += count;
    return bytes;
}

static int take_number(struct pickle_machine *m, int bytes, uint64_t *number,
                       struct dt_error *err)
{
    const unsigned char *from = take(m, (uint64_t)bytes, err);
    *number = 0;
    for (int i = bytes; from && i-- > 0;)
        *number = *number << 8 | from[i];
    return from ? 0 : -1;
}

int pickle_take_line(struct pickle_machine *m, const char **line, size_t *bytes,
                     struct dt_error *err)
{
    *line = (const char *)m->bytes + m->at;
    const char *lf = memchr(*line, '\n', m->count - m->at);
    if (!lf)
        return pickle_bad(m, "the pickle ends within a name", err);
    *bytes = (size_t)(lf - *line);
    m->at += *bytes + 1;
    return 0;
}

/* --- operations that make values --- */

int pickle_op_proto(struct pickle_machine *m, struct dt_error *err)
{
    uint64_t version;
    if (take_number(m, 1, &version, err) < 0)
        return -1;
    return version == 2
               ? 0
               : pickle_bad(m, "expected protocol 2, as torch.save uses it",
                            err);
}

int pickle_op_none(struct pickle_machine *m, struct dt_error *err)
{
    return pickle_push(m, (struct pickle_value){.kind = PICKLE_NONE}, err);
}

int pickle_op_bool(struct pickle_machine *m, struct dt_error *err)
{
    return pickle_push(m,
                       (struct pickle_value){.kind = PICKLE_BOOLEAN,
                                             .number = m->bytes[m->op] == 0x88},
                       err);
}

/* BININT, BININT1, BININT2: of 4, 1, 2 bytes; only the first has a sign. */
int pickle_op_int(struct pickle_machine *m, struct dt_error *err)
{
    const char op = (char)m->bytes[m->op];
    uint64_t n;
    if (take_number(m, op == 'J' ? 4 : op == 'K' ? 1 : 2, &n, err) < 0)
        return -1;
    int64_t number = op == 'J' ? (int32_t)(uint32_t)n : (int64_t)n;
    return pickle_push(
        m, (struct pickle_value){.kind = PICKLE_INTEGER, .number = number},
        err);
}

int pickle_op_long(struct pickle_machine *m, struct dt_error *err)
{
    uint64_t bytes, n;
    if (take_number(m, 1, &bytes, err) < 0)
        return -1;
    if (bytes > 8)
        return pickle_bad(m, "a number of more than 64 bits", err);
    if (take_number(m, (int)bytes, &n, err) < 0)
        return -1;
    if (bytes > 0 && bytes < 8 && n >> (8 * bytes - 1))
        n |= ~UINT64_C(0) << (8 * bytes);
    return pickle_push(
        m, (struct pickle_value){.kind = PICKLE_INTEGER, .number = (int64_t)n},
        err);
}

int pickle_op_text(struct pickle_machine *m, struct dt_error *err)
{
    uint64_t bytes;
    if (take_number(m, 4, &bytes, err) < 0)
        return -1;
    const unsigned char *text = take(m, bytes, err);
    if (!text)
        return -1;
    return pickle_push(m,
                       (struct pickle_value){.kind = PICKLE_TEXT,
                                             .text = (const char *)text,
                                             .bytes = bytes},
                       err);
}

/* --- marks, tuples and dictionaries --- */

int pickle_op_mark(struct pickle_machine *m, struct dt_error *err)
{
    return pickle_append(&m->marks, &m->stack.count, sizeof(size_t), err) ? 0
                                                                          : -1;
}

/* Makes a tuple of the last `count` values. */
static int make_tuple(struct pickle_machine *m, size_t count,
                      struct dt_error *err)
{
    const struct pickle_value tuple = {
        .kind = PICKLE_TUPLE, .at = m->items.count, .count = count};
    if (pickle_above_mark(m) < count)
        return pickle_bad(m, "too few values for a tuple", err);
    m->stack.count -= count;
    for (size_t i = 0; i < count; i++)
        if (!pickle_append(&m->items,
                           pickle_value(&m->stack, m->stack.count + i),
                           sizeof(struct pickle_value), err))
            return -1;
    return pickle_push(m, tuple, err);
}

int pickle_op_tuple(struct pickle_machine *m, struct dt_error *err)
{
    size_t first = 0;
    if (pop_mark(m, &first, err) < 0)
        return -1;
    return make_tuple(m, m->stack.count - first, err);
}

int pickle_op_small_tuple(struct pickle_machine *m, struct dt_error *err)
{
    const unsigned char op = m->bytes[m->op];
    return make_tuple(m, op == ')' ? 0 : (size_t)op - 0x84, err);
}

int pickle_op_dict(struct pickle_machine *m, struct dt_error *err)
{
    return pickle_push(
        m, (struct pickle_value){.kind = PICKLE_DICT, .at = m->dicts++}, err);
}

/* Sets the values from `first` on, key after key, in the one below. */
static int set_items(struct pickle_machine *m, size_t first,
                     struct dt_error *err)
{
    const size_t count = m->stack.count - first;
    if (count % 2 || pickle_above_mark(m) <= count ||
        pickle_value(&m->stack, first - 1)->kind != PICKLE_DICT)
        return pickle_bad(m, "there is no dictionary to set items of", err);
    for (size_t i = first; i < m->stack.count; i += 2) {
        struct pickle_entry entry = {pickle_value(&m->stack, first - 1)->at,
                                     *pickle_value(&m->stack, i),
                                     *pickle_value(&m->stack, i + 1)};
        if (!pickle_append(&m->entries, &entry, sizeof(entry), err))
            return -1;
    }
    m->stack.count = first;
    return 0;
}

int pickle_op_set_item(struct pickle_machine *m, struct dt_error *err)
{
    if (pickle_above_mark(m) < 3)
        return pickle_bad(m, "too few values to set an item", err);
    return set_items(m, m->stack.count - 2, err);
}

int pickle_op_set_items(struct pickle_machine *m, struct dt_error *err)
{
    size_t first = 0;
    if (pop_mark(m, &first, err) < 0)
        return -1;
    return set_items(m, first, err);
}

/* Sets attributes of a dictionary: _metadata, which nobody reads. */
int pickle_op_build(struct pickle_machine *m, struct dt_error *err)
{
    struct pickle_value state;
    if (pickle_pop(m, &state, err) < 0)
        return -1;
    if (pickle_above_mark(m) == 0 ||
        pickle_value(&m->stack, m->stack.count - 1)->kind != PICKLE_DICT)
        return pickle_bad(m, "attributes of something else than a dictionary",
                          err);
    return 0;
}

/* --- the memo --- */

/* BINPUT, LONG_BINPUT */
int pickle_op_put(struct pickle_machine *m, struct dt_error *err)
{
    const struct pickle_value none = {.kind = PICKLE_NONE};
    uint64_t i;
    if (take_number(m, m->bytes[m->op] == 'q' ? 1 : 4, &i, err) < 0)
        return -1;
    if (pickle_above_mark(m) == 0 || i > m->memo.count)
        return pickle_bad(m, "nothing to remember", err);
    if (i == m->memo.count &&
        !pickle_append(&m->memo, &none, sizeof(none), err))
        return -1;
    *pickle_value(&m->memo, i) = *pickle_value(&m->stack, m->stack.count - 1);
    return 0;
}

int pickle_op_get(struct pickle_machine *m, struct dt_error *err)
{
    uint64_t i;
    if (take_number(m, m->bytes[m->op] == 'h' ? 1 : 4, &i, err) < 0)
        return -1;
    if (i >= m->memo.count)
        return pickle_bad(m, "nothing of that number was remembered", err);
    return pickle_push(m, *pickle_value(&m->memo, i), err);
}
