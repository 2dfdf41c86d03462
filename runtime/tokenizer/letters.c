/* SPDX-License-Identifier: Apache-2.0 */
/* letters.c - changes of single characters */
#include "config.h"

#include <utf8proc.h>

#include "tokenizer/normal.h"

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
