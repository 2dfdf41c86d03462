/* SPDX-License-Identifier: Apache-2.0 */
/* string_methods.c - methods of strings, as in Python */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

/* A call of a method. */
struct call {
    struct dt_tpl_run *r;
    struct dt_tpl_text self, name;
    const struct dt_tpl_args *args;
    struct dt_tpl_value *out;
};

static bool give_text(const struct call *call, const char *s, size_t n)
{
    *call->out = dt_tpl_string((struct dt_tpl_text){s, n});
    return true;
}

static bool is_method(const struct call *call, const char *name)
{
    return dt_tpl_text_is(call->name, name);
}

/* Counts the steps of a search for a text; a search from the end may take as
 * many as the product of both lengths.
 */
static bool charge_search(const struct call *call, struct dt_tpl_text what,
                          bool from_end)
{
    return from_end ? dt_tpl_scan(call->r, call->self, 1 + what.n / 16)
                    : dt_tpl_scan(call->r, what, 1) &&
                          dt_tpl_step(call->r, call->self.n);
}

/* --- strip, case --- */

static bool method_strip(const struct call *call)
{
    struct dt_tpl_text set, *chars = NULL;
    struct dt_tpl_value value = dt_tpl_arg(call->args, 0, NULL, dt_tpl_none());
    if (!dt_tpl_check_args(call->r, call->args, "strip", "chars"))
        return false;
    if (value.kind != V_NONE) {
        chars = &set;
        if (!dt_tpl_text_arg(call->r, call->args, 0, NULL, NULL, &set))
            return false;
    }
    if (!dt_tpl_scan(call->r, call->self, chars ? 1 + set.n : 1))
        return false;
    *call->out = dt_tpl_string(dt_tpl_strip(call->self, chars,
                                            !is_method(call, "rstrip"),
                                            !is_method(call, "lstrip")));
    return true;
}

static bool method_case(const struct call *call)
{
    struct dt_tpl_text *out = &call->out->text;
    call->out->kind = V_STRING;
    if (!dt_tpl_check_args(call->r, call->args, "this method", ""))
        return false;
    if (is_method(call, "title"))
        return dt_tpl_title(call->r, call->self, true, out);
    if (is_method(call, "capitalize"))
        return dt_tpl_capitalize(call->r, call->self, out);
    return dt_tpl_change_case(call->r, call->self,
                              is_method(call, "upper")      ? CASE_UPPER
                              : is_method(call, "swapcase") ? CASE_SWAP
                              : is_method(call, "casefold") ? CASE_FOLD
                                                            : CASE_LOWER,
                              out);
}

/* --- split --- */

static bool add_part(const struct call *call, struct dt_tpl_list *list,
                     size_t begin, size_t end)
{
    return dt_tpl_list_add(
        call->r, list,
        dt_tpl_string((struct dt_tpl_text){call->self.s + begin, end - begin}));
}

/* Splits at white space, at most `most` times. */
static bool split_space(const struct call *call, int64_t most,
                        struct dt_tpl_list *list)
{
    const struct dt_tpl_text text = call->self;
    size_t at = 0, begin;
    for (;; most--) {
        while (at < text.n && dt_tpl_is_space(dt_tpl_code_point(text, at)))
            at += dt_tpl_sequence(text, at);
        if (at == text.n)
            return true;
        begin = at;
        if (most == 0)
            return add_part(call, list, begin, text.n);
        while (at < text.n && !dt_tpl_is_space(dt_tpl_code_point(text, at)))
            at += dt_tpl_sequence(text, at);
        if (!add_part(call, list, begin, at))
            return false;
    }
}

static bool split_at(const struct call *call, struct dt_tpl_text mark,
                     int64_t most, struct dt_tpl_list *list)
{
    size_t begin = 0, at;
    for (; most != 0 && (at = dt_tpl_find(call->self, mark, begin)) != SIZE_MAX;
         most--) {
        if (!add_part(call, list, begin, at))
            return false;
        begin = at + mark.n;
    }
    return add_part(call, list, begin, call->self.n);
}

