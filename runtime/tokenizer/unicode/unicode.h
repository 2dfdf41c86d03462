/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unicode.h - characters: UTF-8, classes, normal forms, graphemes
 *
 * Tokens must not depend on the versions of Unicode in utf8proc and PCRE2,
 * which are the system's. Where versions differ, tables have the one that
 * tokenizers uses (contrib/unicode-tables). Texts keep the offsets of the text
 * from which they were made.
 */
#ifndef DT_TOKENIZER_UNICODE_UNICODE_H
#define DT_TOKENIZER_UNICODE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { DT_TOK_CODE_POINTS = 0x110000 };

/* ---- unicode.c: code points ---- */

/* Flags: each code point has exactly one of the first four. */
enum dt_tok_class {
    DT_TOK_LETTER = 1, /* \p{L} */
    DT_TOK_NUMBER = 2, /* \p{N} */
    DT_TOK_SPACE = 4,  /* \s: White_Space */
    DT_TOK_OTHER = 8,
    DT_TOK_NEWLINE = 16, /* \r and \n, which are SPACE, too */
    DT_TOK_ACTIVE = 32,  /* NFC may change it or join it to the one before */
    DT_TOK_OPAQUE = 64,  /* no normal form changes it, nor orders it */
};

/* The classes of all code points; the first call computes them. */
const uint8_t *dt_tok_classes(void);

/* Decodes the code point at s (well-formed UTF-8) and its length *bytes. */
static inline uint32_t dt_tok_decode(const char *s, size_t *bytes)
{
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80) {
        *bytes = 1;
        return u[0];
    }
    if (u[0] < 0xe0) {
        *bytes = 2;
        return (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
    }
    if (u[0] < 0xf0) {
        *bytes = 3;
        return (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
    }
    *bytes = 4;
    return (u[0] & 7u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 |
           (u[3] & 0x3fu);
}

/* Writes a code point as UTF-8 and returns the number of bytes. */
size_t dt_tok_encode(uint32_t code_point, char out[4]);

/* The offset at which the character that ends at s + i begins. */
size_t dt_tok_back(const char *s, size_t i);

/* Checks the UTF-8 sequence at the start of s[0..n). Returns its length, 0 if
 * it is cut short, or minus the length of its maximal bad part.
 */
int dt_tok_sequence(const unsigned char *s, size_t n);

/* The version of utf8proc. */
const char *dt_tok_unicode_library(void);

/* A range of code points, of a kind. */
struct dt_tok_range {
    uint32_t first;
    uint32_t last : 24, kind : 8;
};

/* The range of a table, whose ranges are in order, that a code point is in, or
 * NULL.
 */
const struct dt_tok_range *dt_tok_find_range(const struct dt_tok_range *table,
                                             size_t count, uint32_t code_point);

/* Sets of code points, which do not depend on the system's Unicode. */
enum dt_tok_set {
    DT_TOK_SET_OPAQUE,
    DT_TOK_SET_MARKS,
    DT_TOK_SET_PUNCTUATION,
    DT_TOK_SET_WORD,
    DT_TOK_SET_NUMBER,
};

/* Whether a code point is in a set. */
bool dt_tok_in_set(enum dt_tok_set set, uint32_t code_point);

enum { DT_TOK_LATE_BYTES = 3 << 10 };

/* Writes the code points of a general category, e.g. "L" or "Lu", that came
 * after Unicode 14, as ranges for a class of PCRE2. Returns their bytes.
 */
size_t dt_tok_late_ranges(const char *category, size_t length,
                          char out[DT_TOK_LATE_BYTES]);

/* ---- span_text.c: text with offsets into the original ---- */

/* A part of a text. Its byte i comes from the bytes [begin[i], end[i]) of the
 * text passed to dt_encode, or, if begin is NULL, from byte at + i.
 */
struct dt_tok_span {
    const char *s;
    size_t n;
    const uint32_t *begin, *end;
    uint32_t at;
    bool first; /* it starts the whole text */
};

/* Bytes [from, to) of a span; begin and end of the origin of its byte i. */
static inline struct dt_tok_span dt_tok_span_part(
    const struct dt_tok_span *span, size_t from, size_t to)
{
    struct dt_tok_span part = *span;
    part.s += from;
    part.n = to - from;
    part.at += (uint32_t)from;
    if (span->begin) {
        part.begin += from;
        part.end += from;
    }
    part.first = span->first && from == 0;
    return part;
}

static inline uint32_t dt_tok_span_begin(const struct dt_tok_span *span,
                                         size_t i)
{
    return span->begin ? span->begin[i] : span->at + (uint32_t)i;
}

static inline uint32_t dt_tok_span_end(const struct dt_tok_span *span, size_t i)
{
    return span->begin ? span->end[i] : span->at + (uint32_t)i + 1;
}

/* Makes room for `count` items in the array whose pointer, of any type, is at
 * `array`. False: out of memory; the array is unchanged.
 */
bool dt_tok_grow(void *array, size_t count, size_t size);

/* A text that is built from a span. */
struct dt_tok_text {
    char *bytes;
    uint32_t *begin, *end; /* as in dt_tok_span, if `offsets` */
    size_t count, capacity;
    bool offsets;
    bool full; /* out of memory: nothing more is added */
};

/* Frees a text; empties it; appends bytes [from, to) of a span. */
void dt_tok_text_fini(struct dt_tok_text *text);
void dt_tok_text_clear(struct dt_tok_text *text, bool offsets);
void dt_tok_text_copy(struct dt_tok_text *text, const struct dt_tok_span *span,
                      size_t from, size_t to);

/* Appends n bytes that each come from the original bytes [begin, end). */
void dt_tok_text_add(struct dt_tok_text *text, const char *s, size_t n,
                     uint32_t begin, uint32_t end);

/* Sets *span to the whole text. -1: EX_OSERR if the text is `full`. */
int dt_tok_text_span(const struct dt_tok_text *text, struct dt_tok_span *span,
                     struct dt_error *err);

/* ---- normal_forms.c ---- */

/* Appends the normal form C of a span to a text. -1: EX_OSERR. */
int dt_tok_nfc(const struct dt_tok_span *span, struct dt_tok_text *text,
               struct dt_error *err);

/* False if normal form C cannot change the text. */
bool dt_tok_nfc_needed(const char *s, size_t n);

enum dt_tok_form { DT_TOK_FORM_D, DT_TOK_FORM_KC, DT_TOK_FORM_KD };

/* Appends a normal form of a span to a text. -1: EX_OSERR. */
int dt_tok_form(enum dt_tok_form form, const struct dt_tok_span *span,
                struct dt_tok_text *text, struct dt_error *err);

enum dt_tok_letters {
    DT_TOK_LOWER,  /* small letters */
    DT_TOK_UNMARK, /* remove combining marks */
    DT_TOK_NMT,    /* remove control characters; spaces become ' ' */
};

/* Changes a character, which becomes at most 2; returns their number. */
size_t dt_tok_letter(enum dt_tok_letters change, uint32_t code_point,
                     uint32_t out[2]);

/* ---- graphemes.c ---- */

/* The length of the extended grapheme cluster at the start of s[0..n), n > 0.
 */
size_t dt_tok_grapheme(const char *s, size_t n);

#endif /* DT_TOKENIZER_UNICODE_UNICODE_H */
