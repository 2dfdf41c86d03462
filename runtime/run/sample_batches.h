/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_batches.h - the micro-batches of a generation's completions
 *
 * Each completion is a document of its prompt and itself, and those of a
 * micro-batch follow each other in one row without padding between them. The
 * tower sees the pictures of a prompt once for all of its completions there.
 *
 * The rows of a generation are shuffled by (seed, generation), and each step
 * has the next ones of that order, whatever the number of ranks. Those of a
 * step are dealt to micro-batches of about equally many tokens, as many on
 * every rank and as few as the limit of tokens allows: the longest row first,
 * each to the micro-batch that has fewest tokens (Graham, "Bounds on
 * multiprocessing timing anomalies", 1969).
 */
#ifndef DT_RUN_SAMPLE_BATCHES_H
#define DT_RUN_SAMPLE_BATCHES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/prompts.h"
#include "run/experience.h"
#include "run/sample_pictures.h"
#include "tensor/tensor.h"

/* order(rows) = the rows of a generation in the order of training. */
void dt_deal_order(size_t *order, size_t rows, uint64_t seed,
                   uint64_t generation);

struct dt_deal {
    size_t count; /* micro-batches, on every rank */
    size_t *bin;  /* (rows) row i is in micro-batch bin / world of rank bin %
                     world */
    size_t rows;
};

/* Deals rows of these lengths, none longer than `limit`. -1: EX_OSERR.
 * dt_deal_fini in any case.
 */
int dt_deal_make(struct dt_deal *deal, const size_t *lengths, size_t rows,
                 size_t limit, int world, struct dt_error *err);
void dt_deal_fini(struct dt_deal *deal); /* frees and zeroes */

struct dt_sample_batches_options {
    size_t rows;        /* of a step, of all ranks */
    size_t limit;       /* tokens of a micro-batch, at least the longest row */
    size_t multiple_of; /* of its length, which may exceed the limit so far */
    size_t longest;     /* completions with fewer tokens have the position of
                           the last one, too; 0: none has */
    size_t patches;     /* the most that a micro-batch has of pictures */
    int rank, world;
    uint64_t seed;
};

/* Zeroed before dt_sample_batches_init, released with _fini. */
struct dt_sample_batches {
    struct dt_sample_batches_options options;
    const struct dt_prompts *prompts; /* not owned */
    const struct dt_experience *experience;
    uint64_t generation;
    size_t *order;   /* (rows of the experience) */
    size_t *lengths; /* (options.rows) of the step's rows */
    size_t part;     /* number of the step within the generation */
    struct dt_deal deal;
    int32_t *inputs, *targets, *doc_start;
    struct dt_batch_sample *samples;
    struct dt_sample_pictures pictures;
    int64_t number; /* of the first sample among all of the run */
};

/* -1: EX_OSERR. */
int dt_sample_batches_init(struct dt_sample_batches *b,
                           const struct dt_sample_batches_options *options,
                           const struct dt_prompts *prompts,
                           struct dt_error *err);
void dt_sample_batches_fini(struct dt_sample_batches *b); /* zeroed: fine */

/* Orders the rows of an experience that was gathered, and outlives its use
 * here: a multiple of options.rows. -1: EX_OSERR, or EX_SOFTWARE if they are
 * not.
 */
int dt_sample_batches_begin(struct dt_sample_batches *b,
                            const struct dt_experience *experience,
                            uint64_t generation, struct dt_error *err);

/* Deals the rows of step `part` of the generation. -1: EX_OSERR. */
int dt_sample_batches_step(struct dt_sample_batches *b, size_t part,
                           struct dt_error *err);

/* Micro-batches of the step, on every rank. */
size_t dt_sample_batches_count(const struct dt_sample_batches *b);

/* Row i < options.rows of the step, in the order of the step. */
size_t dt_sample_batches_row(const struct dt_sample_batches *b, size_t i);

/* Micro-batch `a` of this rank, valid until the next call. It may have no
 * sample, if there are fewer rows than ranks. -1: an image cannot be read, with
 * the line of its prompt; EX_OSERR.
 */
int dt_sample_batches_get(struct dt_sample_batches *b, size_t a,
                          struct dt_batch *batch, struct dt_error *err);

#endif /* DT_RUN_SAMPLE_BATCHES_H */
