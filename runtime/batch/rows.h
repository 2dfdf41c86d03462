/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - the rows of batches, cut from a token stream or from examples
 *
 * Row i of a stream is its tokens [i*T, i*T + T]: T inputs, and the targets one
 * token later; a remainder at the end is not used. Each example becomes one row
 * or, with packing, shares a row with others. Each document in a row keeps its
 * last token, which has no target.
 */
#ifndef DT_BATCH_ROWS_H
#define DT_BATCH_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/choices.h"
#include "base/error.h"
#include "batch/pictures.h"
#include "data/dataset.h"
#include "data/examples.h"

struct dt_rows;

/* A row of a batch: its values at each position, in arrays of the caller. */
struct dt_row {
    int32_t *inputs, *targets;    /* token ids; a target may be DT_IGNORE */
    int32_t *doc_start;           /* as in struct dt_batch */
    size_t target_count;          /* targets that are not DT_IGNORE */
    struct dt_pictures *pictures; /* NULL where rows have none */
};

/* The rest of a row from a position on. */
static inline struct dt_row dt_row_at(const struct dt_row *row, size_t at)
{
    return (struct dt_row){row->inputs + at, row->targets + at,
                           row->doc_start + at, 0, row->pictures};
}

/* Fills positions [at, end) with padding: documents of one token without a
 * target.
 */
void dt_row_pad(const struct dt_row *row, size_t at, size_t end);

/* Makes rows of the tokens [first, first + count) of a stream, which must
 * outlive them. Release with dt_rows_destroy. NULL and err: EX_DATAERR, fewer
 * than T + 1 tokens; EX_OSERR.
 */
struct dt_rows *dt_rows_of_stream(const struct dt_dataset *dataset,
                                  size_t first, size_t count, size_t T,
                                  struct dt_error *err);

/* One file of examples. An epoch has `weight` times its examples: copies, and a
 * random choice for the fraction, which depends on the seed and on the place of
 * the source. Of a wrapped file with one example the fraction is its first
 * tokens.
 */
struct dt_rows_source {
    const struct dt_examples *examples;
    double weight;
};

struct dt_rows_options {
    size_t T; /* length of a row, >= 2 */
    enum dt_packing packing;
    bool in_order;     /* wrapped: keep the order of examples; else shuffle */
    bool keep_end;     /* keep the end of an example that is too long */
    bool drop_long;    /* of pairs: skip those that are too long */
    double begin, end; /* the share of each file to use, 0 <= begin < end <= 1:
                          of its examples, or of the tokens of a wrapped file
                          with one example */
    uint64_t seed;
    size_t vocab_size; /* of the model; larger ids are an error */
    const struct dt_example_images *images; /* of the examples: their processor
                                               and store, which outlive the
                                               rows; NULL: examples are tokens
                                               alone */
};

/* Makes rows of the examples of all sources, which must outlive them. An
 * example that is too long is cut before the first image that would not be
 * whole, or with keep_end after the last one; split, it continues with that
 * image, and only one that is longer than a row is left out. Release with
 * dt_rows_destroy. NULL and err: EX_OSERR; EX_DATAERR, no row is left, or the
 * images of an example are not those that the processor makes; EX_IOERR, a file
 * was truncated; EX_CONFIG, an example to wrap has images, which would be cut.
 */
struct dt_rows *dt_rows_of_examples(const struct dt_rows_source *sources,
                                    size_t count,
                                    const struct dt_rows_options *options,
                                    struct dt_error *err);

/* Makes rows of preference pairs, each with both sides as two documents, the
 * chosen one first. A side longer than T keeps its first T tokens, or its last
 * ones with keep_end. A pair with a side without a target is skipped: its
 * prompt alone fills T tokens. With drop_long, so is a pair with a longer side.
 * Images of both sides are read once, and no cut goes through one. `packing`
 * and `in_order` are not used. Results and errors as above; also EX_DATAERR if
 * an example is not a pair.
 */
struct dt_rows *dt_rows_of_pairs(const struct dt_rows_source *sources,
                                 size_t count,
                                 const struct dt_rows_options *options,
                                 struct dt_error *err);
void dt_rows_destroy(struct dt_rows *rows); /* NULL is fine */

/* Facts about the pair in row i. */
struct dt_row_pair {
    uint64_t number; /* counts the examples of all sources in their order */
    float margin;
    size_t chosen;  /* tokens of the chosen document */
    size_t targets; /* tokens of its completion */
};

/* The pair in row i; NULL if rows hold no pairs. */
const struct dt_row_pair *dt_rows_pair(const struct dt_rows *rows, size_t i);

/* The number of rows in an epoch, and the maximum length of a row: T, or that
 * of the longest pair.
 */
size_t dt_rows_count(const struct dt_rows *rows);
size_t dt_rows_max_length(const struct dt_rows *rows);

/* Counts of the data used. */
struct dt_rows_stats {
    size_t examples; /* examples, counting copies */
    size_t truncated;
    size_t dropped;    /* examples without a target after truncation, and with
                          drop_long pairs that are too long */
    uint64_t tokens;   /* tokens in rows */
    size_t tail;       /* tokens left at the end of a stream */
    size_t images;     /* images in rows */
    size_t images_cut; /* images that truncation left out */
    uint64_t pictures, patches; /* of the images in rows */
    uint64_t image_hash;        /* of the files of all images of examples */
};

/* Returns the counts of these rows. */
struct dt_rows_stats dt_rows_stats(const struct dt_rows *rows);

/* Whether a row may hold several documents that must not attend to each other.
 */
bool dt_rows_shared(const struct dt_rows *rows);

/* The length of row i without padding, <= T. */
size_t dt_rows_length(const struct dt_rows *rows, size_t i);

/* The images of rows; NULL: no row has any. */
const struct dt_example_images *dt_rows_images(const struct dt_rows *rows);

/* Puts the file, the line and the number of an image in it in front of an error
 * about its pixels. -1, always.
 */
int dt_rows_name_image(const struct dt_rows *rows,
                       const struct dt_picture_image *image,
                       struct dt_error *err);

/* The pictures of row i without copies, and the patches of all of them. */
size_t dt_rows_pictures(const struct dt_rows *rows, size_t i);
size_t dt_rows_patches(const struct dt_rows *rows, size_t i);

/* Fills `length` >= dt_rows_length positions with row i and padding. Where rows
 * have images, appends those of this one to row->pictures, with room for as
 * many images as pictures and, of pairs, for a copy of each of these; their
 * first tokens count from the begin of the row;
 * the inputs are -1 there. -1: EX_DATAERR, a token id that the model does not
 * have, or an example that was changed; EX_IOERR, a file was truncated.
 */
int dt_rows_read(const struct dt_rows *rows, size_t i, size_t length,
                 struct dt_row *row, struct dt_error *err);

/* Packs best-fit decreasing (Johnson 1973): documents by decreasing length,
 * equal ones in their order, each into the fullest bin that has room for it; of
 * equally full bins, into the one that reached this first. lengths(count) are 1
 * .. capacity in any order. Fills order(count) with the documents bin by bin,
 * bins in the order in which they were opened; those of bin b are
 * order[begin[b]] .. order[begin[b + 1] - 1]. `begin` has room for count + 1.
 * Returns the number of bins, or SIZE_MAX if out of memory.
 */
size_t dt_pack_best_fit(const uint32_t *lengths, size_t count,
                        uint32_t capacity, size_t *order, size_t *begin);

#endif /* DT_BATCH_ROWS_H */
