/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.h - the batch that this rank gets, resumable at any step
 *
 * The order is one endless stream of global sample numbers p: epoch p / n, and
 * there place p % n of a permutation of the n rows that depends on (seed,
 * epoch, p % n) only. Micro-batch k of rank r holds p = (k*world + r)*B .. + B.
 * An epoch that is no multiple of world*B just continues into the next one: no
 * row is dropped or seen twice. So every (B, world, accumulation) with an equal
 * product sees the same rows in the same order in each optimizer step, and any
 * p can be resumed at in O(1).
 */
#ifndef DT_DATA_LOADER_H
#define DT_DATA_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/rows.h"
#include "tensor/batch.h"

struct dt_loader_options {
    size_t B;
    size_t multiple_of; /* T of a batch is its longest row, rounded up to it */
    int rank, world;
    uint64_t seed;
    bool shuffle;    /* false: rows in their order */
    bool repeat;     /* training: epochs without end. false (evaluation): one
                        pass, last batches filled with rows without targets so
                        that all ranks see equally many */
    size_t workers;  /* threads that make batches, >= 1 */
    size_t prefetch; /* batches made ahead by all of them, >= 1 */
    int timeout_ms;  /* of waiting for one batch */
};

struct dt_loader;

/* Starts the threads at global sample `position`. NULL and err: EX_OSERR. */
struct dt_loader *dt_loader_create(const struct dt_rows *rows,
                                   const struct dt_loader_options *options,
                                   uint64_t position, struct dt_error *err);
void dt_loader_destroy(struct dt_loader *loader); /* joins; NULL is fine */

/* The next micro-batch of this rank: rows are global samples position +
 * rank*B + i of the order, and position advances by world*B. *batch is valid
 * until the next call. 1 = a batch, 0 = end of the pass, -1 = EX_DATAERR as
 * dt_rows_read, EX_IOERR if none came within timeout_ms.
 */
int dt_loader_next(struct dt_loader *loader, struct dt_batch *batch,
                   struct dt_error *err);

/* Global sample number that the next batch starts at (of the caller's side,
 * not of the prefetch): what a checkpoint stores.
 */
uint64_t dt_loader_position(const struct dt_loader *loader);

#endif /* DT_DATA_LOADER_H */
