/* SPDX-License-Identifier: Apache-2.0 */
/* statements.c - parses the contents of {% %}, and whole templates */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

static int parse_body(struct dt_tpl_parser *p, const char *const *ends,
                      struct dt_tpl_nodes *body);

static int end_block(struct dt_tpl_parser *p)
{
    if (dt_tpl_token(p)->kind != TOKEN_BLOCK_END) {
        dt_tpl_unexpected(p, "%}");
        return -1;
    }
    p->next++;
    return 0;
}

/* The body after a tag, up to {% end %}. */
static int parse_block(struct dt_tpl_parser *p, const char *end,
                       struct dt_tpl_nodes *body)
{
    const char *const ends[] = {end, NULL};
    if (end_block(p) < 0 || parse_body(p, ends, body) < 0)
        return -1;
    p->next++;
    return 0;
}

/* --- targets of assignments --- */

/* A name, or an attribute of a name. */
static struct dt_tpl_node *parse_target_name(struct dt_tpl_parser *p)
{
    static const char *const reserved[] = {"true", "false", "none",
                                           "True", "False", "None"};
    struct dt_tpl_node *node = dt_tpl_node(p, E_NAME);
    bool is_name = dt_tpl_token(p)->kind == TOKEN_NAME;
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        is_name &= !dt_tpl_is_name(p, reserved[i]);
    if (!node || !is_name)
        return node ? dt_tpl_unexpected(p, "a name to assign to") : NULL;
    node->text = dt_tpl_token(p)->text;
    node->name = dt_tpl_name(p->template, node->text);
    p->next++;
    if (node->name < 0)
        return dt_tpl_too_many_names(p, node);
    if (!dt_tpl_take_operator(p, "."))
        return node;
    if (dt_tpl_token(p)->kind != TOKEN_NAME)
        return dt_tpl_unexpected(p, "a name");
    node->kind = T_ATTR;
    node->text = dt_tpl_token(p)->text;
    p->next++;
    return node;
}

/* One target, or several for the items of the value. */
static struct dt_tpl_node *parse_target(struct dt_tpl_parser *p)
{
    struct dt_tpl_node *tuple = dt_tpl_node(p, E_TUPLE), *first = NULL;
    bool comma = false;
    if (++p->depth > DT_TEMPLATE_DEPTH)
        return dt_tpl_unexpected(p, "fewer targets in each other");
    while (tuple) {
        if (dt_tpl_is_operator(p, ")") || dt_tpl_is_name(p, "in") ||
            dt_tpl_is_operator(p, "="))
            break;
        if (dt_tpl_take_operator(p, "(")) {
            first = parse_target(p);
            if (!first || dt_tpl_expect(p, ")") < 0)
                return NULL;
        } else if (!(first = parse_target_name(p))) {
            return NULL;
        }
        if (dt_tpl_nodes_add(p, &tuple->items, first) < 0)
            return NULL;
        if (!dt_tpl_take_operator(p, ","))
            break;
        comma = true;
    }
    p->depth--;
    if (!first)
        return tuple ? dt_tpl_unexpected(p, "a name to assign to") : NULL;
    return comma ? tuple : first;
}

/* --- statements, after their names --- */

static int parse_for(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    static const char *const last[] = {"endfor", NULL};
    if (!(node->a = parse_target(p)))
        return -1;
    if (!dt_tpl_take_name(p, "in")) {
        dt_tpl_unexpected(p, "in");
        return -1;
    }
    /* a conditional expression would take the "if" */
    node->b = dt_tpl_parse_or(p);
    if (node->b && dt_tpl_is_operator(p, ","))
        return dt_tpl_error(p->template, node->at, EX_CONFIG, p->err,
                            "a tuple to loop over needs parentheses here");
    if (!node->b ||
        (dt_tpl_take_name(p, "if") && !(node->c = dt_tpl_parse_expression(p))))
        return -1;
    if (dt_tpl_is_name(p, "recursive"))
        return dt_tpl_error(p->template, node->at, EX_CONFIG, p->err,
                            "recursive loops are not supported");
    p->loops++;
    if (end_block(p) < 0 || parse_body(p, ends, &node->body) < 0)
        return -1;
    p->loops--;
    if (dt_tpl_take_name(p, "else") &&
        (end_block(p) < 0 || parse_body(p, last, &node->other) < 0))
        return -1;
    p->next++;
    return 0;
}

