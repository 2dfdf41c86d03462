/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c - functions, and attributes, items and methods of values */
#include "config.h"

#include <string.h>
#include <time.h>

#include "template/template_impl.h"

/* --- functions --- */

static bool call_range(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                       struct dt_tpl_value *out)
{
    int64_t from, to, step;
    if (!dt_tpl_check_args(r, args, "range", "a, b, c") ||
        !dt_tpl_int_arg(r, args, 0, NULL, 0, &from) ||
        !dt_tpl_int_arg(r, args, 1, NULL, from, &to) ||
        !dt_tpl_int_arg(r, args, 2, NULL, 1, &step))
        return false;
    if (args->count < 2)
        from = 0;
    if (args->count == 0 || step == 0)
        return dt_tpl_fail(r, "range expects a number, and a step that is not "
                              "0");
    struct dt_tpl_list *list = dt_tpl_list(r, V_RANGE, 0, out);
    for (int64_t i = from; list && (step > 0 ? i < to : i > to);) {
        if (list->count == 100000)
            return dt_tpl_fail(r, "a range of more than 100000 numbers");
        if (!dt_tpl_list_add(r, list, dt_tpl_int(i)))
            return false;
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return list;
}

/* Adds the pairs of an object or of a list of pairs. */
static bool add_pairs(struct dt_tpl_run *r, const struct dt_tpl_value *from,
                      struct dt_tpl_dict *to)
{
    struct dt_tpl_list *list, *pair;
    if (from->kind == V_DICT || from->kind == V_NAMESPACE) {
        for (size_t i = 0; i < from->dict->count; i++)
            if (!dt_tpl_dict_set(r, to, from->dict->pairs[i].key,
                                 from->dict->pairs[i].value))
                return false;
        return true;
    }
    if (!dt_tpl_iterate(r, from, &list))
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (!dt_tpl_iterate(r, &list->items[i], &pair))
            return false;
        if (pair->count != 2)
            return dt_tpl_fail(r, "expected pairs of a key and a value");
        if (!dt_tpl_dict_set(r, to, pair->items[0], pair->items[1]))
            return false;
    }
    return true;
}

/* dict and namespace */
static bool call_dict(struct dt_tpl_run *r, bool namespace,
                      const struct dt_tpl_args *args, struct dt_tpl_value *out)
{
    if (args->count > 1)
        return dt_tpl_fail(r, "expected at most one argument without a name");
    if (!dt_tpl_dict(r, out) ||
        (args->count > 0 && !add_pairs(r, &args->items[0], out->dict)))
        return false;
    for (size_t i = 0; i < args->keyword_count; i++)
        if (!dt_tpl_dict_set(r, out->dict, args->keywords[i].key,
                             args->keywords[i].value))
            return false;
    for (size_t i = 0; namespace && i < out->dict->count; i++) {
        struct dt_tpl_value *key = &out->dict->pairs[i].key;
        if (key->kind == V_STRING && key->text.n > 0 && key->text.s[0] == '_')
            return dt_tpl_fail(r, "a namespace has no attributes that begin "
                                  "with _");
    }
    if (namespace)
        out->kind = V_NAMESPACE;
    return true;
}

static bool call_raise(struct dt_tpl_run *r, const struct dt_tpl_args *args)
{
    struct dt_tpl_text text;
    struct dt_tpl_value message =
        dt_tpl_arg(args, 0, "message", dt_tpl_string(TEXT("")));
    if (!dt_tpl_check_args(r, args, "raise_exception", "message") ||
        !dt_tpl_show(r, &message, &text))
        return false;
    return dt_tpl_fail(r, "the chat template refuses this conversation: %.*s",
                       (int)(text.n < 400 ? text.n : 400), text.s);
}

/* Copies a format with the text that Python writes for midnight without a time
 * zone where C would write another: %f, and nothing for %z and %Z. False: no
 * room.
 */
