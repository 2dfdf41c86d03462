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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "tokenizer/tokenizer.h"

enum {
    DT_TOK_IDS_MAX = 1 << 22, /* ids are smaller */
    DT_TOK_STEPS_MAX = 16,    /* steps of a normalizer or a pre-tokenizer */
    DT_TOK_CODE_POINTS = 0x110000,
    DT_TOK_FILE_MAX_BYTES = 1 << 28, /* several times the largest known file */
};

/* ---- json_keys.c: keys of a JSON object, each error begins with the key ----
 */

/* Parses the text of a file, which must be an object. The caller calls
 * json_decref. NULL and err: EX_DATAERR with the path, the line and the column.
 */
json_t *dt_tok_json_parse(const char *path, const char *text,
                          struct dt_error *err);

/* object[key], which must have `type`. NULL and err: EX_DATAERR. */
const json_t *dt_tok_json_get(const json_t *object, const char *key,
                              json_type type, struct dt_error *err);

/* The boolean object[key]; `fallback` if missing or null. -1: EX_DATAERR. */
int dt_tok_json_flag(const json_t *object, const char *key, bool fallback,
                     bool *value, struct dt_error *err);

/* The "type" of a part of the file. NULL and err: EX_DATAERR. */
const char *dt_tok_json_type(const json_t *object, struct dt_error *err);

/* The error for a type where only "A, B and C" are supported: always -1. */
int dt_tok_json_unsupported(const char *type, const char *supported,
                            struct dt_error *err);

/* Reads a part of the file: nothing if it is null, each of part[key] if its
 * type is "Sequence", else the part itself. -1: as `read`, with the place.
 */
int dt_tok_json_parts(const json_t *part, const char *key,
                      int (*read)(void *ctx, const json_t *one,
                                  struct dt_error *err),
                      void *ctx, struct dt_error *err);

/* The text of a pattern {"String": text}. NULL and err: EX_DATAERR. */
const json_t *dt_tok_json_string_pattern(const json_t *object,
                                         struct dt_error *err);

enum { DT_TOK_SHOWN_BYTES = 64 };

/* Copies the start of a text for use in an error: whole characters, at most
 * `bytes` < 64, with '?' for each control character. Returns out.
 */
const char *dt_tok_shown(const char *text, size_t bytes,
                         char out[DT_TOK_SHOWN_BYTES]);

/* ---- map.c: a hash table of numbers ---- */

#define DT_TOK_NONE UINT64_MAX

struct dt_tok_map {
    struct dt_tok_slot {
        uint64_t key, value; /* value is DT_TOK_NONE in a free slot */
    } * slots;
    size_t mask, count;
};

/* Makes room for `count` keys. -1: out of memory. */
int dt_tok_map_init(struct dt_tok_map *map, size_t count);
void dt_tok_map_fini(struct dt_tok_map *map);

/* Sets the value of key, < DT_TOK_NONE. -1: out of memory. */
int dt_tok_map_put(struct dt_tok_map *map, uint64_t key, uint64_t value);

static inline size_t dt_tok_map_home(const struct dt_tok_map *map, uint64_t key)
{
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key ^ key >> 32) & map->mask;
}

/* The value of key, or DT_TOK_NONE. */
static inline uint64_t dt_tok_map_get(const struct dt_tok_map *map,
                                      uint64_t key)
{
    size_t i = dt_tok_map_home(map, key);
    while (map->slots[i].value != DT_TOK_NONE && map->slots[i].key != key)
        i = (i + 1) & map->mask;
    return map->slots[i].value;
}

/* ---- vocab.c: texts and their ids ---- */

enum dt_tok_entry_flags {
    DT_TOK_MODEL = 1, /* in the model's vocabulary: merges can produce it */
    DT_TOK_ADDED = 2,
    DT_TOK_SPECIAL = 4,
};

struct dt_tok_vocab {
    struct dt_tok_entry {
        uint32_t text, bytes; /* offset in texts, length */
        unsigned flags;       /* 0: no token has this id */
    } * entries;              /* by id */
    size_t count;             /* highest id + 1 */
    char *texts;              /* each NUL-terminated */
    size_t texts_bytes, texts_capacity;
    int32_t *index; /* hash table: text -> id; -1: free */
    size_t mask;
};

/* Makes room for ids < id_end and `count` texts. -1: out of memory. */
int dt_tok_vocab_init(struct dt_tok_vocab *vocab, size_t id_end, size_t count);
void dt_tok_vocab_fini(struct dt_tok_vocab *vocab);

