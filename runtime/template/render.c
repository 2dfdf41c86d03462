/* SPDX-License-Identifier: Apache-2.0 */
/* render.c - runs statements, with the scopes of variables */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

/* --- the text --- */

static bool grow(struct dt_tpl_run *r, void **array, size_t *room,
                 size_t needed, size_t item_bytes)
{
    size_t larger = needed + needed / 2 + 1024;
    if (needed <= *room)
        return true;
    void *grown = reallocarray(*array, larger, item_bytes);
    if (!grown) {
        dt_error_set(r->err, EX_OSERR, "out of memory");
        return false;
    }
    *array = grown;
    *room = larger;
    return true;
}

/* Writes a text. */
static bool put_text(struct dt_tpl_run *r, struct dt_tpl_text text)
{
    struct dt_template_text *out = r->out;
    void *bytes = out->text;
    if (text.n > DT_TEMPLATE_BYTES - out->bytes)
        return dt_tpl_fail(r, "more than %d MiB of text",
                           DT_TEMPLATE_BYTES >> 20);
    if (!grow(r, &bytes, &out->capacity, out->bytes + text.n + 1, 1))
        return false;
    out->text = bytes;
    if (text.n > 0)
        memcpy(out->text + out->bytes, text.s, text.n);
    out->bytes += text.n;
    out->text[out->bytes] = '\0';
    return dt_tpl_step(r, text.n);
}

/* Runs statements. */
static bool exec_body(struct dt_tpl_run *r, const struct dt_tpl_nodes *body);

bool dt_tpl_capture(struct dt_tpl_run *r, const struct dt_tpl_nodes *body,
                    struct dt_tpl_text *out)
{
    size_t begin = r->out->bytes;
    r->captures++;
    if (!exec_body(r, body))
        return false;
    r->captures--;
    size_t n = r->out->bytes - begin;
    char *copy = dt_tpl_alloc(r, n + 1);
    if (!copy)
        return false;
    memcpy(copy, r->out->text + begin, n);
    r->out->bytes = begin;
    r->out->text[begin] = '\0';
    *out = (struct dt_tpl_text){copy, n};
    return true;
}

/* --- scopes --- */

bool dt_tpl_set(struct dt_tpl_run *r, struct dt_tpl_frame *frame, int name,
                struct dt_tpl_value value)
{
    for (int i = 0; i < frame->count; i++)
        if (frame->variables[i].name == name) {
            frame->variables[i].value = value;
            return true;
        }
    if (frame->count == frame->room) {
        int room = 2 * frame->room + 4;
        struct dt_tpl_variable *grown =
            dt_tpl_alloc(r, (size_t)room * sizeof(*grown));
        if (!grown)
            return false;
        if (frame->count > 0)
            memcpy(grown, frame->variables,
                   (size_t)frame->count * sizeof(*grown));
        frame->variables = grown;
        frame->room = room;
    }
    frame->variables[frame->count++] = (struct dt_tpl_variable){name, value};
    return true;
}

/* Enters a new scope; the caller sets r->frame to its parent again. */
static bool open_scope(struct dt_tpl_run *r)
{
    struct dt_tpl_frame *frame = dt_tpl_alloc(r, sizeof(*frame));
    if (!frame)
        return false;
    frame->parent = r->frame;
    r->frame = frame;
    return true;
}

static bool assign(struct dt_tpl_run *r, const struct dt_tpl_node *target,
                   struct dt_tpl_value value);

static bool unpack(struct dt_tpl_run *r, const struct dt_tpl_node *target,
                   const struct dt_tpl_value *value)
{
    struct dt_tpl_list *list;
    r->node = target;
    if (!dt_tpl_iterate(r, value, &list))
        return false;
    if (list->count != target->items.count)
        return dt_tpl_fail(r, "expected %zu values to unpack, got %zu",
                           target->items.count, list->count);
    for (size_t i = 0; i < list->count; i++)
        if (!assign(r, target->items.items[i], list->items[i]))
            return false;
    return true;
}

/* The variable of this name in the innermost scope that has it, or NULL. */
static struct dt_tpl_value *find_variable(struct dt_tpl_run *r, int name)
{
    for (struct dt_tpl_frame *f = r->frame; f; f = f->parent)
        for (int i = 0; i < f->count; i++)
            if (f->variables[i].name == name)
                return &f->variables[i].value;
    return NULL;
}

static bool assign(struct dt_tpl_run *r, const struct dt_tpl_node *target,
                   struct dt_tpl_value value)
{
    if (target->kind == E_TUPLE)
        return unpack(r, target, &value);
    if (target->kind == E_NAME)
        return dt_tpl_set(r, r->frame, target->name, value);
    struct dt_tpl_value *object = find_variable(r, target->name);
    r->node = target;
    if (!object || object->kind != V_NAMESPACE)
        return dt_tpl_fail(r, "cannot assign to an attribute of what is no "
                              "namespace");
    if (target->text.s[0] == '_')
        return dt_tpl_fail(r, "a namespace has no attributes that begin with "
                              "_");
    return dt_tpl_dict_set(r, object->dict, dt_tpl_string(target->text), value);
}

