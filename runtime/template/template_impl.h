/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_impl.h - the parts of a template and of a rendering (private to
 * template/)
 */
#ifndef DT_TEMPLATE_TEMPLATE_IMPL_H
#define DT_TEMPLATE_TEMPLATE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "template/template.h"

struct dt_tpl_args;
struct dt_tpl_frame;
struct dt_tpl_node;
struct dt_tpl_run;

/* --- memory --- */

/* Memory that is freed as a whole. */
struct dt_tpl_arena {
    struct dt_tpl_chunk *chunks; /* the current one first */
    size_t total;                /* bytes in all chunks */
};

/* Zeroed bytes, or NULL: out of memory. */
void *dt_tpl_arena_alloc(struct dt_tpl_arena *arena, size_t bytes);
void dt_tpl_arena_reset(struct dt_tpl_arena *arena); /* keeps one chunk */
void dt_tpl_arena_fini(struct dt_tpl_arena *arena);

/* --- values --- */

/* UTF-8, not terminated. */
struct dt_tpl_text {
    const char *s;
    size_t n;
};
#define TEXT(literal) ((struct dt_tpl_text){literal, sizeof(literal) - 1})

enum dt_tpl_kind {
    V_UNDEFINED, /* text: the name for messages; flag: an attribute */
    V_NONE,
    V_BOOL,
    V_INT,
    V_FLOAT,
    V_STRING,
    V_LIST,
    V_TUPLE,
    V_RANGE,
    V_VIEW,      /* keys, values or items of an object */
    V_GENERATOR, /* gives each item once */
    V_DICT,
    V_NAMESPACE,
    V_MACRO,
    V_FUNCTION, /* i: of enum dt_tpl_function */
    V_METHOD,
    V_LOOP,
};

struct dt_tpl_value {
    uint8_t kind;
    bool flag; /* of a string: it went through the filter "safe" */
    union {
        bool b;
        int64_t i;
        double d;
        struct dt_tpl_text text;
        struct dt_tpl_list *list; /* from LIST to GENERATOR */
        struct dt_tpl_dict *dict; /* DICT, NAMESPACE */
        struct dt_tpl_macro *macro;
        struct dt_tpl_method *method;
        struct dt_tpl_loop *loop;
    };
};

struct dt_tpl_list {
    struct dt_tpl_value *items;
    size_t count, room;
    size_t at; /* of a generator: items already given */
};

struct dt_tpl_pair {
    struct dt_tpl_value key, value;
};

struct dt_tpl_dict {
    struct dt_tpl_pair *pairs; /* in the order of insertion */
    size_t count, room;
};

/* A macro, or the body of a call block. */
struct dt_tpl_macro {
    const struct dt_tpl_node *node;
    struct dt_tpl_frame *closure;
};

/* A method of a value, to be called. */
struct dt_tpl_method {
    struct dt_tpl_value self;
    struct dt_tpl_text name;
};

struct dt_tpl_loop {
    const struct dt_tpl_list *items;
    size_t index;
    struct dt_tpl_value changed; /* a tuple, or undefined */
};

enum dt_tpl_function {
    F_RANGE,
    F_DICT,
    F_NAMESPACE,
    F_RAISE,
    F_STRFTIME,
    F_UNSUPPORTED, /* cycler, joiner, lipsum, self */
};

/* Functions below that fail return false, or NULL, with the error set. */

/* "a string", for messages. */
const char *dt_tpl_kind_name(const struct dt_tpl_value *value);
/* Whether the value counts as true in Python. */
bool dt_tpl_truth(const struct dt_tpl_value *value);
bool dt_tpl_is_number(const struct dt_tpl_value *value); /* or a boolean */
/* A number as a double; INT and BOOL as an integer. */
double dt_tpl_number(const struct dt_tpl_value *value);
int64_t dt_tpl_integer(const struct dt_tpl_value *value);
/* ==, for any two values. */
bool dt_tpl_equal(struct dt_tpl_run *r, const struct dt_tpl_value *a,
                  const struct dt_tpl_value *b, bool *out);
/* -1, 0 or 1 to *out; fails if the values have no order. */
bool dt_tpl_order(struct dt_tpl_run *r, const struct dt_tpl_value *a,
                  const struct dt_tpl_value *b, int *out);
/* Whether texts have the same bytes. */
bool dt_tpl_same_text(struct dt_tpl_text a, struct dt_tpl_text b);
bool dt_tpl_text_is(struct dt_tpl_text a, const char *b);

