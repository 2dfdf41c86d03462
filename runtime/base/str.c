/* SPDX-License-Identifier: Apache-2.0 */
/* str.c - edit distance (optimal string alignment), ranges, escapes, UTF-8 */
#include "config.h"

#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

enum { MAX_WORD = 128 };

const char *dt_str_after(const char *text, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

const char *dt_str_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool dt_str_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

static int same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

unsigned dt_str_distance(const char *a, const char *b)
{
    /* rows i-2, i-1 and i of the table, by i modulo 3 */
    unsigned row[3][MAX_WORD];
    size_t m = strlen(a), n = strlen(b);

    if (m >= MAX_WORD || n >= MAX_WORD)
        return UINT_MAX;
    for (size_t j = 0; j <= n; j++)
        row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= m; i++) {
        unsigned *now = row[i % 3], *last = row[(i - 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            unsigned change = same(a[i - 1], b[j - 1]) ? 0 : 1;
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + change);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) &&
                same(a[i - 2], b[j - 1]) && row[(i - 2) % 3][j - 2] < now[j])
                now[j] = row[(i - 2) % 3][j - 2] + change;
        }
    }
    return row[m % 3][n];
}

const char *dt_str_nearest(const char *word, const char *const *names,
                           size_t count)
{
    unsigned best = strlen(word) <= 3 ? 2 : 3; /* found must be below */
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        unsigned d = dt_str_distance(word, names[i]);
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}