/* --- statements --- */

static bool exec_output(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    struct dt_tpl_value value;
    struct dt_tpl_text text;
    if (!dt_tpl_eval(r, node->a, &value))
        return false;
    r->node = node->a;
    return dt_tpl_show(r, &value, &text) && put_text(r, text);
}

/* Removes the items for which the condition of the loop is false. */
static bool filter_items(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                         struct dt_tpl_list **list)
{
    struct dt_tpl_value value, kept_value;
    struct dt_tpl_list *all = *list,
                       *kept = dt_tpl_list(r, V_LIST, 0, &kept_value);
    struct dt_tpl_frame *outer = r->frame;
    for (size_t i = 0; kept && i < all->count; i++) {
        if (!open_scope(r) || !assign(r, node->a, all->items[i]) ||
            !dt_tpl_eval(r, node->c, &value) ||
            (dt_tpl_truth(&value) && !dt_tpl_list_add(r, kept, all->items[i])))
            return false;
        r->frame = outer;
    }
    *list = kept;
    return kept;
}

static bool exec_for(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    struct dt_tpl_value value;
    struct dt_tpl_list *list;
    struct dt_tpl_frame *outer = r->frame;
    struct dt_tpl_loop *loop = dt_tpl_alloc(r, sizeof(*loop));
    if (!loop || !dt_tpl_eval(r, node->b, &value))
        return false;
    r->node = node->b;
    if (!dt_tpl_iterate(r, &value, &list) ||
        (node->c && !filter_items(r, node, &list)))
        return false;
    loop->items = list;
    struct dt_tpl_value self = {.kind = V_LOOP, .loop = loop};
    bool reached_end = false;
    for (size_t i = 0; i < list->count; i++) {
        loop->index = i;
        if (!dt_tpl_step(r, 0) || !open_scope(r) ||
            !assign(r, node->a, list->items[i]) ||
            !dt_tpl_set(r, r->frame, r->template->loop, self) ||
            !exec_body(r, &node->body))
            return false;
        r->frame = outer;
        bool leaves = r->control == BREAK;
        reached_end |= r->control == GO_ON;
        r->control = GO_ON;
        if (leaves)
            break;
    }
    /* as in jinja2: also if each body ended with break or continue */
    if (reached_end || node->other.count == 0)
        return true;
    bool done = open_scope(r) && exec_body(r, &node->other);
    r->frame = outer;
    return done;
}

static bool exec_if(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    struct dt_tpl_value value;
    if (!dt_tpl_eval(r, node->a, &value))
        return false;
    return exec_body(r, dt_tpl_truth(&value) ? &node->body : &node->other);
}

static bool exec_set(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    struct dt_tpl_value value;
    return dt_tpl_eval(r, node->b, &value) && assign(r, node->a, value);
}

/* Applies a chain of filters to a text. */
static bool filter_text(struct dt_tpl_run *r, const struct dt_tpl_node *filter,
                        struct dt_tpl_text text, struct dt_tpl_value *out)
{
    struct dt_tpl_args args;
    struct dt_tpl_value value;
    if (filter->kind != E_FILTER) {
        *out = dt_tpl_string(text);
        return true;
    }
    if (!filter_text(r, filter->a, text, &value) ||
        !dt_tpl_eval_args(r, &filter->call, &args))
        return false;
    r->node = filter;
    return dt_tpl_filter(r, filter->text, value, &args, out);
}

/* Runs a body in a scope of its own. After break or continue its text is
 * discarded, and the caller is left, too.
 */
static bool capture_scope(struct dt_tpl_run *r, const struct dt_tpl_nodes *body,
                          struct dt_tpl_text *out)
{
    struct dt_tpl_frame *outer = r->frame;
    bool done = open_scope(r) && dt_tpl_capture(r, body, out);
    r->frame = outer;
    return done;
}

static bool exec_capture(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    struct dt_tpl_text text;
    struct dt_tpl_value value;
    if (!capture_scope(r, &node->body, &text))
        return false;
    if (r->control != GO_ON)
        return true;
    value = dt_tpl_string(text);
    if (node->b && !filter_text(r, node->b, text, &value))
        return false;
    return assign(r, node->a, value);
}

static bool exec_filter(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    struct dt_tpl_text text;
    struct dt_tpl_value value;
    if (!capture_scope(r, &node->body, &text))
        return false;
    if (r->control != GO_ON)
        return true;
    return filter_text(r, node->a, text, &value) &&
           dt_tpl_show(r, &value, &text) && put_text(r, text);
}

/* The macro of a node, in the current scope. */
static bool make_macro(struct dt_tpl_run *r, const struct dt_tpl_node *node,
                       struct dt_tpl_value *out)
{
    struct dt_tpl_macro *macro = dt_tpl_alloc(r, sizeof(*macro));
    if (!macro)
        return false;
    *macro = (struct dt_tpl_macro){node, r->frame};
    *out = (struct dt_tpl_value){.kind = V_MACRO, .macro = macro};
    return true;
}

