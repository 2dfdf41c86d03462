/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs.h - a batch's arrays on the device (private to model/)
 *
 * A batch is uploaded in one copy, from staging memory that is filled while the
 * copy of the previous batch may still run.
 */
#ifndef DT_MODEL_INPUTS_H
#define DT_MODEL_INPUTS_H

#include "model/model.h"
#include "ops/ops.h"
#include "tensor/batch.h"

struct dt_inputs {
    struct dt_exec exec;
    size_t B, N, bytes;    /* of the largest batch */
    bool picks;            /* batches have picked tokens */
    struct dt_buffer *buf; /* on the device */
    struct {
        void *data;
        struct dt_event *copied; /* then data may be overwritten */
    } staging[DT_MODEL_BATCHES];
    unsigned uploads;

    /* the current batch, on the device */
    struct dt_view ids, targets; /* (N) I32 */
    struct dt_view doc_start;    /* (N) I32, or absent */
    struct dt_view positions;    /* (N) I32, within a document */
    struct dt_view slots;        /* (N) I32, of the cache, or absent */
    struct dt_view rows;         /* (B) I64, or absent */
    struct dt_view picked, picked_targets; /* (picked_count) I32, or absent */
};

/* Device bytes for batches of up to B rows and N tokens, perhaps with picked
 * ones.
 */
size_t dt_inputs_bytes(size_t B, size_t N, bool picks);

/* Allocates memory for such batches. -1: EX_OSERR; dt_inputs_fini in any case.
 */
int dt_inputs_init(struct dt_inputs *inputs, const struct dt_exec *exec,
                   size_t B, size_t N, bool picks, struct dt_error *err);
void dt_inputs_fini(struct dt_inputs *inputs);

/* Queues the copy of a batch, whose arrays may change afterwards. If
 * batch->rows is NULL, B limits nothing. slots(N): where in the cache keys and
 * values are stored, NULL without a cache; `next`: the slots are the positions,
 * too. -1: the device failed.
 */
int dt_inputs_upload(struct dt_inputs *inputs, const struct dt_batch *batch,
                     const int32_t *slots, bool next, struct dt_error *err);

#endif /* DT_MODEL_INPUTS_H */
