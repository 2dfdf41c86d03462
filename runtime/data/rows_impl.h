/* SPDX-License-Identifier: Apache-2.0 */
/* rows_impl.h - what rows are made of, for rows.c and pair_rows.c */
#ifndef DT_DATA_ROWS_IMPL_H
#define DT_DATA_ROWS_IMPL_H

#include "data/rows.h"

/* A document, or the part of a document that is in one row. */
struct dt_piece {
    const uint32_t *tokens; /* with DT_TARGET_BIT */
    size_t count;
};

/* A source of pieces, by the address of its first token. */
struct dt_rows_cache {
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
    struct dt_rows_cache *caches; /* in the order of addresses */
    size_t cache_count;
    struct dt_piece *pieces;
    size_t piece_count, piece_room;
    size_t *order, *begin;
    bool wrapped;

    /* of pairs: row i is pairs[i], pieces 2 i and 2 i + 1; else NULL */
    struct dt_row_pair *pairs;
    size_t pair_room;
};

/* Rows of nothing yet; release with dt_rows_destroy. NULL and err: EX_OSERR. */
struct dt_rows *dt_rows_create(size_t T, struct dt_error *err);

/* Whether a token after the first is a target. */
bool dt_rows_has_target(const uint32_t *tokens, size_t count);

/* Appends a piece. -1: EX_OSERR. */
int dt_rows_add_piece(struct dt_rows *rows, const uint32_t *tokens,
                      size_t count, struct dt_error *err);

/* Checks the blocks of their cache that these tokens are in, in dt_guard_run.
 * -1: EX_DATAERR, it is damaged.
 */
int dt_rows_check(const struct dt_rows *rows, const uint32_t *tokens,
                  size_t count, struct dt_error *err);

/* What becomes of an example: its pieces, if any. `number` counts the examples
 * of all sources. -1: EX_OSERR, EX_DATAERR.
 */
typedef int dt_rows_add_f(struct dt_rows *rows, const uint32_t *tokens,
                          size_t count, uint64_t number,
                          const struct dt_rows_options *options,
                          struct dt_error *err);

/* Calls add() for the chosen examples of all sources, as often as their weights
 * say. -1: that of add(); EX_IOERR, a cache was cut short.
 */
int dt_rows_add_sources(struct dt_rows *rows,
                        const struct dt_rows_source *sources, size_t count,
                        const struct dt_rows_options *options,
                        dt_rows_add_f *add, struct dt_error *err);

#endif /* DT_DATA_ROWS_IMPL_H */