static bool exec_macro(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    struct dt_tpl_value value;
    return make_macro(r, node, &value) &&
           dt_tpl_set(r, r->frame, node->name, value);
}

static bool exec_call(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    struct dt_tpl_value callee, caller, result;
    struct dt_tpl_args args;
    struct dt_tpl_text text;
    if (!dt_tpl_eval(r, node->a->a, &callee) ||
        !dt_tpl_eval_args(r, &node->a->call, &args) ||
        !make_macro(r, node->b, &caller))
        return false;
    struct dt_tpl_pair *keywords =
        dt_tpl_alloc(r, (args.keyword_count + 1) * sizeof(*keywords));
    if (!keywords)
        return false;
    if (args.keyword_count > 0)
        memcpy(keywords, args.keywords, args.keyword_count * sizeof(*keywords));
    keywords[args.keyword_count++] =
        (struct dt_tpl_pair){dt_tpl_string(TEXT("caller")), caller};
    args.keywords = keywords;
    r->node = node;
    return dt_tpl_call(r, &callee, &args, &result) &&
           dt_tpl_show(r, &result, &text) && put_text(r, text);
}

static bool exec_with(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    struct dt_tpl_frame *outer = r->frame, *inner;
    struct dt_tpl_value value;
    if (!open_scope(r))
        return false;
    inner = r->frame;
    for (size_t i = 0; i + 1 < node->items.count; i += 2) {
        r->frame = outer; /* values do not see each other */
        if (!dt_tpl_eval(r, node->items.items[i + 1], &value))
            return false;
        r->frame = inner;
        if (!assign(r, node->items.items[i], value))
            return false;
    }
    bool done = exec_body(r, &node->body);
    r->frame = outer;
    return done;
}

/* Adds a span of the text that ends here. It replaces the spans inside it,
 * which are those after the first `kept`.
 */
static bool add_span(struct dt_tpl_run *r, size_t begin, size_t kept)
{
    struct dt_template_text *out = r->out;
    void *spans = out->spans;
    out->span_count = kept;
    if (!grow(r, &spans, &out->span_capacity, kept + 1, sizeof(*out->spans)))
        return false;
    out->spans = spans;
    out->spans[out->span_count++] =
        (struct dt_template_span){begin, out->bytes};
    return true;
}

/* Runs the body and marks its text. A body whose text goes into a variable or
 * into the result of a macro is not marked, as its place is not known yet.
 */
static bool exec_generation(struct dt_tpl_run *r,
                            const struct dt_tpl_node *node)
{
    struct dt_tpl_frame *outer = r->frame;
    const size_t begin = r->out->bytes, kept = r->out->span_count;
    if (r->captures > 0)
        return dt_tpl_fail(r, "generation inside of a macro or of a block that "
                              "is put into a variable is not supported");
    bool done =
        open_scope(r) && exec_body(r, &node->body) && add_span(r, begin, kept);
    r->frame = outer;
    return done;
}

static bool exec_text(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    return put_text(r, node->text);
}

/* break and continue */
static bool exec_leave(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    r->control = node->kind == S_BREAK ? BREAK : CONTINUE;
    return true;
}

static bool exec_node(struct dt_tpl_run *r, const struct dt_tpl_node *node)
{
    static bool (*const kinds[])(struct dt_tpl_run * r,
                                 const struct dt_tpl_node *node) = {
        [S_TEXT] = exec_text,
        [S_OUTPUT] = exec_output,
        [S_FOR] = exec_for,
        [S_IF] = exec_if,
        [S_SET] = exec_set,
        [S_CAPTURE] = exec_capture,
        [S_FILTER] = exec_filter,
        [S_MACRO] = exec_macro,
        [S_CALL] = exec_call,
        [S_WITH] = exec_with,
        [S_BREAK] = exec_leave,
        [S_CONTINUE] = exec_leave,
        [S_GENERATION] = exec_generation,
    };
    return kinds[node->kind](r, node);
}

static bool exec_body(struct dt_tpl_run *r, const struct dt_tpl_nodes *body)
{
    if (!dt_tpl_deeper(r))
        return false;
    for (size_t i = 0; i < body->count && r->control == GO_ON; i++) {
        r->node = body->items[i];
        if (!dt_tpl_step(r, 0) || !exec_node(r, body->items[i]))
            return false;
    }
    r->depth--;
    return true;
}

/* --- templates --- */

struct dt_template_work {
    struct dt_tpl_arena arena;
};

/* Copies the text with "\n" as line ends, without one at its end. */
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
    bool done = put_text(&run, (struct dt_tpl_text){"", 0}) &&
                define_variables(&run, variables, count);
    run.frame = &top;
    done = done && exec_body(&run, &template->body);
    out->steps = run.steps;
    dt_tpl_arena_reset(run.arena);
    if (!done && err)
        *err = here;
    return done ? 0 : -1;
}
