/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - renders the Jinja templates that models carry for conversations
 *
 * The text is that of jinja2 3.1 in the environment of transformers'
 * apply_chat_template: trim_blocks and lstrip_blocks, break and continue, the
 * mark {% generation %}, and tojson that escapes no HTML. A template sees the
 * variables that it is given and nothing else. Features that are not supported
 * give an error when they are reached, and never other text: files and blocks
 * of other templates, recursive loops, Markup, methods that change a list or an
 * object (transformers forbids them, too).
 */
#ifndef DT_TEMPLATE_TEMPLATE_H
#define DT_TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

/* Limits of a template and of a rendering; exceeding one is an error. */
enum {
    DT_TEMPLATE_BYTES = 1 << 30,  /* of values and of the text */
    DT_TEMPLATE_STEPS = 20000000, /* evaluations; long texts count as many */
    DT_TEMPLATE_DEPTH = 100,      /* of nesting */
    DT_TEMPLATE_SOURCE = 1 << 20, /* bytes of a template */
    DT_TEMPLATE_NAMES = 1000,     /* of variables */
};

struct dt_template; /* read-only */

/* Parses a template of well-formed UTF-8. `file` is its name for messages. NULL
 * and err: EX_OSERR; EX_CONFIG, "<file>:<line>:<column>: <why>".
 */
struct dt_template *dt_template_create(const char *file, const char *text,
                                       size_t bytes, struct dt_error *err);
void dt_template_destroy(struct dt_template *template); /* NULL is fine */

/* The text of the template, NUL-terminated, with "\n" as line ends and without
 * one at its end.
 */
const char *dt_template_source(const struct dt_template *template);

/* Whether the template has {% generation %}. */
bool dt_template_has_marks(const struct dt_template *template);

/* Bytes of a rendering that {% generation %} marks; only the outermost of
 * nested ones counts.
 */
struct dt_template_span {
    size_t begin, end;
};

struct dt_template_work; /* memory that is reused */

/* A rendered text. Starts zeroed and may be reused, by one thread. */
struct dt_template_text {
    char *text; /* NUL-terminated */
    size_t bytes, capacity;
    struct dt_template_span *spans; /* in order, without overlap */
    size_t span_count, span_capacity;
    uint64_t steps; /* steps taken, of DT_TEMPLATE_STEPS */
    struct dt_template_work *work;
};
void dt_template_text_fini(struct dt_template_text *out); /* frees, zeroes */

struct dt_template_variable {
    const char *name;
    const json_t *value; /* NULL: not defined */
};

/* Renders to *out, replacing its content. If two variables have one name, the
 * last one counts. strftime_now is that of 26 Jul 2024, so that a run can be
 * repeated. -1: EX_OSERR; EX_DATAERR with the template's own refusal
 * (raise_exception), or "<file>:<line>:<column>: <why>".
 */
int dt_template_render(const struct dt_template *template,
                       const struct dt_template_variable *variables,
                       size_t count, struct dt_template_text *out,
                       struct dt_error *err);

#endif /* DT_TEMPLATE_TEMPLATE_H */
