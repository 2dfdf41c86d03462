/* SPDX-License-Identifier: Apache-2.0 */
/* forms_impl.h - declarations that readers of rows share (private to
 * data/forms/)
 */
#ifndef DT_DATA_FORMS_FORMS_IMPL_H
#define DT_DATA_FORMS_FORMS_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/codec.h"
#include "base/error.h"
#include "base/file.h"
#include "data/forms/forms.h"

/* A little-endian number of up to 8 bytes. */
static inline uint64_t dt_little(const uint8_t *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;)
        value = value << 8 | from[i];
    return value;
}

/* ---- json_lines.c: lines of JSON on their way to a file without a name ----
 *
 * A failure is kept until the end of a row, so that the functions in between
 * return nothing.
 */

struct dt_line_out {
    const char *path; /* the input, for messages */
    int fd;
    uint64_t line; /* number of the current line, from 1 */
    uint64_t most; /* limit of lines; 0: none */
    char *buffer;
    size_t count;                     /* bytes in it */
    uint64_t bytes;                   /* bytes written in all */
    uint64_t began;                   /* start of the current line */
    struct dt_stop *stop;             /* NULL: never stops */
    const struct dt_lines_keep *keep; /* NULL: bytes are not read */
    bool failed;
    int cause; /* errno of the failure */
};

/* Writes the rows of `path` to a file without a name in `dir`, or NULL: to
 * memory. -1: EX_CANTCREAT, EX_OSERR.
 */
int dt_line_out_init(struct dt_line_out *out, const char *path, const char *dir,
                     uint64_t most, struct dt_error *err);
void dt_line_out_fini(struct dt_line_out *out); /* a zeroed one is fine */

/* Writes bytes unchanged, or a string with quotes and escapes. */
void dt_line_out_put(struct dt_line_out *out, const void *bytes, size_t count);
void dt_line_out_string(struct dt_line_out *out, const char *text,
                        size_t count);

/* Writes empty lines up to the line of this number. */
void dt_line_out_skip(struct dt_line_out *out, uint64_t line);

/* Checks that a line does not exceed 256 MiB; for writers with loops. -1:
 * EX_DATAERR.
 */
int dt_line_out_check(const struct dt_line_out *out, struct dt_error *err);

/* Ends a line. 0: continue; 1: that was the last wanted line; -1: EX_IOERR, no
 * room; as dt_stop_check.
 */
int dt_line_out_end(struct dt_line_out *out, struct dt_error *err);

/* Maps all that was written and ends writing. -1: EX_IOERR. */
int dt_line_out_map(struct dt_line_out *out, struct dt_map *map,
                    struct dt_error *err);

/* ---- json_lines.c: values of columns as JSON, as Python writes them ---- */

/* "name": before a value, with a comma unless it is the first of its object. */
void dt_row_json_name(struct dt_line_out *out, const char *name, size_t bytes,
                      bool first);

/* null, true or false, and integers. */
void dt_row_json_null(struct dt_line_out *out);
void dt_row_json_bool(struct dt_line_out *out, bool value);
void dt_row_json_integer(struct dt_line_out *out, int64_t value);
void dt_row_json_unsigned(struct dt_line_out *out, uint64_t value);

/* The shortest number that is the same double; null if it is not finite. */
void dt_row_json_double(struct dt_line_out *out, double value);

/* Writes a text of a JSON column as its value, on one line, or as below if it
 * is invalid.
 */
void dt_row_json_text(struct dt_line_out *out, const char *text, size_t count);

/* Writes an object in place of a value of a type that is not read, so that
 * readers of the line can tell it from text.
 */
void dt_row_json_other(struct dt_line_out *out, const char *type);
#define DT_ROW_NOT_READ "a column of dates, bytes or decimals"

/* Keeps bytes and writes their name, or as above if they are not kept. -1: as
 * out->keep, with the place in the file.
 */
int dt_row_json_bytes(struct dt_line_out *out, const void *data, size_t bytes,
                      struct dt_error *err);

