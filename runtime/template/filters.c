/* SPDX-License-Identifier: Apache-2.0 */
/* filters.c - filters of single values, and the tests of "is" */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

/* An application of a filter. */
struct use {
    struct dt_tpl_run *r;
    struct dt_tpl_text name;
    struct dt_tpl_value value;
    const struct dt_tpl_args *args;
    struct dt_tpl_value *out;
};

static bool is_filter(const struct use *use, const char *name)
{
    return dt_tpl_text_is(use->name, name);
}

/* The text of the value. */
static bool value_text(const struct use *use, struct dt_tpl_text *text)
{
    return dt_tpl_show(use->r, &use->value, text);
}

/* --- text --- */

static bool filter_trim(const struct use *use)
{
    struct dt_tpl_text text, set, *chars = NULL;
    struct dt_tpl_value given =
        dt_tpl_arg(use->args, 0, "chars", dt_tpl_none());
    if (!dt_tpl_check_args(use->r, use->args, "trim", "chars") ||
        !value_text(use, &text))
        return false;
    if (given.kind != V_NONE) {
        chars = &set;
        if (!dt_tpl_text_arg(use->r, use->args, 0, "chars", NULL, &set))
            return false;
    }
    if (!dt_tpl_scan(use->r, text, chars ? 1 + set.n : 1))
        return false;
    *use->out = dt_tpl_string(dt_tpl_strip(text, chars, true, true));
    return true;
}

static bool filter_case(const struct use *use)
{
    struct dt_tpl_text text, *out = &use->out->text;
    if (!dt_tpl_check_args(use->r, use->args, "this filter", "") ||
        !value_text(use, &text))
        return false;
    use->out->kind = V_STRING;
    if (is_filter(use, "title"))
        return dt_tpl_title(use->r, text, false, out);
    if (is_filter(use, "capitalize"))
        return dt_tpl_capitalize(use->r, text, out);
    return dt_tpl_change_case(
        use->r, text, is_filter(use, "upper") ? CASE_UPPER : CASE_LOWER, out);
}

static bool filter_replace(const struct use *use)
{
    struct dt_tpl_text text, old, new;
    struct dt_tpl_value count =
        dt_tpl_arg(use->args, 2, "count", dt_tpl_none());
    int64_t most = -1;
    use->out->kind = V_STRING;
    return dt_tpl_check_args(use->r, use->args, "replace", "old, new, count") &&
           value_text(use, &text) &&
           dt_tpl_text_arg(use->r, use->args, 0, "old", NULL, &old) &&
           dt_tpl_text_arg(use->r, use->args, 1, "new", NULL, &new) &&
           (count.kind == V_NONE ||
            dt_tpl_int_arg(use->r, use->args, 2, "count", -1, &most)) &&
           dt_tpl_replace(use->r, text, old, new, most, &use->out->text);
}

static bool filter_string(const struct use *use)
{
    use->out->kind = V_STRING;
    return dt_tpl_check_args(use->r, use->args, "string", "") &&
           value_text(use, &use->out->text);
}

/* Nothing is escaped here. Joining a text that is marked as safe to one that
 * jinja2 would then escape is refused.
 */
static bool filter_safe(const struct use *use)
{
    use->out->kind = V_STRING;
    use->out->flag = true;
    return dt_tpl_check_args(use->r, use->args, "safe", "") &&
           value_text(use, &use->out->text);
}

static bool filter_tojson(const struct use *use)
{
    use->out->kind = V_STRING;
    return dt_tpl_to_json(use->r, &use->value, use->args, &use->out->text);
}

/* Indents each line with blanks, usually except for the first and empty ones.
 */
