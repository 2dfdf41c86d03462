/* SPDX-License-Identifier: Apache-2.0 */
/* parser.c - parses expressions */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

/* --- tokens, nodes and names --- */

const struct dt_tpl_token *dt_tpl_token(const struct dt_tpl_parser *p)
{
    return &p->tokens.items[p->next];
}

static bool token_is(const struct dt_tpl_token *token,
                     enum dt_tpl_token_kind kind, const char *text)
{
    return token->kind == kind && dt_tpl_text_is(token->text, text);
}

bool dt_tpl_is_name(const struct dt_tpl_parser *p, const char *name)
{
    return token_is(dt_tpl_token(p), TOKEN_NAME, name);
}

bool dt_tpl_is_operator(const struct dt_tpl_parser *p, const char *op)
{
    return token_is(dt_tpl_token(p), TOKEN_OPERATOR, op);
}

bool dt_tpl_take_name(struct dt_tpl_parser *p, const char *name)
{
    bool is = dt_tpl_is_name(p, name);
    p->next += is;
    return is;
}

bool dt_tpl_take_operator(struct dt_tpl_parser *p, const char *op)
{
    bool is = dt_tpl_is_operator(p, op);
    p->next += is;
    return is;
}

struct dt_tpl_node *dt_tpl_unexpected(struct dt_tpl_parser *p, const char *what)
{
    static const char *const kinds[] = {
        [TOKEN_END] = "the end of the template",
        [TOKEN_TEXT] = "text",
        [TOKEN_VARIABLE_BEGIN] = "{{",
        [TOKEN_VARIABLE_END] = "}}",
        [TOKEN_BLOCK_BEGIN] = "{%",
        [TOKEN_BLOCK_END] = "%}",
        [TOKEN_STRING] = "a string",
        [TOKEN_INT] = "a number",
        [TOKEN_FLOAT] = "a number",
    };
    const struct dt_tpl_token *token = dt_tpl_token(p);
    const char *kind = kinds[token->kind < TOKEN_NAME ? token->kind : 0];
    if (token->kind == TOKEN_NAME || token->kind == TOKEN_OPERATOR)
        dt_tpl_error(p->template, token->at, EX_CONFIG, p->err,
                     "expected %s, got '%.*s'", what,
                     (int)(token->text.n < 40 ? token->text.n : 40),
                     token->text.s);
    else
        dt_tpl_error(p->template, token->at, EX_CONFIG, p->err,
                     "expected %s, got %s", what,
                     token->kind > TOKEN_NAME ? kinds[token->kind] : kind);
    return NULL;
}

int dt_tpl_expect(struct dt_tpl_parser *p, const char *op)
{
    if (dt_tpl_take_operator(p, op))
        return 0;
    dt_tpl_unexpected(p, op);
    return -1;
}

struct dt_tpl_node *dt_tpl_node(struct dt_tpl_parser *p,
                                enum dt_tpl_node_kind kind)
{
    struct dt_tpl_node *node =
        dt_tpl_arena_alloc(&p->template->arena, sizeof(*node));
    if (!node) {
        dt_error_set(p->err, EX_OSERR, "out of memory");
        return NULL;
    }
    node->kind = (uint8_t)kind;
    node->at = dt_tpl_token(p)->at;
    return node;
}

int dt_tpl_nodes_add(struct dt_tpl_parser *p, struct dt_tpl_nodes *nodes,
                     struct dt_tpl_node *node)
{
    if (nodes->count == nodes->room) {
        size_t room = 2 * nodes->room + 4;
        struct dt_tpl_node **grown =
            dt_tpl_arena_alloc(&p->template->arena, room * sizeof(*grown));
        if (!grown)
            return dt_error_set(p->err, EX_OSERR, "out of memory");
        if (nodes->count > 0)
            memcpy(grown, nodes->items, nodes->count * sizeof(*grown));
        nodes->items = grown;
        nodes->room = room;
    }
    nodes->items[nodes->count++] = node;
    return 0;
}

