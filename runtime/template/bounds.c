/* SPDX-License-Identifier: Apache-2.0 */
/* bounds.c - limits of memory and steps, and errors with their places */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/template_impl.h"

/* --- messages and steps --- */

enum {
    DEPTH = 1000, /* nested calls to evaluate expressions and bodies */
    STEP_BYTES = 64,
    SCAN_BYTES = 8,
};

/* Puts "<file>:<line>:<column>: " before the message. */
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

/* --- memory --- */

enum { CHUNK_BYTES = 1 << 16, ALIGN = 16 };

struct dt_tpl_chunk {
    struct dt_tpl_chunk *next;
    size_t used, room;
    _Alignas(ALIGN) char bytes[];
};

static struct dt_tpl_chunk *add_chunk(struct dt_tpl_arena *arena, size_t bytes)
{
    size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    struct dt_tpl_chunk *chunk = malloc(sizeof(*chunk) + room);
    if (!chunk)
        return NULL;
    *chunk = (struct dt_tpl_chunk){.next = arena->chunks, .room = room};
    arena->chunks = chunk;
    arena->total += room;
    return chunk;
}

void *dt_tpl_arena_alloc(struct dt_tpl_arena *arena, size_t bytes)
{
    struct dt_tpl_chunk *chunk = arena->chunks;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!chunk || chunk->room - chunk->used < bytes)
        chunk = add_chunk(arena, bytes);
    if (!chunk)
        return NULL;
    void *at = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return memset(at, 0, bytes);
}

/* Frees all chunks but one of the usual size, if `keep`. */
static void free_chunks(struct dt_tpl_arena *arena, bool keep)
{
    struct dt_tpl_chunk *kept = NULL;
    for (struct dt_tpl_chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        if (keep && !kept && c->room == CHUNK_BYTES)
            kept = c;
        else
            free(c);
    }
    *arena = (struct dt_tpl_arena){0};
    if (!kept)
        return;
    kept->next = NULL;
    kept->used = 0;
    arena->chunks = kept;
    arena->total = kept->room;
}

void dt_tpl_arena_reset(struct dt_tpl_arena *arena)
{
    free_chunks(arena, true);
}

void dt_tpl_arena_fini(struct dt_tpl_arena *arena)
{
    free_chunks(arena, false);
}

void *dt_tpl_alloc(struct dt_tpl_run *r, size_t bytes)
{
    if (bytes > DT_TEMPLATE_BYTES ||
        r->arena->total + r->out->bytes + bytes > DT_TEMPLATE_BYTES) {
        dt_tpl_fail(r, "more than %d MiB are needed", DT_TEMPLATE_BYTES >> 20);
        return NULL;
    }
    void *at = dt_tpl_arena_alloc(r->arena, bytes);
    if (!at)
        dt_error_set(r->err, EX_OSERR, "out of memory");
    return at;
}

/* Makes room for more bytes; false: failed, now or earlier. */
static bool reserve(struct dt_tpl_builder *b, size_t more)
{
    if (b->failed || more <= b->room - b->n)
        return !b->failed;
    size_t room = 2 * b->room + more + 32;
    char *grown = dt_tpl_alloc(b->run, room);
    b->failed = !grown;
    if (b->failed)
        return false;
    if (b->n > 0)
        memcpy(grown, b->s, b->n);
    b->s = grown;
    b->room = room;
    return true;
}

void dt_tpl_add(struct dt_tpl_builder *b, const char *s, size_t n)
{
    if (n == 0 || !reserve(b, n))
        return;
    memcpy(b->s + b->n, s, n);
    b->n += n;
}

void dt_tpl_add_times(struct dt_tpl_builder *b, struct dt_tpl_text text,
                      int64_t times)
{
    size_t bytes, done = text.n;
    if (text.n == 0 || times <= 0)
        return;
    if (__builtin_mul_overflow(text.n, (size_t)times, &bytes) ||
        bytes > DT_TEMPLATE_BYTES)
        bytes = DT_TEMPLATE_BYTES; /* more than there is room for */
    if (!reserve(b, bytes))
        return;
    char *to = b->s + b->n;
    memcpy(to, text.s, text.n);
    for (size_t n; done < bytes; done += n) {
        n = done < bytes - done ? done : bytes - done;
        memcpy(to + done, to, n);
    }
    b->n += bytes;
}

void dt_tpl_add_text(struct dt_tpl_builder *b, struct dt_tpl_text text)
{
    dt_tpl_add(b, text.s, text.n);
}

void dt_tpl_add_string(struct dt_tpl_builder *b, const char *s)
{
    dt_tpl_add(b, s, strlen(s));
}

bool dt_tpl_built(const struct dt_tpl_builder *b, struct dt_tpl_text *out)
{
    *out = (struct dt_tpl_text){b->s ? b->s : "", b->n};
    return !b->failed && dt_tpl_step(b->run, b->n);
}
