/* SPDX-License-Identifier: Apache-2.0 */
/* value.h - values of a rendering, and texts, inside template/ */
#ifndef DT_TEMPLATE_VALUE_H
#define DT_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct dt_tpl_args;
struct dt_tpl_frame;
struct dt_tpl_node;
struct dt_tpl_run;

/* --- memory --- */

/* Memory that is freed as one. */
struct dt_tpl_arena {
    struct dt_tpl_chunk *chunks; /* the one in use first */
    size_t total;                /* bytes of all of them */
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
    size_t at; /* of a generator: items that it has given */
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

/* What fails below returns false, or NULL, with the error set. */

/* "a string", for messages. */
const char *dt_tpl_kind_name(const struct dt_tpl_value *value);
/* Whether a condition holds for it, as in Python. */
bool dt_tpl_truth(const struct dt_tpl_value *value);
bool dt_tpl_is_number(const struct dt_tpl_value *value); /* or a boolean */
/* Of a number: as a double; of INT and BOOL: as an integer. */
double dt_tpl_number(const struct dt_tpl_value *value);
int64_t dt_tpl_integer(const struct dt_tpl_value *value);
/* ==, for any two values. */
bool dt_tpl_equal(struct dt_tpl_run *r, const struct dt_tpl_value *a,
                  const struct dt_tpl_value *b, bool *out);
/* -1, 0 or 1 to *out; fails if they have no order. */
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
/* The value of a key of any kind to *out, NULL if there is none. */
bool dt_tpl_dict_find(struct dt_tpl_run *r, const struct dt_tpl_dict *dict,
                      const struct dt_tpl_value *key,
                      struct dt_tpl_value **out);
/* Sets the value of a key, or adds it. */
bool dt_tpl_dict_set(struct dt_tpl_run *r, struct dt_tpl_dict *dict,
                     struct dt_tpl_value key, struct dt_tpl_value value);
/* The items that a loop goes over. A generator has no more then. */
bool dt_tpl_iterate(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                    struct dt_tpl_list **out);
/* The number of items; false if it has none. */
bool dt_tpl_length(const struct dt_tpl_value *value, size_t *out);
/* The value of JSON, whose strings it shares; `depth` is 0 outside. */
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
/* Appends bytes; nothing after it has failed. */
void dt_tpl_add(struct dt_tpl_builder *b, const char *s, size_t n);
void dt_tpl_add_text(struct dt_tpl_builder *b, struct dt_tpl_text text);
void dt_tpl_add_string(struct dt_tpl_builder *b, const char *s);
/* Appends a text many times; more than there may be fails before it is made. */
void dt_tpl_add_times(struct dt_tpl_builder *b, struct dt_tpl_text text,
                      int64_t times);
/* The whole text. */
bool dt_tpl_built(const struct dt_tpl_builder *b, struct dt_tpl_text *out);

/* What {{ }} writes of a value. */
bool dt_tpl_show(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                 struct dt_tpl_text *out);
/* The filter tojson. */
bool dt_tpl_to_json(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                    const struct dt_tpl_args *args, struct dt_tpl_text *out);

/* Characters, that is code points, and where they are. */
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
/* The text in another case. */
bool dt_tpl_change_case(struct dt_tpl_run *r, struct dt_tpl_text text,
                        enum dt_tpl_case to, struct dt_tpl_text *out);
/* The first character of each word in upper case, the others in lower case;
 * what words are depends on whether this is str.title or the filter.
 */
bool dt_tpl_title(struct dt_tpl_run *r, struct dt_tpl_text text, bool method,
                  struct dt_tpl_text *out);
/* As str.capitalize. */
bool dt_tpl_capitalize(struct dt_tpl_run *r, struct dt_tpl_text text,
                       struct dt_tpl_text *out);
/* The length of the end of a line at an offset, as str.splitlines knows it; 0:
 * there is none.
 */
size_t dt_tpl_line_end(struct dt_tpl_text text, size_t at);
/* As str.replace; most < 0: all. */
bool dt_tpl_replace(struct dt_tpl_run *r, struct dt_tpl_text text,
                    struct dt_tpl_text old, struct dt_tpl_text new,
                    int64_t most, struct dt_tpl_text *out);
/* str.isupper and the like; false for a name that is none of them. */
bool dt_tpl_text_test(struct dt_tpl_text text, struct dt_tpl_text name,
                      bool *out);

#endif /* DT_TEMPLATE_VALUE_H */
