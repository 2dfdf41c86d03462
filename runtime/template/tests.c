/* SPDX-License-Identifier: Apache-2.0 */
/* tests.c - the tests behind "is" */
#include "config.h"

#include <math.h>

#include "template/template_run.h"

/* --- tests of a kind --- */

static bool is_defined(const struct dt_tpl_value *v)
{
    return v->kind != V_UNDEFINED;
}

static bool is_undefined(const struct dt_tpl_value *v)
{
    return v->kind == V_UNDEFINED;
}

static bool is_none(const struct dt_tpl_value *v)
{
    return v->kind == V_NONE;
}

static bool is_boolean(const struct dt_tpl_value *v)
{
    return v->kind == V_BOOL;
}

static bool is_true(const struct dt_tpl_value *v)
{
    return v->kind == V_BOOL && v->b;
}

static bool is_false(const struct dt_tpl_value *v)
{
    return v->kind == V_BOOL && !v->b;
}

static bool is_integer(const struct dt_tpl_value *v)
{
    return v->kind == V_INT;
}

static bool is_float(const struct dt_tpl_value *v)
{
    return v->kind == V_FLOAT;
}

static bool is_string(const struct dt_tpl_value *v)
{
    return v->kind == V_STRING;
}

static bool is_mapping(const struct dt_tpl_value *v)
{
    return v->kind == V_DICT;
}

static bool is_sequence(const struct dt_tpl_value *v)
{
    return v->kind == V_STRING || v->kind == V_LIST || v->kind == V_TUPLE ||
           v->kind == V_RANGE || v->kind == V_DICT || v->kind == V_UNDEFINED;
}

static bool is_iterable(const struct dt_tpl_value *v)
{
    return is_sequence(v) || v->kind == V_VIEW || v->kind == V_GENERATOR ||
           v->kind == V_LOOP;
}

static bool is_callable(const struct dt_tpl_value *v)
{
    return v->kind == V_MACRO || v->kind == V_FUNCTION || v->kind == V_METHOD ||
           v->kind == V_LOOP || v->kind == V_UNDEFINED;
}

static const struct {
    const char *name;
    bool (*holds)(const struct dt_tpl_value *v);
} kinds[] = {
    {"defined", is_defined},
    {"undefined", is_undefined},
    {"none", is_none},
    {"boolean", is_boolean},
    {"true", is_true},
    {"false", is_false},
    {"integer", is_integer},
    {"float", is_float},
    {"number", dt_tpl_is_number},
    {"string", is_string},
    {"mapping", is_mapping},
    {"sequence", is_sequence},
    {"iterable", is_iterable},
    {"callable", is_callable},
};

/* --- tests against an argument --- */

static const struct {
    const char *name;
    enum dt_tpl_op op;
} comparisons[] = {
    {"eq", OP_EQ},       {"equalto", OP_EQ}, {"==", OP_EQ},
    {"ne", OP_NE},       {"!=", OP_NE},      {"lt", OP_LT},
    {"lessthan", OP_LT}, {"<", OP_LT},       {"le", OP_LE},
    {"<=", OP_LE},       {"gt", OP_GT},      {"greaterthan", OP_GT},
    {">", OP_GT},        {"ge", OP_GE},      {">=", OP_GE},
    {"in", OP_IN},
};

enum {
    KINDS = sizeof(kinds) / sizeof(kinds[0]),
    COMPARISONS = sizeof(comparisons) / sizeof(comparisons[0])
};

static const char *const others[] = {
    "odd", "even", "divisibleby", "upper", "lower", "filter", "test", "sameas"};
enum { OTHERS = sizeof(others) / sizeof(others[0]) };

static bool is_test(struct dt_tpl_text name)
{
    for (size_t i = 0; i < KINDS; i++)
        if (dt_tpl_text_is(name, kinds[i].name))
            return true;
    for (size_t i = 0; i < COMPARISONS; i++)
        if (dt_tpl_text_is(name, comparisons[i].name))
            return true;
    for (size_t i = 0; i < OTHERS; i++)
        if (dt_tpl_text_is(name, others[i]))
            return true;
    return false;
}

static bool divides(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                    int64_t by, int64_t rest, bool *out)
{
    struct dt_tpl_value divisor = dt_tpl_int(by), result,
                        expected = dt_tpl_int(rest);
    return dt_tpl_binary(r, OP_MOD, value, &divisor, &result) &&
           dt_tpl_equal(r, &result, &expected, out);
}

/* Python's "is": for values that are one object wherever they are. */
static bool is_same(struct dt_tpl_run *r, const struct dt_tpl_value *a,
                    const struct dt_tpl_value *b, bool *out)
{
    *out = a->kind == b->kind &&
           (a->kind == V_NONE || (a->kind == V_BOOL && a->b == b->b));
    return a->kind <= V_BOOL || b->kind <= V_BOOL ||
           dt_tpl_fail(r, "sameas is supported for none and booleans only");
}

static bool other_test(struct dt_tpl_run *r, struct dt_tpl_text name,
                       const struct dt_tpl_value *value,
                       const struct dt_tpl_args *args, bool *out)
{
    struct dt_tpl_text text;
    struct dt_tpl_value given =
        dt_tpl_arg(args, 0, NULL, dt_tpl_undefined(TEXT("argument")));
    int64_t by;
    if (dt_tpl_text_is(name, "odd") || dt_tpl_text_is(name, "even"))
        return divides(r, value, 2, dt_tpl_text_is(name, "odd"), out);
    if (dt_tpl_text_is(name, "divisibleby"))
        return dt_tpl_int_arg(r, args, 0, "num", 0, &by) &&
               divides(r, value, by, 0, out);
    if (dt_tpl_text_is(name, "sameas"))
        return is_same(r, value, &given, out);
    if (!dt_tpl_show(r, value, &text))
        return false;
    if (dt_tpl_text_is(name, "filter"))
        *out = dt_tpl_is_filter(text);
    else if (dt_tpl_text_is(name, "test"))
        *out = is_test(text);
    else
        dt_tpl_text_test(text,
                         dt_tpl_text_is(name, "upper") ? TEXT("isupper")
                                                       : TEXT("islower"),
                         out);
    return dt_tpl_scan(r, text, 4);
}

bool dt_tpl_test(struct dt_tpl_run *r, struct dt_tpl_text name,
                 const struct dt_tpl_value *value,
                 const struct dt_tpl_args *args, bool *out)
{
    for (size_t i = 0; i < KINDS; i++)
        if (dt_tpl_text_is(name, kinds[i].name)) {
            *out = kinds[i].holds(value);
            return dt_tpl_check_args(r, args, kinds[i].name, "");
        }
    for (size_t i = 0; i < COMPARISONS; i++)
        if (dt_tpl_text_is(name, comparisons[i].name))
            return args->count == 1
                       ? dt_tpl_compare(r, comparisons[i].op, value,
                                        &args->items[0], out)
                       : dt_tpl_fail(r, "the test '%s' expects a value",
                                     comparisons[i].name);
    for (size_t i = 0; i < OTHERS; i++)
        if (dt_tpl_text_is(name, others[i]))
            return other_test(r, name, value, args, out);
    return dt_tpl_fail(r, "the test '%.*s' is not supported", (int)name.n,
                       name.s);
}