static bool filter_indent(const struct use *use)
{
    struct dt_tpl_builder b = {.run = use->r};
    struct dt_tpl_text text, blanks;
    struct dt_tpl_value width =
                            dt_tpl_arg(use->args, 0, "width", dt_tpl_int(4)),
                        blank = dt_tpl_string(TEXT(" ")), times;
    bool first = dt_tpl_true_arg(use->args, 1, "first");
    bool empty = dt_tpl_true_arg(use->args, 2, "blank");
    if (!dt_tpl_check_args(use->r, use->args, "indent",
                           "width, first, blank") ||
        !value_text(use, &text))
        return false;
    if (use->value.kind == V_UNDEFINED)
        return dt_tpl_fail_undefined(use->r, &use->value);
    if (use->value.kind != V_STRING)
        return dt_tpl_fail(use->r, "indent of %s",
                           dt_tpl_kind_name(&use->value));
    times = width;
    if (width.kind != V_STRING &&
        !dt_tpl_binary(use->r, OP_MUL, &blank, &width, &times))
        return false;
    blanks = times.text;
    if (!dt_tpl_scan(use->r, text, 1))
        return false;
    if (text.n > 0 && text.s[text.n - 1] == '\r')
        text.n--; /* jinja2 adds a newline; both are one line end */
    for (size_t at = 0, line = 0; at <= text.n; line++) {
        size_t end = at, ends = 0;
        while (end < text.n && (ends = dt_tpl_line_end(text, end)) == 0)
            end += dt_tpl_sequence(text, end);
        if (line > 0)
            dt_tpl_add_string(&b, "\n");
        if (line == 0 ? first : empty || end > at)
            dt_tpl_add_text(&b, blanks);
        dt_tpl_add(&b, text.s + at, end - at);
        at = end < text.n ? end + ends : text.n + 1;
    }
    use->out->kind = V_STRING;
    return dt_tpl_built(&b, &use->out->text);
}

static bool filter_truncate(const struct use *use)
{
    struct dt_tpl_text text, end, blank = TEXT(" ");
    struct dt_tpl_builder b = {.run = use->r};
    int64_t length, leeway;
    if (!dt_tpl_check_args(use->r, use->args, "truncate",
                           "length, killwords, end, leeway") ||
        !value_text(use, &text) ||
        !dt_tpl_int_arg(use->r, use->args, 0, "length", 255, &length) ||
        !dt_tpl_text_arg(use->r, use->args, 2, "end", "...", &end) ||
        !dt_tpl_int_arg(use->r, use->args, 3, "leeway", 5, &leeway))
        return false;
    int64_t kept = length - (int64_t)dt_tpl_characters(end);
    if (!dt_tpl_scan(use->r, text, 1))
        return false;
    if (kept < 0 || leeway < 0)
        return dt_tpl_fail(use->r, "truncate to less than its end");
    *use->out = dt_tpl_string(text);
    if ((int64_t)dt_tpl_characters(text) <= length + leeway)
        return true;
    text.n = dt_tpl_offset(text, (size_t)kept);
    size_t at = dt_tpl_true_arg(use->args, 1, "killwords")
                    ? SIZE_MAX
                    : dt_tpl_find_last(text, blank);
    dt_tpl_add(&b, text.s, at == SIZE_MAX ? text.n : at);
    dt_tpl_add_text(&b, end);
    return dt_tpl_built(&b, &use->out->text);
}

static bool filter_wordcount(const struct use *use)
{
    struct dt_tpl_text text;
    int64_t count = 0;
    bool in_word = false;
    if (!dt_tpl_check_args(use->r, use->args, "wordcount", "") ||
        !value_text(use, &text) || !dt_tpl_scan(use->r, text, 1))
        return false;
    for (size_t at = 0; at < text.n; at += dt_tpl_sequence(text, at)) {
        uint32_t c = dt_tpl_code_point(text, at);
        bool word = c == '_' || (c >= '0' && c <= '9') ||
                    ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (c >= 0x80)
            return dt_tpl_fail(use->r, "wordcount of U+%04X is not supported",
                               c);
        count += word && !in_word;
        in_word = word;
    }
    *use->out = dt_tpl_int(count);
    return true;
}

/* --- any value --- */

static bool filter_default(const struct use *use)
{
    bool missing = use->value.kind == V_UNDEFINED ||
                   (dt_tpl_true_arg(use->args, 1, "boolean") &&
                    !dt_tpl_truth(&use->value));
    *use->out = missing ? dt_tpl_arg(use->args, 0, "default_value",
                                     dt_tpl_string(TEXT("")))
                        : use->value;
    return dt_tpl_check_args(use->r, use->args, "default",
                             "default_value, boolean");
}

static bool filter_length(const struct use *use)
{
    size_t count;
    if (!dt_tpl_length(&use->value, &count))
        return dt_tpl_fail(use->r, "%s has no length",
                           dt_tpl_kind_name(&use->value));
    *use->out = dt_tpl_int((int64_t)count);
    return dt_tpl_step(use->r,
                       use->value.kind == V_STRING ? use->value.text.n : 0);
}

static bool filter_attr(const struct use *use)
{
    struct dt_tpl_text name;
    struct dt_tpl_value dict = use->value;
    if (!dt_tpl_text_arg(use->r, use->args, 0, "name", NULL, &name))
        return false;
    if (dict.kind == V_DICT) { /* attributes only, and no keys */
        dict.dict = &(struct dt_tpl_dict){0};
        return dt_tpl_attribute(use->r, &dict, name, use->out);
    }
    return dt_tpl_attribute(use->r, &use->value, name, use->out);
}