int dt_tpl_name(struct dt_template *template, struct dt_tpl_text text)
{
    for (size_t i = 0; i < template->name_count; i++)
        if (dt_tpl_same_text(template->names[i], text))
            return (int)i;
    if (template->name_count == DT_TEMPLATE_NAMES)
        return -1;
    if (template->name_count == template->name_room) {
        size_t room = 2 * template->name_room + 64;
        void *grown =
            reallocarray(template->names, room, sizeof(*template->names));
        if (!grown)
            return -1;
        template->names = grown;
        template->name_room = room;
    }
    template->names[template->name_count] = text;
    return (int)template->name_count++;
}

struct dt_tpl_node *dt_tpl_too_many_names(const struct dt_tpl_parser *p,
                                          const struct dt_tpl_node *node)
{
    dt_tpl_error(p->template, node->at, EX_CONFIG, p->err,
                 "more than %d names of variables, or out of memory",
                 DT_TEMPLATE_NAMES);
    return NULL;
}

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
    if (token->kind == TOKEN_NAME && token_is(token + 1, TOKEN_OPERATOR, "=")) {
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

/* The arguments after "(". */
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

/* Items up to `end`, the closing bracket. */
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

/* Adjacent strings are one. */
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

static struct dt_tpl_node *parse_primary(struct dt_tpl_parser *p)
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

/* --- suffixes of a primary expression --- */

/* After "[": an index, or start:stop:step. */
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

/* An attribute, after ".". */
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

/* A call, after "(". */
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

static struct dt_tpl_node *parse_postfix(struct dt_tpl_parser *p,
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

/* The name of a filter or test of a value. */
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

/* A test, after "is". */
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
        argument = parse_postfix(p, parse_primary(p));
        if (!argument || dt_tpl_nodes_add(p, &node->call.args, argument) < 0)
            return NULL;
    }
    outer->a = node;
    return negated ? outer : node;
}