static bool copy_format(struct dt_tpl_text format, char *copy, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < format.n; i++) {
        const bool two = format.s[i] == '%' && i + 1 < format.n;
        const char kind = two ? format.s[i + 1] : '\0';
        const char *as = kind == 'f' ? "000000" : "";
        size_t m = strlen(as);
        if (!strchr("fzZ", kind) || !two) {
            as = format.s + i;
            m = two ? 2 : 1;
        }
        if (n + m >= size)
            return false;
        memcpy(copy + n, as, m);
        n += m;
        i += two;
    }
    copy[n] = '\0';
    return true;
}

/* Friday, 26 July 2024, the date that templates fall back to. */
static bool call_strftime(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                          struct dt_tpl_value *out)
{
    const struct tm day = {.tm_year = 124,
                           .tm_mon = 6,
                           .tm_mday = 26,
                           .tm_wday = 5,
                           .tm_yday = 207};
    struct dt_tpl_text format;
    char copy[200], *text = dt_tpl_alloc(r, 1024);
    if (!text || !dt_tpl_check_args(r, args, "strftime_now", "format") ||
        !dt_tpl_text_arg(r, args, 0, "format", NULL, &format))
        return false;
    if (!copy_format(format, copy, sizeof(copy)))
        return dt_tpl_fail(r, "a format of more than %zu bytes",
                           sizeof(copy) - 1);
    *out = dt_tpl_string((struct dt_tpl_text){
        text, copy[0] ? strftime(text, 1024, copy, &day) : 0});
    return true;
}