/* Splits from the end; the parts are put into order afterwards. */
static bool split_at_last(const struct call *call, struct dt_tpl_text mark,
                          int64_t most, struct dt_tpl_list *list)
{
    struct dt_tpl_text rest = call->self;
    size_t at;
    for (; most != 0 && (at = dt_tpl_find_last(rest, mark)) != SIZE_MAX;
         most--) {
        if (!add_part(call, list, at + mark.n, rest.n))
            return false;
        rest.n = at;
    }
    if (!add_part(call, list, 0, rest.n))
        return false;
    for (size_t i = 0; i < list->count / 2; i++) {
        struct dt_tpl_value item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
    return true;
}

static bool method_split(const struct call *call)
{
    int64_t most;
    struct dt_tpl_text mark;
    struct dt_tpl_value sep = dt_tpl_arg(call->args, 0, "sep", dt_tpl_none());
    struct dt_tpl_list *list = dt_tpl_list(call->r, V_LIST, 0, call->out);
    bool last = is_method(call, "rsplit");
    if (!list ||
        !dt_tpl_check_args(call->r, call->args, "split", "sep, maxsplit") ||
        !dt_tpl_int_arg(call->r, call->args, 1, "maxsplit", -1, &most) ||
        !dt_tpl_step(call->r, call->self.n))
        return false;
    if (sep.kind == V_NONE) {
        if (!dt_tpl_scan(call->r, call->self, 1))
            return false;
        if (last && most >= 0)
            return dt_tpl_fail(call->r, "rsplit needs a separator here");
        return split_space(call, most, list);
    }
    if (!dt_tpl_text_arg(call->r, call->args, 0, "sep", NULL, &mark))
        return false;
    if (mark.n == 0)
        return dt_tpl_fail(call->r, "split with an empty separator");
    if (last)
        return charge_search(call, mark, true) &&
               split_at_last(call, mark, most, list);
    return split_at(call, mark, most, list);
}

static bool method_splitlines(const struct call *call)
{
    struct dt_tpl_list *list = dt_tpl_list(call->r, V_LIST, 0, call->out);
    bool keep = dt_tpl_true_arg(call->args, 0, "keepends");
    size_t begin = 0;
    if (!list || !dt_tpl_scan(call->r, call->self, 1) ||
        !dt_tpl_check_args(call->r, call->args, "splitlines", "keepends"))
        return false;
    for (size_t at = 0; at < call->self.n;) {
        size_t n = dt_tpl_line_end(call->self, at);
        if (n > 0) {
            if (!add_part(call, list, begin, at + (keep ? n : 0)))
                return false;
            begin = at + n;
        }
        at += n > 0 ? n : dt_tpl_sequence(call->self, at);
    }
    return begin == call->self.n || add_part(call, list, begin, call->self.n);
}

static bool method_partition(const struct call *call)
{
    struct dt_tpl_text mark, self = call->self;
    struct dt_tpl_list *list = dt_tpl_list(call->r, V_TUPLE, 3, call->out);
    bool last = is_method(call, "rpartition");
    if (!list || !dt_tpl_check_args(call->r, call->args, "partition", "sep") ||
        !dt_tpl_text_arg(call->r, call->args, 0, "sep", NULL, &mark))
        return false;
    if (mark.n == 0)
        return dt_tpl_fail(call->r, "partition with an empty separator");
    if (!charge_search(call, mark, last))
        return false;
    size_t at =
        last ? dt_tpl_find_last(self, mark) : dt_tpl_find(self, mark, 0);
    if (at == SIZE_MAX) {
        size_t cut = last ? 0 : self.n; /* the side that has all */
        return add_part(call, list, 0, cut) && add_part(call, list, cut, cut) &&
               add_part(call, list, last ? 0 : cut, self.n);
    }
    return add_part(call, list, 0, at) &&
           add_part(call, list, at, at + mark.n) &&
           add_part(call, list, at + mark.n, self.n);
}

/* --- find --- */

/* Whether the text begins or ends with another, as the method asks. False:
 * failed.
 */
static bool at_end(const struct call *call, struct dt_tpl_text what, bool *out)
{
    const bool last =
        is_method(call, "endswith") || is_method(call, "removesuffix");
    *out = call->self.n >= what.n;
    if (!*out)
        return true;
    const char *s = call->self.s + (last ? call->self.n - what.n : 0);
    *out = dt_tpl_same_text((struct dt_tpl_text){s, what.n}, what);
    return dt_tpl_step(call->r, what.n);
}

static bool method_ends(const struct call *call)
{
    struct dt_tpl_value what = dt_tpl_arg(call->args, 0, NULL, dt_tpl_none());
    struct dt_tpl_list one = {.items = &what, .count = 1};
    bool holds = false;
    if (!dt_tpl_check_args(call->r, call->args, "this method", "text"))
        return false;
    if (what.kind != V_STRING && what.kind != V_TUPLE)
        return dt_tpl_fail(call->r,
                           "expected a string or a tuple of strings, "
                           "got %s",
                           dt_tpl_kind_name(&what));
    const struct dt_tpl_list *all = what.kind == V_STRING ? &one : what.list;
    for (size_t i = 0; i < all->count && !holds; i++)
        if (all->items[i].kind == V_STRING &&
            !at_end(call, all->items[i].text, &holds))
            return false;
    *call->out = dt_tpl_bool(holds);
    return true;
}

static bool method_remove(const struct call *call)
{
    struct dt_tpl_text what;
    bool there;
    if (!dt_tpl_check_args(call->r, call->args, "this method", "text") ||
        !dt_tpl_text_arg(call->r, call->args, 0, NULL, NULL, &what) ||
        !at_end(call, what, &there))
        return false;
    if (!there)
        return give_text(call, call->self.s, call->self.n);
    return give_text(
        call, call->self.s + (is_method(call, "removeprefix") ? what.n : 0),
        call->self.n - what.n);
}

static bool method_find(const struct call *call)
{
    struct dt_tpl_text what;
    const bool last = call->name.s[0] == 'r';
    if (!dt_tpl_check_args(call->r, call->args, "this method", "text") ||
        !dt_tpl_text_arg(call->r, call->args, 0, NULL, NULL, &what) ||
        !charge_search(call, what, last))
        return false;
    size_t at = last ? dt_tpl_find_last(call->self, what)
                     : dt_tpl_find(call->self, what, 0);
    bool finds = is_method(call, "find") || is_method(call, "rfind");
    if (at == SIZE_MAX && !finds)
        return dt_tpl_fail(call->r, "the text is not found");
    *call->out = dt_tpl_int(-1);
    if (at != SIZE_MAX)
        call->out->i =
            (int64_t)dt_tpl_characters((struct dt_tpl_text){call->self.s, at});
    return true;
}

static bool method_count(const struct call *call)
{
    struct dt_tpl_text what;
    int64_t count = 0;
    if (!dt_tpl_check_args(call->r, call->args, "count", "text") ||
        !dt_tpl_text_arg(call->r, call->args, 0, NULL, NULL, &what) ||
        !charge_search(call, what, false))
        return false;
    for (size_t at = 0; what.n > 0; at += what.n, count++) {
        if ((at = dt_tpl_find(call->self, what, at)) == SIZE_MAX)
            break;
        if (!dt_tpl_step(call->r, 0))
            return false;
    }
    if (what.n == 0)
        count = (int64_t)dt_tpl_characters(call->self) + 1;
    *call->out = dt_tpl_int(count);
    return true;
}

static bool method_replace(const struct call *call)
{
    struct dt_tpl_text old, new;
    int64_t most;
    call->out->kind = V_STRING;
    return dt_tpl_check_args(call->r, call->args, "replace",
                             "old, new, count") &&
           dt_tpl_text_arg(call->r, call->args, 0, NULL, NULL, &old) &&
           dt_tpl_text_arg(call->r, call->args, 1, NULL, NULL, &new) &&
           dt_tpl_int_arg(call->r, call->args, 2, "count", -1, &most) &&
           dt_tpl_replace(call->r, call->self, old, new, most,
                          &call->out->text);
}

/* --- join, format, fill --- */

static bool method_join(const struct call *call)
{
    struct dt_tpl_builder b = {.run = call->r};
    struct dt_tpl_value items = dt_tpl_arg(call->args, 0, NULL, dt_tpl_none());
    struct dt_tpl_list *list;
    if (!dt_tpl_check_args(call->r, call->args, "join", "items") ||
        !dt_tpl_iterate(call->r, &items, &list))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].kind != V_STRING)
            return dt_tpl_fail(call->r, "join expects strings, got %s",
                               dt_tpl_kind_name(&list->items[i]));
        if (i > 0)
            dt_tpl_add_text(&b, call->self);
        dt_tpl_add_text(&b, list->items[i].text);
    }
    call->out->kind = V_STRING;
    return dt_tpl_built(&b, &call->out->text);
}