/* Values of each kind. */
struct dt_tpl_value dt_tpl_none(void);
struct dt_tpl_value dt_tpl_bool(bool b);
struct dt_tpl_value dt_tpl_int(int64_t i);
struct dt_tpl_value dt_tpl_float(double d);
struct dt_tpl_value dt_tpl_string(struct dt_tpl_text text);
struct dt_tpl_value dt_tpl_undefined(struct dt_tpl_text name);

/* A new list of a kind with room for `count` items; NULL: failed. */
struct dt_tpl_list *dt_tpl_list(struct dt_tpl_run *r, enum dt_tpl_kind kind,
                                size_t count, struct dt_tpl_value *out);
/* Appends an item. */
bool dt_tpl_list_add(struct dt_tpl_run *r, struct dt_tpl_list *list,
                     struct dt_tpl_value value);
/* A new object. */
bool dt_tpl_dict(struct dt_tpl_run *r, struct dt_tpl_value *out);
/* Sets *out to the value of a key of any kind, or NULL if there is none. */
bool dt_tpl_dict_find(struct dt_tpl_run *r, const struct dt_tpl_dict *dict,
                      const struct dt_tpl_value *key,
                      struct dt_tpl_value **out);
/* Sets the value of a key, adding the key if needed. */
bool dt_tpl_dict_set(struct dt_tpl_run *r, struct dt_tpl_dict *dict,
                     struct dt_tpl_value key, struct dt_tpl_value value);
/* The items for a loop. A generator has none left then. */
bool dt_tpl_iterate(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                    struct dt_tpl_list **out);
/* The number of items; false if it has none. */
bool dt_tpl_length(const struct dt_tpl_value *value, size_t *out);
/* The value of JSON, whose strings it shares; `depth` is 0 at the top. */
bool dt_tpl_from_json(struct dt_tpl_run *r, const json_t *json, int depth,
                      struct dt_tpl_value *out);

/* --- text --- */

/* A text that grows. */
struct dt_tpl_builder {
    struct dt_tpl_run *run;
    char *s;
    size_t n, room;
    bool failed;
};
/* Appends bytes; does nothing after a failure. */
void dt_tpl_add(struct dt_tpl_builder *b, const char *s, size_t n);
void dt_tpl_add_text(struct dt_tpl_builder *b, struct dt_tpl_text text);
void dt_tpl_add_string(struct dt_tpl_builder *b, const char *s);
/* Appends a text many times; fails before it makes more than the limit. */
void dt_tpl_add_times(struct dt_tpl_builder *b, struct dt_tpl_text text,
                      int64_t times);
/* The whole text. */
bool dt_tpl_built(const struct dt_tpl_builder *b, struct dt_tpl_text *out);

/* Appends the text that {{ }} gives for a value. */
bool dt_tpl_show(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                 struct dt_tpl_text *out);
/* The filter tojson. */
bool dt_tpl_to_json(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                    const struct dt_tpl_args *args, struct dt_tpl_text *out);

/* Characters, that is, code points, and their places. */
size_t dt_tpl_sequence(struct dt_tpl_text text, size_t at); /* bytes of one */
uint32_t dt_tpl_code_point(struct dt_tpl_text text, size_t at);
size_t dt_tpl_write(uint32_t code_point, char out[4]); /* its bytes */
size_t dt_tpl_characters(struct dt_tpl_text text);
size_t dt_tpl_offset(struct dt_tpl_text text, size_t character);
bool dt_tpl_is_space(uint32_t code_point); /* as str.isspace */
/* As str.isprintable. */
bool dt_tpl_is_printable(uint32_t code_point);
/* Strips characters of `set`, or white space if it is NULL. */
struct dt_tpl_text dt_tpl_strip(struct dt_tpl_text text,
                                const struct dt_tpl_text *set, bool left,
                                bool right);
/* The first or last place of `what`; SIZE_MAX: none. */
size_t dt_tpl_find(struct dt_tpl_text text, struct dt_tpl_text what,
                   size_t from);
size_t dt_tpl_find_last(struct dt_tpl_text text, struct dt_tpl_text what);

enum dt_tpl_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_SWAP, CASE_FOLD };
/* Converts the text to another case. */
bool dt_tpl_change_case(struct dt_tpl_run *r, struct dt_tpl_text text,
                        enum dt_tpl_case to, struct dt_tpl_text *out);
/* The first character of each word in upper case, the others in lower case;
 * words are those of str.title, or of the filter.
 */
bool dt_tpl_title(struct dt_tpl_run *r, struct dt_tpl_text text, bool method,
                  struct dt_tpl_text *out);
/* As str.capitalize. */
bool dt_tpl_capitalize(struct dt_tpl_run *r, struct dt_tpl_text text,
                       struct dt_tpl_text *out);
