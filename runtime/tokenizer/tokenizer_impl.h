/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer_impl.h - the parts of a tokenizer (private to tokenizer/)
 *
 * Encoding repairs the UTF-8 of a text, splits off added tokens, normalizes the
 * text between them, splits off added tokens again, cuts the rest into pieces
 * by the steps of the pre-tokenizer, and merges the symbols of each piece.
 */
#ifndef DT_TOKENIZER_TOKENIZER_IMPL_H
#define DT_TOKENIZER_TOKENIZER_IMPL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode/unicode.h"

enum {
    DT_TOK_IDS_MAX = 1 << 22, /* ids are smaller */
    DT_TOK_STEPS_MAX = 16,    /* steps of a normalizer or a pre-tokenizer */
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

/* The error for an unsupported type if only "A, B and C" are supported. Always
 * -1.
 */
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

/* Copies a string of at most `most` bytes. -1: EX_DATAERR, it is longer;
 * EX_OSERR.
 */
int dt_tok_json_copy(const json_t *text, size_t most, char **to, size_t *bytes,
                     struct dt_error *err);

/* Writes directory/name to path. Returns 1 if that exists, 0 if not. -1:
 * EX_NOINPUT, it is too long.
 */
int dt_tok_file_find(const char *directory, const char *name,
                     char path[PATH_MAX], struct dt_error *err);

/* The object of directory/name; release it. NULL: the file does not exist, or
 * it is invalid and *rc is -1.
 */
json_t *dt_tok_file_load(const char *directory, const char *name, int *rc,
                         struct dt_error *err);

enum { DT_TOK_SHOWN_BYTES = 64 };

/* Copies the start of a text for use in an error: whole characters, at most
 * `bytes` < 64, with '?' for each control character. Returns out.
 */
const char *dt_tok_shown(const char *text, size_t bytes,
                         char out[DT_TOK_SHOWN_BYTES]);

/* ---- vocab.c: a hash table of numbers ---- */

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

/* ---- vocab.c: byte strings and their values, found byte by byte ---- */

struct dt_tok_trie {
    struct dt_tok_map nodes; /* node * 256 + byte -> node; the first is 0 */
    int32_t *values;         /* by node; -1: no string ends there */
    size_t count, capacity;  /* of nodes */
};

/* Makes an empty trie. -1: out of memory. */
int dt_tok_trie_init(struct dt_tok_trie *trie);
void dt_tok_trie_fini(struct dt_tok_trie *trie);

/* Adds a string with a value >= 0; an existing one keeps its value. -1: out of
 * memory.
 */
int dt_tok_trie_add(struct dt_tok_trie *trie, const char *s, size_t n,
                    int32_t value);

/* The child of a node for a byte, or DT_TOK_NONE. */
static inline uint64_t dt_tok_trie_next(const struct dt_tok_trie *trie,
                                        uint64_t node, char byte)
{
    return dt_tok_map_get(&trie->nodes, node * 256 + (unsigned char)byte);
}

/* The value of the longest string that s[0..n) begins with, and its length; -1:
 * none.
 */
int32_t dt_tok_trie_longest(const struct dt_tok_trie *trie, const char *s,
                            size_t n, size_t *bytes);

/* ---- vocab.c: texts and their ids ---- */

enum dt_tok_entry_flags {
    DT_TOK_MODEL = 1, /* in the model's vocabulary: merges can produce it */
    DT_TOK_ADDED = 2,
    DT_TOK_SPECIAL = 4,
    DT_TOK_SHOWN = 8, /* decoding writes another text than `text` */
};

struct dt_tok_vocab {
    struct dt_tok_entry {
        uint32_t text, bytes;        /* offset in texts, length */
        uint32_t shown, shown_bytes; /* the same for decoded text */
        unsigned flags;              /* 0: no token has this id */
    } * entries;                     /* by id */
    size_t count;                    /* highest id + 1 */
    char *texts;                     /* each NUL-terminated */
    size_t texts_bytes, texts_capacity;
    struct dt_tok_place {
        int32_t id;   /* -1: free */
        uint32_t tag; /* more bits of the hash, to compare few texts */
    } * index;        /* hash table: text -> id */
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

/* Sets the text that decoding writes for a token. -1: out of memory. */
int dt_tok_vocab_show(struct dt_tok_vocab *vocab, int32_t id, const char *text,
                      size_t bytes);

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

/* ---- regex.c: regular expressions in Oniguruma's syntax ---- */

struct dt_tok_regex;

/* Compiles a pattern; refuses syntax that PCRE2 interprets differently. NULL
 * and err: EX_DATAERR.
 */
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

/* ---- charsmap.c: SentencePiece's table of replacements of text ---- */

struct dt_tok_charsmap;

/* Reads a table: the size of a double array in bytes, the array (in the format
 * of darts-clone), and texts, each NUL-terminated. All little-endian. NULL and
 * err: EX_DATAERR, EX_OSERR.
 */
struct dt_tok_charsmap *dt_tok_charsmap_create(const void *data, size_t bytes,
                                               struct dt_error *err);

/* The same from base64. */
struct dt_tok_charsmap *dt_tok_charsmap_base64(const char *text,
                                               struct dt_error *err);
void dt_tok_charsmap_destroy(struct dt_tok_charsmap *map); /* NULL is fine */

/* Finds the longest prefix of s[0..n) with an entry. Returns its length, and
 * its replacement in *to and *bytes; 0: there is none. -1: EX_DATAERR, the
 * table is damaged.
 */
int dt_tok_charsmap_prefix(const struct dt_tok_charsmap *map, const char *s,
                           size_t n, const char **to, size_t *bytes,
                           struct dt_error *err);

/* Applies a table as tokenizers does: the replacement of the shortest prefix
 * with an entry replaces a grapheme of up to 5 bytes; in longer ones, and if
 * there is no entry, characters are replaced one by one. -1: EX_DATAERR, the
 * table is damaged.
 */
int dt_tok_charsmap_apply(const struct dt_tok_charsmap *map,
                          const struct dt_tok_span *span,
                          struct dt_tok_text *text, struct dt_error *err);

/* ---- normalizer.c ---- */

/* Normalization as in SentencePiece. */

struct dt_tok_spm {
    struct dt_tok_charsmap *map; /* NULL: none */
    struct dt_tok_trie symbols;  /* user-defined, never changed */
    bool dummy_prefix;           /* a space before the text ... */
    bool prefix_each; /* ... and before the parts between added tokens */
    bool suffix;      /* add it after each part, not before */
    bool trim;        /* collapse spaces, drop them at the ends */
    bool escape;      /* a space becomes DT_TOK_MARK */
};

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

/* Classes of characters at which BPE may cut text: one for each of ASCII, one
 * for SentencePiece's mark for spaces, and hashed ones for others.
 */
enum {
    DT_TOK_CUT_MARK = 0x80,
    DT_TOK_CUT_MARK_CHAR = 0x2581,
    DT_TOK_CUT_CLASSES = 256,
};

static inline unsigned dt_tok_cut_class(uint32_t code_point)
{
    if (code_point < DT_TOK_CUT_MARK)
        return code_point;
    return code_point == DT_TOK_CUT_MARK_CHAR
               ? DT_TOK_CUT_MARK
               : DT_TOK_CUT_MARK + 1 + code_point % 127;
}

struct dt_tok_model {
    enum dt_tok_model_kind {
        DT_TOK_BPE,
        DT_TOK_UNIGRAM,
    } kind;
    int32_t unk;        /* -1: none */
    int32_t bytes[256]; /* ids of the ByteLevel alphabet, or of <0xNN> */
    bool byte_fallback;

