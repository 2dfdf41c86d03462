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
#include "tensor/tensor.h"

/* A decoder's cache of keys and values, and where in it those of a batch are.
 */
struct dt_cache {
    struct dt_view pool;      /* (blocks, n_layer, 2, DT_KV_BLOCK, NKV*HS) X */
    size_t blocks;            /* of a sequence, at most */
    const int32_t *places;    /* (B*T) where they are stored, as in ops.h */
    const int32_t *positions; /* (B*T) of tokens that attend to the cache; NULL:
                                 the batch attends to itself */
    const int32_t *table;     /* (B*T, blocks), with positions */
};

/* What batches have at most. */
struct dt_inputs_limits {
    size_t B, N;    /* rows, unless they have no numbers; tokens */
    bool picks;     /* they have picked tokens */
    size_t table;   /* elements of a cache's table */
    size_t longest; /* longer documents have the second table of RoPE's angles,
                       if this is not 0 */
    size_t angles;  /* rows of the first */
};

struct dt_inputs {
    struct dt_exec exec;
    struct dt_inputs_limits limits;
    size_t bytes;
    struct dt_buffer *buf; /* on the device */
    struct {
        void *data;
        struct dt_event *copied; /* then data may be overwritten */
    } staging[DT_MODEL_BATCHES];
    unsigned uploads;

    /* the current batch, on the device */
    struct dt_view ids, targets; /* (N) I32 */
    struct dt_view doc_start;    /* (N) I32, or absent */
    struct dt_view positions;    /* (N) I32, within a document, and rows of the
                                    tables of angles */
    struct dt_view places;       /* (N) I32, in the cache, or absent */
    struct dt_view table;        /* (N, blocks) I32, or absent */
    struct dt_view rows;         /* (B) I64, or absent */
    struct dt_view picked, picked_targets; /* (picked_count) I32, or absent */
};

/* Device bytes for such batches. */
size_t dt_inputs_bytes(const struct dt_inputs_limits *limits);

/* Allocates memory for them. -1: EX_OSERR; dt_inputs_fini in any case. */
int dt_inputs_init(struct dt_inputs *inputs, const struct dt_exec *exec,
                   const struct dt_inputs_limits *limits, struct dt_error *err);
void dt_inputs_fini(struct dt_inputs *inputs);

/* Queues the copy of a batch, whose arrays may change afterwards, and of what
 * the cache says about it, unless it is NULL. If batch->rows is NULL, B limits
 * nothing. -1: the device failed, or EX_SOFTWARE, a batch beyond the limits.
 */
int dt_inputs_upload(struct dt_inputs *inputs, const struct dt_batch *batch,
                     const struct dt_cache *cache, struct dt_error *err);

#endif /* DT_MODEL_INPUTS_H */
