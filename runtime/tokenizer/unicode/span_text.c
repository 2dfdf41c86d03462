/* SPDX-License-Identifier: Apache-2.0 */
/* span_text.c - builds text with offsets into the original text */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode/unicode.h"

void dt_tok_text_fini(struct dt_tok_text *text)
{
    free(text->bytes);
    free(text->begin);
    free(text->end);
    *text = (struct dt_tok_text){0};
}

void dt_tok_text_clear(struct dt_tok_text *text, bool offsets)
{
    if (offsets && !text->offsets) /* all three arrays share one capacity */
        dt_tok_text_fini(text);
    text->offsets = offsets;
    text->count = 0;
    text->full = false;
}

bool dt_tok_grow(void *array, size_t count, size_t size)
{
    void *old;
    memcpy(&old, array, sizeof(old));
    void *grown = reallocarray(old, count, size);
    if (grown)
        memcpy(array, &grown, sizeof(grown));
    return grown;
}

static bool reserve_bytes(struct dt_tok_text *text, size_t more)
{
    size_t capacity = text->count + more;
    if (text->full || capacity <= text->capacity)
        return !text->full;
    capacity += capacity / 2 + 64;
    text->full = !dt_tok_grow(&text->bytes, capacity, 1) ||
                 (text->offsets &&
                  (!dt_tok_grow(&text->begin, capacity, sizeof(uint32_t)) ||
                   !dt_tok_grow(&text->end, capacity, sizeof(uint32_t))));
    if (!text->full)
        text->capacity = capacity;
    return !text->full;
}

void dt_tok_text_copy(struct dt_tok_text *text, const struct dt_tok_span *span,
                      size_t from, size_t to)
{
    if (from == to || !reserve_bytes(text, to - from))
        return;
    memcpy(text->bytes + text->count, span->s + from, to - from);
    for (size_t i = from; text->offsets && i < to; i++) {
        text->begin[text->count + i - from] = dt_tok_span_begin(span, i);
        text->end[text->count + i - from] = dt_tok_span_end(span, i);
    }
    text->count += to - from;
}

void dt_tok_text_add(struct dt_tok_text *text, const char *s, size_t n,
                     uint32_t begin, uint32_t end)
{
    if (n == 0 || !reserve_bytes(text, n))
        return;
    memcpy(text->bytes + text->count, s, n);
    for (size_t i = 0; text->offsets && i < n; i++) {
        text->begin[text->count + i] = begin;
        text->end[text->count + i] = end;
    }
    text->count += n;
}

int dt_tok_text_span(const struct dt_tok_text *text, struct dt_tok_span *span,
                     struct dt_error *err)
{
    if (text->full)
        return dt_error_set(err, EX_OSERR, "out of memory");
    span->s = text->bytes;
    span->n = text->count;
    span->begin = text->offsets ? text->begin : NULL;
    span->end = text->offsets ? text->end : NULL;
    return 0;
}
