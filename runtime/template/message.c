/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - errors with their places, and limits */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "template/template_run.h"

enum {
    DEPTH = 1000, /* of expressions and bodies that wait for each other */
    STEP_BYTES = 64,
    SCAN_BYTES = 8,
};

/* Puts "<file>:<line>:<column>: " in front. */
static void add_place(const struct dt_template *template, uint32_t at,
                      struct dt_error *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < template->bytes; i++) {
        bool ends = template->source[i] == '\n';
        line += ends;
        column = ends ? 1 : column + 1;
    }
    dt_error_prefix(err, "%s:%zu:%zu", template->file, line, column);
}

int dt_tpl_error(const struct dt_template *template, uint32_t at, int status,
                 struct dt_error *err, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    dt_error_set(err, status, "%s", text);
    add_place(template, at, err);
    return -1;
}

bool dt_tpl_fail(struct dt_tpl_run *r, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    dt_tpl_error(r->template, r->node ? r->node->at : 0, EX_DATAERR, r->err,
                 "%s", text);
    return false;
}

bool dt_tpl_fail_undefined(struct dt_tpl_run *r,
                           const struct dt_tpl_value *value)
{
    return dt_tpl_fail(r,
                       value->flag ? "there is no '%.*s' in this value"
                                   : "'%.*s' is not defined",
                       (int)(value->text.n < 80 ? value->text.n : 80),
                       value->text.s);
}

bool dt_tpl_step(struct dt_tpl_run *r, size_t bytes)
{
    r->steps += 1 + bytes / STEP_BYTES;
    return r->steps <= DT_TEMPLATE_STEPS ||
           dt_tpl_fail(r, "more than %d steps: is there a loop without end?",
                       DT_TEMPLATE_STEPS);
}

bool dt_tpl_scan(struct dt_tpl_run *r, struct dt_tpl_text text, size_t work)
{
    const size_t each = STEP_BYTES / SCAN_BYTES;
    size_t bytes;
    return dt_tpl_step(r, __builtin_mul_overflow(text.n, work * each, &bytes)
                              ? SIZE_MAX
                              : bytes);
}

bool dt_tpl_deeper(struct dt_tpl_run *r)
{
    return ++r->depth <= DEPTH ||
           dt_tpl_fail(r, "more than %d expressions and calls in each other",
                       DEPTH);
}
