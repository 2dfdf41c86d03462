/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c - expressions, and calls of macros, functions and methods */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

/* --- names --- */

static bool eval_name(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                      struct dt_tpl_value *out)
{
    for (struct dt_tpl_frame *f = r->frame; f; f = f->parent)
        for (int i = 0; i < f->count; i++)
            if (f->variables[i].name == node->name) {
                *out = f->variables[i].value;
                return true;
            }
    if (!dt_tpl_find_function(node->text, out))
        *out = dt_tpl_undefined(node->text);
    return true;
}

/* --- attributes and items --- */

static bool eval_item(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                      struct dt_tpl_value *out)
{
    struct dt_tpl_value value, key;
    if (!dt_tpl_eval(r, node->a, &value) || !dt_tpl_eval(r, node->b, &key))
        return false;
    r->node = node;
    return dt_tpl_item(r, &value, &key, out);
}

static bool eval_slice(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                       struct dt_tpl_value *out)
{
    struct dt_tpl_value value, bounds[3];
    if (!dt_tpl_eval(r, node->a, &value))
        return false;
    for (int i = 0; i < 3; i++) {
        bounds[i] = dt_tpl_none();
        if (node->items.items[i] &&
            !dt_tpl_eval(r, node->items.items[i], &bounds[i]))
            return false;
    }
    r->node = node;
    return dt_tpl_slice(r, &value, bounds, out);
}

/* --- literals --- */

static bool eval_list(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                      struct dt_tpl_value *out)
{
    struct dt_tpl_value item;
    struct dt_tpl_list *list = dt_tpl_list(
        r, node->kind == E_LIST ? V_LIST : V_TUPLE, node->items.count, out);
    for (size_t i = 0; list && i < node->items.count; i++)
        if (!dt_tpl_eval(r, node->items.items[i], &item) ||
            !dt_tpl_list_add(r, list, item))
            return false;
    return list;
}

static bool eval_dict(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                      struct dt_tpl_value *out)
{
    struct dt_tpl_value key, value;
    if (!dt_tpl_dict(r, out))
        return false;
    for (size_t i = 0; i + 1 < node->items.count; i += 2)
        if (!dt_tpl_eval(r, node->items.items[i], &key) ||
            !dt_tpl_eval(r, node->items.items[i + 1], &value) ||
            !dt_tpl_dict_set(r, out->dict, key, value))
            return false;
    return true;
}

/* --- calls --- */

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

/* The argument for a parameter; *given: whether the call has one. */
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

static bool eval_call(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                      struct dt_tpl_value *out)
{
    struct dt_tpl_value callee;
    struct dt_tpl_args args;
    if (!dt_tpl_eval(r, node->a, &callee) ||
        !dt_tpl_eval_args(r, &node->call, &args))
        return false;
    r->node = node;
    return dt_tpl_call(r, &callee, &args, out);
}

static bool eval_filter(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                        struct dt_tpl_value *out)
{
    struct dt_tpl_value value;
    struct dt_tpl_args args;
    if (!dt_tpl_eval(r, node->a, &value) ||
        !dt_tpl_eval_args(r, &node->call, &args))
        return false;
    r->node = node;
    return dt_tpl_filter(r, node->text, value, &args, out);
}

static bool eval_test(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                      struct dt_tpl_value *out)
{
    struct dt_tpl_value value;
    struct dt_tpl_args args;
    bool holds;
    if (!dt_tpl_eval(r, node->a, &value) ||
        !dt_tpl_eval_args(r, &node->call, &args))
        return false;
    r->node = node;
    if (!dt_tpl_test(r, node->text, &value, &args, &holds))
        return false;
    *out = dt_tpl_bool(holds);
    return true;
}

/* --- operators --- */

static bool eval_concat(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                        struct dt_tpl_value *out)
{
    struct dt_tpl_builder b = {.run = r};
    struct dt_tpl_value value;
    struct dt_tpl_text text;
    for (size_t i = 0; i < node->items.count; i++) {
        if (!dt_tpl_eval(r, node->items.items[i], &value))
            return false;
        r->node = node;
        if (!dt_tpl_show(r, &value, &text))
            return false;
        dt_tpl_add_text(&b, text);
    }
    *out = dt_tpl_string((struct dt_tpl_text){NULL, 0});
    return dt_tpl_built(&b, &out->text);
}