/* The value of "{<field>}"; *next counts the fields without a name. */
static bool format_field(const struct call *call, struct dt_tpl_text field,
                         size_t *next, struct dt_tpl_text *out)
{
    char name[64];
    struct dt_tpl_value none = dt_tpl_undefined(field), value;
    if (field.n >= sizeof(name) || memchr(field.s, ':', field.n) ||
        memchr(field.s, '.', field.n) || memchr(field.s, '[', field.n) ||
        memchr(field.s, '!', field.n))
        return dt_tpl_fail(call->r, "this field of format is not supported");
    snprintf(name, sizeof(name), "%.*s", (int)field.n, field.s);
    if (field.n == 0)
        value = dt_tpl_arg(call->args, (*next)++, NULL, none);
    else if (name[strspn(name, "0123456789")] == '\0')
        value = dt_tpl_arg(call->args, strtoul(name, NULL, 10), NULL, none);
    else
        value = dt_tpl_arg(call->args, SIZE_MAX, name, none);
    if (value.kind == V_UNDEFINED)
        return dt_tpl_fail(call->r, "format has no value for {%s}", name);
    return dt_tpl_show(call->r, &value, out);
}

static bool method_format(const struct call *call)
{
    struct dt_tpl_builder b = {.run = call->r};
    struct dt_tpl_text self = call->self, text;
    size_t next = 0;
    if (!dt_tpl_scan(call->r, self, 1))
        return false;
    for (size_t at = 0; at < self.n; at++) {
        char c = self.s[at];
        bool twice = at + 1 < self.n && self.s[at + 1] == c;
        if ((c == '{' || c == '}') && twice) {
            dt_tpl_add(&b, &c, 1);
            at++;
            continue;
        }
        if (c != '{' && c != '}') {
            dt_tpl_add(&b, &c, 1);
            continue;
        }
        const char *end =
            c == '{' ? memchr(self.s + at, '}', self.n - at) : NULL;
        if (!end)
            return dt_tpl_fail(call->r, "a single brace in a format");
        size_t begin = at + 1;
        at = (size_t)(end - self.s);
        if (!format_field(call,
                          (struct dt_tpl_text){self.s + begin, at - begin},
                          &next, &text))
            return false;
        dt_tpl_add_text(&b, text);
    }
    call->out->kind = V_STRING;
    return dt_tpl_built(&b, &call->out->text);
}

