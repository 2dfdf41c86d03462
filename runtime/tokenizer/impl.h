/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok.h - the parts of a tokenizer; of data/tok*.c only
 *
 * Encoding a text: repair its UTF-8, take out added tokens, normalise what is
 * between them, take out added tokens again, cut the rest into pieces by the
 * steps of the pre-tokenizer, and merge the symbols of each piece.
 */
#ifndef DT_DATA_TOK_H
#define DT_DATA_TOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "tokenizer/tokenizer.h"

enum {
    DT_TOK_IDS_MAX = 1 << 22, /* an id is below it */
    DT_TOK_STEPS_MAX = 16,    /* of a normalizer or a pre-tokenizer */
    DT_TOK_CODE_POINTS = 0x110000,
    DT_TOK_FILE_MAX_BYTES = 1 << 28, /* several times the largest known */
};

/* ---- tok_json.c: keys of a JSON object, each error begins with the key ----
 */

/* The object that the text of a file is; json_decref it. NULL and err:
 * EX_DATAERR with the path, the line and the column.
 */
json_t *dt_tok_json_parse(const char *path, const char *text,
                          struct dt_error *err);

/* object[key] of that type. NULL and err: EX_DATAERR, what was expected. */
const json_t *dt_tok_json_get(const json_t *object, const char *key,
                              json_type type, struct dt_error *err);

/* object[key], missing or null: `fallback`. -1: not true or false. */
int dt_tok_json_flag(const json_t *object, const char *key, bool fallback,
                     bool *value, struct dt_error *err);

/* The "type" of a part of the file. NULL and err. */
const char *dt_tok_json_type(const json_t *object, struct dt_error *err);

/* Reads a part of the file: nothing if it is null, each of part[key] if its
 * type is "Sequence", else the part itself. -1: as `read`, with the place.
 */
int dt_tok_json_parts(const json_t *part, const char *key,
                      int (*read)(void *ctx, const json_t *one,
                                  struct dt_error *err),
                      void *ctx, struct dt_error *err);

/* The text of {"String": text}: a pattern. NULL and err. */
const json_t *dt_tok_json_string_pattern(const json_t *object,
                                         struct dt_error *err);

enum { DT_TOK_SHOWN_BYTES = 64 };

/* The start of a text for an error: at most `bytes` < 64 of it, whole
 * characters, a '?' for each control character. Returns out.
 */
const char *dt_tok_shown(const char *text, size_t bytes,
                         char out[DT_TOK_SHOWN_BYTES]);

/* ---- tok_map.c: a hash table of numbers ---- */

#define DT_TOK_NONE UINT64_MAX

struct dt_tok_map {
    struct dt_tok_slot {
        uint64_t key, value; /* DT_TOK_NONE: free */
    } * slots;
    size_t mask, count;
};

/* Makes room for `count` keys: -1 if memory is out. */
int dt_tok_map_init(struct dt_tok_map *map, size_t count);
void dt_tok_map_fini(struct dt_tok_map *map);

/* Sets key to value < DT_TOK_NONE. -1 if memory is out. */
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

/* ---- tok_vocab.c: texts and their ids ---- */

enum dt_tok_entry_flags {
    DT_TOK_MODEL = 1, /* of the vocabulary: merging gives it */
    DT_TOK_ADDED = 2,
    DT_TOK_SPECIAL = 4,
};

struct dt_tok_vocab {
    struct dt_tok_entry {
        uint32_t text, bytes; /* text: offset in texts */
        unsigned flags;       /* 0: a hole */
    } * entries;              /* of each id */
    size_t count;             /* highest id + 1 */
    char *texts;              /* each NUL-terminated */
    size_t texts_bytes, texts_capacity;
    int32_t *index; /* hash of a text -> id, -1: free */
    size_t mask;
};

/* Makes room for ids < id_end and `count` texts: -1 if memory is out. */
int dt_tok_vocab_init(struct dt_tok_vocab *vocab, size_t id_end, size_t count);
void dt_tok_vocab_fini(struct dt_tok_vocab *vocab);

/* Adds a text, or flags to the entry that has both. -1: EX_DATAERR if the id
 * has another text or the text another id; EX_OSERR.
 */
int dt_tok_vocab_add(struct dt_tok_vocab *vocab, int32_t id, const char *text,
                     size_t bytes, unsigned flags, struct dt_error *err);

/* The id of a text, or -1. */
int32_t dt_tok_vocab_find(const struct dt_tok_vocab *vocab, const char *text,
                          size_t bytes);