/* Adds a token, or adds `flags` if it exists with this id and text. -1:
 * EX_DATAERR, the id has another text or the text another id; EX_OSERR.
 */
int dt_tok_vocab_add(struct dt_tok_vocab *vocab, int32_t id, const char *text,
                     size_t bytes, unsigned flags, struct dt_error *err);

/* The id of a text, or -1. */
int32_t dt_tok_vocab_find(const struct dt_tok_vocab *vocab, const char *text,
                          size_t bytes);

/* The id of a text in the model's vocabulary, or -1. */
int32_t dt_tok_vocab_model(const struct dt_tok_vocab *vocab, const char *text,
                           size_t bytes);

static inline const char *dt_tok_vocab_text(const struct dt_tok_vocab *vocab,
                                            size_t id)
{
    return vocab->texts + vocab->entries[id].text;
}

/* ---- text.c: text with offsets into the original ---- */

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
struct dt_tok_span dt_tok_span_part(const struct dt_tok_span *span, size_t from,
                                    size_t to);
uint32_t dt_tok_span_begin(const struct dt_tok_span *span, size_t i);
uint32_t dt_tok_span_end(const struct dt_tok_span *span, size_t i);

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

/* ---- unicode.c: code points, and normal form C ---- */

/* Flags: each code point has exactly one of the first four. */
enum dt_tok_class {
    DT_TOK_LETTER = 1, /* \p{L} */
    DT_TOK_NUMBER = 2, /* \p{N} */
    DT_TOK_SPACE = 4,  /* \s: White_Space */
    DT_TOK_OTHER = 8,
    DT_TOK_NEWLINE = 16, /* \r and \n, which are SPACE, too */
    DT_TOK_ACTIVE = 32,  /* NFC may change it or join it to the one before */
};

/* The classes of all code points; the first call computes them. */
const uint8_t *dt_tok_classes(void);

/* Whether a code point matches \w as Hugging Face uses it for single_word. */
bool dt_tok_is_word(uint32_t code_point);

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

/* Appends the normal form C of a span to a text. -1: EX_OSERR. */
int dt_tok_nfc(const struct dt_tok_span *span, struct dt_tok_text *text,
               struct dt_error *err);

/* False if normal form C cannot change the text. */
bool dt_tok_nfc_needed(const char *s, size_t n);

const char *dt_tok_unicode_library(void); /* the version of utf8proc */

/* ---- regex.c: regular expressions as Oniguruma reads them ---- */

struct dt_tok_regex;

/* Compiles a pattern; refuses syntax that PCRE2 reads differently. NULL and
 * err: EX_DATAERR. */
struct dt_tok_regex *dt_tok_regex_create(const char *pattern, size_t bytes,
                                         struct dt_error *err);
void dt_tok_regex_destroy(struct dt_tok_regex *regex); /* NULL is fine */

struct dt_tok_matcher;

/* One thread's workspace for matching. NULL: out of memory. */
struct dt_tok_matcher *dt_tok_matcher_create(void);
void dt_tok_matcher_destroy(struct dt_tok_matcher *matcher);

/* Finds the first match at or after `from` in s[0..n), well-formed UTF-8. 1:
 * found, 0: none, -1: EX_DATAERR (a limit of PCRE2).
 */
int dt_tok_regex_find(const struct dt_tok_regex *regex,
                      struct dt_tok_matcher *matcher, const char *s, size_t n,
                      size_t from, size_t *begin, size_t *end,
                      struct dt_error *err);

const char *dt_tok_regex_library(void); /* the version of PCRE2 */

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
    struct dt_tok_map nodes; /* a trie: node * 256 + byte -> node */
    struct dt_tok_leaf {     /* the token that ends at each node */
        int32_t id;          /* -1: none */
        bool single_word, lstrip, rstrip, special;
    } * leaves;
    size_t node_count, leaf_capacity;
    bool starts[256]; /* whether a token starts with this byte */
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
void dt_tok_added_fini(struct dt_tok_added *added);

/* Emits each added token in the span and calls `text` for each part between
 * them that is not empty, in order. -1: as `text`; EX_OSERR.
 */
int dt_tok_added_split(const struct dt_tok_added *added, struct dt_encoder *e,
                       const struct dt_tok_span *span,
                       int (*text)(struct dt_encoder *e,
                                   const struct dt_tok_span *part));

/* ---- normalizer.c ---- */

