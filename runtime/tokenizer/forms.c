/* SPDX-License-Identifier: Apache-2.0 */
/* forms.c - the normal forms D, KC and KD; form C is in unicode.c */
#include "config.h"

#include <utf8proc.h>

#include "tokenizer/normal.h"

enum { PARTS_MAX = 32 }; /* of the decomposition of a character */

static const int form_options[] = {
    [DT_TOK_FORM_D] = UTF8PROC_DECOMPOSE,
    [DT_TOK_FORM_KC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [DT_TOK_FORM_KD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

/* Whether a character may be joined to the one before it, or ordered before
 * it.
 */
static bool form_joins(enum dt_tok_form form, uint32_t cp)
{
    utf8proc_int32_t parts[PARTS_MAX];
    const uint8_t *classes = dt_tok_classes();
    int boundary = 0;
    if (cp < 0xc0 || classes[cp] & DT_TOK_OPAQUE)
        return false;
    utf8proc_ssize_t n = utf8proc_decompose_char(
        (utf8proc_int32_t)cp, parts, PARTS_MAX,
        UTF8PROC_DECOMPOSE | (form == DT_TOK_FORM_D ? 0 : UTF8PROC_COMPAT),
        &boundary);
    return classes[cp] & DT_TOK_ACTIVE ||
           (n > 0 && n <= PARTS_MAX && classes[parts[0]] & DT_TOK_ACTIVE);
}

/* The end of what has to be normalized together with the character at i. */
static size_t end_of_part(enum dt_tok_form form, const char *s, size_t n,
                          size_t i)
{
    size_t bytes, end;
    uint32_t cp = dt_tok_decode(s + i, &bytes);
    end = i + bytes;
    if (dt_tok_classes()[cp] & DT_TOK_OPAQUE)
        return end;
    for (; end < n; end += bytes)
        if (!form_joins(form, dt_tok_decode(s + end, &bytes)))
            break;
    return end;
}

int dt_tok_form(enum dt_tok_form form, const struct dt_tok_span *span,
                struct dt_tok_text *text, struct dt_error *err)
{
    const uint8_t *classes = dt_tok_classes();
    size_t end, bytes;
    for (size_t i = 0; i < span->n; i = end) {
        uint32_t cp = dt_tok_decode(span->s + i, &bytes);
        end = end_of_part(form, span->s, span->n, i);
        if (cp < 0x80 && end == i + 1) {
            while (
                end < span->n && (unsigned char)span->s[end] < 0x80 &&
                (end + 1 == span->n || (unsigned char)span->s[end + 1] < 0x80))
                end++;
            dt_tok_text_copy(text, span, i, end);
        } else if (classes[cp] & DT_TOK_OPAQUE) {
            dt_tok_text_copy(text, span, i, end);
        } else if (dt_tok_map(form_options[form], span, i, end, text, err) <
                   0) {
            return -1;
        }
    }
    return 0;
}
