/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed.h - what a batch brings to the device (private to model/)
 *
 * One copy a batch, out of staging memory that is filled while the copy of the
 * batch before may still be under way.
 */
#ifndef DT_MODEL_FEED_H
#define DT_MODEL_FEED_H

#include "model/model.h"
#include "ops/ops.h"
#include "tensor/batch.h"

struct dt_feed {
    struct dt_exec exec;
    size_t B, N, bytes;    /* largest batch, and what it takes */
    struct dt_buffer *buf; /* on the device */
    struct {
        void *staging;
        struct dt_event *copied; /* the staging memory may be filled again */
    } slots[DT_MODEL_BATCHES];
    unsigned turn;

    /* the batch at hand, on the device */
    struct dt_view inputs, targets; /* (N) I32 */
    struct dt_view starts;          /* (N) I32, or absent */
    struct dt_view positions;       /* (N) I32, within a document */
    struct dt_view places;          /* (N) I32 of a cache, or absent */
    struct dt_view rows;            /* (B) I64, or absent */
};

/* Bytes of the device that batches of up to B rows and N tokens take. */
size_t dt_feed_bytes(size_t B, size_t N);

/* Room for such batches. -1: EX_OSERR; dt_feed_fini in any case. */
int dt_feed_init(struct dt_feed *feed, const struct dt_exec *exec, size_t B,
                 size_t N, struct dt_error *err);
void dt_feed_fini(struct dt_feed *feed);

/* Queues the copy of a batch, whose arrays may change afterwards. Without
 * numbers of rows only its tokens are limited, not its rows. places(N):
 * where in a cache the tokens go, NULL for no cache; `next`: they are their
 * positions, too. -1: the device failed.
 */
int dt_feed_batch(struct dt_feed *feed, const struct dt_batch *batch,
                  const int32_t *places, bool next, struct dt_error *err);

#endif /* DT_MODEL_FEED_H */
