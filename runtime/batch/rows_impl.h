/* SPDX-License-Identifier: Apache-2.0 */
/* rows_impl.h - rows as rows.c makes them and rows_read.c reads them */
#ifndef DT_BATCH_ROWS_IMPL_H
#define DT_BATCH_ROWS_IMPL_H

#include "batch/rows.h"

/* A document, or the part of a document that is in one row. */
struct piece {
    const uint32_t *tokens; /* with DT_TARGET_BIT */
    size_t count;
};

/* A cache, by the address of its first token. */
struct row_cache {
    const uint32_t *first;
    const struct dt_examples *examples;
};

struct dt_rows {
    size_t T, count;
    struct dt_rows_stats stats;
    size_t vocab_size;

    /* of a stream */
    const struct dt_dataset *dataset;
    size_t first;

    /* of examples: row i has the pieces order[begin[i]] .. order[begin[i + 1] -
     * 1], or piece i if begin is NULL; without order, pieces are in order. If
     * wrapped, all pieces form one stream, in which piece order[i] starts at
     * token begin[i].
     */
    struct row_cache *caches; /* in the order of addresses */
    size_t cache_count;
    struct piece *pieces;
    size_t piece_count, piece_room;
    const struct dt_example_images *images; /* NULL: no example has any */
    struct dt_picture_part *parts;          /* of each piece; NULL: no images */
    struct dt_image_spans spans;            /* of the example that is added */
    size_t *order, *begin;
    bool wrapped;

    /* of pairs: row i is pairs[i], pieces 2 i and 2 i + 1; else NULL */
    struct dt_row_pair *pairs;
    size_t pair_room;
};

/* Reports that a cache was truncated in dt_guard_run. Returns -1. */
int dt_rows_lost(struct dt_error *err);

/* Checks the blocks of their cache that contain these tokens, in dt_guard_run.
 * -1: EX_DATAERR, it is damaged.
 */
int dt_rows_check(const struct dt_rows *rows, const uint32_t *tokens,
                  size_t count, struct dt_error *err);

#endif /* DT_BATCH_ROWS_IMPL_H */
