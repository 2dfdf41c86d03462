/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c - is this text UTF-8? */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "data/utf8.h"

enum {
    BLOCK_BYTES = 64,
};

static bool is_ascii(const unsigned char *s)
{
    uint64_t words[BLOCK_BYTES / 8], any = 0;
    memcpy(words, s, sizeof(words));
    for (size_t i = 0; i < BLOCK_BYTES / 8; i++)
        any |= words[i];
    return !(any & 0x8080808080808080);
}

static bool between(unsigned char c, unsigned char low, unsigned char high)
{
    return c >= low && c <= high;
}

/* Length of the well-formed sequence at s, or 0. */
static size_t sequence(const unsigned char *s, size_t room)
{
    unsigned char c = s[0];
    if (c < 0x80)
        return 1;
    if (between(c, 0xc2, 0xdf) && room >= 2)
        return between(s[1], 0x80, 0xbf) ? 2 : 0;
    if (between(c, 0xe0, 0xef) && room >= 3)
        return between(s[1], c == 0xe0 ? 0xa0 : 0x80,
                       c == 0xed ? 0x9f : 0xbf) &&
                       between(s[2], 0x80, 0xbf)
                   ? 3
                   : 0;
    if (between(c, 0xf0, 0xf4) && room >= 4)
        return between(s[1], c == 0xf0 ? 0x90 : 0x80,
                       c == 0xf4 ? 0x8f : 0xbf) &&
                       between(s[2], 0x80, 0xbf) && between(s[3], 0x80, 0xbf)
                   ? 4
                   : 0;
    return 0;
}

size_t dt_utf8_check(const void *text, size_t bytes)
{
    const unsigned char *s = text;
    size_t i = 0;
    while (i < bytes) {
        while (bytes - i >= BLOCK_BYTES && is_ascii(s + i))
            i += BLOCK_BYTES;
        size_t stop = bytes - i < BLOCK_BYTES ? bytes : i + BLOCK_BYTES;
        while (i < stop) {
            size_t n = sequence(s + i, bytes - i);
            if (n == 0)
                return i;
            i += n;
        }
    }
    return bytes;
}
