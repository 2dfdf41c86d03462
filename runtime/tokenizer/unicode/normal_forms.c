/* SPDX-License-Identifier: Apache-2.0 */
/* normal_forms.c - normal forms of text, and changes of single characters */
#include "config.h"

#include <stdlib.h>

#include <utf8proc.h>

#include "tokenizer/unicode/unicode.h"

/* Maps bytes [from, to) of a span by utf8proc, with its options and
 * UTF8PROC_STABLE, and appends the result. -1: EX_OSERR.
 */
static int map_bytes(int options, const struct dt_tok_span *span, size_t from,
                     size_t to, struct dt_tok_text *text, struct dt_error *err)
{
    utf8proc_uint8_t *out = NULL;
    utf8proc_ssize_t n = utf8proc_map(
        (const utf8proc_uint8_t *)span->s + from, (utf8proc_ssize_t)(to - from),
        &out, (utf8proc_option_t)(UTF8PROC_STABLE | options));
    if (n < 0)
        return dt_error_set(err, EX_OSERR, "normal form: %s",
                            utf8proc_errmsg(n));
    dt_tok_text_add(text, (const char *)out, (size_t)n,
                    dt_tok_span_begin(span, from),
                    dt_tok_span_end(span, to - 1));
    free(out);
    return 0;
}

/* --- form C --- */

/* The end of the text from `from` on that NFC does not change. It is before the
 * first active character and the one in front of it, as these may be joined.
 */
static size_t find_active(const char *s, size_t n, size_t from)
{
    const uint8_t *classes = dt_tok_classes();
    size_t bytes, before = from;
    for (size_t i = from; i < n; i += bytes) {
        uint8_t class = classes[dt_tok_decode(s + i, &bytes)];
        if (class & DT_TOK_ACTIVE)
            return before;
        before = class & DT_TOK_OPAQUE ? i + bytes : i;
    }
    return n;
}

/* The end of the text to compose: one character of any kind at `from`, and the
 * active ones that follow it.
 */
static size_t end_of_active(const char *s, size_t n, size_t from)
{
    const uint8_t *classes = dt_tok_classes();
    size_t bytes;
    dt_tok_decode(s + from, &bytes);
    for (size_t i = from + bytes; i < n; i += bytes)
        if (!(classes[dt_tok_decode(s + i, &bytes)] & DT_TOK_ACTIVE))
            return i;
    return n;
}

bool dt_tok_nfc_needed(const char *s, size_t n)
{
    size_t i = 0;
    /* Bytes from 0xcc on start U+0300 and up. */
    while (i < n && (unsigned char)s[i] < 0xcc)
        i++;
    return find_active(s, n, i) < n;
}

int dt_tok_nfc(const struct dt_tok_span *span, struct dt_tok_text *text,
               struct dt_error *err)
{
    for (size_t i = 0; i < span->n;) {
        size_t end = find_active(span->s, span->n, i);
        dt_tok_text_copy(text, span, i, end);
        i = end;
        if (i == span->n)
            break;
        end = end_of_active(span->s, span->n, i);
        if (map_bytes(UTF8PROC_COMPOSE, span, i, end, text, err) < 0)
            return -1;
        i = end;
    }
    return 0;
}

/* --- the forms D, KC and KD --- */

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

/* The end of the text that has to be normalized with the character at i. */
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
        } else if (map_bytes(form_options[form], span, i, end, text, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* --- single characters --- */

/* Small letters that came after Unicode 14, so that utf8proc may not know
 * them: the first capital, how many (from one to the next is `step`), and the
 * first small letter.
 */
static const struct {
    uint32_t from, count, step, to;
} late_lower[] = {
    {0x1c89, 1, 1, 0x1c8a},    {0xa7cb, 1, 1, 0x264},
    {0xa7cc, 2, 2, 0xa7cd},    {0xa7d2, 2, 2, 0xa7d3},
    {0xa7da, 1, 1, 0xa7db},    {0xa7dc, 1, 1, 0x19b},
    {0x10d50, 22, 1, 0x10d70}, {0x16ea0, 25, 1, 0x16ebb},
};

static uint32_t lower_letter(uint32_t cp)
{
    for (size_t i = 0; i < sizeof(late_lower) / sizeof(late_lower[0]); i++) {
        uint32_t n = cp - late_lower[i].from, step = late_lower[i].step;
        if (cp >= late_lower[i].from && n / step < late_lower[i].count &&
            n % step == 0)
            return late_lower[i].to + n;
    }
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

/* Whether Nmt removes a character. */
static bool nmt_removes(uint32_t cp)
{
    return (cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) ||
           cp == 0x7f || cp == 0x8f || cp == 0x9f;
}

static bool nmt_is_space(uint32_t cp)
{
    return cp == '\t' || cp == '\n' || cp == '\f' || cp == '\r' ||
           cp == 0x1680 || (cp >= 0x200b && cp <= 0x200f) || cp == 0x2028 ||
           cp == 0x2029 || cp == 0x2581 || cp == 0xfeff || cp == 0xfffd;
}

size_t dt_tok_letter(enum dt_tok_letters change, uint32_t cp, uint32_t out[2])
{
    out[0] = cp;
    switch (change) {
    case DT_TOK_LOWER:
        out[0] = cp < 0x80 ? cp + (cp >= 'A' && cp <= 'Z' ? 32 : 0)
                           : lower_letter(cp);
        out[1] = 0x307;
        return cp == 0x130 ? (out[0] = 'i', 2) : 1;
    case DT_TOK_UNMARK:
        return cp < 0x300 || !dt_tok_in_set(DT_TOK_SET_MARKS, cp);
    case DT_TOK_NMT:
        out[0] = nmt_is_space(cp) ? ' ' : cp;
        return !nmt_removes(cp);
    }
    return 1;
}
