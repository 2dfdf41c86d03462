/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graphemes.c - cuts text into extended grapheme clusters
 *
 * The rules are GB3 to GB13 of Unicode's annex 29. The classes are those of
 * Unicode 17, as in tokenizers, and not those of the version in utf8proc.
 */
#include "config.h"

#include "tokenizer/unicode/unicode.h"

enum grapheme_class {
    ANY,
    CONTROL, /* with CR and LF */
    EXTEND,
    SPACING_MARK,
    PREPEND,
    PICTOGRAPHIC,
    CONSONANT, /* Indic_Conjunct_Break */
    HANGUL_L,
    HANGUL_V,
    HANGUL_T,
    HANGUL_LV, /* from here on computed */
    HANGUL_LVT,
    REGIONAL,
    JOINER,
};

#include "tokenizer/unicode/graphemes.def"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static enum grapheme_class grapheme_class(uint32_t cp)
{
    if (cp >= 0xac00 && cp <= 0xd7a3)
        return (cp - 0xac00) % 28 == 0 ? HANGUL_LV : HANGUL_LVT;
    if (cp >= 0x1f1e6 && cp <= 0x1f1ff)
        return REGIONAL;
    if (cp == 0x200d)
        return JOINER;
    if (cp == '\r' || cp == '\n')
        return CONTROL;
    const struct dt_tok_range *range =
        dt_tok_find_range(ranges, LENGTH(ranges), cp);
    return range ? (enum grapheme_class)range->kind : ANY;
}

/* A cluster so far, as the rules see it. */
struct cluster {
    enum grapheme_class last;
    uint32_t code;    /* the last code point */
    bool pictograph;  /* Extended_Pictographic Extend* so far, then maybe ZWJ */
    bool consonant;   /* a consonant, then only extending characters */
    bool linked;      /* with a linker among these */
    size_t regionals; /* at the end */
};

static void cluster_add(struct cluster *c, uint32_t cp,
                        enum grapheme_class class)
{
    const bool extends = class == EXTEND || class == JOINER;
    c->pictograph = class == PICTOGRAPHIC ||
                    (c->pictograph && extends && c->last != JOINER);
    c->linked =
        class != CONSONANT && extends && cp != 0x200c &&
        (c->linked ||
         (c->consonant && dt_tok_find_range(linkers, LENGTH(linkers), cp)));
    c->consonant =
        class == CONSONANT || (c->consonant && extends && cp != 0x200c);
    c->regionals = class == REGIONAL ? c->regionals + 1 : 0;
    c->last = class;
    c->code = cp;
}

/* Whether the cluster goes on with a character of this class. */
static bool cluster_joins(const struct cluster *c, uint32_t cp,
                          enum grapheme_class class)
{
    if (c->last == CONTROL || class == CONTROL)
        return c->code == '\r' && cp == '\n';
    if (class == EXTEND || class == JOINER || class == SPACING_MARK ||
        c->last == PREPEND)
        return true;
    switch (class) {
    case HANGUL_L:
    case HANGUL_LV:
    case HANGUL_LVT:
        return c->last == HANGUL_L;
    case HANGUL_V:
        return c->last == HANGUL_L || c->last == HANGUL_V ||
               c->last == HANGUL_LV;
    case HANGUL_T:
        return c->last == HANGUL_V || c->last == HANGUL_T ||
               c->last == HANGUL_LV || c->last == HANGUL_LVT;
    case CONSONANT:
        return c->linked;
    case PICTOGRAPHIC:
        return c->pictograph && c->last == JOINER;
    case REGIONAL:
        return c->regionals % 2 == 1;
    default:
        return false;
    }
}

size_t dt_tok_grapheme(const char *s, size_t n)
{
    size_t bytes, end;
    struct cluster c = {.last = ANY};
    uint32_t cp = dt_tok_decode(s, &end);
    cluster_add(&c, cp, grapheme_class(cp));
    for (; end < n; end += bytes) {
        cp = dt_tok_decode(s + end, &bytes);
        enum grapheme_class class = grapheme_class(cp);
        if (!cluster_joins(&c, cp, class))
            break;
        cluster_add(&c, cp, class);
    }
    return end;
}
