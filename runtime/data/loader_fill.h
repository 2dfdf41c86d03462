/* SPDX-License-Identifier: Apache-2.0 */
/* loader_fill.h - a batch that a thread of the loader makes (private to data/)
 */
#ifndef DT_DATA_LOADER_FILL_H
#define DT_DATA_LOADER_FILL_H

#include "data/loader_options.h"
#include "data/rows.h"
#include "tensor/tensor.h"

/* The samples of a batch. */
struct dt_share {
    uint64_t p; /* the first one, or with a limit the first of the step */
    size_t first, end; /* with a limit: of this rank's samples of the step */
    bool last;         /* with a limit: of the step */
};

struct dt_slot {
    int32_t *inputs, *targets, *doc_start; /* (B, T) */
    int64_t *rows;                         /* (B) */
    struct dt_batch_pair *pairs;           /* NULL: rows hold no pairs */
    size_t T;                              /* of the batch in it */
    size_t target_count, pair_count;
    struct dt_share share;
    uint64_t made; /* number of the batch in the slot + 1; 0: none yet */
    bool failed;
    struct dt_error error;
};

/* What all batches are made from; see loader.h. */
struct dt_filler {
    const struct dt_rows *rows;
    struct dt_loader_options opt;
    uint64_t samples; /* in one epoch */
    size_t B, T;      /* rows of a batch, and the length of the longest */
};

/* -1: EX_CONFIG, a row is longer than a batch may be. */
int dt_filler_init(struct dt_filler *f, const struct dt_rows *rows,
                   const struct dt_loader_options *options,
                   struct dt_error *err);

/* The row for global sample p. False after the end of a pass. */
bool dt_filler_row(const struct dt_filler *f, uint64_t p, uint64_t *row);

/* Fills a slot with the samples of its share. -1: as dt_rows_read. */
int dt_filler_fill(const struct dt_filler *f, struct dt_slot *slot,
                   struct dt_error *err);

/* Allocates the arrays of a slot. False: out of memory. */
bool dt_slot_init(struct dt_slot *slot, const struct dt_filler *f);
void dt_slot_fini(struct dt_slot *slot); /* a zeroed one is fine */

#endif /* DT_DATA_LOADER_FILL_H */