/* The length of the line end at an offset, as for str.splitlines; 0: there is
 * none.
 */
size_t dt_tpl_line_end(struct dt_tpl_text text, size_t at);
/* As str.replace; most < 0: all. */
bool dt_tpl_replace(struct dt_tpl_run *r, struct dt_tpl_text text,
                    struct dt_tpl_text old, struct dt_tpl_text new,
                    int64_t most, struct dt_tpl_text *out);
/* str.isupper and similar tests; false for any other name. */
bool dt_tpl_text_test(struct dt_tpl_text text, struct dt_tpl_text name,
                      bool *out);

/* --- nodes --- */

enum dt_tpl_node_kind {
    E_CONST, /* value */
    E_NAME,  /* name */
    E_LIST,  /* items; TUPLE, too */
    E_TUPLE,
    E_DICT,  /* items: key, value, key, ... */
    E_ATTR,  /* a.text */
    E_ITEM,  /* a[b] */
    E_SLICE, /* items: three, NULL if left out */
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
    int loops; /* loops that break and continue may leave */
    struct dt_error *err;
};

/* "<file>:<line>:<column>: <text>"; -1. */
int dt_tpl_error(const struct dt_template *template, uint32_t at, int status,
                 struct dt_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Splits the source into tokens, in the template's arena. -1 and err. */
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
/* The error for a node; NULL. */
struct dt_tpl_node *dt_tpl_too_many_names(const struct dt_tpl_parser *p,
                                          const struct dt_tpl_node *node);

/* The next token; whether a token has this kind and text. */
const struct dt_tpl_token *dt_tpl_token(const struct dt_tpl_parser *p);
/* Whether the next token is this name or operator; takes it if so. */
bool dt_tpl_is_name(const struct dt_tpl_parser *p, const char *name);
bool dt_tpl_is_operator(const struct dt_tpl_parser *p, const char *op);
bool dt_tpl_take_name(struct dt_tpl_parser *p, const char *name);
bool dt_tpl_take_operator(struct dt_tpl_parser *p, const char *op);
/* Takes an operator. -1 and err: it is not next. */
int dt_tpl_expect(struct dt_tpl_parser *p, const char *op);
/* "expected <what>, got <the next token>"; NULL. */
struct dt_tpl_node *dt_tpl_unexpected(struct dt_tpl_parser *p,
                                      const char *what);

/* Parses an expression; NULL and err. */
struct dt_tpl_node *dt_tpl_parse_expression(struct dt_tpl_parser *p);
struct dt_tpl_node *dt_tpl_parse_or(struct dt_tpl_parser *p);
struct dt_tpl_node *dt_tpl_parse_tuple(struct dt_tpl_parser *p);
/* Parses a filter after its "|", applied to `node`, and the filters after it.
 */
struct dt_tpl_node *dt_tpl_parse_filters(struct dt_tpl_parser *p,
                                         struct dt_tpl_node *node);

struct dt_tpl_variable {
    int name;
    struct dt_tpl_value value;
};

/* The variables of a scope. */
struct dt_tpl_frame {
    struct dt_tpl_frame *parent;
    struct dt_tpl_variable *variables;
    int count, room;
};

struct dt_tpl_run {
    const struct dt_template *template;
    struct dt_tpl_arena *arena;
    struct dt_template_text *out;
    struct dt_tpl_frame *frame;
    const struct dt_tpl_node *node; /* the node being evaluated, for messages */
    uint64_t steps;
    int depth, captures;
    enum { GO_ON, BREAK, CONTINUE } control;
    struct dt_error *err;
};

/* Arguments of a call, evaluated. */
struct dt_tpl_args {
    struct dt_tpl_value *items;
    size_t count;
    struct dt_tpl_pair *keywords; /* the keys are strings */
    size_t keyword_count;
};

/* Functions below return false with the error set, unless they say otherwise;
 * dt_tpl_fail always does.
 */
bool dt_tpl_fail(struct dt_tpl_run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fails because a value is not defined. */
bool dt_tpl_fail_undefined(struct dt_tpl_run *r,
                           const struct dt_tpl_value *value);
/* Counts a step, and one more for every 64 bytes: for work as fast as memcpy.
 */
bool dt_tpl_step(struct dt_tpl_run *r, size_t bytes);
/* Counts the steps of work on each character of a text, of `work` units: 1 to
 * look at it, 4 to look it up in a table of Unicode.
 */
bool dt_tpl_scan(struct dt_tpl_run *r, struct dt_tpl_text text, size_t work);
/* Zeroed memory of the rendering; NULL: failed. */
void *dt_tpl_alloc(struct dt_tpl_run *r, size_t bytes);
/* Counts a level of nesting; r->depth-- afterwards. */
bool dt_tpl_deeper(struct dt_tpl_run *r);

/* Evaluates an expression. */
bool dt_tpl_eval(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                 struct dt_tpl_value *out);
/* Runs a body and returns its text as a string. */
bool dt_tpl_capture(struct dt_tpl_run *r, const struct dt_tpl_nodes *body,
                    struct dt_tpl_text *out);
/* Sets a variable of a scope. */
bool dt_tpl_set(struct dt_tpl_run *r, struct dt_tpl_frame *frame, int name,
                struct dt_tpl_value value);
/* Calls a value; evaluates the arguments of a call. */
bool dt_tpl_call(struct dt_tpl_run *r, const struct dt_tpl_value *callee,
                 const struct dt_tpl_args *args, struct dt_tpl_value *out);
bool dt_tpl_eval_args(struct dt_tpl_run *r, const struct dt_tpl_call *call,
                      struct dt_tpl_args *args);

/* Applies a filter or a test by name. */
bool dt_tpl_filter(struct dt_tpl_run *r, struct dt_tpl_text name,
                   struct dt_tpl_value value, const struct dt_tpl_args *args,
                   struct dt_tpl_value *out);
bool dt_tpl_test(struct dt_tpl_run *r, struct dt_tpl_text name,
                 const struct dt_tpl_value *value,
                 const struct dt_tpl_args *args, bool *out);
/* Whether list_filters.c has a filter of this name. */
bool dt_tpl_is_list_filter(struct dt_tpl_text name);
/* Applies a filter of list_filters.c. */
bool dt_tpl_filter_list(struct dt_tpl_run *r, struct dt_tpl_text name,
                        struct dt_tpl_value value,
                        const struct dt_tpl_args *args,
                        struct dt_tpl_value *out);
/* Calls a function; a method. */
bool dt_tpl_function(struct dt_tpl_run *r, enum dt_tpl_function function,
                     const struct dt_tpl_args *args, struct dt_tpl_value *out);
bool dt_tpl_method(struct dt_tpl_run *r, const struct dt_tpl_method *method,
                   const struct dt_tpl_args *args, struct dt_tpl_value *out);
/* The function of a name that is not a variable; false if there is none. */
bool dt_tpl_find_function(struct dt_tpl_text name, struct dt_tpl_value *out);
/* Whether values of a kind have the method. */
bool dt_tpl_has_method(enum dt_tpl_kind kind, struct dt_tpl_text name);
/* Calls a method of strings. */
bool dt_tpl_string_method(struct dt_tpl_run *r, struct dt_tpl_text self,
                          struct dt_tpl_text name,
                          const struct dt_tpl_args *args,
                          struct dt_tpl_value *out);

/* value.attr and value[key]; undefined if there is none. */
bool dt_tpl_attribute(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                      struct dt_tpl_text name, struct dt_tpl_value *out);
bool dt_tpl_item(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                 const struct dt_tpl_value *key, struct dt_tpl_value *out);
/* value[start:stop:step]; an undefined bound is left out. */
bool dt_tpl_slice(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                  const struct dt_tpl_value bounds[3],
                  struct dt_tpl_value *out);
/* a op b for numbers and sequences; for comparisons. */
bool dt_tpl_binary(struct dt_tpl_run *r, enum dt_tpl_op op,
                   const struct dt_tpl_value *a, const struct dt_tpl_value *b,
                   struct dt_tpl_value *out);
bool dt_tpl_compare(struct dt_tpl_run *r, enum dt_tpl_op op,
                    const struct dt_tpl_value *a, const struct dt_tpl_value *b,
                    bool *out);

/* --- arguments --- */

/* Argument `position`, or the argument of this name; `fallback` if there is
 * none.
 */
struct dt_tpl_value dt_tpl_arg(const struct dt_tpl_args *args, size_t position,
                               const char *name, struct dt_tpl_value fallback);
/* The same for one kind; fails for others. */
bool dt_tpl_text_arg(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                     size_t position, const char *name, const char *fallback,
                     struct dt_tpl_text *out);
bool dt_tpl_int_arg(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                    size_t position, const char *name, int64_t fallback,
                    int64_t *out);
/* Whether the argument is given and true. */
bool dt_tpl_true_arg(const struct dt_tpl_args *args, size_t position,
                     const char *name);
/* Checks that the call has at most these arguments, "a, b, c", and no others.
 */
bool dt_tpl_check_args(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                       const char *what, const char *names);

#endif /* DT_TEMPLATE_TEMPLATE_IMPL_H */