bool dt_tpl_find_function(struct dt_tpl_text name, struct dt_tpl_value *out)
{
    static const struct {
        const char *name;
        enum dt_tpl_function function;
    } all[] = {
        {"range", F_RANGE},           {"dict", F_DICT},
        {"namespace", F_NAMESPACE},   {"raise_exception", F_RAISE},
        {"strftime_now", F_STRFTIME}, {"cycler", F_UNSUPPORTED},
        {"joiner", F_UNSUPPORTED},    {"lipsum", F_UNSUPPORTED},
        {"self", F_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (dt_tpl_text_is(name, all[i].name)) {
            *out = (struct dt_tpl_value){.kind = V_FUNCTION,
                                         .i = (int64_t)all[i].function};
            return true;
        }
    return false;
}

/* Calls a function. */
bool dt_tpl_function(struct dt_tpl_run *r, enum dt_tpl_function function,
                     const struct dt_tpl_args *args, struct dt_tpl_value *out)
{
    switch (function) {
    case F_RANGE:
        return call_range(r, args, out);
    case F_DICT:
    case F_NAMESPACE:
        return call_dict(r, function == F_NAMESPACE, args, out);
    case F_RAISE:
        return call_raise(r, args);
    case F_STRFTIME:
        return call_strftime(r, args, out);
    default:
        return dt_tpl_fail(r, "this function is not supported");
    }
}

/* --- methods --- */

bool dt_tpl_has_method(enum dt_tpl_kind kind, struct dt_tpl_text name)
{
    static const char *const strings[] = {
        "strip",        "lstrip",      "rstrip",       "split",
        "rsplit",       "splitlines",  "startswith",   "endswith",
        "upper",        "lower",       "title",        "capitalize",
        "swapcase",     "casefold",    "replace",      "find",
        "rfind",        "index",       "rindex",       "count",
        "join",         "format",      "removeprefix", "removesuffix",
        "partition",    "rpartition",  "isspace",      "isalpha",
        "isdigit",      "isdecimal",   "isnumeric",    "isalnum",
        "isupper",      "islower",     "zfill",        "ljust",
        "rjust",        "center",      "expandtabs",   "encode",
        "format_map",   "translate",   "maketrans",    "istitle",
        "isidentifier", "isprintable", "isascii",      NULL};
    static const char *const dicts[] = {
        "get", "items",   "keys",  "values",     "copy",     "update",
        "pop", "popitem", "clear", "setdefault", "fromkeys", NULL};
    static const char *const lists[] = {"index",  "count",  "copy",    "append",
                                        "extend", "insert", "pop",     "remove",
                                        "clear",  "sort",   "reverse", NULL};
    static const char *const tuples[] = {"index", "count", NULL};
    static const char *const loops[] = {"cycle", "changed", NULL};
    static const char *const *const all[] = {
        [V_STRING] = strings, [V_DICT] = dicts,   [V_LIST] = lists,
        [V_TUPLE] = tuples,   [V_RANGE] = tuples, [V_LOOP] = loops};
    const char *const *names = kind <= V_LOOP ? all[kind] : NULL;
    for (; names && *names; names++)
        if (dt_tpl_text_is(name, *names))
            return true;
    return false;
}

static bool unsupported(struct dt_tpl_run *r, const struct dt_tpl_method *m)
{
    bool changes = m->self.kind == V_LIST || m->self.kind == V_DICT;
    return dt_tpl_fail(r, "the method '%.*s' of %s is not %s", (int)m->name.n,
                       m->name.s, dt_tpl_kind_name(&m->self),
                       changes ? "allowed" : "supported");
}

/* --- objects --- */

/* A view of the keys, values or pairs of an object. */
static bool view_of(struct dt_tpl_run *r, const struct dt_tpl_dict *dict,
                    char what, struct dt_tpl_value *out)
{
    struct dt_tpl_list *view = dt_tpl_list(r, V_VIEW, dict->count, out);
    for (size_t i = 0; view && i < dict->count; i++) {
        struct dt_tpl_value item =
            what == 'k' ? dict->pairs[i].key : dict->pairs[i].value;
        struct dt_tpl_list *pair =
            what == 'i' ? dt_tpl_list(r, V_TUPLE, 2, &item) : NULL;
        if (what == 'i' &&
            (!pair || !dt_tpl_list_add(r, pair, dict->pairs[i].key) ||
             !dt_tpl_list_add(r, pair, dict->pairs[i].value)))
            return false;
        if (!dt_tpl_list_add(r, view, item))
            return false;
    }
    return view;
}

static bool dict_method(struct dt_tpl_run *r, const struct dt_tpl_method *m,
                        const struct dt_tpl_args *args,
                        struct dt_tpl_value *out)
{
    struct dt_tpl_value key = dt_tpl_arg(args, 0, NULL, dt_tpl_none()), *found;
    if (dt_tpl_text_is(m->name, "get")) {
        if (args->count == 0 || args->count > 2 || args->keyword_count > 0)
            return dt_tpl_fail(r, "get expects a key, and perhaps a default");
        if (!dt_tpl_dict_find(r, m->self.dict, &key, &found))
            return false;
        *out = found ? *found : dt_tpl_arg(args, 1, NULL, dt_tpl_none());
        return true;
    }
    if (!dt_tpl_check_args(r, args, "this method", ""))
        return dt_tpl_text_is(m->name, "copy") ? false : unsupported(r, m);
    if (dt_tpl_text_is(m->name, "items") || dt_tpl_text_is(m->name, "keys") ||
        dt_tpl_text_is(m->name, "values"))
        return view_of(r, m->self.dict, m->name.s[0], out);
    if (!dt_tpl_text_is(m->name, "copy"))
        return unsupported(r, m);
    *out = m->self;
    return true;
}

/* --- lists --- */

static bool list_method(struct dt_tpl_run *r, const struct dt_tpl_method *m,
                        const struct dt_tpl_args *args,
                        struct dt_tpl_value *out)
{
    bool counts = dt_tpl_text_is(m->name, "count"), same;
    int64_t count = 0;
    if (dt_tpl_text_is(m->name, "copy")) {
        *out = m->self;
        return true;
    }
    if (!counts && !dt_tpl_text_is(m->name, "index"))
        return unsupported(r, m);
    if (args->count != 1 || args->keyword_count > 0)
        return dt_tpl_fail(r, "this method expects one argument here");
    for (size_t i = 0; i < m->self.list->count; i++) {
        if (!dt_tpl_equal(r, &m->self.list->items[i], &args->items[0], &same))
            return false;
        if (same && !counts) {
            *out = dt_tpl_int((int64_t)i);
            return true;
        }
        count += same;
    }
    *out = dt_tpl_int(count);
    return counts || dt_tpl_fail(r, "the value is not in the list");
}

static bool loop_method(struct dt_tpl_run *r, const struct dt_tpl_method *m,
                        const struct dt_tpl_args *args,
                        struct dt_tpl_value *out)
{
    struct dt_tpl_loop *loop = m->self.loop;
    struct dt_tpl_value now;
    struct dt_tpl_list *list;
    bool same = false;
    if (dt_tpl_text_is(m->name, "cycle")) {
        if (args->count == 0)
            return dt_tpl_fail(r, "cycle expects values");
        *out = args->items[loop->index % args->count];
        return true;
    }
    list = dt_tpl_list(r, V_TUPLE, args->count, &now);
    for (size_t i = 0; list && i < args->count; i++)
        if (!dt_tpl_list_add(r, list, args->items[i]))
            return false;
    if (!list || (loop->changed.kind == V_TUPLE &&
                  !dt_tpl_equal(r, &loop->changed, &now, &same)))
        return false;
    loop->changed = now;
    *out = dt_tpl_bool(!same);
    return true;
}

bool dt_tpl_method(struct dt_tpl_run *r, const struct dt_tpl_method *m,
                   const struct dt_tpl_args *args, struct dt_tpl_value *out)
{
    switch (m->self.kind) {
    case V_STRING:
        if (m->self.flag)
            return dt_tpl_fail(r, "methods of a safe string are not supported");
        return dt_tpl_string_method(r, m->self.text, m->name, args, out);
    case V_DICT:
        return dict_method(r, m, args, out);
    case V_LOOP:
        return loop_method(r, m, args, out);
    default:
        return list_method(r, m, args, out);
    }
}

/* --- attributes and items --- */

static struct dt_tpl_value loop_attribute(const struct dt_tpl_loop *loop,
                                          struct dt_tpl_text name)
{
    const int64_t index = (int64_t)loop->index;
    const int64_t count = (int64_t)loop->items->count;
    const struct {
        const char *name;
        struct dt_tpl_value value;
    } all[] = {
        {"index", dt_tpl_int(index + 1)},
        {"index0", dt_tpl_int(index)},
        {"first", dt_tpl_bool(index == 0)},
        {"last", dt_tpl_bool(index + 1 == count)},
        {"length", dt_tpl_int(count)},
        {"revindex", dt_tpl_int(count - index)},
        {"revindex0", dt_tpl_int(count - index - 1)},
        {"depth", dt_tpl_int(1)},
        {"depth0", dt_tpl_int(0)},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (dt_tpl_text_is(name, all[i].name))
            return all[i].value;
    if (dt_tpl_text_is(name, "previtem") && index > 0)
        return loop->items->items[index - 1];
    if (dt_tpl_text_is(name, "nextitem") && index + 1 < count)
        return loop->items->items[index + 1];
    struct dt_tpl_value none = dt_tpl_undefined(name);
    none.flag = true;
    return none;
}

/* The method of a value, or undefined. */
static bool find_method(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                        struct dt_tpl_text name, struct dt_tpl_value *out)
{
    *out = dt_tpl_undefined(name);
    out->flag = true;
    if (!dt_tpl_has_method(value->kind, name))
        return true;
    struct dt_tpl_method *method = dt_tpl_alloc(r, sizeof(*method));
    if (!method)
        return false;
    *method = (struct dt_tpl_method){*value, name};
    *out = (struct dt_tpl_value){.kind = V_METHOD, .method = method};
    return true;
}

/* Refuses attributes that values have in Python but not here, which would
 * otherwise be undefined.
 */
static bool check_attribute(struct dt_tpl_run *r,
                            const struct dt_tpl_value *value,
                            struct dt_tpl_text name)
{
    static const char *const numbers[] = {"real",
                                          "imag",
                                          "numerator",
                                          "denominator",
                                          "is_integer",
                                          "bit_length",
                                          "bit_count",
                                          "to_bytes",
                                          "from_bytes",
                                          "conjugate",
                                          "hex",
                                          "fromhex",
                                          "as_integer_ratio",
                                          NULL};
    static const char *const ranges[] = {"start", "stop", "step", NULL};
    static const char *const views[] = {"isdisjoint", "mapping", NULL};
    static const char *const macros[] = {"arguments",       "caller",
                                         "catch_kwargs",    "catch_varargs",
                                         "explicit_caller", NULL};
    static const char *const *const all[] = {
        [V_BOOL] = numbers, [V_INT] = numbers, [V_FLOAT] = numbers,
        [V_RANGE] = ranges, [V_VIEW] = views,  [V_MACRO] = macros};
    const char *const *names = value->kind <= V_MACRO ? all[value->kind] : NULL;
    for (; names && *names; names++)
        if (dt_tpl_text_is(name, *names))
            return dt_tpl_fail(r, "the attribute '%s' of %s is not supported",
                               *names, dt_tpl_kind_name(value));
    return true;
}

bool dt_tpl_attribute(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                      struct dt_tpl_text name, struct dt_tpl_value *out)
{
    struct dt_tpl_value *found = NULL;
    if (value->kind == V_UNDEFINED)
        return dt_tpl_fail_undefined(r, value);
    if (value->kind == V_LOOP && !dt_tpl_has_method(V_LOOP, name)) {
        *out = loop_attribute(value->loop, name);
        return true;
    }
    if (value->kind == V_MACRO && dt_tpl_text_is(name, "name")) {
        *out = dt_tpl_string(value->macro->node->text);
        return true;
    }
    if (!check_attribute(r, value, name))
        return false;
    const struct dt_tpl_value key = dt_tpl_string(name);
    if ((value->kind == V_NAMESPACE ||
         (value->kind == V_DICT && !dt_tpl_has_method(V_DICT, name))) &&
        !dt_tpl_dict_find(r, value->dict, &key, &found))
        return false;
    if (found) {
        *out = *found;
        return true;
    }
    return find_method(r, value, name, out);
}

/* The item of a list or text at an index; undefined if it is out of range. */
static bool item_at(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                    int64_t index, struct dt_tpl_value *out)
{
    size_t count;
    if (value->kind == V_STRING && !dt_tpl_step(r, value->text.n))
        return false;
    if (!dt_tpl_length(value, &count))
        return true;
    if (index < 0)
        index += (int64_t)count;
    if (index < 0 || (size_t)index >= count)
        return true;
    if (value->kind != V_STRING) {
        *out = value->list->items[index];
        return true;
    }
    size_t at = dt_tpl_offset(value->text, (size_t)index);
    *out = dt_tpl_string((struct dt_tpl_text){
        value->text.s + at, dt_tpl_sequence(value->text, at)});
    out->flag = value->flag;
    return true;
}

bool dt_tpl_item(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                 const struct dt_tpl_value *key, struct dt_tpl_value *out)
{
    struct dt_tpl_value *found;
    if (value->kind == V_UNDEFINED)
        return dt_tpl_fail_undefined(r, value);
    *out = dt_tpl_undefined(key->kind == V_STRING ? key->text : TEXT("item"));
    out->flag = true;
    bool has_items = value->kind == V_STRING || value->kind == V_LIST ||
                     value->kind == V_TUPLE || value->kind == V_RANGE;
    if (has_items && (key->kind == V_INT || key->kind == V_BOOL))
        return item_at(r, value, dt_tpl_integer(key), out);
    if (value->kind == V_DICT) {
        if (!dt_tpl_dict_find(r, value->dict, key, &found))
            return false;
        if (found) {
            *out = *found;
            return true;
        }
    }
    if (key->kind != V_STRING)
        return true;
    return value->kind == V_DICT ? find_method(r, value, key->text, out)
                                 : dt_tpl_attribute(r, value, key->text, out);
}