/* ---- readers of rows: one function for each form of file ----
 *
 * A reader writes the rows of a file as lines of JSON, in their order, until
 * dt_line_out_end says that there are enough. The number of a line is that of
 * the row or, in a CSV or TSV file, of the line where the row begins: empty
 * lines stand for those between. -1: as dt_input_read and dt_line_out_end;
 * EX_DATAERR, which begins with the file's name and the place in it.
 */

/* A file that is read byte by byte. */
struct dt_bytes {
    struct dt_input *input;
    const char *path;
    uint64_t line; /* of the next byte, from 1 */
    size_t at, count;
    unsigned char buffer[1 << 16];
};

/* Reads the next bytes into the buffer; count is 0 at the end. -1: err. */
int dt_bytes_fill(struct dt_bytes *bytes, struct dt_error *err);

/* Takes the next byte; returns it without taking it. -1: there is none; -2:
 * err.
 */
int dt_bytes_next(struct dt_bytes *bytes, struct dt_error *err);
int dt_bytes_look(struct dt_bytes *bytes, struct dt_error *err);

/* Skips a byte order mark, if the file begins with one. -1: err. */
int dt_bytes_skip_mark(struct dt_bytes *bytes, struct dt_error *err);

typedef int dt_reader_f(struct dt_bytes *bytes, struct dt_line_out *out,
                        struct dt_error *err);

dt_reader_f dt_read_plain; /* JSONL */
dt_reader_f dt_read_array;
dt_reader_f dt_read_csv, dt_read_tsv;
dt_reader_f dt_read_parquet, dt_read_arrow; /* these seek */

/* ---- thrift.c: structures of Thrift's compact protocol ----
 *
 * As in thrift-compact-protocol.md of Apache Thrift. After an error a reader
 * gives zeros and ends every loop; the caller checks `bad` once.
 */

enum dt_thrift_type {
    THRIFT_STOP,
    THRIFT_TRUE,
    THRIFT_FALSE,
    THRIFT_BYTE,
    THRIFT_I16,
    THRIFT_I32,
    THRIFT_I64,
    THRIFT_DOUBLE,
    THRIFT_BINARY,
    THRIFT_LIST,
    THRIFT_SET,
    THRIFT_MAP,
    THRIFT_STRUCT,
};

struct dt_thrift {
    const uint8_t *at, *end;
    bool bad;
};

/* A field of a structure; zeroed before the first. */
struct dt_thrift_field {
    int id;
    enum dt_thrift_type type;
};

/* Reads the head of the next field. False: the structure has ended. */
bool dt_thrift_next(struct dt_thrift *t, struct dt_thrift_field *field);

/* Skips the value of a field. */
void dt_thrift_skip(struct dt_thrift *t, enum dt_thrift_type type);

/* The value of a field of type I16, I32 or I64; any other type is an error. */
int64_t dt_thrift_integer(struct dt_thrift *t,
                          const struct dt_thrift_field *field);

/* A field of a structure that is a number or, with `flag`, true or false. */
struct dt_thrift_number {
    int id;
    uint64_t *to;
    bool flag;
};

/* Reads these numbers of a structure, and skips all other fields. */
void dt_thrift_numbers(struct dt_thrift *t,
                       const struct dt_thrift_number *numbers, size_t count);

/* An unsigned number of up to 64 bits, 7 in a byte. */
uint64_t dt_thrift_varint(struct dt_thrift *t);

/* The bytes of a binary field. */
const char *dt_thrift_binary(struct dt_thrift *t,
                             const struct dt_thrift_field *field,
                             size_t *bytes);

/* The number of items of a list field with items of `type`, which follow. It
 * does not exceed the number of bytes left.
 */
size_t dt_thrift_list(struct dt_thrift *t, const struct dt_thrift_field *field,
                      enum dt_thrift_type type);

/* ---- parquet.c, parquet_page.c: the parts of a Parquet file ----
 *
 * Facts are from parquet.thrift, Encodings.md and LogicalTypes.md of Apache
 * Parquet. The footer describes a tree of columns and where the chunks of its
 * leaves are. A leaf is a stream of values, each with a repetition level (the
 * list that it continues) and a definition level (the part of its path that is
 * not null).
 */

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

