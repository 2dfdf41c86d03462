/* SPDX-License-Identifier: Apache-2.0 */
/* str.c - ends of names, edit distance (optimal string alignment), ranges */
#include "config.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "base/str.h"

enum { MAX_WORD = 128 };

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

/* Digits only, unlike strtoul; *text moves behind them. */
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