/* The id of a text of the model (not only an added token), or -1. */
int32_t dt_tok_vocab_model(const struct dt_tok_vocab *vocab, const char *text,
                           size_t bytes);

static inline const char *dt_tok_vocab_text(const struct dt_tok_vocab *vocab,
                                            size_t id)
{
    return vocab->texts + vocab->entries[id].text;
}

/* ---- tok_text.c: text with what it stood for ---- */

/* Part of a text. Byte i stands for bytes begin[i] .. end[i] of what was given
 * to dt_encode, or for byte at + i where begin is NULL.
 */
struct dt_tok_span {
    const char *s;
    size_t n;
    const uint32_t *begin, *end;
    uint32_t at;
    bool first; /* nothing is before it */
};

/* Bytes [from, to) of a span; where byte i of it begins, and ends. */
struct dt_tok_span dt_tok_span_part(const struct dt_tok_span *span, size_t from,
                                    size_t to);
uint32_t dt_tok_span_begin(const struct dt_tok_span *span, size_t i);
uint32_t dt_tok_span_end(const struct dt_tok_span *span, size_t i);

/* Makes room for `count` items in *array, a pointer to them of any type. False:
 * memory is out, and the array is as it was.
 */
bool dt_tok_grow(void *array, size_t count, size_t size);

/* A text that is being made from a span. */
struct dt_tok_text {
    char *bytes;
    uint32_t *begin, *end; /* kept if `offsets` */
    size_t count, capacity;
    bool offsets;
    bool full; /* memory is out: nothing is added any more */
};

/* Frees a text; makes it empty; adds bytes [from, to) of a span. */
void dt_tok_text_fini(struct dt_tok_text *text);
void dt_tok_text_clear(struct dt_tok_text *text, bool offsets);
void dt_tok_text_copy(struct dt_tok_text *text, const struct dt_tok_span *span,
                      size_t from, size_t to);

/* Adds n bytes, each of which stands for [begin, end). */
void dt_tok_text_add(struct dt_tok_text *text, const char *s, size_t n,
                     uint32_t begin, uint32_t end);

/* Makes *span all of the text. -1: EX_OSERR if memory was out. */
int dt_tok_text_span(const struct dt_tok_text *text, struct dt_tok_span *span,
                     struct dt_error *err);

/* ---- tok_unicode.c: code points, and normal form C ---- */

/* One of the first four, and others with it. */
enum dt_tok_class {
    DT_TOK_LETTER = 1, /* \p{L} */
    DT_TOK_NUMBER = 2, /* \p{N} */
    DT_TOK_SPACE = 4,  /* \s: White_Space */
    DT_TOK_OTHER = 8,
    DT_TOK_NEWLINE = 16, /* \r and \n, SPACE too */
    DT_TOK_ACTIVE = 32,  /* NFC may change it, or join it to what is before */
};

/* Classes of all code points; made at the first call. */
const uint8_t *dt_tok_classes(void);

/* \w of the regular expressions that Hugging Face looks around words with. */
bool dt_tok_is_word(uint32_t code_point);

/* The code point that begins at s, well-formed; *bytes: how long it is. */
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

/* UTF-8 of a code point; how many bytes. */
size_t dt_tok_encode(uint32_t code_point, char out[4]);

/* Where the character that ends at s + i begins. */
size_t dt_tok_back(const char *s, size_t i);

/* What begins at s[0..n): the bytes of a well-formed sequence; 0 if it is
 * well-formed so far; minus the bytes of its maximal bad part.
 */
int dt_tok_sequence(const unsigned char *s, size_t n);

/* Adds the normal form C of a span to a text. -1: EX_OSERR. */
int dt_tok_nfc(const struct dt_tok_span *span, struct dt_tok_text *text,
               struct dt_error *err);

/* False if normal form C would change nothing. */
bool dt_tok_nfc_needed(const char *s, size_t n);

const char *dt_tok_unicode_library(void); /* the version of utf8proc */

/* ---- tok_regex.c: regular expressions as Oniguruma reads them ---- */

struct dt_tok_regex;

/* Compiles a pattern. What PCRE2 would take for something else is refused.
 * NULL and err: EX_DATAERR. */
struct dt_tok_regex *dt_tok_regex_create(const char *pattern, size_t bytes,
                                         struct dt_error *err);
void dt_tok_regex_destroy(struct dt_tok_regex *regex); /* NULL is fine */

struct dt_tok_matcher;

/* One thread's working memory for them. NULL: memory is out. */
struct dt_tok_matcher *dt_tok_matcher_create(void);
void dt_tok_matcher_destroy(struct dt_tok_matcher *matcher);

