/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - calls of macros, functions and methods */
#include "config.h"

#include "template/template_run.h"

bool dt_tpl_eval_args(struct dt_tpl_run *r, const struct dt_tpl_call *call,
                      struct dt_tpl_args *args)
{
    *args = (struct dt_tpl_args){.count = call->args.count,
                                 .keyword_count = call->keyword_count};
    if (args->count > 0 &&
        !(args->items = dt_tpl_alloc(r, args->count * sizeof(*args->items))))
        return false;
    if (args->keyword_count > 0 &&
        !(args->keywords =
              dt_tpl_alloc(r, args->keyword_count * sizeof(*args->keywords))))
        return false;
    for (size_t i = 0; i < args->count; i++)
        if (!dt_tpl_eval(r, call->args.items[i], &args->items[i]))
            return false;
    for (size_t i = 0; i < args->keyword_count; i++) {
        args->keywords[i].key = dt_tpl_string(call->keywords[i].name);
        if (!dt_tpl_eval(r, call->keywords[i].value, &args->keywords[i].value))
            return false;
    }
    return true;
}

/* The argument for a parameter; *given: whether there is one. */
static bool macro_argument(struct dt_tpl_run *r,
                           const struct dt_tpl_node *macro, size_t i,
                           const struct dt_tpl_args *args, size_t *named,
                           struct dt_tpl_value *out)
{
    struct dt_tpl_text name = macro->items.items[i]->text;
    if (i < args->count) {
        *out = args->items[i];
        return true;
    }
    for (size_t k = 0; k < args->keyword_count; k++)
        if (dt_tpl_same_text(args->keywords[k].key.text, name)) {
            *out = args->keywords[k].value;
            ++*named;
            return true;
        }
    *out = dt_tpl_undefined(name);
    return !macro->call.args.items[i] ||
           dt_tpl_eval(r, macro->call.args.items[i], out);
}

/* Binds arguments in the scope of a call, r->frame. */
static bool bind_arguments(struct dt_tpl_run *r,
                           const struct dt_tpl_node *macro,
                           const struct dt_tpl_args *args)
{
    struct dt_tpl_value value;
    size_t named = 0;
    if (args->count > macro->items.count)
        return dt_tpl_fail(r, "'%.*s' takes %zu arguments, got %zu",
                           (int)macro->text.n, macro->text.s,
                           macro->items.count, args->count);
    for (size_t k = 0; k < args->keyword_count; k++)
        if (dt_tpl_text_is(args->keywords[k].key.text, "caller")) {
            named++;
            if (!dt_tpl_set(r, r->frame, r->template->caller,
                            args->keywords[k].value))
                return false;
        }
    for (size_t i = 0; i < macro->items.count; i++)
        if (!macro_argument(r, macro, i, args, &named, &value) ||
            !dt_tpl_set(r, r->frame, macro->items.items[i]->name, value))
            return false;
    return named == args->keyword_count ||
           dt_tpl_fail(r,
                       "'%.*s' has no parameter of one of these names, or "
                       "it is given twice",
                       (int)macro->text.n, macro->text.s);
}

static bool call_macro(struct dt_tpl_run *r, const struct dt_tpl_macro *macro,
                       const struct dt_tpl_args *args, struct dt_tpl_value *out)
{
    struct dt_tpl_frame *outer = r->frame;
    struct dt_tpl_frame *frame = dt_tpl_alloc(r, sizeof(*frame));
    struct dt_tpl_text text;
    if (!frame)
        return false;
    frame->parent = macro->closure;
    r->frame = frame;
    if (!bind_arguments(r, macro->node, args) ||
        !dt_tpl_capture(r, &macro->node->body, &text))
        return false;
    r->frame = outer;
    *out = dt_tpl_string(text);
    return true;
}

bool dt_tpl_call(struct dt_tpl_run *r, const struct dt_tpl_value *callee,
                 const struct dt_tpl_args *args, struct dt_tpl_value *out)
{
    switch (callee->kind) {
    case V_MACRO:
        return call_macro(r, callee->macro, args, out);
    case V_FUNCTION:
        return dt_tpl_function(r, (enum dt_tpl_function)callee->i, args, out);
    case V_METHOD:
        return dt_tpl_method(r, callee->method, args, out);
    case V_UNDEFINED:
        return dt_tpl_fail_undefined(r, callee);
    default:
        return dt_tpl_fail(r, "%s cannot be called", dt_tpl_kind_name(callee));
    }
}
