/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.h - the micro-batches of this rank, resumable at any step
 *
 * The order is one endless stream of global sample numbers p. Sample p belongs
 * to epoch p / n; its row is entry p % n of a permutation of the n rows, which
 * depends only on (seed, epoch). Micro-batch k of rank r holds the samples p =
 * (k*world + r)*B .. + B. If an epoch is not a multiple of world*B, the batch
 * continues into the next epoch, so no row is dropped or seen twice. So every
 * (B, world, accumulation) with the same product sees the same rows in each
 * optimizer step, and a run can resume at any p in O(1).
 *
 * With a limit of tokens, the samples of a batch follow each other in one row,
 * without padding between them. The `accumulation` * B samples that a rank has
 * in a step, those of as many micro-batches without the limit, are divided into
 * batches within the limit. All ranks have as many batches as the rank that
 * needs most; the others add empty ones, without targets. The lengths of rows
 * determine all of this, so ranks need not communicate.
 *
 * The thread that makes a batch reads its images from the store, decodes them
 * and cuts them into patches, in each epoch again. What it makes is bytes, in
 * memory that lives as long as the loader: for each of prefetch + 1 batches the
 * most patches of a batch (dt_loader_most) times dt_image_row_bytes; besides
 * that a thread has one file and its pixels at a time. Nothing else limits
 * patches: a batch is cut by tokens, and an image has at most so many patches
 * for a token as its processor says.
 */
#ifndef DT_BATCH_LOADER_H
#define DT_BATCH_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "batch/rows.h"
#include "tensor/tensor.h"

struct dt_loader_options {
    size_t B;
    size_t multiple_of;  /* T is the longest row, rounded up to a multiple */
    size_t tokens;       /* the limit, at least the longest row; 0: none, and
                            every sample is a row */
    size_t accumulation; /* with the limit: micro-batches of B in a step */
    int rank, world;
    uint64_t seed;
    bool shuffle;    /* false: rows in the order of the data */
    bool repeat;     /* true (training): endless epochs. false (evaluation): one
                        pass; the last batches are filled with rows without
                        targets, so that all ranks see equally many batches */
    size_t workers;  /* threads that make batches, >= 1 */
    size_t prefetch; /* batches made ahead by all threads together, >= 1 */
    int timeout_ms;  /* how long dt_loader_next waits for a batch */
};

/* What an item needs of the room of a batch, and what it is worth. */
struct dt_most_item {
    size_t value, room;
};

/* The most value within a room, or a little more, of items that may each be
 * used so often. Sorts them.
 */
size_t dt_most_value(struct dt_most_item *items, size_t count, uint64_t uses,
                     size_t room);

/* The most pictures, without copies, and patches that a micro-batch can have,
 * whatever the order of rows is. Without a limit of tokens some order has a
 * batch with so many; with one it is an upper bound, of rows that may be there
 * in part.
 */
struct dt_loader_most {
    size_t pictures, patches;
};

/* Of options it reads B, tokens, accumulation, world and repeat. -1: EX_OSERR.
 */
int dt_loader_most(const struct dt_rows *rows,
                   const struct dt_loader_options *options,
                   struct dt_loader_most *most, struct dt_error *err);

struct dt_loader;

/* Starts the threads at global sample `position`. `rows` must outlive the
 * loader. Release with dt_loader_destroy. NULL and err: EX_OSERR; EX_CONFIG, a
 * row is longer than the limit.
 */
struct dt_loader *dt_loader_create(const struct dt_rows *rows,
                                   const struct dt_loader_options *options,
                                   uint64_t position, struct dt_error *err);
/* Stops and joins the threads; NULL is fine. */
void dt_loader_destroy(struct dt_loader *loader);

/* The next micro-batch of this rank: row i is global sample position + rank*B +
 * i, and position advances by world*B; with the limit by that times
 * accumulation after the last batch of a step. *batch is valid until the next
 * call. 1: a batch; 0: end of the pass; -1: the errors of dt_rows_read and of
 * dt_pictures_read, or EX_IOERR if no batch came within timeout_ms.
 */
int dt_loader_next(struct dt_loader *loader, struct dt_batch *batch,
                   struct dt_error *err);

/* The global sample number at which the next batch starts, which a checkpoint
 * stores. Batches that were only prefetched do not count.
 */
uint64_t dt_loader_position(const struct dt_loader *loader);

/* With rows of pairs: the tokens of chosen completions, of all ranks, in the
 * samples from the position on, which are those of a step or, in an evaluation,
 * all that are left; and the number of these pairs.
 */
uint64_t dt_loader_chosen_tokens(const struct dt_loader *loader,
                                 uint64_t *pairs);

/* With a limit of tokens: whether the last batch from dt_loader_next was the
 * last of its step.
 */
bool dt_loader_step_ends(const struct dt_loader *loader);

#endif /* DT_BATCH_LOADER_H */
