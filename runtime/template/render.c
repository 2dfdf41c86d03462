/* SPDX-License-Identifier: Apache-2.0 */
/* render.c - templates, and the entry to rendering */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "template/template_run.h"

struct dt_template_work {
    struct dt_tpl_arena arena;
};

/* --- templates --- */

/* Copies the text with newlines alone as line ends, and without the one at its
 * end.
 */
static char *copy_source(const char *text, size_t *bytes)
{
    char *source = malloc(*bytes + 1);
    size_t n = 0;
    for (size_t i = 0; source && i < *bytes; i++) {
        source[n++] = text[i] == '\r' ? '\n' : text[i];
        i += text[i] == '\r' && i + 1 < *bytes && text[i + 1] == '\n';
    }
    n -= n > 0 && source && source[n - 1] == '\n';
    if (source)
        source[n] = '\0';
    *bytes = n;
    return source;
}

struct dt_template *dt_template_create(const char *file, const char *text,
                                       size_t bytes, struct dt_error *err)
{
    struct dt_error here = {0};
    struct dt_template *template = calloc(1, sizeof(*template));
    if (template && bytes <= DT_TEMPLATE_SOURCE) {
        template->bytes = bytes;
        template->source = copy_source(text, &template->bytes);
        template->file = strdup(file);
    }
    if (template && bytes > DT_TEMPLATE_SOURCE)
        dt_error_set(&here, EX_CONFIG, "%s: a template of more than %d bytes",
                     file, DT_TEMPLATE_SOURCE);
    else if (!template || !template->source || !template->file)
        dt_error_set(&here, EX_OSERR, "%s: out of memory", file);
    else if (dt_tpl_parse(template, &here) == 0)
        return template;
    if (err)
        *err = here;
    dt_template_destroy(template);
    return NULL;
}

void dt_template_destroy(struct dt_template *template)
{
    if (!template)
        return;
    dt_tpl_arena_fini(&template->arena);
    free(template->names);
    free(template->source);
    free(template->file);
    free(template);
}

const char *dt_template_source(const struct dt_template *template)
{
    return template->source;
}

bool dt_template_has_marks(const struct dt_template *template)
{
    return template->has_marks;
}

/* --- rendering --- */

void dt_template_text_fini(struct dt_template_text *out)
{
    if (out->work)
        dt_tpl_arena_fini(&out->work->arena);
    free(out->work);
    free(out->text);
    free(out->spans);
    *out = (struct dt_template_text){0};
}

/* Defines the variables of names that the template uses. */
static bool define_variables(struct dt_tpl_run *r,
                             const struct dt_template_variable *variables,
                             size_t count)
{
    const struct dt_template *t = r->template;
    for (size_t i = 0; i < count; i++) {
        struct dt_tpl_value value;
        size_t name = 0;
        while (name < t->name_count &&
               !dt_tpl_text_is(t->names[name], variables[i].name))
            name++;
        if (name == t->name_count || !variables[i].value)
            continue;
        if (!dt_tpl_from_json(r, variables[i].value, 0, &value) ||
            !dt_tpl_set(r, r->frame, (int)name, value))
            return false;
    }
    return true;
}

int dt_template_render(const struct dt_template *template,
                       const struct dt_template_variable *variables,
                       size_t count, struct dt_template_text *out,
                       struct dt_error *err)
{
    struct dt_tpl_frame globals = {0}, top = {.parent = &globals};
    struct dt_error here = {0};
    struct dt_tpl_run run = {
        .template = template, .out = out, .frame = &globals, .err = &here};
    if (!out->work)
        out->work = calloc(1, sizeof(*out->work));
    if (!out->work)
        return dt_error_set(err, EX_OSERR, "out of memory");
    run.arena = &out->work->arena;
    out->bytes = out->span_count = 0;
    bool done = dt_tpl_put(&run, (struct dt_tpl_text){"", 0}) &&
                define_variables(&run, variables, count);
    run.frame = &top;
    done = done && dt_tpl_exec(&run, &template->body);
    out->steps = run.steps;
    dt_tpl_arena_reset(run.arena);
    if (!done && err)
        *err = here;
    return done ? 0 : -1;
}
