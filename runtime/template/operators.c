/* SPDX-License-Identifier: Apache-2.0 */
/* operators.c - operators, comparisons and slices */
#include "config.h"

#include <math.h>
#include <string.h>

#include "template/template_impl.h"

static bool no_operator(struct dt_tpl_run *r, enum dt_tpl_op op,
                        const struct dt_tpl_value *a,
                        const struct dt_tpl_value *b)
{
    static const char *const names[] = {
        [OP_ADD] = "+", [OP_SUB] = "-",       [OP_MUL] = "*", [OP_DIV] = "/",
        [OP_MOD] = "%", [OP_FLOORDIV] = "//", [OP_POW] = "**"};
    const struct dt_tpl_value *undefined = a->kind == V_UNDEFINED   ? a
                                           : b->kind == V_UNDEFINED ? b
                                                                    : NULL;
    if (undefined)
        return dt_tpl_fail(
            r, "'%.*s' is not defined, and has no %s",
            (int)(undefined->text.n < 80 ? undefined->text.n : 80),
            undefined->text.s, names[op]);
    return dt_tpl_fail(r, "there is no %s for %s and %s%s", names[op],
                       dt_tpl_kind_name(a), dt_tpl_kind_name(b),
                       op == OP_ADD ? " (~ joins anything)" : "");
}

/* --- numbers --- */

static bool integer_power(int64_t base, int64_t exponent, int64_t *out)
{
    *out = 1;
    for (; exponent > 0; exponent--) {
        if (__builtin_mul_overflow(*out, base, out))
            return false;
        if (base >= -1 && base <= 1 && exponent > 2)
            exponent = 2 + exponent % 2;
    }
    return true;
}

static bool integers(struct dt_tpl_run *r, enum dt_tpl_op op, int64_t a,
                     int64_t b, struct dt_tpl_value *out)
{
    int64_t result = 0;
    bool fits = true;
    switch (op) {
    case OP_ADD:
        fits = !__builtin_add_overflow(a, b, &result);
        break;
    case OP_SUB:
        fits = !__builtin_sub_overflow(a, b, &result);
        break;
    case OP_MUL:
        fits = !__builtin_mul_overflow(a, b, &result);
        break;
    case OP_POW:
        fits = integer_power(a, b, &result);
        break;
    default: /* FLOORDIV, MOD */
        fits = !(a == INT64_MIN && b == -1);
        if (!fits)
            break;
        result = a / b - (a % b != 0 && (a % b < 0) != (b < 0));
        if (op == OP_MOD)
            result = a - result * b;
    }
    *out = dt_tpl_int(result);
    return fits || dt_tpl_fail(r, "an integer of more than 64 bits");
}

static double floats(enum dt_tpl_op op, double a, double b)
{
    double rest;
    switch (op) {
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MUL:
        return a * b;
    case OP_DIV:
        return a / b;
    case OP_POW:
        return pow(a, b);
    default: /* the rest has the sign of b */
        rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0))
            rest += b;
        if (op == OP_MOD)
            return rest != 0 ? rest : copysign(0, b);
        return floor((a - rest) / b + 0.5);
    }
}

static bool numbers(struct dt_tpl_run *r, enum dt_tpl_op op,
                    const struct dt_tpl_value *a, const struct dt_tpl_value *b,
                    struct dt_tpl_value *out)
{
    bool whole = a->kind != V_FLOAT && b->kind != V_FLOAT;
    bool divides = op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD;
    if (divides && dt_tpl_number(b) == 0)
        return dt_tpl_fail(r, "a division by zero");
    if (op == OP_POW && (dt_tpl_number(a) == 0 || dt_tpl_number(a) < 0) &&
        !(whole && dt_tpl_integer(b) >= 0))
        return dt_tpl_fail(r, "this power is not supported");
    if (whole && op != OP_DIV && !(op == OP_POW && dt_tpl_integer(b) < 0))
        return integers(r, op, dt_tpl_integer(a), dt_tpl_integer(b), out);
    *out = dt_tpl_float(floats(op, dt_tpl_number(a), dt_tpl_number(b)));
    return true;
}

/* --- sequences --- */