static struct dt_tpl_node *parse_suffixes(struct dt_tpl_parser *p,
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

/* --- operators, from those that bind most tightly --- */

static struct dt_tpl_node *parse_unary(struct dt_tpl_parser *p, bool suffixes)
{
    struct dt_tpl_node *node;
    bool negative = dt_tpl_is_operator(p, "-");
    if (++p->depth > DT_TEMPLATE_DEPTH) {
        dt_tpl_error(p->template, dt_tpl_token(p)->at, EX_CONFIG, p->err,
                     "more than %d expressions in each other",
                     DT_TEMPLATE_DEPTH);
        return NULL;
    }
    if (negative || dt_tpl_is_operator(p, "+")) {
        node = dt_tpl_node(p, negative ? E_NEG : E_POS);
        p->next++;
        if (node && !(node->a = parse_unary(p, false)))
            node = NULL;
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    p->depth--;
    return suffixes ? parse_suffixes(p, node) : node;
}

/* Operators of one rank. */
struct rank {
    struct {
        const char *text;
        enum dt_tpl_op op;
    } ops[4];
    int count;
};

static const struct rank ranks[] = {
    {{{"+", OP_ADD}, {"-", OP_SUB}}, 2},
    {{{"~", OP_ADD}}, 0}, /* parse_concat */
    {{{"*", OP_MUL}, {"/", OP_DIV}, {"//", OP_FLOORDIV}, {"%", OP_MOD}}, 4},
    {{{"**", OP_POW}}, 1},
};

static struct dt_tpl_node *parse_rank(struct dt_tpl_parser *p, int rank);

/* Operands of "~". */
static struct dt_tpl_node *parse_concat(struct dt_tpl_parser *p)
{
    struct dt_tpl_node *first = parse_rank(p, 2), *node;
    if (!first || !dt_tpl_is_operator(p, "~"))
        return first;
    node = dt_tpl_node(p, E_CONCAT);
    if (!node || dt_tpl_nodes_add(p, &node->items, first) < 0)
        return NULL;
    while (dt_tpl_take_operator(p, "~"))
        if (!(first = parse_rank(p, 2)) ||
            dt_tpl_nodes_add(p, &node->items, first) < 0)
            return NULL;
    return node;
}

static struct dt_tpl_node *parse_rank(struct dt_tpl_parser *p, int rank)
{
    if (rank == 1)
        return parse_concat(p);
    if (rank == 4)
        return parse_unary(p, true);
    struct dt_tpl_node *left = parse_rank(p, rank + 1);
    while (left) {
        int i = 0;
        while (i < ranks[rank].count &&
               !dt_tpl_is_operator(p, ranks[rank].ops[i].text))
            i++;
        if (i == ranks[rank].count)
            break;
        struct dt_tpl_node *node = dt_tpl_node(p, E_BINARY);
        p->next++;
        if (!node || !(node->b = parse_rank(p, rank + 1)))
            return NULL;
        node->op = (uint8_t)ranks[rank].ops[i].op;
        node->a = left;
        left = node;
    }
    return left;
}

/* Takes a comparison operator if it is the next token. -1: it is not. */
static int take_comparison(struct dt_tpl_parser *p)
{
    static const struct {
        const char *text;
        enum dt_tpl_op op;
    } all[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<", OP_LT},
               {"<=", OP_LE}, {">", OP_GT},  {">=", OP_GE}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (dt_tpl_take_operator(p, all[i].text))
            return (int)all[i].op;
    if (dt_tpl_take_name(p, "in"))
        return OP_IN;
    if (dt_tpl_is_name(p, "not") &&
        token_is(dt_tpl_token(p) + 1, TOKEN_NAME, "in")) {
        p->next += 2;
        return OP_NOT_IN;
    }
    return -1;
}

static struct dt_tpl_node *parse_comparison(struct dt_tpl_parser *p)
{
    struct dt_tpl_node *first = parse_rank(p, 0), *node = NULL, *operand;
    for (int op; first && (operand = dt_tpl_node(p, E_OPERAND)) &&
                 (op = take_comparison(p)) >= 0;) {
        if (!node && !(node = dt_tpl_node(p, E_COMPARE)))
            return NULL;
        node->a = first;
        node->at = operand->at;
        operand->op = (uint8_t)op;
        if (!(operand->a = parse_rank(p, 0)) ||
            dt_tpl_nodes_add(p, &node->items, operand) < 0)
            return NULL;
    }
    return node ? node : first;
}

static struct dt_tpl_node *parse_not(struct dt_tpl_parser *p)
{
    struct dt_tpl_node *node;
    if (!dt_tpl_is_name(p, "not"))
        return parse_comparison(p);
    node = dt_tpl_node(p, E_NOT);
    p->next++;
    if (++p->depth > DT_TEMPLATE_DEPTH)
        return dt_tpl_unexpected(p, "fewer expressions in each other");
    node = node && (node->a = parse_not(p)) ? node : NULL;
    p->depth--;
    return node;
}

/* Operands joined by "and" or "or". */
static struct dt_tpl_node *parse_logic(struct dt_tpl_parser *p, bool is_or)
{
    struct dt_tpl_node *left = is_or ? parse_logic(p, false) : parse_not(p);
    while (left && dt_tpl_is_name(p, is_or ? "or" : "and")) {
        struct dt_tpl_node *node = dt_tpl_node(p, is_or ? E_OR : E_AND);
        p->next++;
        if (!node)
            return NULL;
        node->a = left;
        node->b = is_or ? parse_logic(p, false) : parse_not(p);
        left = node->b ? node : NULL;
    }
    return left;
}

struct dt_tpl_node *dt_tpl_parse_or(struct dt_tpl_parser *p)
{
    return parse_logic(p, true);
}

struct dt_tpl_node *dt_tpl_parse_expression(struct dt_tpl_parser *p)
{
    if (++p->depth > DT_TEMPLATE_DEPTH)
        return dt_tpl_unexpected(p, "fewer expressions in each other");
    struct dt_tpl_node *value = dt_tpl_parse_or(p);
    while (value && dt_tpl_is_name(p, "if")) {
        struct dt_tpl_node *node = dt_tpl_node(p, E_COND);
        p->next++;
        if (!node || !(node->b = dt_tpl_parse_or(p)))
            return NULL;
        node->a = value;
        if (dt_tpl_take_name(p, "else") &&
            !(node->c = dt_tpl_parse_expression(p)))
            return NULL;
        value = node;
    }
    p->depth--;
    return value;
}