/* The first match at or after `from` in s[0..n), well-formed UTF-8. 1 = found,
 * 0 = none, -1: EX_DATAERR (a limit of PCRE2).
 */
int dt_tok_regex_find(const struct dt_tok_regex *regex,
                      struct dt_tok_matcher *matcher, const char *s, size_t n,
                      size_t from, size_t *begin, size_t *end,
                      struct dt_error *err);

const char *dt_tok_regex_library(void); /* the version of PCRE2 */

/* ---- tok_words.c: the patterns of the families, by hand ---- */

enum dt_tok_words {
    DT_TOK_WORDS_NONE,
    DT_TOK_WORDS_GPT2,
    DT_TOK_WORDS_LLAMA3, /* numbers are cut into three digits */
    DT_TOK_WORDS_QWEN,   /* and into single digits */
};

extern const char dt_tok_gpt2_pattern[];

/* Which of them a pattern is. */
enum dt_tok_words dt_tok_words_find(const char *pattern, size_t bytes);

/* Bytes of the match of the pattern at the start of s[0..n), n > 0: there
 * always is one.
 */
size_t dt_tok_word(enum dt_tok_words words, const uint8_t *classes,
                   const char *s, size_t n);

/* ---- tok_added.c: added tokens ---- */

struct dt_tok_added {
    struct dt_tok_map nodes; /* a trie: node * 256 + byte -> node */
    struct dt_tok_leaf {     /* of each node */
        int32_t id;          /* -1: none ends here */
        bool single_word, lstrip, rstrip, special;
    } * leaves;
    size_t node_count, leaf_capacity;
    bool starts[256]; /* bytes that one begins with */
};

struct dt_tokenizer;

/* Reads added_tokens into the vocabulary and, once there is the normalizer,
 * into the two tries. -1: EX_DATAERR, EX_OSERR.
 */
int dt_tok_added_read(struct dt_tokenizer *tokenizer, const json_t *list,
                      struct dt_error *err);
int dt_tok_added_build(struct dt_tokenizer *tokenizer, const json_t *list,
                       struct dt_error *err);
int dt_tok_added_init(struct dt_tok_added *added); /* -1: memory is out */
void dt_tok_added_fini(struct dt_tok_added *added);

/* Calls `text` for each part of the span between added tokens, not empty, and
 * `token` for each token, in order; -1 as soon as one of them gives -1.
 */
int dt_tok_added_split(const struct dt_tok_added *added, struct dt_encoder *e,
                       const struct dt_tok_span *span,
                       int (*text)(struct dt_encoder *e,
                                   const struct dt_tok_span *part));

/* ---- tok_normalize.c ---- */

struct dt_tok_normalizer {
    enum dt_tok_normalizer_kind {
        DT_TOK_NFC,
        DT_TOK_PREPEND,
        DT_TOK_REPLACE,
    } kind;
    char *pattern, *content; /* of PREPEND: content */
    size_t pattern_bytes, content_bytes;
};

/* Reads the normalizer. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_normalizer_read(struct dt_tokenizer *tokenizer, const json_t *value,
                           struct dt_error *err);

/* Makes the normal form of a span, which may be the span itself; it lies in
 * one of the two buffers. -1: EX_OSERR.
 */
int dt_tok_normalize(const struct dt_tokenizer *tokenizer,
                     const struct dt_tok_span *span, bool offsets,
                     struct dt_tok_text buffers[2], struct dt_tok_span *out,
                     struct dt_error *err);

/* ---- tok_steps.c, tok_split.c: the pre-tokenizer ---- */

#define DT_TOK_MARK "\u2581" /* what SentencePiece writes for a space */

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
        DT_TOK_STEP_SPACE,   /* a space in front if there is none */
        DT_TOK_STEP_MARK,    /* of Metaspace: spaces to marks */
        DT_TOK_STEP_BEFORE,  /* cut where a mark follows something else */
    } kind;
    enum dt_tok_words words;
    struct dt_tok_regex *regex; /* NULL: `text`, or numbers if that is NULL */
    char *text;                 /* the string, or the mark */
    size_t text_bytes;
    enum dt_tok_behavior behavior;
    bool invert;
    enum { DT_TOK_ALWAYS, DT_TOK_FIRST, DT_TOK_NEVER } prepend;
};

/* Reads the pre-tokenizer into steps. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_steps_read(struct dt_tokenizer *tokenizer, const json_t *value,
                      struct dt_error *err);

/* Adds a cut before marks where no merge crosses it: pieces stay short. */
int dt_tok_steps_finish(struct dt_tokenizer *tokenizer, struct dt_error *err);
void dt_tok_step_fini(struct dt_tok_step *step);