struct dt_tok_normalizer {
    enum dt_tok_normalizer_kind {
        DT_TOK_NFC,
        DT_TOK_PREPEND,
        DT_TOK_REPLACE,
    } kind;
    char *pattern, *content; /* PREPEND has only content */
    size_t pattern_bytes, content_bytes;
};

/* Reads the normalizer. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_normalizer_read(struct dt_tokenizer *tokenizer, const json_t *value,
                           struct dt_error *err);

/* Normalizes a span. *out is the span itself if nothing changes, else it is in
 * one of the two buffers. -1: EX_OSERR.
 */
int dt_tok_normalize(const struct dt_tokenizer *tokenizer,
                     const struct dt_tok_span *span, bool offsets,
                     struct dt_tok_text buffers[2], struct dt_tok_span *out,
                     struct dt_error *err);

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
        DT_TOK_STEP_PATTERN, /* a regular expression, a string or numbers */
        DT_TOK_STEP_SPACE,   /* adds a space in front if there is none */
        DT_TOK_STEP_MARK,    /* Metaspace: turns spaces into marks */
        DT_TOK_STEP_BEFORE,  /* cuts before marks, except after a mark */
    } kind;
    enum dt_tok_words words;
    struct dt_tok_regex *regex; /* NULL: `text`; both NULL: numbers */
    char *text;                 /* the string, or the mark */
    size_t text_bytes;
    enum dt_tok_behavior behavior;
    bool invert;
    enum { DT_TOK_ALWAYS, DT_TOK_FIRST, DT_TOK_NEVER } prepend;
};

/* Reads the pre-tokenizer into steps. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_steps_read(struct dt_tokenizer *tokenizer, const json_t *value,
                      struct dt_error *err);

/* Adds a cut before marks if no merge crosses it, to keep pieces short. */
int dt_tok_steps_finish(struct dt_tokenizer *tokenizer, struct dt_error *err);
void dt_tok_step_fini(struct dt_tok_step *step);

/* Cuts a span by the steps from `step` on, and merges each piece. */
int dt_tok_split(struct dt_encoder *e, size_t step,
                 const struct dt_tok_span *span);

/* ---- bpe_model.c, bpe.c: byte pair encoding ---- */

struct dt_tok_model {
    struct dt_tok_map merges; /* left << 32 | right -> rank << 32 | id */
    struct dt_tok_map chars;  /* code point -> id of that single character */
    int32_t bytes[256];       /* ids of the ByteLevel alphabet, or of <0xNN> */
    int32_t unk;              /* -1: none */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
};

/* Read the vocabulary, and the rest of `model`. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_vocab_read(struct dt_tokenizer *tokenizer, const json_t *root,
                      struct dt_error *err);
int dt_tok_model_read(struct dt_tokenizer *tokenizer, const json_t *model,
                      struct dt_error *err);

/* The alphabet of ByteLevel: the code point that stands for a byte, and the
 * byte that a code point stands for, or -1.
 */
uint32_t dt_tok_byte_char(unsigned char byte);
int dt_tok_char_byte(uint32_t code_point);

/* Fills model.bytes from the vocabulary. */
void dt_tok_model_bytes(struct dt_tokenizer *tokenizer);

struct dt_tok_bpe;

/* One thread's cache and workspace for merging. NULL: out of memory. */
struct dt_tok_bpe *dt_tok_bpe_create(void);
void dt_tok_bpe_destroy(struct dt_tok_bpe *bpe);

/* Appends the tokens of a piece to e->tokens. -1: EX_OSERR, EX_DATAERR. */
int dt_tok_merge(struct dt_encoder *e, const struct dt_tok_span *piece);

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
    char *pattern, *content; /* Replace; NULL: none */
    size_t pattern_bytes, content_bytes;
    bool strip_pattern; /* Metaspace: remove all patterns from token 0 */
};

/* Reads the decoder. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_decoder_read(struct dt_tokenizer *tokenizer, const json_t *value,
                        struct dt_error *err);

/* ---- tokenizer_config.c: the files beside tokenizer.json ---- */

/* Reads the names of special tokens and the chat template. -1: EX_DATAERR. */
int dt_tok_files_read(struct dt_tokenizer *tokenizer, const char *directory,
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
    int32_t special[DT_TOKEN_UNK + 1];
    char *chat_template, *tool_template;
    char *template_file; /* that has them */
    uint64_t hash;
};

struct dt_encoder {
    const struct dt_tokenizer *tokenizer;
    const uint8_t *classes;
    struct dt_tok_matcher *matcher;
    struct dt_tok_bpe *bpe;
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
