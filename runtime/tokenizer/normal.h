/* SPDX-License-Identifier: Apache-2.0 */
/* normal.h - what changes a text before it is cut; for tokenizer/ only */
#ifndef DT_TOKENIZER_NORMAL_H
#define DT_TOKENIZER_NORMAL_H

#include "tokenizer/basics.h"
#include "tokenizer/regex.h"

/* ---- graphemes.c ---- */

/* The length of the extended grapheme cluster at the start of s[0..n), n > 0.
 */
size_t dt_tok_grapheme(const char *s, size_t n);

/* ---- charsmap.c: the table of SentencePiece that says what text becomes ----
 */

struct dt_tok_charsmap;

/* Reads a table: the size of a double array in bytes, the array (as darts-clone
 * has it), and texts, each NUL-terminated. All little-endian. NULL and err:
 * EX_DATAERR, EX_OSERR.
 */
struct dt_tok_charsmap *dt_tok_charsmap_create(const void *data, size_t bytes,
                                               struct dt_error *err);

/* The same from base64. */
struct dt_tok_charsmap *dt_tok_charsmap_base64(const char *text,
                                               struct dt_error *err);
void dt_tok_charsmap_destroy(struct dt_tok_charsmap *map); /* NULL is fine */

/* Finds the longest prefix of s[0..n) with an entry. Returns its length, and
 * what it becomes in *to and *bytes; 0: there is none. -1: EX_DATAERR, the
 * table is damaged.
 */
int dt_tok_charsmap_prefix(const struct dt_tok_charsmap *map, const char *s,
                           size_t n, const char **to, size_t *bytes,
                           struct dt_error *err);

/* Applies a table as tokenizers does: a grapheme of up to 5 bytes becomes what
 * its shortest prefix with an entry becomes; in longer ones, and if there is
 * none, each character does. -1: EX_DATAERR, the table is damaged.
 */
int dt_tok_charsmap_apply(const struct dt_tok_charsmap *map,
                          const struct dt_tok_span *span,
                          struct dt_tok_text *text, struct dt_error *err);

/* ---- forms.c: normal forms other than C ---- */

enum dt_tok_form { DT_TOK_FORM_D, DT_TOK_FORM_KC, DT_TOK_FORM_KD };

/* Appends a normal form of a span to a text. -1: EX_OSERR. */
int dt_tok_form(enum dt_tok_form form, const struct dt_tok_span *span,
                struct dt_tok_text *text, struct dt_error *err);

/* ---- letters.c: changes of single characters ---- */

enum dt_tok_letters {
    DT_TOK_LOWER,  /* small letters */
    DT_TOK_UNMARK, /* remove combining marks */
    DT_TOK_NMT,    /* remove control characters; spaces become ' ' */
};

/* Writes what a character becomes, at most 2, and returns their number. */
size_t dt_tok_letter(enum dt_tok_letters change, uint32_t code_point,
                     uint32_t out[2]);

/* ---- spm_normalizer.c: as SentencePiece does it ---- */

struct dt_tok_spm {
    struct dt_tok_charsmap *map; /* NULL: none */
    struct dt_tok_trie symbols;  /* user-defined, which stay as they are */
    bool dummy_prefix;           /* a space before the text ... */
    bool prefix_each; /* ... and before the parts between added tokens */
    bool suffix;      /* behind it instead, at the end of each part */
    bool trim;        /* of several spaces keep one, and none at the ends */
    bool escape;      /* a space becomes DT_TOK_MARK */
};

/* Appends the normalized span to a text. -1: EX_DATAERR, the table is damaged.
 */
int dt_tok_spm_apply(const struct dt_tok_spm *spm,
                     const struct dt_tok_span *span, struct dt_tok_text *text,
                     struct dt_error *err);

/* ---- normalizer_read.c, normalizer.c ---- */

struct dt_tok_normalizer {
    enum dt_tok_normalizer_kind {
        DT_TOK_NFC,
        DT_TOK_FORM,
        DT_TOK_PREPEND,
        DT_TOK_REPLACE,
        DT_TOK_STRIP,
        DT_TOK_LETTERS,
        DT_TOK_CHARSMAP,
        DT_TOK_SPM,
    } kind;
    enum dt_tok_form form;
    enum dt_tok_letters letters;
    bool left, right;           /* STRIP */
    struct dt_tok_regex *regex; /* REPLACE; NULL: `pattern` */
    char *pattern, *content;    /* PREPEND has only content */
    size_t pattern_bytes, content_bytes;
    struct dt_tok_charsmap *map;
    struct dt_tok_spm *spm;
};

struct dt_tokenizer;

/* Reads the normalizer. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_normalizer_read(struct dt_tokenizer *tokenizer, const json_t *value,
                           struct dt_error *err);
void dt_tok_normalizer_fini(struct dt_tok_normalizer *normalizer);

/* Normalizes a span. *out is the span itself if nothing changes, else it is in
 * one of the two buffers. -1: EX_OSERR, EX_DATAERR.
 */
int dt_tok_normalize(const struct dt_tokenizer *tokenizer,
                     struct dt_tok_matcher *matcher,
                     const struct dt_tok_span *span, bool offsets,
                     struct dt_tok_text buffers[2], struct dt_tok_span *out,
                     struct dt_error *err);

#endif /* DT_TOKENIZER_NORMAL_H */
