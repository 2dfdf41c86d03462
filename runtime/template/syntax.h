/* SPDX-License-Identifier: Apache-2.0 */
/* syntax.h - templates as nodes, and their parser, inside template/ */
#ifndef DT_TEMPLATE_SYNTAX_H
#define DT_TEMPLATE_SYNTAX_H

#include "base/error.h"
#include "template/template.h"
#include "template/value.h"

/* --- nodes --- */

enum dt_tpl_node_kind {
    E_CONST, /* value */
    E_NAME,  /* name */
    E_LIST,  /* items; TUPLE, too */
    E_TUPLE,
    E_DICT,  /* items: key, value, key, ... */
    E_ATTR,  /* a.text */
    E_ITEM,  /* a[b] */
    E_SLICE, /* items: three, NULL where left out */
    E_CALL,  /* a(call) */
    E_FILTER,
    E_TEST, /* a is text(call) */
    E_NOT,
    E_NEG,
    E_POS,
    E_AND,
    E_OR,
    E_BINARY,  /* a op b */
    E_CONCAT,  /* items */
    E_COMPARE, /* a, then items; each has its op in its `op` */
    E_OPERAND, /* of COMPARE: op a */
    E_COND,    /* a if b else c */
    S_TEXT,    /* text */
    S_OUTPUT,  /* a */
    S_FOR,     /* for a in b if c: body, else other */
    S_IF,      /* if a: body, else other */
    S_SET,     /* a = b */
    S_CAPTURE, /* a = body, through the filter b */
    S_FILTER,  /* body through the filter a */
    S_MACRO,   /* name(items, defaults in call): body */
    S_CALL,    /* a: call with the macro b as caller */
    S_WITH,    /* items: target, value, ...; body */
    S_GENERATION,
    S_BREAK,
    S_CONTINUE,
    T_ATTR, /* target: name.text */
};

enum dt_tpl_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
};

/* A growing list of nodes. */
struct dt_tpl_nodes {
    struct dt_tpl_node **items;
    size_t count, room;
};

struct dt_tpl_keyword {
    struct dt_tpl_text name;
    struct dt_tpl_node *value;
};

/* The arguments of a call. */
struct dt_tpl_call {
    struct dt_tpl_nodes args;
    struct dt_tpl_keyword *keywords;
    size_t keyword_count, keyword_room;
};

struct dt_tpl_node {
    uint8_t kind, op;
    uint32_t at; /* byte of the template */
    int name;    /* number of a name */
    struct dt_tpl_text text;
    struct dt_tpl_value value;
    struct dt_tpl_node *a, *b, *c;
    struct dt_tpl_call call;
    struct dt_tpl_nodes items;
    struct dt_tpl_nodes body, other;
};

struct dt_template {
    struct dt_tpl_arena arena; /* of all nodes */
    char *file;
    char *source; /* with newlines alone as line ends */
    size_t bytes;
    struct dt_tpl_text *names; /* by number */
    size_t name_count, name_room;
    struct dt_tpl_nodes body;
    bool has_marks;
    int caller; /* the number of this name */
    int loop;
};

/* --- parsing --- */

enum dt_tpl_token_kind {
    TOKEN_END,
    TOKEN_TEXT,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_OPERATOR, /* text */
};

struct dt_tpl_token {
    enum dt_tpl_token_kind kind;
    uint32_t at;
    struct dt_tpl_text text; /* of a string: unescaped */
    int64_t i;
    double d;
};

struct dt_tpl_tokens {
    struct dt_tpl_token *items;
    size_t count, room;
};

/* State of the parser. */
struct dt_tpl_parser {
    struct dt_template *template;
    struct dt_tpl_tokens tokens;
    size_t next;
    int depth;
    int loops; /* that break and continue may leave here */
    struct dt_error *err;
};

/* "<file>:<line>:<column>: <text>"; -1. */
int dt_tpl_error(const struct dt_template *template, uint32_t at, int status,
                 struct dt_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Splits the source into tokens, of the template's arena. -1 and err. */
int dt_tpl_lex(struct dt_template *template, struct dt_tpl_tokens *tokens,
               struct dt_error *err);

/* Parses all statements. -1 and err. */
int dt_tpl_parse(struct dt_template *template, struct dt_error *err);

/* A new node at the token `next`, or NULL and err. */
struct dt_tpl_node *dt_tpl_node(struct dt_tpl_parser *p,
                                enum dt_tpl_node_kind kind);
/* Appends a node. -1 and err. */
int dt_tpl_nodes_add(struct dt_tpl_parser *p, struct dt_tpl_nodes *nodes,
                     struct dt_tpl_node *node);
/* The number of a name; -1: there are too many, or out of memory. */
int dt_tpl_name(struct dt_template *template, struct dt_tpl_text text);
/* Says so, for a node; NULL. */
struct dt_tpl_node *dt_tpl_too_many_names(const struct dt_tpl_parser *p,
                                          const struct dt_tpl_node *node);

/* The next token; whether a token is of this kind and text. */
const struct dt_tpl_token *dt_tpl_token(const struct dt_tpl_parser *p);
bool dt_tpl_token_is(const struct dt_tpl_token *token,
                     enum dt_tpl_token_kind kind, const char *text);
/* Of the next token: whether it is this name or operator; takes it if so. */
bool dt_tpl_is_name(const struct dt_tpl_parser *p, const char *name);
bool dt_tpl_is_operator(const struct dt_tpl_parser *p, const char *op);
bool dt_tpl_take_name(struct dt_tpl_parser *p, const char *name);
bool dt_tpl_take_operator(struct dt_tpl_parser *p, const char *op);
/* Takes an operator, or -1 and err. */
int dt_tpl_expect(struct dt_tpl_parser *p, const char *op);
/* "expected <what>, got <the next token>"; NULL. */
struct dt_tpl_node *dt_tpl_unexpected(struct dt_tpl_parser *p,
                                      const char *what);

/* Expressions; NULL and err. */
struct dt_tpl_node *dt_tpl_parse_expression(struct dt_tpl_parser *p);
struct dt_tpl_node *dt_tpl_parse_or(struct dt_tpl_parser *p);
struct dt_tpl_node *dt_tpl_parse_tuple(struct dt_tpl_parser *p);
struct dt_tpl_node *dt_tpl_parse_primary(struct dt_tpl_parser *p);
/* What follows a node: .a [i] (x); then |filter and is. */
struct dt_tpl_node *dt_tpl_parse_suffixes(struct dt_tpl_parser *p,
                                          struct dt_tpl_node *node);
struct dt_tpl_node *dt_tpl_parse_postfix(struct dt_tpl_parser *p,
                                         struct dt_tpl_node *node);
/* A filter after its "|", applied to `node`, and those that follow it. */
struct dt_tpl_node *dt_tpl_parse_filters(struct dt_tpl_parser *p,
                                         struct dt_tpl_node *node);

#endif /* DT_TEMPLATE_SYNTAX_H */