/* --- numbers --- */

/* Copies a number without Python's underscores, each of which is between two
 * digits. False: it is not a number, or too long.
 */
static bool copy_number(struct dt_tpl_text text, char *copy, size_t size)
{
    static const char digits[] = "0123456789";
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        const bool inside = i > 0 && i + 1 < text.n;
        if (text.s[i] == '_' &&
            (!inside || !memchr(digits, text.s[i - 1], 10) ||
             !memchr(digits, text.s[i + 1], 10)))
            return false;
        if (text.s[i] != '_' && n + 1 < size)
            copy[n++] = text.s[i];
        else if (text.s[i] != '_')
            return false;
    }
    copy[n] = '\0';
    return n > 0;
}

/* Parses a text as a number, with Python's blanks and underscores. */
static bool parse_number(struct dt_tpl_text text, bool whole,
                         struct dt_tpl_value *out)
{
    char copy[64], *end;
    text = dt_tpl_strip(text, NULL, true, true);
    if (!copy_number(text, copy, sizeof(copy)) || strpbrk(copy, "xX("))
        return false;
    if (whole && strlen(copy) <= 18) {
        *out = dt_tpl_int(strtoll(copy, &end, 10));
        if (*end == '\0')
            return true;
    }
    double d = strtod(copy, &end);
    *out = dt_tpl_float(d);
    if (*end != '\0')
        return false;
    if (!whole)
        return true;
    *out = dt_tpl_int((int64_t)(isfinite(d) && fabs(d) < 1e18 ? d : 0));
    return isfinite(d) && fabs(d) < 1e18;
}

static bool filter_number(const struct use *use)
{
    bool whole = is_filter(use, "int");
    struct dt_tpl_value value = use->value;
    *use->out = dt_tpl_arg(use->args, 0, "default",
                           whole ? dt_tpl_int(0) : dt_tpl_float(0));
    if (!dt_tpl_check_args(use->r, use->args, "int or float", "default"))
        return false;
    if (value.kind == V_UNDEFINED)
        return dt_tpl_fail_undefined(use->r, &value);
    if (value.kind == V_STRING) {
        struct dt_tpl_value number;
        if (!dt_tpl_scan(use->r, value.text, 1))
            return false;
        if (parse_number(value.text, whole, &number))
            *use->out = number;
    } else if (dt_tpl_is_number(&value)) {
        double d = dt_tpl_number(&value);
        if (whole && value.kind == V_FLOAT && !(fabs(d) < 9e18))
            return isnan(d) || isinf(d) ||
                   dt_tpl_fail(use->r, "an integer of more than 64 bits");
        *use->out = !whole ? dt_tpl_float(d)
                    : value.kind == V_FLOAT
                        ? dt_tpl_int((int64_t)d)
                        : dt_tpl_int(dt_tpl_integer(&value));
    }
    return true;
}

static bool filter_abs(const struct use *use)
{
    struct dt_tpl_value zero = dt_tpl_int(0);
    if (!dt_tpl_is_number(&use->value))
        return dt_tpl_fail(use->r, "abs of %s", dt_tpl_kind_name(&use->value));
    if (use->value.kind == V_FLOAT)
        *use->out = dt_tpl_float(fabs(use->value.d));
    else if (dt_tpl_integer(&use->value) < 0)
        return dt_tpl_binary(use->r, OP_SUB, &zero, &use->value, use->out);
    else
        *use->out = dt_tpl_int(dt_tpl_integer(&use->value));
    return true;
}

/* Python rounds the decimal form of a number to even. */
static bool filter_round(const struct use *use)
{
    struct dt_tpl_text method;
    int64_t precision;
    char text[400];
    if (!dt_tpl_check_args(use->r, use->args, "round", "precision, method") ||
        !dt_tpl_int_arg(use->r, use->args, 0, "precision", 0, &precision) ||
        !dt_tpl_text_arg(use->r, use->args, 1, "method", "common", &method))
        return false;
    if (!dt_tpl_is_number(&use->value) || precision < 0 || precision > 15)
        return dt_tpl_fail(use->r, "round expects a number, and 0 to 15 "
                                   "digits here");
    double d = dt_tpl_number(&use->value), scale = pow(10, (double)precision);
    if (dt_tpl_text_is(method, "common")) {
        if (use->value.kind != V_FLOAT) {
            *use->out = dt_tpl_int(dt_tpl_integer(&use->value));
            return true;
        }
        snprintf(text, sizeof(text), "%.*f", (int)precision, d);
        *use->out = dt_tpl_float(strtod(text, NULL));
        return true;
    }
    bool up = dt_tpl_text_is(method, "ceil");
    if (!up && !dt_tpl_text_is(method, "floor"))
        return dt_tpl_fail(use->r, "round: the method is common, ceil or "
                                   "floor");
    *use->out = dt_tpl_float((up ? ceil(d * scale) : floor(d * scale)) / scale);
    return true;
}

