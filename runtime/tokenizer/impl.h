/* SPDX-License-Identifier: Apache-2.0 */
/*
 * impl.h - the parts of a tokenizer; for tokenizer/ only
 *
 * Encoding repairs the UTF-8 of a text, splits off added tokens, normalizes the
 * text between them, splits off added tokens again, cuts the rest into pieces
 * by the steps of the pre-tokenizer, and merges the symbols of each piece.
 */
#ifndef DT_TOKENIZER_IMPL_H
#define DT_TOKENIZER_IMPL_H

#include "tokenizer/basics.h"
#include "tokenizer/model.h"
#include "tokenizer/normal.h"
#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"

/* ---- words.c: hand-written matchers of well-known patterns ---- */

enum dt_tok_words {
    DT_TOK_WORDS_NONE,
    DT_TOK_WORDS_GPT2,
    DT_TOK_WORDS_LLAMA3, /* cuts numbers into up to three digits */
    DT_TOK_WORDS_QWEN,   /* cuts numbers into single digits */
};

extern const char dt_tok_gpt2_pattern[];

/* Which of the known patterns this is. */
enum dt_tok_words dt_tok_words_find(const char *pattern, size_t bytes);

/* The length of the match at the start of s[0..n), n > 0; there always is one.
 */
size_t dt_tok_word(enum dt_tok_words words, const uint8_t *classes,
                   const char *s, size_t n);

/* ---- added.c: added tokens ---- */

struct dt_tok_added {
    struct dt_tok_trie trie; /* text -> index of its token */
    struct dt_tok_leaf {
        int32_t id;
        bool single_word, lstrip, rstrip, special;
    } * leaves;
    size_t count, capacity;
    bool starts[256]; /* whether a token starts with this byte */
    int start_count;  /* bytes with which tokens start */
    char start;       /* the last of them */
    bool special;     /* whether one of them is special */
};

struct dt_tokenizer;

/* Reads added_tokens into the vocabulary (read) and, once the normalizer is
 * known, into the two tries (build). -1: EX_DATAERR, EX_OSERR.
 */
int dt_tok_added_read(struct dt_tokenizer *tokenizer, const json_t *list,
                      struct dt_error *err);
int dt_tok_added_build(struct dt_tokenizer *tokenizer, const json_t *list,
                       struct dt_error *err);
int dt_tok_added_init(struct dt_tok_added *added); /* -1: out of memory */

/* Inserts a token; the first of two with the same text wins. -1: out of memory.
 */
int dt_tok_added_put(struct dt_tok_added *added, const char *s, size_t n,
                     const struct dt_tok_leaf *leaf);

/* What the files beside that of the vocabulary say of tokens, as added_tokens
 * has them.
 */
struct dt_tok_beside {
    json_t *decoder; /* added_tokens_decoder; NULL: there is none */
    json_t *named;   /* special tokens without an id */
};

/* Puts them (NULL: none) into a list of added_tokens: those with an id in place
 * of those with the same id and text, and those that are only named behind all
 * others, unless they are there. `vocab` has the ids of texts, and `next` is
 * the first id that has no token. -1: EX_DATAERR, ids that would leave a gap;
 * EX_OSERR.
 */
int dt_tok_added_override(json_t *list, const struct dt_tok_beside *beside,
                          const json_t *vocab, size_t next,
                          struct dt_error *err);

/* Raises *end above the ids of added_tokens that are in range. */
void dt_tok_added_end(const json_t *list, size_t *end);
void dt_tok_added_fini(struct dt_tok_added *added);

/* Emits each added token in the span and calls `text` for each part between
 * them that is not empty, in order. -1: as `text`; EX_OSERR.
 */
int dt_tok_added_split(const struct dt_tok_added *added, struct dt_encoder *e,
                       const struct dt_tok_span *span,
                       int (*text)(struct dt_encoder *e,
                                   const struct dt_tok_span *part));

/* ---- pretokenizer.c, split.c: the pre-tokenizer ---- */

#define DT_TOK_MARK "\u2581" /* stands for a space in SentencePiece */

enum dt_tok_behavior {
    DT_TOK_REMOVED,
    DT_TOK_ISOLATED,
    DT_TOK_MERGED_WITH_PREVIOUS,
    DT_TOK_MERGED_WITH_NEXT,
    DT_TOK_CONTIGUOUS,
};

struct dt_tok_step {
    enum dt_tok_step_kind {
        DT_TOK_STEP_WORDS,   /* one of the known patterns, isolated */
        DT_TOK_STEP_PATTERN, /* what `find` says, by behavior */
        DT_TOK_STEP_SPACE,   /* adds a space in front if there is none */
        DT_TOK_STEP_MARK,    /* Metaspace: turns spaces into marks */
        DT_TOK_STEP_CUTS,    /* cuts where no merge joins the text */
    } kind;
    enum dt_tok_words words;
    enum {
        DT_TOK_FIND_TEXT,
        DT_TOK_FIND_REGEX,
        DT_TOK_FIND_NUMBER, /* a single character of these */
        DT_TOK_FIND_SPACE,
        DT_TOK_FIND_PUNCTUATION,
        DT_TOK_FIND_RUN, /* characters of words, or others but spaces */
    } find;
    struct dt_tok_regex *regex;
    char *text; /* the string, or the mark */
    size_t text_bytes;
    enum dt_tok_behavior behavior;
    bool invert;
    enum { DT_TOK_ALWAYS, DT_TOK_FIRST, DT_TOK_NEVER } prepend;
};