/* Digits only, unlike strtoul; *text moves past them. */
static bool take_number(const char **text, uint32_t *number)
{
    uint64_t value = 0;
    const char *p = *text;
    for (; *p >= '0' && *p <= '9' && value <= UINT32_MAX; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    if (p == *text || value > UINT32_MAX)
        return false;
    *text = p;
    *number = (uint32_t)value;
    return true;
}

bool dt_str_next_range(const char **text, uint32_t *first, uint32_t *last)
{
    if (!take_number(text, first))
        return false;
    *last = *first;
    if (**text == '-') {
        ++*text;
        if (!take_number(text, last) || *last < *first)
            return false;
    }
    if (**text == ',' && (*text)[1])
        ++*text;
    else if (**text)
        return false;
    return true;
}

void dt_str_hide_controls(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

void dt_escape_undo(char *text)
{
    char *to = text;
    for (; *text; text++) {
        bool escaped = text[0] == '\\' && text[1] != '\0';
        text += escaped;
        *to++ = (char)(!escaped       ? *text
                       : *text == 's' ? ' '
                       : *text == 'n' ? '\n'
                                      : *text);
    }
    *to = '\0';
}

/* --- UTF-8 --- */

enum {
    BLOCK_BYTES = 64,
};

/* States of an automaton over bytes. For each byte, the successors of all
 * states are packed into one word of six bits each, and the value of a state is
 * its shift in that word. So a step is one shift, without a branch that real
 * text would mispredict.
 */
enum {
    OK = 0,        /* between two sequences */
    BAD = 6,       /* final */
    ONE_MORE = 12, /* continuation bytes to come */
    TWO_MORE = 18,
    THREE_MORE = 24,
    AFTER_E0 = 30, /* from here on: the next byte has a narrower range */
    AFTER_ED = 36,
    AFTER_F0 = 42,
    AFTER_F4 = 48,
    STATES_END = 54,
    STATE_MASK = 63,
};

/* The bytes low..high lead from one state to another (Unicode, table 3-7). */
static const struct {
    uint8_t low, high, from, to;
} rules[] = {
    {0x00, 0x7f, OK, OK},
    {0xc2, 0xdf, OK, ONE_MORE},
    {0xe0, 0xe0, OK, AFTER_E0},
    {0xe1, 0xec, OK, TWO_MORE},
    {0xed, 0xed, OK, AFTER_ED},
    {0xee, 0xef, OK, TWO_MORE},
    {0xf0, 0xf0, OK, AFTER_F0},
    {0xf1, 0xf3, OK, THREE_MORE},
    {0xf4, 0xf4, OK, AFTER_F4},
    {0x80, 0xbf, ONE_MORE, OK},
    {0x80, 0xbf, TWO_MORE, ONE_MORE},
    {0x80, 0xbf, THREE_MORE, TWO_MORE},
    {0xa0, 0xbf, AFTER_E0, ONE_MORE},
    {0x80, 0x9f, AFTER_ED, ONE_MORE},
    {0x90, 0xbf, AFTER_F0, TWO_MORE},
    {0x80, 0x8f, AFTER_F4, TWO_MORE},
};

static uint64_t table[256];

static void fill_table(void)
{
    uint64_t all_bad = 0;
    for (int from = 0; from < STATES_END; from += 6)
        all_bad |= (uint64_t)BAD << from;
    for (int byte = 0; byte < 256; byte++)
        table[byte] = all_bad;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        for (int byte = rules[i].low; byte <= rules[i].high; byte++)
            table[byte] ^= (uint64_t)(BAD ^ rules[i].to) << rules[i].from;
}

static bool is_ascii(const unsigned char *s)
{
    uint64_t words[BLOCK_BYTES / 8], any = 0;
    memcpy(words, s, sizeof(words));
    for (size_t i = 0; i < BLOCK_BYTES / 8; i++)
        any |= words[i];
    return !(any & 0x8080808080808080);
}

/* The number of bytes before the first sequence that is malformed or cut short.
 */
static size_t scan_bytes(const unsigned char *s, size_t bytes)
{
    uint64_t state = OK;
    size_t good = 0;
    for (size_t i = 0; i < bytes && (state & STATE_MASK) != BAD; i++) {
        state = table[s[i]] >> (state & STATE_MASK);
        if ((state & STATE_MASK) == OK)
            good = i + 1;
    }
    return good;
}

size_t dt_utf8_check(const void *text, size_t bytes)
{
    const unsigned char *s = text;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t i = 0;
    if (bytes == 0) /* s may be NULL */
        return 0;
    pthread_once(&once, fill_table);
    while (bytes - i >= BLOCK_BYTES) {
        uint64_t state = OK;
        if (!is_ascii(s + i))
            for (size_t j = 0; j < BLOCK_BYTES; j++)
                state = table[s[i + j]] >> (state & STATE_MASK);
        if ((state & STATE_MASK) == BAD)
            break;
        i += BLOCK_BYTES;
        /* Start the next block with the sequence that this one cuts. */
        if ((state & STATE_MASK) != OK)
            do
                i--;
            while ((s[i] & 0xc0) == 0x80);
    }
    return i + scan_bytes(s + i, bytes - i);
}

/* The 6 bits of a digit of base64, or -1. */
static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

ptrdiff_t dt_base64_decode(const char *text, size_t count, void *to)
{
    unsigned char *out = to;
    size_t pad = 0;
    if (count % 4 != 0)
        return -1;
    if (count > 0 && text[count - 1] == '=')
        pad = text[count - 2] == '=' ? 2 : 1;
    for (size_t i = 0; i < count; i += 4) {
        const bool last = i + 4 == count;
        uint32_t bits = 0;
        for (size_t j = 0; j < 4; j++) {
            const int digit = base64_digit(text[i + j]);
            if (digit < 0 && !(last && j >= 4 - pad))
                return -1;
            bits = bits << 6 | (uint32_t)(digit < 0 ? 0 : digit);
        }
        for (size_t j = 0; j < 3 - (last ? pad : 0); j++)
            *out++ = (unsigned char)(bits >> (16 - 8 * j));
    }
    return out - (unsigned char *)to;
}

void dt_base64_encode(const void *data, size_t bytes, char *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = data;
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t n = bytes - i < 3 ? bytes - i : 3;
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < n ? from[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            *to++ = j <= n ? digits[bits >> (18 - 6 * j) & 63] : '=';
    }
    *to = '\0';
}