/* a < b < c is a < b and b < c. */
static bool eval_compare(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                         struct dt_tpl_value *out)
{
    struct dt_tpl_value left, right;
    bool holds = true;
    if (!dt_tpl_eval(r, node->a, &left))
        return false;
    for (size_t i = 0; holds && i < node->items.count; i++) {
        const struct dt_tpl_node *operand = node->items.items[i];
        if (!dt_tpl_eval(r, operand->a, &right))
            return false;
        r->node = operand;
        if (!dt_tpl_compare(r, (enum dt_tpl_op)operand->op, &left, &right,
                            &holds))
            return false;
        left = right;
    }
    *out = dt_tpl_bool(holds);
    return true;
}

static bool eval_binary(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                        struct dt_tpl_value *out)
{
    struct dt_tpl_value a, b;
    if (!dt_tpl_eval(r, node->a, &a) || !dt_tpl_eval(r, node->b, &b))
        return false;
    r->node = node;
    return dt_tpl_binary(r, (enum dt_tpl_op)node->op, &a, &b, out);
}

static bool eval_logic(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                       struct dt_tpl_value *out)
{
    if (!dt_tpl_eval(r, node->a, out))
        return false;
    if (node->kind == E_NOT)
        *out = dt_tpl_bool(!dt_tpl_truth(out));
    else if (dt_tpl_truth(out) == (node->kind == E_AND))
        return dt_tpl_eval(r, node->b, out);
    return true;
}

static bool eval_sign(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                      struct dt_tpl_value *out)
{
    struct dt_tpl_value value, zero = dt_tpl_int(0);
    if (!dt_tpl_eval(r, node->a, &value))
        return false;
    r->node = node;
    if (value.kind == V_FLOAT && node->kind == E_NEG) {
        *out = dt_tpl_float(-value.d);
        return true;
    }
    if (!dt_tpl_is_number(&value))
        return dt_tpl_fail(r, "%s has no sign", dt_tpl_kind_name(&value));
    return dt_tpl_binary(r, node->kind == E_NEG ? OP_SUB : OP_ADD, &zero,
                         &value, out);
}

static bool eval_cond(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                      struct dt_tpl_value *out)
{
    struct dt_tpl_value value;
    if (!dt_tpl_eval(r, node->b, &value))
        return false;
    if (dt_tpl_truth(&value))
        return dt_tpl_eval(r, node->a, out);
    if (node->c)
        return dt_tpl_eval(r, node->c, out);
    *out = dt_tpl_undefined(TEXT("an if without else"));
    return true;
}

static bool eval_attr(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                      struct dt_tpl_value *out)
{
    struct dt_tpl_value value;
    if (!dt_tpl_eval(r, node->a, &value))
        return false;
    r->node = node;
    return dt_tpl_attribute(r, &value, node->text, out);
}

static bool eval_const(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                       struct dt_tpl_value *out)
{
    (void)r;
    *out = node->value;
    return true;
}

bool dt_tpl_eval(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                 struct dt_tpl_value *out)
{
    static bool (*const kinds[])(struct dt_tpl_run * r,
                                 const struct dt_tpl_node *node,
                                 struct dt_tpl_value *out) = {
        [E_CONST] = eval_const,     [E_NAME] = eval_name,
        [E_LIST] = eval_list,       [E_TUPLE] = eval_list,
        [E_DICT] = eval_dict,       [E_ATTR] = eval_attr,
        [E_ITEM] = eval_item,       [E_SLICE] = eval_slice,
        [E_CALL] = eval_call,       [E_FILTER] = eval_filter,
        [E_TEST] = eval_test,       [E_NOT] = eval_logic,
        [E_NEG] = eval_sign,        [E_POS] = eval_sign,
        [E_AND] = eval_logic,       [E_OR] = eval_logic,
        [E_BINARY] = eval_binary,   [E_CONCAT] = eval_concat,
        [E_COMPARE] = eval_compare, [E_COND] = eval_cond,
    };
    r->node = node;
    if (!dt_tpl_deeper(r) || !dt_tpl_step(r, 0) ||
        !kinds[node->kind](r, node, out))
        return false;
    r->depth--;
    return true;
}
