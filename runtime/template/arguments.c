/* SPDX-License-Identifier: Apache-2.0 */
/* arguments.c - the arguments of functions, methods, filters and tests */
#include "config.h"

#include <string.h>

#include "template/template_run.h"

/* Whether the text is an item of the list "a, b, c". */
static bool is_listed(struct dt_tpl_text text, const char *names)
{
    while (*names) {
        size_t n = strcspn(names, ",");
        if (dt_tpl_same_text(text, (struct dt_tpl_text){names, n}))
            return true;
        names += n + strspn(names + n, ", ");
    }
    return false;
}

bool dt_tpl_check_args(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                       const char *what, const char *names)
{
    size_t most = *names ? 1 : 0;
    for (const char *c = names; *c; c++)
        most += *c == ',';
    for (size_t i = 0; i < args->keyword_count; i++)
        if (!is_listed(args->keywords[i].key.text, names))
            return dt_tpl_fail(r, "%s has no argument '%.*s' here", what,
                               (int)args->keywords[i].key.text.n,
                               args->keywords[i].key.text.s);
    return args->count + args->keyword_count <= most ||
           dt_tpl_fail(r, "%s has at most %zu arguments here", what, most);
}

struct dt_tpl_value dt_tpl_arg(const struct dt_tpl_args *args, size_t position,
                               const char *name, struct dt_tpl_value fallback)
{
    if (position < args->count)
        return args->items[position];
    for (size_t i = 0; name && i < args->keyword_count; i++)
        if (dt_tpl_text_is(args->keywords[i].key.text, name))
            return args->keywords[i].value;
    return fallback;
}

bool dt_tpl_text_arg(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                     size_t position, const char *name, const char *fallback,
                     struct dt_tpl_text *out)
{
    struct dt_tpl_value value =
        dt_tpl_arg(args, position, name, dt_tpl_undefined(TEXT("argument")));
    if (value.kind == V_UNDEFINED && fallback)
        value = dt_tpl_string((struct dt_tpl_text){fallback, strlen(fallback)});
    *out = value.text;
    return value.kind == V_STRING ||
           dt_tpl_fail(r, "expected a string as an argument, got %s",
                       dt_tpl_kind_name(&value));
}

bool dt_tpl_int_arg(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                    size_t position, const char *name, int64_t fallback,
                    int64_t *out)
{
    struct dt_tpl_value value =
        dt_tpl_arg(args, position, name, dt_tpl_int(fallback));
    bool whole = value.kind == V_INT || value.kind == V_BOOL;
    *out = whole ? dt_tpl_integer(&value) : fallback;
    return whole || dt_tpl_fail(r, "expected an integer as an argument, got %s",
                                dt_tpl_kind_name(&value));
}

bool dt_tpl_true_arg(const struct dt_tpl_args *args, size_t position,
                     const char *name)
{
    struct dt_tpl_value value =
        dt_tpl_arg(args, position, name, dt_tpl_bool(false));
    return dt_tpl_truth(&value);
}
