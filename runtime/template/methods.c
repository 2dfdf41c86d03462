/* SPDX-License-Identifier: Apache-2.0 */
/* methods.c - methods of objects, lists and loops, and which there are */
#include "config.h"

#include <string.h>

#include "template/template_run.h"

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

/* The keys, values or pairs of an object as a view. */
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
