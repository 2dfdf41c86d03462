/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c - tokens and nodes of a template, and the numbers of its names */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "template/syntax.h"

const struct dt_tpl_token *dt_tpl_token(const struct dt_tpl_parser *p)
{
    return &p->tokens.items[p->next];
}

bool dt_tpl_token_is(const struct dt_tpl_token *token,
                     enum dt_tpl_token_kind kind, const char *text)
{
    return token->kind == kind && dt_tpl_text_is(token->text, text);
}

bool dt_tpl_is_name(const struct dt_tpl_parser *p, const char *name)
{
    return dt_tpl_token_is(dt_tpl_token(p), TOKEN_NAME, name);
}

bool dt_tpl_is_operator(const struct dt_tpl_parser *p, const char *op)
{
    return dt_tpl_token_is(dt_tpl_token(p), TOKEN_OPERATOR, op);
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
