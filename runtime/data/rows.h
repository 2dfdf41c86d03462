/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - what a dataset is cut into: the rows that batches are made of
 *
 * Of a stream: row i is tokens [i*T, i*T + T] of it, T inputs and the targets
 * one further; what is left at the end is no row. Of examples: each becomes one
 * row or, with packing, shares one with others. Every document of a row keeps
 * its last token, which has nothing to predict.
 */
#ifndef DT_DATA_ROWS_H
#define DT_DATA_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/dataset.h"
#include "data/examples.h"

enum dt_packing {
    DT_PACK_NONE,      /* a row is an example */
    DT_PACK_BFD,       /* best fit, longest first: what is longer than T is
                          cut off */
    DT_PACK_BFD_SPLIT, /* the same after cutting examples into pieces of T */
    DT_PACK_WRAPPED,   /* one stream of all examples, in which tokens see those
                          of the examples before */
};

struct dt_rows;

/* Rows of `count` tokens of a stream from `first` on. NULL and err: EX_DATAERR
 * if they hold no row of T + 1.
 */
struct dt_rows *dt_rows_of_stream(const struct dt_dataset *dataset,
                                  size_t first, size_t count, size_t T,
                                  struct dt_error *err);

/* One file of examples, of which an epoch has `weight` times as many as are
 * there: copies, and a random choice for the fraction, which depends on the seed
 * and on the place of the source.
 */
struct dt_rows_source {
    const struct dt_examples *examples;
    double weight;
};

struct dt_rows_options {
    size_t T; /* positions of a row, >= 2 */
    enum dt_packing packing;
    bool in_order;     /* wrapped: examples as they come; else at random */
    bool keep_end;     /* of what is too long, keep the end */
    double begin, end; /* shares of each file, 0 <= begin < end <= 1: of its
                          examples, or of the tokens of a single wrapped one */
    uint64_t seed;
    size_t vocab_size; /* of the model: ids are below it */
};

/* NULL and err: EX_OSERR, EX_DATAERR if nothing is left, EX_IOERR as
 * dt_rows_read.
 */
struct dt_rows *dt_rows_of_examples(const struct dt_rows_source *sources,
                                    size_t count,
                                    const struct dt_rows_options *options,
                                    struct dt_error *err);
void dt_rows_destroy(struct dt_rows *rows); /* NULL is fine */

/* Rows of one epoch, and the longest that one can be, T. */
size_t dt_rows_count(const struct dt_rows *rows);
size_t dt_rows_max_length(const struct dt_rows *rows);

/* What became of the examples. */
struct dt_rows_stats {
    size_t examples; /* with copies */
    size_t truncated;
    size_t dropped;  /* without a target, after truncation */
    uint64_t tokens; /* in rows */
    size_t tail;     /* tokens at the end of a stream that fill no row */
};

/* The same for these rows. */
struct dt_rows_stats dt_rows_stats(const struct dt_rows *rows);

/* May a row hold several documents? */
bool dt_rows_shared(const struct dt_rows *rows);

/* Positions that row i needs, <= T. */
size_t dt_rows_length(const struct dt_rows *rows, size_t i);

/* Fills `length` >= dt_rows_length positions with row i; the rest is padding:
 * documents of one token without a target. starts as in struct dt_batch.
 * *target_count += targets of the row. -1: EX_DATAERR, a token id that the
 * model does not have; EX_IOERR, a file that was cut short.
 */
int dt_rows_read(const struct dt_rows *rows, size_t i, size_t length,
                 int32_t *inputs, int32_t *targets, int32_t *starts,
                 size_t *target_count, struct dt_error *err);

#endif /* DT_DATA_ROWS_H */
