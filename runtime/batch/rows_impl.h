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

/* --- rows.c: what rows of examples and of pairs have in common --- */

/* Rows without any data. NULL and err: EX_OSERR. */
struct dt_rows *dt_rows_create(size_t T, struct dt_error *err);

/* Whether a token after the first is a target. */
bool dt_rows_has_target(const uint32_t *tokens, size_t count);

/* An example while it is cut: its words, and its tokens among them. */
struct dt_cutting {
    const uint32_t *words;
    size_t count;
    uint64_t number;
    struct dt_example_parts parts;
};

/* Finds the tokens of an example and, in rows->spans, its images. -1:
 * EX_DATAERR, EX_OSERR; EX_CONFIG, wrapping would cut them.
 */
int dt_cutting_find(struct dt_rows *rows, struct dt_cutting *example,
                    const struct dt_rows_options *options,
                    struct dt_error *err);

/* Adds the tokens [begin, end) of an example as a piece. -1: EX_OSERR. */
int dt_cutting_add(struct dt_rows *rows, const struct dt_cutting *example,
                   size_t begin, size_t end, struct dt_error *err);

/* Adds the pieces of an example, if it has any. `number` counts the examples of
 * all sources. -1: EX_OSERR, EX_DATAERR.
 */
typedef int dt_rows_add_f(struct dt_rows *rows, const uint32_t *tokens,
                          size_t count, uint64_t number,
                          const struct dt_rows_options *options,
                          struct dt_error *err);

/* Calls add() for the chosen examples of all sources, as many times as their
 * weights say. -1: that of add(); EX_IOERR, a cache was truncated.
 */
int dt_rows_add_sources(struct dt_rows *rows,
                        const struct dt_rows_source *sources, size_t count,
                        const struct dt_rows_options *options,
                        dt_rows_add_f *add, struct dt_error *err);

/* --- rows_read.c --- */

/* Reports that a cache was truncated in dt_guard_run. Returns -1. */
int dt_rows_lost(struct dt_error *err);

/* Checks the blocks of their cache that contain these tokens, in dt_guard_run.
 * -1: EX_DATAERR, it is damaged.
 */
int dt_rows_check(const struct dt_rows *rows, const uint32_t *tokens,
                  size_t count, struct dt_error *err);

#endif /* DT_BATCH_ROWS_IMPL_H */
