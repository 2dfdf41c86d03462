/* SPDX-License-Identifier: Apache-2.0 */
/* unicode.c - classifies code points and computes normal form C */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "tokenizer/impl.h"

static uint8_t classes[DT_TOK_CODE_POINTS];

static const uint32_t spaces[][2] = {
    {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
    {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
    {0x205f, 0x205f}, {0x3000, 0x3000},
};

enum {
    DECOMPOSED_MAX = 32,
    DECOMPOSES = 128, /* a class while classes are made */
};

/* Writes the full canonical decomposition of a code point and returns its
 * length.
 */
static size_t decompose_char(uint32_t cp, utf8proc_int32_t out[DECOMPOSED_MAX])
{
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char(
        (utf8proc_int32_t)cp, out, DECOMPOSED_MAX,
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
    return n < 0 || n > DECOMPOSED_MAX ? 0 : (size_t)n;
}

/* Whether NFC changes this code point even on its own. `buffer` holds its
 * decomposition of length n.
 */
static bool changes_alone(uint32_t cp, size_t n,
                          utf8proc_int32_t buffer[DECOMPOSED_MAX + 1])
{
    return utf8proc_normalize_utf32(buffer, (utf8proc_ssize_t)n,
                                    UTF8PROC_STABLE | UTF8PROC_COMPOSE) != 1 ||
           buffer[0] != (utf8proc_int32_t)cp;
}

/* Marks the code points that NFC may change, of those that DECOMPOSE. A code
 * point that occurs in a decomposition, except as the first, may be joined to
 * the one before it.
 */
static void mark_active(void)
{
    utf8proc_int32_t parts[DECOMPOSED_MAX + 1];
    for (uint32_t cp = 0; cp < DT_TOK_CODE_POINTS; cp++) {
        size_t n = classes[cp] & DECOMPOSES ? decompose_char(cp, parts) : 0;
        for (size_t i = 1; i < n; i++)
            classes[parts[i]] |= DT_TOK_ACTIVE;
    }
    for (uint32_t cp = 0; cp < DT_TOK_CODE_POINTS; cp++) {
        size_t n = classes[cp] & DECOMPOSES ? decompose_char(cp, parts) : 0;
        classes[cp] &= (uint8_t)~DECOMPOSES;
        if (n > 0 && (n > 1 || parts[0] != (utf8proc_int32_t)cp) &&
            (classes[parts[0]] & DT_TOK_ACTIVE || changes_alone(cp, n, parts)))
            classes[cp] |= DT_TOK_ACTIVE;
    }
}

static uint8_t class_of(utf8proc_propval_t category)
{
    switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return DT_TOK_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return DT_TOK_NUMBER;
    default:
        return DT_TOK_OTHER;
    }
}

/* What is known of a code point by itself. Its properties are asked for once,
 * as asking takes most of the time.
 */
static uint8_t properties_of(uint32_t cp)
{
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    const bool hangul = cp >= 0xac00 && cp < 0xd7a4; /* by a rule */
    return class_of(p->category) |
           (p->combining_class != 0 ? DT_TOK_ACTIVE : 0) |
           (hangul || p->decomp_seqindex != UINT16_MAX ? DECOMPOSES : 0);
}

static void make_classes(void)
{
    for (uint32_t cp = 0; cp < DT_TOK_CODE_POINTS; cp++)
        classes[cp] = properties_of(cp);
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
        for (uint32_t cp = spaces[i][0]; cp <= spaces[i][1]; cp++)
            classes[cp] = DT_TOK_SPACE | (classes[cp] & DECOMPOSES);
    dt_tok_mark_late('L', DT_TOK_LETTER, classes);
    dt_tok_mark_late('N', DT_TOK_NUMBER, classes);
    classes['\n'] |= DT_TOK_NEWLINE;
    classes['\r'] |= DT_TOK_NEWLINE;
    mark_active();
    dt_tok_mark_set(DT_TOK_SET_OPAQUE, classes, DT_TOK_ACTIVE, DT_TOK_OPAQUE);
}

const uint8_t *dt_tok_classes(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_classes);
    return classes;
}

size_t dt_tok_encode(uint32_t code_point, char out[4])
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)code_point,
                                        (utf8proc_uint8_t *)out);
}

size_t dt_tok_back(const char *s, size_t i)
{
    do
        i--;
    while (((unsigned char)s[i] & 0xc0) == 0x80);
    return i;
}

int dt_tok_sequence(const unsigned char *s, size_t n)
{
    unsigned char low = 0x80, high = 0xbf; /* range of the next byte */
    int length;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return -1;
    length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (s[0] == 0xe0)
        low = 0xa0;
    else if (s[0] == 0xed)
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f;
    for (int i = 1; i < length; i++, low = 0x80, high = 0xbf) {
        if ((size_t)i == n)
            return 0;
        if (s[i] < low || s[i] > high)
            return -i;
    }
    return length;
}

/* The end of the text from `from` on that NFC does not change: the character
 * before the first active one, which the two may form.
 */
static size_t find_active(const char *s, size_t n, size_t from)
{
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

int dt_tok_map(int options, const struct dt_tok_span *span, size_t from,
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
        if (dt_tok_map(UTF8PROC_COMPOSE, span, i, end, text, err) < 0)
            return -1;
        i = end;
    }
    return 0;
}

const char *dt_tok_unicode_library(void)
{
    return utf8proc_version();
}
