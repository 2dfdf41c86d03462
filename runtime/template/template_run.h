/* SPDX-License-Identifier: Apache-2.0 */
/* template_run.h - the state of a rendering, inside template/ */
#ifndef DT_TEMPLATE_TEMPLATE_RUN_H
#define DT_TEMPLATE_TEMPLATE_RUN_H

#include "template/syntax.h"

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
    const struct dt_tpl_node *node; /* that is evaluated, for messages */
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

/* Everything below returns false with the error set, unless it says otherwise;
 * dt_tpl_fail always does.
 */
bool dt_tpl_fail(struct dt_tpl_run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* That a value is not defined. */
bool dt_tpl_fail_undefined(struct dt_tpl_run *r,
                           const struct dt_tpl_value *value);
/* Counts a step, and one more for every 64 bytes: of work as fast as memcpy. */
bool dt_tpl_step(struct dt_tpl_run *r, size_t bytes);
/* Counts the steps of work on each character of a text, of which `work` says
 * how much; 1 for a look at it, 4 for a table of Unicode.
 */
bool dt_tpl_scan(struct dt_tpl_run *r, struct dt_tpl_text text, size_t work);
/* Zeroed memory of the rendering; NULL: failed. */
void *dt_tpl_alloc(struct dt_tpl_run *r, size_t bytes);
/* Counts a level of nesting; r->depth-- afterwards. */
bool dt_tpl_deeper(struct dt_tpl_run *r);

/* Evaluates an expression; runs statements; writes a text. */
bool dt_tpl_eval(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                 struct dt_tpl_value *out);
bool dt_tpl_exec(struct dt_tpl_run *r, const struct dt_tpl_nodes *body);
bool dt_tpl_put(struct dt_tpl_run *r, struct dt_tpl_text text);
/* Runs a body and takes what it has put as a string. */
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
/* Whether there is a filter of this name. */
bool dt_tpl_is_filter(struct dt_tpl_text name); /* of filters.c */
bool dt_tpl_is_list_filter(struct dt_tpl_text name);
/* Applies one of list_filters.c. */
bool dt_tpl_filter_list(struct dt_tpl_run *r, struct dt_tpl_text name,
                        struct dt_tpl_value value,
                        const struct dt_tpl_args *args,
                        struct dt_tpl_value *out);
/* Calls a function of functions.c. */
bool dt_tpl_function(struct dt_tpl_run *r, enum dt_tpl_function function,
                     const struct dt_tpl_args *args, struct dt_tpl_value *out);
/* The function of a name that is not a variable; false if there is none. */
bool dt_tpl_find_function(struct dt_tpl_text name, struct dt_tpl_value *out);
/* Calls a method; one of strings. */
bool dt_tpl_method(struct dt_tpl_run *r, const struct dt_tpl_method *method,
                   const struct dt_tpl_args *args, struct dt_tpl_value *out);
/* Whether values of a kind have the method. */
bool dt_tpl_has_method(enum dt_tpl_kind kind, struct dt_tpl_text name);
bool dt_tpl_string_method(struct dt_tpl_run *r, struct dt_tpl_text self,
                          struct dt_tpl_text name,
                          const struct dt_tpl_args *args,
                          struct dt_tpl_value *out);

/* value.attr and value[key]; undefined if there is none. */
bool dt_tpl_attribute(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                      struct dt_tpl_text name, struct dt_tpl_value *out);
bool dt_tpl_item(struct dt_tpl_run *r, const struct dt_tpl_value *value,
                 const struct dt_tpl_value *key, struct dt_tpl_value *out);
/* value[start:stop:step]; an undefined bound is one left out. */
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

/* Argument `position`, or that of the name; `fallback` if there is none. */
struct dt_tpl_value dt_tpl_arg(const struct dt_tpl_args *args, size_t position,
                               const char *name, struct dt_tpl_value fallback);
/* The same of one kind; a failure otherwise. */
bool dt_tpl_text_arg(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                     size_t position, const char *name, const char *fallback,
                     struct dt_tpl_text *out);
bool dt_tpl_int_arg(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                    size_t position, const char *name, int64_t fallback,
                    int64_t *out);
/* Whether it is there and true. */
bool dt_tpl_true_arg(const struct dt_tpl_args *args, size_t position,
                     const char *name);
/* Whether there are not more arguments than these, "a, b, c", and no others. */
bool dt_tpl_check_args(struct dt_tpl_run *r, const struct dt_tpl_args *args,
                       const char *what, const char *names);

#endif /* DT_TEMPLATE_TEMPLATE_RUN_H */