/* The meaning of a leaf. */
enum dt_parquet_meaning {
    PARQUET_NUMBER,
    PARQUET_UNSIGNED,
    PARQUET_TEXT,
    PARQUET_JSON,   /* a value of any type, as text */
    PARQUET_BINARY, /* bytes that are kept */
    PARQUET_OTHER,  /* dates, decimals, other bytes: not read */
};

/* A node of the tree, in depth-first order: the children of node i begin at i +
 * 1, and node `next` is the first after its descendants.
 */
struct dt_parquet_node {
    const char *name;
    size_t name_bytes;
    enum dt_parquet_repetition repetition;
    enum dt_parquet_type type; /* of a leaf */
    enum dt_parquet_meaning meaning;
    size_t children, next;
    bool is_list;  /* marked as a list, or as a map, which is a list of pairs */
    int def, rep;  /* levels at which it is present */
    size_t leaf;   /* number of the first leaf in it */
    size_t leaves; /* number of leaves */
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

/* Sets EX_DATAERR "path: not a whole Parquet file: <defect>"; returns -1. */
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
    struct dt_parquet_chunk chunk; /* the rest of it */
    uint8_t *packed, *page, *dictionary;
    size_t packed_room, page_room, dictionary_room;
    struct dt_parquet_value *entries; /* of the dictionary */
    size_t entry_count;
    uint64_t page_values; /* left in the page */
    struct dt_parquet_hybrid reps, defs, numbers;
    int encoding;
    const uint8_t *at, *end; /* plain values */
    unsigned bit;            /* of plain booleans */
    uint8_t truth;
    /* the next value, if `loaded`: */
    bool loaded;
    int rep, def;
    struct dt_parquet_value value; /* if def is that of the node */
};

/* Begins with the chunk of a row group. A zeroed leaf with file and node is
 * fine; release with dt_parquet_leaf_fini.
 */
void dt_parquet_leaf_start(struct dt_parquet_leaf *leaf,
                           struct dt_parquet_chunk chunk);
void dt_parquet_leaf_fini(struct dt_parquet_leaf *leaf);

/* Loads the next value, unless it is loaded. 1, or 0 at the end of the chunk.
 * -1: EX_DATAERR with path and column, EX_IOERR, EX_OSERR. To move on, set
 * `loaded` to false.
 */
int dt_parquet_leaf_look(struct dt_parquet_leaf *leaf, struct dt_error *err);

/* ---- flat.c: tables of FlatBuffers, each place checked ----
 *
 * A table begins with its offset to the vtable. The vtable has its own size,
 * that of the table and, for each field, its offset in the table, or 0 if it is
 * absent. A field outside the bytes counts as absent.
 */

struct dt_flat {
    const uint8_t *bytes;
    size_t count;
};

/* A table; absent if `at` is 0. */
struct dt_flat_table {
    struct dt_flat buffer;
    size_t at;
};

/* A vector of `count` items that begin at `at`; an absent one has none. */
struct dt_flat_vector {
    struct dt_flat buffer;
    size_t at, count;
};

/* The root table, to which the first bytes point. */
struct dt_flat_table dt_flat_root(const void *bytes, size_t count);

/* Field number `field`, from 0 on: a number of `width` bytes, sign-extended, or
 * `usual` if it is absent.
 */
int64_t dt_flat_number(struct dt_flat_table table, int field, int width,
                       int64_t usual);
struct dt_flat_table dt_flat_child(struct dt_flat_table table, int field);

/* A vector of items of `width` bytes. */
struct dt_flat_vector dt_flat_vector(struct dt_flat_table table, int field,
                                     size_t width);

/* Item i < count of a vector of tables, and of one of numbers (or structures)
 * with the number at byte `offset` of the item.
 */
struct dt_flat_table dt_flat_item(struct dt_flat_vector vector, size_t i);
int64_t dt_flat_item_number(struct dt_flat_vector vector, size_t i,
                            size_t width, size_t offset);

#endif /* DT_DATA_FORMS_FORMS_IMPL_H */
