/* SPDX-License-Identifier: Apache-2.0 */
/* parser.c - expressions without operators */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "template/syntax.h"

/* --- arguments --- */

static int add_keyword(struct dt_tpl_parser *p, struct dt_tpl_call *call,
                       struct dt_tpl_text name, struct dt_tpl_node *value)
{
    if (call->keyword_count == call->keyword_room) {
        size_t room = 2 * call->keyword_room + 4;
        struct dt_tpl_keyword *grown =
            dt_tpl_arena_alloc(&p->template->arena, room * sizeof(*grown));
        if (!grown)
            return dt_error_set(p->err, EX_OSERR, "out of memory");
        if (call->keyword_count > 0)
            memcpy(grown, call->keywords, call->keyword_count * sizeof(*grown));
        call->keywords = grown;
        call->keyword_room = room;
    }
    call->keywords[call->keyword_count++] =
        (struct dt_tpl_keyword){name, value};
    return 0;
}

static int parse_argument(struct dt_tpl_parser *p, struct dt_tpl_call *call)
{
    const struct dt_tpl_token *token = dt_tpl_token(p);
    struct dt_tpl_node *value;
    if (dt_tpl_is_operator(p, "*") || dt_tpl_is_operator(p, "**"))
        return dt_tpl_error(p->template, token->at, EX_CONFIG, p->err,
                            "arguments of a list or an object are not "
                            "supported");
    if (token->kind == TOKEN_NAME &&
        dt_tpl_token_is(token + 1, TOKEN_OPERATOR, "=")) {
        p->next += 2;
        value = dt_tpl_parse_expression(p);
        return value ? add_keyword(p, call, token->text, value) : -1;
    }
    if (call->keyword_count > 0)
        return dt_tpl_error(p->template, token->at, EX_CONFIG, p->err,
                            "an argument without a name after one with a name");
    value = dt_tpl_parse_expression(p);
    return value ? dt_tpl_nodes_add(p, &call->args, value) : -1;
}

/* Behind "(". */
static int parse_arguments(struct dt_tpl_parser *p, struct dt_tpl_call *call)
{
    for (bool first = true; !dt_tpl_take_operator(p, ")"); first = false) {
        if (!first) {
            if (dt_tpl_expect(p, ",") < 0)
                return -1;
            if (dt_tpl_take_operator(p, ")"))
                return 0;
        }
        if (parse_argument(p, call) < 0)
            return -1;
    }
    return 0;
}

/* --- primary expressions --- */

/* Items up to `end`, the bracket that closes them. */
static struct dt_tpl_node *parse_items(struct dt_tpl_parser *p,
                                       enum dt_tpl_node_kind kind,
                                       const char *end)
{
    struct dt_tpl_node *node = dt_tpl_node(p, kind), *item;
    if (!node)
        return NULL;
    p->next++;
    while (!dt_tpl_take_operator(p, end)) {
        if (node->items.count > 0 && dt_tpl_expect(p, ",") < 0)
            return NULL;
        if (dt_tpl_take_operator(p, end))
            break;
        if (!(item = dt_tpl_parse_expression(p)) ||
            dt_tpl_nodes_add(p, &node->items, item) < 0)
            return NULL;
        if (kind == E_DICT && (dt_tpl_expect(p, ":") < 0 ||
                               !(item = dt_tpl_parse_expression(p)) ||
                               dt_tpl_nodes_add(p, &node->items, item) < 0))
            return NULL;
    }
    return node;
}

static bool at_tuple_end(const struct dt_tpl_parser *p)
{
    enum dt_tpl_token_kind kind = dt_tpl_token(p)->kind;
    return kind == TOKEN_VARIABLE_END || kind == TOKEN_BLOCK_END ||
           dt_tpl_is_operator(p, ")");
}

struct dt_tpl_node *dt_tpl_parse_tuple(struct dt_tpl_parser *p)
{
    struct dt_tpl_node *node = dt_tpl_node(p, E_TUPLE), *item = NULL;
    bool comma = false;
    while (node && !at_tuple_end(p)) {
        if (!(item = dt_tpl_parse_expression(p)) ||
            dt_tpl_nodes_add(p, &node->items, item) < 0)
            return NULL;
        if (!dt_tpl_take_operator(p, ","))
            break;
        comma = true;
    }
    return comma ? node : item;
}