/* --- all filters --- */

static const struct {
    const char *name;
    bool (*apply)(const struct use *use);
} filters[] = {
    {"trim", filter_trim},         {"tojson", filter_tojson},
    {"length", filter_length},     {"count", filter_length},
    {"default", filter_default},   {"d", filter_default},
    {"upper", filter_case},        {"lower", filter_case},
    {"title", filter_case},        {"capitalize", filter_case},
    {"replace", filter_replace},   {"string", filter_string},
    {"safe", filter_safe},         {"indent", filter_indent},
    {"truncate", filter_truncate}, {"wordcount", filter_wordcount},
    {"attr", filter_attr},         {"int", filter_number},
    {"float", filter_number},      {"abs", filter_abs},
    {"round", filter_round},
};

/* Whether there is a filter of this name. */
static bool is_filter_name(struct dt_tpl_text name)
{
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        if (dt_tpl_text_is(name, filters[i].name))
            return true;
    return dt_tpl_is_list_filter(name);
}

bool dt_tpl_filter(struct dt_tpl_run *r, struct dt_tpl_text name,
                   struct dt_tpl_value value, const struct dt_tpl_args *args,
                   struct dt_tpl_value *out)
{
    const struct use use = {r, name, value, args, out};
    bool safe = value.kind == V_STRING && value.flag;
    *out = dt_tpl_none();
    if (safe && !dt_tpl_text_is(name, "safe") &&
        !dt_tpl_text_is(name, "length"))
        return dt_tpl_fail(r, "filters of a safe string are not supported");
    for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++)
        if (dt_tpl_text_is(name, filters[i].name))
            return filters[i].apply(&use);
    if (dt_tpl_is_list_filter(name))
        return dt_tpl_filter_list(r, name, value, args, out);
    return dt_tpl_fail(r, "the filter '%.*s' is not supported", (int)name.n,
                       name.s);
}

/* --- tests of a kind --- */

#define KIND(kind) (1u << (kind))

enum {
    NUMBERS = KIND(V_BOOL) | KIND(V_INT) | KIND(V_FLOAT),
    SEQUENCES = KIND(V_STRING) | KIND(V_LIST) | KIND(V_TUPLE) | KIND(V_RANGE) |
                KIND(V_DICT) | KIND(V_UNDEFINED),
    ITERABLES = SEQUENCES | KIND(V_VIEW) | KIND(V_GENERATOR) | KIND(V_LOOP),
    CALLABLES = KIND(V_MACRO) | KIND(V_FUNCTION) | KIND(V_METHOD) |
                KIND(V_LOOP) | KIND(V_UNDEFINED),
};

static const struct {
    const char *name;
    unsigned kinds;
} kinds[] = {
    {"defined", ~KIND(V_UNDEFINED)},
    {"undefined", KIND(V_UNDEFINED)},
    {"none", KIND(V_NONE)},
    {"boolean", KIND(V_BOOL)},
    {"true", KIND(V_BOOL)},
    {"false", KIND(V_BOOL)},
    {"integer", KIND(V_INT)},
    {"float", KIND(V_FLOAT)},
    {"number", NUMBERS},
    {"string", KIND(V_STRING)},
    {"mapping", KIND(V_DICT)},
    {"sequence", SEQUENCES},
    {"iterable", ITERABLES},
    {"callable", CALLABLES},
};

static bool is_of_kind(const char *test, unsigned mask,
                       const struct dt_tpl_value *v)
{
    if (!strcmp(test, "true") || !strcmp(test, "false"))
        return v->kind == V_BOOL && v->b == (test[0] == 't');
    return mask & KIND(v->kind);
}

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

/* Python's "is", for values that Python keeps as one object. */
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
        *out = is_filter_name(text);
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
            *out = is_of_kind(kinds[i].name, kinds[i].kinds, value);
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