static bool joined(struct dt_tpl_run *r, const struct dt_tpl_value *a,
                   const struct dt_tpl_value *b, struct dt_tpl_value *out)
{
    if (a->kind == V_STRING) {
        if (a->flag != b->flag)
            return dt_tpl_fail(r, "+ of a safe string is not supported");
        char *text = dt_tpl_alloc(r, a->text.n + b->text.n + 1);
        if (!text)
            return false;
        memcpy(text, a->text.s, a->text.n);
        memcpy(text + a->text.n, b->text.s, b->text.n);
        *out = dt_tpl_string((struct dt_tpl_text){text, a->text.n + b->text.n});
        out->flag = a->flag;
        return dt_tpl_step(r, out->text.n);
    }
    size_t count = a->list->count + b->list->count;
    struct dt_tpl_list *list = dt_tpl_list(r, a->kind, count, out);
    if (!list)
        return false;
    if (a->list->count > 0)
        memcpy(list->items, a->list->items,
               a->list->count * sizeof(*list->items));
    if (b->list->count > 0)
        memcpy(list->items + a->list->count, b->list->items,
               b->list->count * sizeof(*list->items));
    list->count = count;
    return dt_tpl_step(r, count * sizeof(*list->items));
}

static bool repeated(struct dt_tpl_run *r, const struct dt_tpl_value *a,
                     int64_t times, struct dt_tpl_value *out)
{
    struct dt_tpl_builder b = {.run = r};
    *out = *a;
    if (a->kind == V_STRING) {
        dt_tpl_add_times(&b, a->text, times);
        return dt_tpl_built(&b, &out->text);
    }
    size_t count = 0;
    if (times > 0 &&
        __builtin_mul_overflow(a->list->count, (size_t)times, &count))
        count = SIZE_MAX;
    struct dt_tpl_list *list = dt_tpl_list(r, a->kind, count, out);
    for (int64_t i = 0; list && i < times && count > 0; i++)
        for (size_t k = 0; k < a->list->count; k++)
            if (!dt_tpl_list_add(r, list, a->list->items[k]))
                return false;
    return list;
}

static bool is_text_or_list(const struct dt_tpl_value *value)
{
    return value->kind >= V_STRING && value->kind <= V_TUPLE;
}

bool dt_tpl_binary(struct dt_tpl_run *r, enum dt_tpl_op op,
                   const struct dt_tpl_value *a, const struct dt_tpl_value *b,
                   struct dt_tpl_value *out)
{
    bool a_whole = a->kind == V_INT || a->kind == V_BOOL;
    bool b_whole = b->kind == V_INT || b->kind == V_BOOL;
    if (dt_tpl_is_number(a) && dt_tpl_is_number(b))
        return numbers(r, op, a, b, out);
    if (op == OP_ADD && is_text_or_list(a) && a->kind == b->kind)
        return joined(r, a, b, out);
    if (op == OP_MUL && is_text_or_list(a) && b_whole)
        return repeated(r, a, dt_tpl_integer(b), out);
    if (op == OP_MUL && is_text_or_list(b) && a_whole)
        return repeated(r, b, dt_tpl_integer(a), out);
    if (op == OP_MOD && a->kind == V_STRING)
        return dt_tpl_fail(r, "%% does not format strings here");
    return no_operator(r, op, a, b);
}

/* --- comparisons --- */

static bool contains_item(struct dt_tpl_run *r, const struct dt_tpl_value *in,
                          const struct dt_tpl_value *value, bool *out)
{
    struct dt_tpl_list *list;
    *out = false;
    if (!dt_tpl_iterate(r, in, &list))
        return false;
    for (size_t i = 0; !*out && i < list->count; i++) {
        if (!dt_tpl_equal(r, &list->items[i], value, out))
            return false;
        if (*out && in->kind == V_GENERATOR) /* the items after it remain */
            in->list->at = in->list->count - list->count + i + 1;
    }
    return true;
}

static bool contains(struct dt_tpl_run *r, const struct dt_tpl_value *in,
                     const struct dt_tpl_value *value, bool *out)
{
    struct dt_tpl_value *found;
    if (in->kind == V_DICT) {
        if (!dt_tpl_dict_find(r, in->dict, value, &found))
            return false;
        *out = found;
        return true;
    }
    if (in->kind != V_STRING)
        return contains_item(r, in, value, out);
    if (value->kind != V_STRING)
        return dt_tpl_fail(r, "'in' a string expects a string, got %s",
                           dt_tpl_kind_name(value));
    *out = dt_tpl_find(in->text, value->text, 0) != SIZE_MAX;
    return dt_tpl_scan(r, value->text, 1) && dt_tpl_step(r, in->text.n);
}