/* After "if" or "elif", up to the "endif" of the whole statement. */
static int parse_if(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    for (;;) {
        node->a = dt_tpl_parse_tuple(p);
        if (!node->a) {
            if (!p->err->text[0])
                dt_tpl_unexpected(p, "an expression");
            return -1;
        }
        if (end_block(p) < 0 || parse_body(p, ends, &node->body) < 0)
            return -1;
        if (!dt_tpl_take_name(p, "elif"))
            break;
        struct dt_tpl_node *next = dt_tpl_node(p, S_IF);
        if (!next || dt_tpl_nodes_add(p, &node->other, next) < 0)
            return -1;
        node = next;
    }
    if (dt_tpl_take_name(p, "else") &&
        (end_block(p) < 0 || parse_body(p, last, &node->other) < 0))
        return -1;
    p->next++;
    return 0;
}

static int parse_set(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    struct dt_tpl_node *none;
    if (!(node->a = parse_target(p)))
        return -1;
    if (dt_tpl_take_operator(p, "=")) {
        node->b = dt_tpl_parse_tuple(p);
        if (!node->b && !p->err->text[0])
            dt_tpl_unexpected(p, "an expression");
        return node->b ? 0 : -1;
    }
    node->kind = S_CAPTURE;
    if (dt_tpl_take_operator(p, "|")) {
        none = dt_tpl_node(p, E_CONST);
        if (!none || !(node->b = dt_tpl_parse_filters(p, none)))
            return -1;
    }
    return parse_block(p, "endset", &node->body);
}

/* (a, b=1): names to node->items, defaults to keywords of node->call. */
static int parse_parameters(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    struct dt_tpl_node *name, *value;
    if (dt_tpl_expect(p, "(") < 0)
        return -1;
    while (!dt_tpl_take_operator(p, ")")) {
        if (node->items.count > 0 && dt_tpl_expect(p, ",") < 0)
            return -1;
        if (!(name = parse_target_name(p)))
            return -1;
        if (name->kind != E_NAME || dt_tpl_nodes_add(p, &node->items, name) < 0)
            return dt_tpl_error(p->template, name->at, EX_CONFIG, p->err,
                                "expected a name of a parameter");
        value = NULL;
        if (dt_tpl_take_operator(p, "=")) {
            if (!(value = dt_tpl_parse_expression(p)))
                return -1;
        } else if (node->call.args.count > 0 &&
                   node->call.args.items[node->call.args.count - 1]) {
            return dt_tpl_error(p->template, name->at, EX_CONFIG, p->err,
                                "a parameter without a default after one with");
        }
        if (dt_tpl_nodes_add(p, &node->call.args, value) < 0)
            return -1;
    }
    return 0;
}

/* A body that break and continue cannot leave. */
static int parse_closed(struct dt_tpl_parser *p, const char *end,
                        struct dt_tpl_nodes *body)
{
    int loops = p->loops;
    p->loops = 0;
    if (parse_block(p, end, body) < 0)
        return -1;
    p->loops = loops;
    return 0;
}

static int parse_macro(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    if (!(node->a = parse_target_name(p)) || parse_parameters(p, node) < 0)
        return -1;
    node->name = node->a->name;
    node->text = node->a->text;
    return parse_closed(p, "endmacro", &node->body);
}

static int parse_call_block(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    struct dt_tpl_node *caller = dt_tpl_node(p, S_MACRO);
    if (!caller)
        return -1;
    caller->text = TEXT("caller");
    if (dt_tpl_is_operator(p, "(") && parse_parameters(p, caller) < 0)
        return -1;
    node->b = caller;
    if (!(node->a = dt_tpl_parse_expression(p)))
        return -1;
    if (node->a->kind != E_CALL)
        return dt_tpl_error(p->template, node->at, EX_CONFIG, p->err,
                            "expected a call of a macro");
    return parse_closed(p, "endcall", &caller->body);
}

static int parse_filter_block(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    struct dt_tpl_node *none = dt_tpl_node(p, E_CONST);
    if (!none || !(node->a = dt_tpl_parse_filters(p, none)))
        return -1;
    return parse_block(p, "endfilter", &node->body);
}

static int parse_with(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    struct dt_tpl_node *part;
    while (dt_tpl_token(p)->kind != TOKEN_BLOCK_END) {
        if (node->items.count > 0 && dt_tpl_expect(p, ",") < 0)
            return -1;
        if (!(part = parse_target_name(p)) ||
            dt_tpl_nodes_add(p, &node->items, part) < 0 ||
            dt_tpl_expect(p, "=") < 0 || !(part = dt_tpl_parse_expression(p)) ||
            dt_tpl_nodes_add(p, &node->items, part) < 0)
            return -1;
    }
    return parse_block(p, "endwith", &node->body);
}

static int parse_generation(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    p->template->has_marks = true;
    return parse_closed(p, "endgeneration", &node->body);
}

