/* SPDX-License-Identifier: Apache-2.0 */
/* precedence.c - expressions of operators, from those that bind most */
#include "config.h"

#include "template/syntax.h"

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
        node = dt_tpl_parse_primary(p);
    }
    node = dt_tpl_parse_postfix(p, node);
    p->depth--;
    return suffixes ? dt_tpl_parse_suffixes(p, node) : node;
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

/* What "~" joins. */
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

/* The comparison that the next token is; takes it. -1: none. */
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
        dt_tpl_token_is(dt_tpl_token(p) + 1, TOKEN_NAME, "in")) {
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
