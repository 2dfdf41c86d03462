/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parquet.h - the parts of a Parquet file
 *
 * Facts are from parquet.thrift, Encodings.md and LogicalTypes.md of Apache
 * Parquet. The footer describes a tree of columns and where the chunks of its
 * leaves are. A leaf is a stream of values, each with a repetition level (which
 * list goes on) and a definition level (what of the path to it is not null).
 */
#ifndef DT_DATA_FORMS_PARQUET_H
#define DT_DATA_FORMS_PARQUET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/codec.h"
#include "base/error.h"

enum dt_parquet_repetition {
    PARQUET_REQUIRED,
    PARQUET_OPTIONAL,
    PARQUET_REPEATED,
};

enum dt_parquet_type {
    PARQUET_BOOLEAN,
    PARQUET_INT32,
    PARQUET_INT64,
    PARQUET_INT96,
    PARQUET_FLOAT,
    PARQUET_DOUBLE,
    PARQUET_BYTES,
    PARQUET_FIXED_BYTES,
};

/* What a leaf means. */
enum dt_parquet_meaning {
    PARQUET_NUMBER,
    PARQUET_UNSIGNED,
    PARQUET_TEXT,
    PARQUET_JSON,  /* a value of any type, as text */
    PARQUET_OTHER, /* dates, bytes, decimals: not read */
};

/* A node of the tree. They are in depth-first order: the children of node i
 * begin at i + 1, and node `next` is behind all below it.
 */
struct dt_parquet_node {
    const char *name;
    size_t name_bytes;
    enum dt_parquet_repetition repetition;
    enum dt_parquet_type type; /* of a leaf */
    enum dt_parquet_meaning meaning;
    size_t children, next;
    bool is_list;  /* annotated as one, or as a map, a list of pairs */
    int def, rep;  /* levels at which it is there */
    size_t leaf;   /* number of the first leaf in it */
    size_t leaves; /* how many */
};

/* The chunk of a leaf in a row group: bytes [begin, end) of the file. */
struct dt_parquet_chunk {
    uint64_t begin, end, values;
    int codec;
};

struct dt_parquet {
    struct dt_input *input;
    const char *path;
    uint8_t *footer; /* owns the names */
    struct dt_parquet_node *nodes;
    size_t node_count, leaf_count;
    uint64_t *rows;                  /* of each row group */
    struct dt_parquet_chunk *chunks; /* group after group, leaf after leaf */
    size_t group_count;
};

/* Reads the footer of an opened file. Release with dt_parquet_fini, also after
 * a failure. -1: EX_DATAERR with the path, EX_IOERR, EX_OSERR.
 */
int dt_parquet_init(struct dt_parquet *file, struct dt_input *input,
                    const char *path, struct dt_error *err);
void dt_parquet_fini(struct dt_parquet *file);

/* Sets EX_DATAERR "path: not a whole Parquet file: what"; returns -1. */
int dt_parquet_bad(const struct dt_parquet *file, const char *what,
                   struct dt_error *err);

/* A value: little-endian bytes, or text. */
struct dt_parquet_value {
    const uint8_t *bytes;
    size_t count;
};

/* Numbers in runs or packed in bits (the RLE / bit-packing hybrid). */
struct dt_parquet_hybrid {
    const uint8_t *at, *end;
    unsigned width;
    uint64_t left; /* of the run */
    bool packed;
    uint32_t value;
    const uint8_t *bits;
    size_t bit;
};

/* The stream of a leaf. */
struct dt_parquet_leaf {
    const struct dt_parquet *file;
    const struct dt_parquet_node *node;
    struct dt_parquet_chunk chunk; /* what is left of it */
    uint8_t *packed, *page, *dictionary;
    size_t packed_room, page_room, dictionary_room;
    struct dt_parquet_value *entries; /* of the dictionary */
    size_t entry_count;
    uint64_t page_values; /* left in the page */
    struct dt_parquet_hybrid reps, defs, numbers;
    int encoding;
    const uint8_t *at, *end; /* plain values */
    unsigned bit;            /* of plain truth values */
    uint8_t truth;
    /* the next value, if `loaded`: */
    bool loaded;
    int rep, def;
    struct dt_parquet_value value; /* if def is the node's */
};

/* Begins with the chunk of a row group. A zeroed leaf with file and node is
 * fine; release with dt_parquet_leaf_fini.
 */
void dt_parquet_leaf_start(struct dt_parquet_leaf *leaf,
                           struct dt_parquet_chunk chunk);
void dt_parquet_leaf_fini(struct dt_parquet_leaf *leaf);

/* Loads the next value, unless it is there. 1, or 0 at the end of the chunk.
 * -1: EX_DATAERR with path and column, EX_IOERR, EX_OSERR. To go on, set
 * `loaded` to false.
 */
int dt_parquet_leaf_look(struct dt_parquet_leaf *leaf, struct dt_error *err);

#endif /* DT_DATA_FORMS_PARQUET_H */