static struct dt_tpl_node *parse_parentheses(struct dt_tpl_parser *p)
{
    struct dt_tpl_node *node;
    p->next++;
    node = dt_tpl_is_operator(p, ")") ? dt_tpl_node(p, E_TUPLE)
                                      : dt_tpl_parse_tuple(p);
    return node && dt_tpl_expect(p, ")") == 0 ? node : NULL;
}

static struct dt_tpl_node *parse_name(struct dt_tpl_parser *p)
{
    static const struct {
        const char *name;
        struct dt_tpl_value value;
    } constants[] = {
        {"true", {.kind = V_BOOL, .b = true}},
        {"True", {.kind = V_BOOL, .b = true}},
        {"false", {.kind = V_BOOL}},
        {"False", {.kind = V_BOOL}},
        {"none", {.kind = V_NONE}},
        {"None", {.kind = V_NONE}},
    };
    struct dt_tpl_node *node = dt_tpl_node(p, E_NAME);
    if (!node)
        return NULL;
    node->text = dt_tpl_token(p)->text;
    for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
        if (dt_tpl_take_name(p, constants[i].name)) {
            node->kind = E_CONST;
            node->value = constants[i].value;
            return node;
        }
    p->next++;
    node->name = dt_tpl_name(p->template, node->text);
    return node->name >= 0 ? node : dt_tpl_too_many_names(p, node);
}

/* Strings that follow each other are one. */
static struct dt_tpl_node *parse_string(struct dt_tpl_parser *p)
{
    struct dt_tpl_node *node = dt_tpl_node(p, E_CONST);
    size_t n = 0, first = p->next;
    if (!node)
        return NULL;
    while (dt_tpl_token(p)->kind == TOKEN_STRING)
        n += p->tokens.items[p->next++].text.n;
    char *text = dt_tpl_arena_alloc(&p->template->arena, n + 1);
    if (!text) {
        dt_error_set(p->err, EX_OSERR, "out of memory");
        return NULL;
    }
    node->value = dt_tpl_string((struct dt_tpl_text){text, n});
    for (size_t i = first; i < p->next; i++) {
        struct dt_tpl_text part = p->tokens.items[i].text;
        memcpy(text, part.s, part.n);
        text += part.n;
    }
    return node;
}

static struct dt_tpl_node *parse_number(struct dt_tpl_parser *p)
{
    const struct dt_tpl_token *token = dt_tpl_token(p);
    struct dt_tpl_node *node = dt_tpl_node(p, E_CONST);
    if (node)
        node->value = token->kind == TOKEN_INT ? dt_tpl_int(token->i)
                                               : dt_tpl_float(token->d);
    p->next++;
    return node;
}

struct dt_tpl_node *dt_tpl_parse_primary(struct dt_tpl_parser *p)
{
    switch (dt_tpl_token(p)->kind) {
    case TOKEN_NAME:
        return parse_name(p);
    case TOKEN_STRING:
        return parse_string(p);
    case TOKEN_INT:
    case TOKEN_FLOAT:
        return parse_number(p);
    default:
        if (dt_tpl_is_operator(p, "("))
            return parse_parentheses(p);
        if (dt_tpl_is_operator(p, "["))
            return parse_items(p, E_LIST, "]");
        if (dt_tpl_is_operator(p, "{"))
            return parse_items(p, E_DICT, "}");
        return dt_tpl_unexpected(p, "an expression");
    }
}

/* --- what follows a primary expression --- */

/* Behind "[": an index, or start:stop:step. */
static struct dt_tpl_node *parse_subscript(struct dt_tpl_parser *p,
                                           struct dt_tpl_node *value)
{
    struct dt_tpl_node *bounds[3] = {0};
    struct dt_tpl_node *node = dt_tpl_node(p, E_ITEM);
    int parts = 0;
    if (!node)
        return NULL;
    node->a = value;
    for (; parts < 3; parts++) {
        if (!dt_tpl_is_operator(p, ":") && !dt_tpl_is_operator(p, "]") &&
            !(bounds[parts] = dt_tpl_parse_expression(p)))
            return NULL;
        if (parts == 2 || !dt_tpl_take_operator(p, ":"))
            break;
    }
    if (parts == 0 && !bounds[0])
        return dt_tpl_unexpected(p, "an expression");
    if (dt_tpl_expect(p, "]") < 0)
        return NULL;
    node->b = bounds[0];
    if (parts == 0)
        return node;
    node->kind = E_SLICE;
    for (int i = 0; i < 3; i++)
        if (dt_tpl_nodes_add(p, &node->items, bounds[i]) < 0)
            return NULL;
    return node;
}

