/* SPDX-License-Identifier: Apache-2.0 */
/* unicode.c - code points: classes, sets, UTF-8 */
#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "tokenizer/unicode/unicode.h"

/* --- sets --- */

#include "tokenizer/unicode/sets.def"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define SET(ranges)                                                            \
    {                                                                          \
        ranges, LENGTH(ranges)                                                 \
    }

static const struct {
    const struct dt_tok_range *ranges;
    size_t count;
} sets[] = {
    [DT_TOK_SET_OPAQUE] = SET(opaque),
    [DT_TOK_SET_MARKS] = SET(marks),
    [DT_TOK_SET_PUNCTUATION] = SET(punctuation),
    [DT_TOK_SET_WORD] = SET(word),
    [DT_TOK_SET_NUMBER] = SET(number),
};

static int compare_range(const void *key, const void *item)
{
    const uint32_t cp = *(const uint32_t *)key;
    const struct dt_tok_range *range = item;
    return cp < range->first ? -1 : cp > range->last;
}

const struct dt_tok_range *dt_tok_find_range(const struct dt_tok_range *table,
                                             size_t count, uint32_t code_point)
{
    return bsearch(&code_point, table, count, sizeof(*table), compare_range);
}

bool dt_tok_in_set(enum dt_tok_set set, uint32_t code_point)
{
    return dt_tok_find_range(sets[set].ranges, sets[set].count, code_point);
}

/* --- categories of code points that came after Unicode 14 --- */

struct late {
    uint32_t first, last;
    char category[3];
};

#include "tokenizer/unicode/late.def"

size_t dt_tok_late_ranges(const char *category, size_t length,
                          char out[DT_TOK_LATE_BYTES])
{
    size_t bytes = 0;
    _Static_assert(LENGTH(late) * (sizeof("\\x{10ffff}-\\x{10ffff}") - 1) <
                       DT_TOK_LATE_BYTES,
                   "no room");
    for (size_t i = 0; i < LENGTH(late); i++)
        if (length <= 2 && memcmp(late[i].category, category, length) == 0)
            bytes += (size_t)snprintf(out + bytes, DT_TOK_LATE_BYTES - bytes,
                                      "\\x{%" PRIx32 "}-\\x{%" PRIx32 "}",
                                      late[i].first, late[i].last);
    return bytes;
}

/* Sets the class of these code points if they have a category ('L', 'N'). */
static void mark_late(char category, uint8_t class, uint8_t *classes)
{
    for (size_t i = 0; i < LENGTH(late); i++)
        for (uint32_t cp = late[i].first;
             late[i].category[0] == category && cp <= late[i].last; cp++)
            classes[cp] = (uint8_t)((classes[cp] & ~DT_TOK_OTHER) | class);
}

/* --- classes --- */

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

/* Marks the code points that NFC may change among those that DECOMPOSE. A code
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

/* The class of a code point by its own properties, which are looked up once, as
 * this takes most of the time.
 */
static uint8_t properties_of(uint32_t cp)
{
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    const bool hangul = cp >= 0xac00 && cp < 0xd7a4; /* decompose by a rule */
    return class_of(p->category) |
           (p->combining_class != 0 ? DT_TOK_ACTIVE : 0) |
           (hangul || p->decomp_seqindex != UINT16_MAX ? DECOMPOSES : 0);
}

static void make_classes(void)
{
    for (uint32_t cp = 0; cp < DT_TOK_CODE_POINTS; cp++)
        classes[cp] = properties_of(cp);
    for (size_t i = 0; i < LENGTH(spaces); i++)
        for (uint32_t cp = spaces[i][0]; cp <= spaces[i][1]; cp++)
            classes[cp] = DT_TOK_SPACE | (classes[cp] & DECOMPOSES);
    mark_late('L', DT_TOK_LETTER, classes);
    mark_late('N', DT_TOK_NUMBER, classes);
    classes['\n'] |= DT_TOK_NEWLINE;
    classes['\r'] |= DT_TOK_NEWLINE;
    mark_active();
    for (size_t i = 0; i < LENGTH(opaque); i++)
        for (uint32_t cp = opaque[i].first; cp <= opaque[i].last; cp++)
            classes[cp] =
                (uint8_t)((classes[cp] & ~DT_TOK_ACTIVE) | DT_TOK_OPAQUE);
}

const uint8_t *dt_tok_classes(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_classes);
    return classes;
}

/* --- UTF-8 --- */

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

const char *dt_tok_unicode_library(void)
{
    return utf8proc_version();
}
