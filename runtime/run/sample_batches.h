/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_batches.h - the micro-batches of a generation's completions
 *
 * Each completion is a document of its prompt and itself, and those of a
 * micro-batch follow each other in one row without padding between them.
 */
#ifndef DT_RUN_SAMPLE_BATCHES_H
#define DT_RUN_SAMPLE_BATCHES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/prompts.h"
#include "run/experience.h"
#include "run/shuffle_rows.h"
#include "tensor/tensor.h"

struct dt_sample_batches_options {
    size_t rows;        /* of a step, of all ranks */
    size_t limit;       /* tokens of a micro-batch, at least the longest row */
    size_t multiple_of; /* of its length, which may exceed the limit so far */
    size_t longest;     /* completions with fewer tokens have the position of
                           the last one, too; 0: none has */
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
 * sample, if there are fewer rows than ranks.
 */
void dt_sample_batches_get(struct dt_sample_batches *b, size_t a,
                           struct dt_batch *batch);

#endif /* DT_RUN_SAMPLE_BATCHES_H */