    /* BPE */
    struct dt_tok_map merges; /* left << 32 | right -> rank << 32 | id */
    struct dt_tok_map chars;  /* code point -> id of that single character */
    int32_t units[256];       /* the first id of each byte of text, or -1 */
    uint64_t *pairs; /* (256, 256): the merge of the units of two bytes */
    uint64_t cuts[DT_TOK_CUT_CLASSES][DT_TOK_CUT_CLASSES / 64];
    bool byte_level, fuse_unk, ignore_merges;

    /* Unigram: the best sum of scores wins */
    struct dt_tok_trie texts; /* of the vocabulary -> id */
    double *scores;           /* by id */
    double unk_score;         /* of an unknown character */
    bool narrow; /* as SentencePiece: sums are rounded to float, and the text of
                    unknown characters is not looked up */
};

/* Whether a text may be cut between characters of two classes. */
static inline bool dt_tok_may_cut(const struct dt_tok_model *model, unsigned a,
                                  unsigned b)
{
    return model->cuts[a][b / 64] >> b % 64 & 1;
}

/* ---- model_read.c ---- */

/* Reads the vocabulary, and the rest of `model`. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_vocab_read(struct dt_tokenizer *tokenizer, const json_t *root,
                      struct dt_error *err);
int dt_tok_model_read(struct dt_tokenizer *tokenizer, const json_t *model,
                      struct dt_error *err);
void dt_tok_model_fini(struct dt_tok_model *model);

/* Fills model.chars, units and pairs from the vocabulary and the merges, once
 * model.bytes is known. -1: EX_OSERR.
 */
int dt_tok_bpe_finish(struct dt_tokenizer *tokenizer, struct dt_error *err);

/* Fills model.cuts, after dt_tok_bpe_finish. False: the text must not be cut.
 */
bool dt_tok_bpe_cuts(struct dt_tokenizer *tokenizer);

/* The alphabet of ByteLevel: the code point for a byte, and the byte for a code
 * point, or -1.
 */
uint32_t dt_tok_byte_char(unsigned char byte);
int dt_tok_char_byte(uint32_t code_point);

/* Fills model.bytes from the vocabulary. */
void dt_tok_model_bytes(struct dt_tokenizer *tokenizer);

/* Whether all bytes of an unknown text have a token. */
static inline bool dt_tok_falls_back(const struct dt_tok_model *model,
                                     const char *s, size_t n)
{
    for (size_t i = 0; model->byte_fallback && i < n; i++)
        if (model->bytes[(unsigned char)s[i]] < 0)
            return false;
    return model->byte_fallback;
}

/* BPE's merge of two tokens, as in model.merges, or DT_TOK_NONE. */
static inline uint64_t dt_tok_merge(const struct dt_tok_model *model,
                                    int32_t left, int32_t right)
{
    return dt_tok_map_get(&model->merges,
                          (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
}

/* ---- piece.c: from pieces to tokens, with a cache ---- */

/* A token of a piece or, during BPE's merging, a part of it. */
struct dt_tok_symbol {
    int32_t id;
    uint32_t begin, end; /* byte offsets in the piece */
    uint32_t prev, next; /* neighbors, in BPE's long pieces only */
};

#define DT_TOK_NOWHERE UINT32_MAX

/* The best way to cut the text before a byte. */
struct dt_tok_path {
    double score;
    uint32_t begin; /* of the last token; DT_TOK_NOWHERE: no path */
    int32_t id;
};

/* One thread's cache and workspace. */
struct dt_tok_work {
    struct dt_tok_cache *cache;
    struct dt_tok_symbol *symbols; /* has room for one for each byte */
    size_t count, capacity;
    uint64_t *heap; /* BPE: rank << 32 | position */
    size_t heap_count, heap_capacity;
    struct dt_tok_path *paths; /* Unigram */
    size_t path_capacity;
};

/* Creates a workspace. NULL: out of memory. */
struct dt_tok_work *dt_tok_work_create(void);
void dt_tok_work_destroy(struct dt_tok_work *work);

static inline void dt_tok_work_add(struct dt_tok_work *work, int32_t id,
                                   size_t begin, size_t end)
{
    work->symbols[work->count++] = (struct dt_tok_symbol){
        id, (uint32_t)begin, (uint32_t)end, DT_TOK_NOWHERE, DT_TOK_NOWHERE};
}

/* Appends the tokens of a piece to e->tokens. -1: EX_OSERR, EX_DATAERR. */
int dt_tok_piece(struct dt_encoder *e, const struct dt_tok_span *piece);

/* ---- bpe.c, unigram.c ---- */

/* Fill work->symbols with the tokens of s[0..n). -1: EX_OSERR, EX_DATAERR. */
int dt_tok_bpe(const struct dt_tokenizer *tokenizer, struct dt_tok_work *work,
               const char *s, size_t n, struct dt_error *err);
int dt_tok_unigram(const struct dt_tokenizer *tokenizer,
                   struct dt_tok_work *work, const char *s, size_t n,
                   struct dt_error *err);

/* ---- words.c: hand-written matchers of well-known patterns ---- */

enum dt_tok_words {
    DT_TOK_WORDS_NONE,
    DT_TOK_WORDS_GPT2,
    DT_TOK_WORDS_LLAMA3, /* cuts numbers into up to three digits */
    DT_TOK_WORDS_QWEN,   /* cuts numbers into single digits */
};

extern const char dt_tok_gpt2_pattern[];

/* The known pattern that this is. */
enum dt_tok_words dt_tok_words_find(const char *pattern, size_t bytes);

/* The length of the match at the start of s[0..n), n > 0; it is never 0. */
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

/* Tokens in the files next to that of the vocabulary, in the form of
 * added_tokens.
 */
struct dt_tok_beside {
    json_t *decoder; /* added_tokens_decoder; NULL: there is none */
    json_t *named;   /* special tokens without an id */
};

/* Puts these tokens (NULL: none) into a list of added_tokens: those with an id
 * replace a token with the same id and text; those without an id go to the end
 * of the list, unless they are in it. `vocab` has the ids of texts, and `next`
 * is the first id without a token. -1: EX_DATAERR, ids that would leave a gap;
 * EX_OSERR.
 */
int dt_tok_added_override(json_t *list, const struct dt_tok_beside *beside,
                          const json_t *vocab, size_t next,
                          struct dt_error *err);

/* Raises *end above the valid ids of added_tokens. */
void dt_tok_added_end(const json_t *list, size_t *end);
void dt_tok_added_fini(struct dt_tok_added *added);

/* Emits each added token in the span and calls `text` for each part between
 * them that is not empty, in order. -1: as `text`; EX_OSERR.
 */
int dt_tok_added_split(const struct dt_tok_added *added, struct dt_encoder *e,
                       const struct dt_tok_span *span,
                       int (*text)(struct dt_encoder *e,
                                   const struct dt_tok_span *part));

/* ---- pretokenizer.c ---- */

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
        DT_TOK_STEP_WORDS,   /* a known pattern, isolated */
        DT_TOK_STEP_PATTERN, /* matches of `find`, by behavior */
        DT_TOK_STEP_SPACE,   /* adds a space at the start if there is none */
        DT_TOK_STEP_MARK,    /* Metaspace: turns spaces into marks */
        DT_TOK_STEP_CUTS,    /* cuts where no merge joins the text */
    } kind;
    enum dt_tok_words words;
    enum {
        DT_TOK_FIND_TEXT,
        DT_TOK_FIND_REGEX,
        DT_TOK_FIND_NUMBER, /* a single such character */
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

/* Cuts a span by the steps from `step` on, and encodes each piece. */
int dt_tok_split(struct dt_encoder *e, size_t step,
                 const struct dt_tok_span *span);

/* ---- post_processor.c ---- */

/* Reads the tokens that the post-processor adds. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_post_read(struct dt_tokenizer *tokenizer, const json_t *value,
                     struct dt_error *err);

/* ---- decoder.c ---- */

struct dt_tok_decoder {
    bool join;               /* no decoder: put a space between tokens */
    bool byte_level;         /* map the alphabet back to bytes */
    bool fallback;           /* read <0xNN> as a byte */
    bool strip;              /* remove one space at the start */
    bool strip_each;         /* and of each token until one has text */
    char *pattern, *content; /* Replace; NULL: none */
    size_t pattern_bytes, content_bytes;
    bool strip_pattern; /* Metaspace: remove all patterns from token 0 */
};

/* Reads the decoder. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_decoder_read(struct dt_tokenizer *tokenizer, const json_t *value,
                        struct dt_error *err);

/* ---- sentencepiece.c ---- */

/* Types of pieces. */
enum dt_spm_type {
    DT_SPM_NORMAL = 1,
    DT_SPM_UNKNOWN = 2,
    DT_SPM_CONTROL = 3,
    DT_SPM_USER = 4, /* user-defined: found in the text before all others */
    DT_SPM_UNUSED = 5,
    DT_SPM_BYTE = 6,
};
/* Reads the data of a .model file. -1: EX_DATAERR, EX_OSERR. */
int dt_tok_spm_read(struct dt_tokenizer *tokenizer, const void *data,
                    size_t bytes, const struct dt_tok_beside *beside,
                    struct dt_error *err);

/* ---- tokenizer_config.c: the files next to tokenizer.json ---- */

/* Reads the names of special tokens, whether texts have BOS and EOS, and the
 * chat template. -1: EX_DATAERR.
 */
int dt_tok_files_read(struct dt_tokenizer *tokenizer, const char *directory,
                      struct dt_error *err);

/* Reads tokenizer_config.json and special_tokens_map.json of a directory,
 * either of which may be absent. -1: EX_DATAERR, EX_OSERR; nothing needs to be
 * released.
 */
int dt_tok_beside_load(struct dt_tok_beside *beside, const char *directory,
                       struct dt_error *err);
void dt_tok_beside_fini(struct dt_tok_beside *beside);

/* ---- tokenizer.c, encode.c ---- */

struct dt_tokenizer {
    struct dt_tok_vocab vocab;
    struct dt_tok_model model;
    struct dt_tok_added raw, normalized; /* for raw and for normalized text */
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
    bool within; /* special tokens are parsed in these spans alone: */
    const struct dt_text_span *spans;
    size_t span_count;
    struct dt_tokens *tokens;
    struct dt_error *err;
};

/* ---- piece.c: the tokens so far ---- */

/* Makes room for `more` tokens. -1: EX_OSERR. */
int dt_tok_reserve(struct dt_encoder *e, size_t more);
/* Adds a token for bytes [from, to) of a span; there is room. */
void dt_tok_emit(struct dt_encoder *e, int32_t id,
                 const struct dt_tok_span *span, size_t from, size_t to);

#endif /* DT_TOKENIZER_TOKENIZER_IMPL_H */
