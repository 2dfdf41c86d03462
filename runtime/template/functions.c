/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c - the functions that a template can call */
#include "config.h"

#include <string.h>
#include <time.h>

#include "template/template_run.h"

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

/* Copies a format with what Python writes of midnight without a time zone where
 * C writes something else: %f, and nothing for %z and %Z. False: no room.
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