/* Behind ".". */
static struct dt_tpl_node *parse_attribute(struct dt_tpl_parser *p,
                                           struct dt_tpl_node *value)
{
    const struct dt_tpl_token *token = dt_tpl_token(p);
    struct dt_tpl_node *node = dt_tpl_node(p, E_ATTR);
    if (!node)
        return NULL;
    node->a = value;
    if (token->kind == TOKEN_INT) {
        node->kind = E_ITEM;
        node->b = parse_number(p);
        return node->b ? node : NULL;
    }
    if (token->kind != TOKEN_NAME)
        return dt_tpl_unexpected(p, "a name");
    node->text = token->text;
    p->next++;
    return node;
}

/* Behind "(". */
static struct dt_tpl_node *parse_call(struct dt_tpl_parser *p,
                                      struct dt_tpl_node *value)
{
    struct dt_tpl_node *node = dt_tpl_node(p, E_CALL);
    if (!node)
        return NULL;
    node->at = value->at;
    node->a = value;
    return parse_arguments(p, &node->call) < 0 ? NULL : node;
}

struct dt_tpl_node *dt_tpl_parse_postfix(struct dt_tpl_parser *p,
                                         struct dt_tpl_node *node)
{
    while (node) {
        if (dt_tpl_take_operator(p, "."))
            node = parse_attribute(p, node);
        else if (dt_tpl_take_operator(p, "["))
            node = parse_subscript(p, node);
        else if (dt_tpl_take_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* A filter or test of a value: its name. */
static struct dt_tpl_node *parse_named(struct dt_tpl_parser *p,
                                       enum dt_tpl_node_kind kind,
                                       struct dt_tpl_node *value)
{
    struct dt_tpl_node *node = dt_tpl_node(p, kind);
    if (!node)
        return NULL;
    if (dt_tpl_token(p)->kind != TOKEN_NAME)
        return dt_tpl_unexpected(p, kind == E_TEST ? "the name of a test"
                                                   : "the name of a filter");
    node->a = value;
    node->text = dt_tpl_token(p)->text;
    p->next++;
    return node;
}

struct dt_tpl_node *dt_tpl_parse_filters(struct dt_tpl_parser *p,
                                         struct dt_tpl_node *node)
{
    do {
        node = parse_named(p, E_FILTER, node);
        if (!node || (dt_tpl_take_operator(p, "(") &&
                      parse_arguments(p, &node->call) < 0))
            return NULL;
    } while (dt_tpl_take_operator(p, "|"));
    return node;
}

/* Whether an argument without parentheses follows the name of a test. */
static bool at_test_argument(const struct dt_tpl_parser *p)
{
    switch (dt_tpl_token(p)->kind) {
    case TOKEN_NAME:
        return !dt_tpl_is_name(p, "else") && !dt_tpl_is_name(p, "or") &&
               !dt_tpl_is_name(p, "and");
    case TOKEN_STRING:
    case TOKEN_INT:
    case TOKEN_FLOAT:
        return true;
    default:
        return dt_tpl_is_operator(p, "[") || dt_tpl_is_operator(p, "{");
    }
}

/* Behind "is". */
static struct dt_tpl_node *parse_test(struct dt_tpl_parser *p,
                                      struct dt_tpl_node *value)
{
    struct dt_tpl_node *outer = dt_tpl_node(p, E_NOT), *node, *argument;
    bool negated = dt_tpl_take_name(p, "not");
    if (!outer || !(node = parse_named(p, E_TEST, value)))
        return NULL;
    if (dt_tpl_take_operator(p, "(")) {
        if (parse_arguments(p, &node->call) < 0)
            return NULL;
    } else if (at_test_argument(p)) {
        if (dt_tpl_is_name(p, "is"))
            return dt_tpl_unexpected(p, "no second test");
        argument = dt_tpl_parse_postfix(p, dt_tpl_parse_primary(p));
        if (!argument || dt_tpl_nodes_add(p, &node->call.args, argument) < 0)
            return NULL;
    }
    outer->a = node;
    return negated ? outer : node;
}

struct dt_tpl_node *dt_tpl_parse_suffixes(struct dt_tpl_parser *p,
                                          struct dt_tpl_node *node)
{
    while (node) {
        if (dt_tpl_take_operator(p, "|"))
            node = dt_tpl_parse_filters(p, node);
        else if (dt_tpl_take_name(p, "is"))
            node = parse_test(p, node);
        else if (dt_tpl_take_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}
