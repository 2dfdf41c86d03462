/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - readers of rows: one function for each form of file (private to
 * data/)
 *
 * A reader writes the rows of a file as lines of JSON, in their order, until
 * dt_line_out_end says that there are enough. The number of a line is that of
 * the row or, in a CSV or TSV file, of the line where the row begins: empty
 * lines stand for those between. -1: as dt_input_read and dt_line_out_end;
 * EX_DATAERR, which begins with the file's name and the place in it.
 */
#ifndef DT_DATA_FORMS_READER_H
#define DT_DATA_FORMS_READER_H

#include "base/codec.h"
#include "data/forms/line_out.h"

/* What is read, byte by byte. */
struct dt_bytes {
    struct dt_input *input;
    const char *path;
    uint64_t line; /* of the next byte, from 1 */
    size_t at, count;
    unsigned char buffer[1 << 16];
};

/* Reads the next bytes into the buffer; count is 0 at the end. -1: err. */
int dt_bytes_fill(struct dt_bytes *bytes, struct dt_error *err);

/* The next byte, and the same without taking it. -1: there is none; -2: err. */
int dt_bytes_next(struct dt_bytes *bytes, struct dt_error *err);
int dt_bytes_look(struct dt_bytes *bytes, struct dt_error *err);

/* Passes a byte order mark, if the file begins with one. -1: err. */
int dt_bytes_skip_mark(struct dt_bytes *bytes, struct dt_error *err);

typedef int dt_reader_f(struct dt_bytes *bytes, struct dt_line_out *out,
                        struct dt_error *err);

dt_reader_f dt_read_plain; /* JSONL */
dt_reader_f dt_read_array;
dt_reader_f dt_read_csv, dt_read_tsv;
dt_reader_f dt_read_parquet, dt_read_arrow; /* which seek in the file */

#endif /* DT_DATA_FORMS_READER_H */