/* Cuts a span by the steps from `step` on, and merges each piece. */
int dt_tok_split(struct dt_encoder *e, size_t step,
                 const struct dt_tok_span *span);

/* ---- tok_model.c, tok_bpe.c: byte pair encoding ---- */

struct dt_tok_model {
    struct dt_tok_map merges; /* left << 32 | right -> rank << 32 | id */
    struct dt_tok_map chars;  /* code point -> id, of single characters */
    int32_t bytes[256];       /* of ByteLevel the alphabet, else <0xNN> */
    int32_t unk;              /* -1: none */
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
};

/* Reads `model` but for the vocabulary, which dt_tok_vocab_read fills. */
int dt_tok_vocab_read(struct dt_tokenizer *tokenizer, const json_t *root,
                      struct dt_error *err);
int dt_tok_model_read(struct dt_tokenizer *tokenizer, const json_t *model,
                      struct dt_error *err);

/* The alphabet of ByteLevel: the code point of a byte; the byte of a code
 * point, or -1.
 */
uint32_t dt_tok_byte_char(unsigned char byte);
int dt_tok_char_byte(uint32_t code_point);

/* Fills model.bytes from the vocabulary. */
void dt_tok_model_bytes(struct dt_tokenizer *tokenizer);

struct dt_tok_bpe;

/* A cache of pieces, and memory for long ones. NULL: memory is out. */
struct dt_tok_bpe *dt_tok_bpe_create(void);
void dt_tok_bpe_destroy(struct dt_tok_bpe *bpe);

/* Adds the tokens of a piece to e->tokens. -1: EX_OSERR. */
int dt_tok_merge(struct dt_encoder *e, const struct dt_tok_span *piece);

/* ---- tok_post.c ---- */

/* Reads what the post-processor adds. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_post_read(struct dt_tokenizer *tokenizer, const json_t *value,
                     struct dt_error *err);

/* ---- tok_decoder.c, tok_decode.c ---- */

struct dt_tok_decoder {
    bool join;               /* none: a space between tokens */
    bool byte_level;         /* the alphabet back to bytes */
    bool fallback;           /* <0xNN> is a byte */
    bool strip;              /* one space at the start goes */
    char *pattern, *content; /* of Replace; NULL: none */
    size_t pattern_bytes, content_bytes;
    bool strip_pattern; /* Metaspace: all of them go from token 0 */
};

/* Reads the decoder. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_decoder_read(struct dt_tokenizer *tokenizer, const json_t *value,
                        struct dt_error *err);

/* ---- tok_files.c: what is beside tokenizer.json ---- */

/* Reads names of special tokens and the chat template. -1: EX_DATAERR. */
int dt_tok_files_read(struct dt_tokenizer *tokenizer, const char *directory,
                      struct dt_error *err);

/* ---- tokenizer.c, tok_encode.c ---- */

struct dt_tokenizer {
    struct dt_tok_vocab vocab;
    struct dt_tok_model model;
    struct dt_tok_added raw, normalized; /* where they are looked for */
    struct dt_tok_normalizer normalizers[DT_TOK_STEPS_MAX];
    size_t normalizer_count;
    struct dt_tok_step steps[DT_TOK_STEPS_MAX + 1];
    size_t step_count;
    int32_t *before, *after; /* of the post-processor */
    size_t before_count, after_count;
    struct dt_tok_decoder decoder;
    bool prefix_space; /* ByteLevel puts a space before a text */
    int32_t special[DT_TOKEN_UNK + 1];
    char *chat_template;
    uint64_t hash;
};

struct dt_encoder {
    const struct dt_tokenizer *tokenizer;
    const uint8_t *classes;
    struct dt_tok_matcher *matcher;
    struct dt_tok_bpe *bpe;
    struct dt_tok_text repaired, normal[2], stepped[DT_TOK_STEPS_MAX + 1];
    /* of the call in progress */
    unsigned flags;
    struct dt_tokens *tokens;
    struct dt_error *err;
};

/* Makes room for `more` tokens. -1: EX_OSERR. */
int dt_tok_reserve(struct dt_encoder *e, size_t more);

/* Adds a token for bytes [from, to) of a span; there is room. */
void dt_tok_emit(struct dt_encoder *e, int32_t id,
                 const struct dt_tok_span *span, size_t from, size_t to);

#endif /* DT_DATA_TOK_H */
