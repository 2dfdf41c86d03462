/* SPDX-License-Identifier: Apache-2.0 */
/*
 * basics.h - what the parts of a tokenizer are made of; for tokenizer/ only
 *
 * Keys of JSON, tables, tries, texts with offsets, code points.
 */
#ifndef DT_TOKENIZER_BASICS_H
#define DT_TOKENIZER_BASICS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

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

/* Writes directory/name to path. Returns 1 if that exists, 0 if not. -1:
 * EX_NOINPUT, it is too long.
 */
int dt_tok_file_find(const char *directory, const char *name,
                     char path[PATH_MAX], struct dt_error *err);

/* The object of directory/name; release it. NULL: the file does not exist, or
 * it is bad and *rc is -1.
 */
json_t *dt_tok_file_load(const char *directory, const char *name, int *rc,
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

/* ---- trie.c: byte strings and their values, found byte by byte ---- */

struct dt_tok_trie {
    struct dt_tok_map nodes; /* node * 256 + byte -> node; the first is 0 */
    int32_t *values;         /* by node; -1: no string ends there */
    size_t count, capacity;  /* of nodes */
};

/* Makes an empty trie. -1: out of memory. */
int dt_tok_trie_init(struct dt_tok_trie *trie);
void dt_tok_trie_fini(struct dt_tok_trie *trie);

/* Adds a string with a value >= 0; one that is there keeps its value. -1: out
 * of memory.
 */
int dt_tok_trie_add(struct dt_tok_trie *trie, const char *s, size_t n,
                    int32_t value);

/* The node behind a byte, or DT_TOK_NONE. */
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
    DT_TOK_SHOWN = 8, /* decoding writes another text than that it is for */
};

struct dt_tok_vocab {
    struct dt_tok_entry {
        uint32_t text, bytes;        /* offset in texts, length */
        uint32_t shown, shown_bytes; /* the same of what decoding writes */
        unsigned flags;              /* 0: no token has this id */
    } * entries;                     /* by id */
    size_t count;                    /* highest id + 1 */
    char *texts;                     /* each NUL-terminated */
    size_t texts_bytes, texts_capacity;
    struct dt_tok_place {
        int32_t id;   /* -1: free */
        uint32_t tag; /* more bits of the hash, to look at few texts */
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

/* Sets what decoding writes for a token. -1: out of memory. */
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

/* ---- unicode.c: code points, and normal form C ---- */

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

/* ---- unicode_sets.c: sets of code points ---- */

enum dt_tok_set {
    DT_TOK_SET_OPAQUE,
    DT_TOK_SET_MARKS,
    DT_TOK_SET_PUNCTUATION,
    DT_TOK_SET_WORD,
    DT_TOK_SET_NUMBER,
};

/* Whether a code point is in a set. */
bool dt_tok_in_set(enum dt_tok_set set, uint32_t code_point);

/* Clears and sets flags of all code points of a set, by code point. */
void dt_tok_mark_set(enum dt_tok_set set, uint8_t *classes, uint8_t clear,
                     uint8_t mark);

/* ---- unicode_late.c: what is younger than the system's Unicode ---- */

/* Sets the class of all code points of a general category ('L', 'N') that came
 * after Unicode 14.
 */
void dt_tok_mark_late(char category, uint8_t class, uint8_t *classes);

/* ---- unicode.c, continued ---- */

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

/* Appends what utf8proc makes of bytes [from, to) of a span with its options,
 * and UTF8PROC_STABLE. -1: EX_OSERR.
 */
int dt_tok_map(int options, const struct dt_tok_span *span, size_t from,
               size_t to, struct dt_tok_text *text, struct dt_error *err);

/* Appends the normal form C of a span to a text. -1: EX_OSERR. */
int dt_tok_nfc(const struct dt_tok_span *span, struct dt_tok_text *text,
               struct dt_error *err);

/* False if normal form C cannot change the text. */
bool dt_tok_nfc_needed(const char *s, size_t n);

const char *dt_tok_unicode_library(void); /* the version of utf8proc */

#endif /* DT_TOKENIZER_BASICS_H */