static int parse_leave(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    if (p->loops > 0)
        return 0;
    return dt_tpl_error(p->template, node->at, EX_CONFIG, p->err,
                        "%s outside of a loop",
                        node->kind == S_BREAK ? "break" : "continue");
}

static int parse_print(struct dt_tpl_parser *p, struct dt_tpl_node *node)
{
    node->a = dt_tpl_parse_expression(p);
    return node->a ? 0 : -1;
}

static const struct {
    const char *name;
    enum dt_tpl_node_kind kind;
    int (*parse)(struct dt_tpl_parser *p, struct dt_tpl_node *node);
} statements[] = {
    {"for", S_FOR, parse_for},
    {"if", S_IF, parse_if},
    {"set", S_SET, parse_set},
    {"macro", S_MACRO, parse_macro},
    {"call", S_CALL, parse_call_block},
    {"filter", S_FILTER, parse_filter_block},
    {"with", S_WITH, parse_with},
    {"generation", S_GENERATION, parse_generation},
    {"break", S_BREAK, parse_leave},
    {"continue", S_CONTINUE, parse_leave},
    {"print", S_OUTPUT, parse_print},
};

/* A statement, after "{%". */
static int parse_statement(struct dt_tpl_parser *p, struct dt_tpl_nodes *body)
{
    static const char *const others[] = {"block",  "extends", "include",
                                         "import", "from",    "autoescape"};
    const struct dt_tpl_token *token = dt_tpl_token(p);
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        if (!dt_tpl_is_name(p, statements[i].name))
            continue;
        struct dt_tpl_node *node = dt_tpl_node(p, statements[i].kind);
        p->next++;
        return node && statements[i].parse(p, node) == 0 && end_block(p) == 0 &&
                       dt_tpl_nodes_add(p, body, node) == 0
                   ? 0
                   : -1;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (dt_tpl_is_name(p, others[i]))
            return dt_tpl_error(p->template, token->at, EX_CONFIG, p->err,
                                "%s is not supported", others[i]);
    dt_tpl_unexpected(p, "a statement");
    return -1;
}

static int parse_output(struct dt_tpl_parser *p, struct dt_tpl_nodes *body)
{
    struct dt_tpl_node *node = dt_tpl_node(p, S_OUTPUT);
    p->next++;
    if (!node)
        return -1;
    if (!(node->a = dt_tpl_parse_tuple(p))) {
        if (!p->err->text[0])
            dt_tpl_unexpected(p, "an expression");
        return -1;
    }
    if (dt_tpl_token(p)->kind != TOKEN_VARIABLE_END) {
        dt_tpl_unexpected(p, "}}");
        return -1;
    }
    p->next++;
    return dt_tpl_nodes_add(p, body, node);
}

static bool at_one_of(const struct dt_tpl_parser *p, const char *const *names)
{
    for (; *names; names++)
        if (dt_tpl_is_name(p, *names))
            return true;
    return false;
}

/* Statements up to a tag with one of the names `ends`; the name itself stays
 * the next token.
 */
static int parse_body(struct dt_tpl_parser *p, const char *const *ends,
                      struct dt_tpl_nodes *body)
{
    int rc = 0;
    if (++p->depth > DT_TEMPLATE_DEPTH) {
        dt_tpl_unexpected(p, "fewer statements in each other");
        return -1;
    }
    while (rc == 0) {
        const struct dt_tpl_token *token = dt_tpl_token(p);
        struct dt_tpl_node *node;
        switch (token->kind) {
        case TOKEN_TEXT:
            node = dt_tpl_node(p, S_TEXT);
            if (node)
                node->text = token->text;
            rc = node ? dt_tpl_nodes_add(p, body, node) : -1;
            p->next++;
            break;
        case TOKEN_VARIABLE_BEGIN:
            rc = parse_output(p, body);
            break;
        case TOKEN_BLOCK_BEGIN:
            p->next++;
            if (at_one_of(p, ends)) {
                p->depth--;
                return 0;
            }
            rc = parse_statement(p, body);
            break;
        default: /* the end */
            if (ends[0])
                dt_tpl_unexpected(p, ends[1] ? ends[1] : ends[0]);
            p->depth--;
            return ends[0] ? -1 : 0;
        }
    }
    return -1;
}

int dt_tpl_parse(struct dt_template *template, struct dt_error *err)
{
    static const char *const none[] = {NULL};
    struct dt_tpl_parser p = {.template = template, .err = err};
    template->caller = dt_tpl_name(template, TEXT("caller"));
    template->loop = dt_tpl_name(template, TEXT("loop"));
    if (template->caller < 0 || template->loop < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = dt_tpl_lex(template, &p.tokens, err);
    if (rc == 0)
        rc = parse_body(&p, none, &template->body);
    free(p.tokens.items);
    return rc;
}