bool dt_tpl_compare(struct dt_tpl_run *r, enum dt_tpl_op op,
                    const struct dt_tpl_value *a, const struct dt_tpl_value *b,
                    bool *out)
{
    int order;
    switch (op) {
    case OP_IN:
    case OP_NOT_IN:
        if (!contains(r, b, a, out))
            return false;
        *out ^= op == OP_NOT_IN;
        return true;
    case OP_EQ:
    case OP_NE:
        if (!dt_tpl_equal(r, a, b, out))
            return false;
        *out ^= op == OP_NE;
        return true;
    default:
        if (!dt_tpl_order(r, a, b, &order))
            return false;
        *out = op == OP_LT   ? order < 0
               : op == OP_LE ? order <= 0
               : op == OP_GT ? order > 0
                             : order >= 0;
        return true;
    }
}

/* --- slices --- */

/* A bound as Python clamps it to 0..count, or to -1..count-1 backwards. */
static bool slice_bound(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                        int64_t fallback, int64_t count, bool backwards,
                        int64_t *out)
{
    *out = fallback;
    if (value->kind == V_NONE)
        return true;
    if (value->kind != V_INT && value->kind != V_BOOL)
        return dt_tpl_fail(r, "a slice expects integers, got %s",
                           dt_tpl_kind_name(value));
    *out = dt_tpl_integer(value);
    if (*out < 0)
        *out += count;
    if (*out < 0)
        *out = backwards ? -1 : 0;
    if (*out >= count)
        *out = backwards ? count - 1 : count;
    return true;
}

static bool slice_text(struct dt_tpl_run *r, struct dt_tpl_text text,
                       int64_t from, int64_t to, int64_t step,
                       struct dt_tpl_value *out)
{
    struct dt_tpl_builder b = {.run = r};
    if (step == 1) {
        size_t begin = dt_tpl_offset(text, (size_t)from);
        size_t end = to <= from ? begin : dt_tpl_offset(text, (size_t)to);
        *out = dt_tpl_string((struct dt_tpl_text){text.s + begin, end - begin});
        return dt_tpl_scan(r, (struct dt_tpl_text){text.s, end}, 1) &&
               dt_tpl_step(r, text.n);
    }
    struct dt_tpl_value whole = dt_tpl_string(text);
    struct dt_tpl_list *all;
    if (!dt_tpl_iterate(r, &whole, &all))
        return false;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        dt_tpl_add_text(&b, all->items[i].text);
    *out = dt_tpl_string((struct dt_tpl_text){NULL, 0});
    return dt_tpl_built(&b, &out->text);
}

bool dt_tpl_slice(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                  const struct dt_tpl_value bounds[3], struct dt_tpl_value *out)
{
    size_t count;
    int64_t from, to, step = 1;
    if (value->kind == V_VIEW || value->kind == V_GENERATOR ||
        value->kind == V_DICT || !dt_tpl_length(value, &count) ||
        value->kind == V_UNDEFINED || value->kind == V_LOOP)
        return dt_tpl_fail(r, "%s has no slices", dt_tpl_kind_name(value));
    if (bounds[2].kind == V_INT || bounds[2].kind == V_BOOL)
        step = dt_tpl_integer(&bounds[2]);
    else if (bounds[2].kind != V_NONE)
        return dt_tpl_fail(r, "a slice expects integers");
    if (step == 0)
        return dt_tpl_fail(r, "a slice with step 0");
    if (step > (int64_t)count + 1)
        step = (int64_t)count + 1;
    if (step < -(int64_t)count - 1)
        step = -(int64_t)count - 1;
    const int64_t n = (int64_t)count;
    if (!slice_bound(r, &bounds[0], step > 0 ? 0 : n - 1, n, step < 0, &from) ||
        !slice_bound(r, &bounds[1], step > 0 ? n : -1, n, step < 0, &to))
        return false;
    if (value->kind == V_STRING) {
        bool done = slice_text(r, value->text, from, to, step, out);
        out->flag = value->flag;
        return done;
    }
    struct dt_tpl_list *list = dt_tpl_list(r, value->kind, 0, out);
    for (int64_t i = from; list && (step > 0 ? i < to : i > to); i += step)
        if (!dt_tpl_list_add(r, list, value->list->items[i]))
            return false;
    return list;
}