/* Reads the pre-tokenizer into steps. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_steps_read(struct dt_tokenizer *tokenizer, const json_t *value,
                      struct dt_error *err);

/* Adds cuts that no merge crosses, to keep pieces short. */
void dt_tok_steps_finish(struct dt_tokenizer *tokenizer);
void dt_tok_step_fini(struct dt_tok_step *step);

/* Cuts a span by the steps from `step` on, and merges each piece. */
int dt_tok_split(struct dt_encoder *e, size_t step,
                 const struct dt_tok_span *span);

/* ---- post_processor.c ---- */

/* Reads the tokens that the post-processor adds. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_post_read(struct dt_tokenizer *tokenizer, const json_t *value,
                     struct dt_error *err);

/* ---- decoder.c, detokenize.c ---- */

struct dt_tok_decoder {
    bool join;               /* no decoder: put a space between tokens */
    bool byte_level;         /* map the alphabet back to bytes */
    bool fallback;           /* read <0xNN> as a byte */
    bool strip;              /* remove one space at the start */
    bool strip_each;         /* and of each token until one writes something */
    char *pattern, *content; /* Replace; NULL: none */
    size_t pattern_bytes, content_bytes;
    bool strip_pattern; /* Metaspace: remove all patterns from token 0 */
};

/* Reads the decoder. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_decoder_read(struct dt_tokenizer *tokenizer, const json_t *value,
                        struct dt_error *err);

/* ---- sentencepiece.c ---- */

/* Reads the data of a .model file. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_spm_read(struct dt_tokenizer *tokenizer, const void *data,
                    size_t bytes, const struct dt_tok_beside *beside,
                    struct dt_error *err);

/* ---- tokenizer_config.c, added_config.c: the files beside tokenizer.json ----
 */

/* Reads the names of special tokens, whether texts have BOS and EOS, and the
 * chat template. -1: EX_DATAERR.
 */
int dt_tok_files_read(struct dt_tokenizer *tokenizer, const char *directory,
                      struct dt_error *err);

/* Reads tokenizer_config.json and special_tokens_map.json of a directory,
 * either of which may be absent. -1: EX_DATAERR, EX_OSERR; nothing has to be
 * released.
 */
int dt_tok_beside_load(struct dt_tok_beside *beside, const char *directory,
                       struct dt_error *err);
void dt_tok_beside_fini(struct dt_tok_beside *beside);

/* For a model of SentencePiece: which tokens begin and end a text, by the class
 * in tokenizer_config.json, or its add_bos_token and add_eos_token, which do
 * nothing where there is a tokenizer.json. -1: EX_DATAERR, EX_OSERR.
 */
int dt_tok_ends_read(struct dt_tokenizer *tokenizer, const json_t *root,
                     struct dt_error *err);

/* ---- tokenizer.c, encode.c ---- */

struct dt_tokenizer {
    struct dt_tok_vocab vocab;
    struct dt_tok_model model;
    struct dt_tok_added raw, normalized; /* by the text they are searched in */
    struct dt_tok_normalizer normalizers[DT_TOK_STEPS_MAX];
    size_t normalizer_count;
    struct dt_tok_step steps[DT_TOK_STEPS_MAX + 1];
    size_t step_count;
    int32_t *before, *after; /* added by the post-processor */
    size_t before_count, after_count;
    struct dt_tok_decoder decoder;
    bool prefix_space; /* ByteLevel puts a space before a text */
    bool spm;          /* from a .model file of SentencePiece */
    int32_t special[DT_TOKEN_UNK + 1];
    struct dt_tok_template {
        char *text, *file; /* NULL: there is none */
    } chat_template, tool_template;
    uint64_t hash;
};

struct dt_encoder {
    const struct dt_tokenizer *tokenizer;
    const uint8_t *classes;
    struct dt_tok_matcher *matcher;
    struct dt_tok_work *work;
    struct dt_tok_text repaired, normal[2], stepped[DT_TOK_STEPS_MAX + 1];
    /* of the current call */
    unsigned flags;
    struct dt_tokens *tokens;
    struct dt_error *err;
};

/* ---- output.c ---- */

/* Makes room for `more` tokens. -1: EX_OSERR. */
int dt_tok_reserve(struct dt_encoder *e, size_t more);
/* Adds a token for bytes [from, to) of a span; there is room. */
void dt_tok_emit(struct dt_encoder *e, int32_t id,
                 const struct dt_tok_span *span, size_t from, size_t to);

#endif /* DT_TOKENIZER_IMPL_H */