/* ljust, rjust, center and zfill */
static bool method_fill(const struct call *call)
{
    struct dt_tpl_builder b = {.run = call->r};
    struct dt_tpl_text self = call->self, fill = TEXT("0");
    int64_t width, count = (int64_t)dt_tpl_characters(self), left;
    bool zeros = is_method(call, "zfill");
    if (!dt_tpl_check_args(call->r, call->args, "this method", "width, fill") ||
        !dt_tpl_int_arg(call->r, call->args, 0, NULL, 0, &width) ||
        (!zeros && !dt_tpl_text_arg(call->r, call->args, 1, NULL, " ", &fill)))
        return false;
    int64_t pad = width > count ? width - count : 0;
    left = is_method(call, "ljust")    ? 0
           : is_method(call, "center") ? pad / 2 + (pad & width & 1)
                                       : pad;
    if (zeros && self.n > 0 && strchr("+-", self.s[0])) {
        dt_tpl_add(&b, self.s, 1);
        self = (struct dt_tpl_text){self.s + 1, self.n - 1};
    }
    dt_tpl_add_times(&b, fill, left);
    dt_tpl_add_text(&b, self);
    dt_tpl_add_times(&b, fill, pad - left);
    call->out->kind = V_STRING;
    return dt_tpl_built(&b, &call->out->text);
}

static const struct {
    const char *name;
    bool (*apply)(const struct call *call);
} methods[] = {
    {"strip", method_strip},         {"lstrip", method_strip},
    {"rstrip", method_strip},        {"split", method_split},
    {"rsplit", method_split},        {"splitlines", method_splitlines},
    {"startswith", method_ends},     {"endswith", method_ends},
    {"upper", method_case},          {"lower", method_case},
    {"title", method_case},          {"capitalize", method_case},
    {"swapcase", method_case},       {"casefold", method_case},
    {"replace", method_replace},     {"find", method_find},
    {"rfind", method_find},          {"index", method_find},
    {"rindex", method_find},         {"count", method_count},
    {"join", method_join},           {"format", method_format},
    {"removeprefix", method_remove}, {"removesuffix", method_remove},
    {"partition", method_partition}, {"rpartition", method_partition},
    {"zfill", method_fill},          {"ljust", method_fill},
    {"rjust", method_fill},          {"center", method_fill},
};

bool dt_tpl_string_method(struct dt_tpl_run *r, struct dt_tpl_text self,
                          struct dt_tpl_text name,
                          const struct dt_tpl_args *args,
                          struct dt_tpl_value *out)
{
    const struct call call = {r, self, name, args, out};
    bool holds;
    *out = dt_tpl_none();
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (dt_tpl_text_is(name, methods[i].name))
            return methods[i].apply(&call);
    if (dt_tpl_text_test(self, name, &holds)) {
        *out = dt_tpl_bool(holds);
        return dt_tpl_scan(r, self, 4);
    }
    return dt_tpl_fail(r, "the method '%.*s' of strings is not supported",
                       (int)name.n, name.s);
}
