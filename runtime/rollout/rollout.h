/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rollout.h - completions of prompts, by continuous batching
 *
 * A slot has a sequence that is being generated. Sequences end at different
 * lengths, and a slot that is free takes the next one, in order of prompts and
 * copies. A prompt is computed once for all of its copies, which share its
 * blocks of keys and values, and those of its pictures are among these; when
 * blocks run out, the youngest sequence is dropped and starts again later, with
 * the same tokens. The last token of a prompt is computed with the copies,
 * since each of them draws from it.
 *
 * A completion depends on the weights, the prompt, its number, the copy and the
 * seed. On the CPU it has the same bits whatever the order of prompts, blocks
 * and neighbors, for all numbers of slots below 16, and for all from 16 on;
 * with `exact`, for all of them. Other devices may round a row differently in a
 * step of another size: there `exact` makes a completion independent of its
 * neighbors, for one number of slots, and computes pictures of one prompt at a
 * time.
 */
#ifndef DT_ROLLOUT_ROLLOUT_H
#define DT_ROLLOUT_ROLLOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

struct dt_prompt {
    uint64_t number;    /* < 2^61; with the seed it decides the draws */
    const int32_t *ids; /* (count) -1 at the tokens of pictures, as in
                           tensor/tensor.h; the last one is none of these */
    size_t count;       /* >= 1 */
    const struct dt_batch_picture *pictures; /* `first` counts in the prompt */
    size_t picture_count;
    const uint8_t *pixels;
};

enum dt_end {
    DT_END_EOS,    /* with a stop id, which is the last of the completion */
    DT_END_STRING, /* with the token that completes a stop string */
    DT_END_LENGTH, /* after max_tokens, or where positions run out */
};

struct dt_completion {
    uint64_t prompt; /* its number */
    uint32_t copy;   /* < options.copies */
    const int32_t *ids;
    const float *logps; /* of ids, over the full vocabulary at the temperature
                           (at 1 if that is 0) */
    size_t count;       /* >= 1 */
    enum dt_end end;
};

struct dt_rollout_options {
    enum dt_dtype compute;    /* of the weights */
    size_t slots;             /* sequences at a time */
    size_t copies;            /* completions of each prompt */
    size_t max_prompt;        /* tokens of the longest prompt */
    size_t patches, pictures; /* of a prompt, at most */
    const float *colors;      /* as in struct dt_model_options, with patches */
    size_t max_tokens;        /* of a completion, at most */
    size_t blocks; /* of DT_KV_BLOCK positions, for keys and values; 0: as many
                      as all slots can fill */
    struct dt_sampling sampling;
    uint64_t seed;
    bool exact; /* every step has as many rows, at least 16: see above */
    const int32_t *stop; /* ids that end a completion; not owned */
    size_t stop_count;
    const char *const *strings; /* texts that end it; not owned */
    size_t string_count;
    const struct dt_tokenizer *tokenizer; /* only with strings */
    struct dt_model_adapter adapter;      /* model.h */
};

struct dt_rollout;

/* Device bytes that a rollout needs of its caller's memory. SIZE_MAX if that
 * overflows.
 */
size_t dt_rollout_bytes(const struct dt_model_config *config,
                        const struct dt_ops *ops,
                        const struct dt_rollout_options *options);

/* Device bytes that it allocates beside that memory. */
size_t dt_rollout_own_bytes(const struct dt_model_config *config,
                            const struct dt_ops *ops,
                            const struct dt_rollout_options *options);

/* Rows that a step computes with so many sequences. */
size_t dt_rollout_rows(const struct dt_ops *ops,
                       const struct dt_rollout_options *options,
                       size_t sequences);

/* A rollout with these weights, in `memory`, not owned, which others may use
 * between two runs. It needs dt_rollout_bytes; with options.blocks 0 less is
 * enough if one sequence of full length fits. `config` and what `options`
 * points to need to stay. NULL and err: EX_OSERR; EX_DATAERR, the longest
 * prompt leaves no position of the model; EX_CONFIG, memory is too small.
 */
struct dt_rollout *dt_rollout_create(const struct dt_model_config *config,
                                     const struct dt_layout *layout,
                                     const struct dt_exec *exec,
                                     struct dt_places weights,
                                     struct dt_buffer *memory,
                                     const struct dt_rollout_options *options,
                                     struct dt_error *err);
void dt_rollout_destroy(struct dt_rollout *rollout); /* NULL is fine */

/* Computes with these weights, of the same layout, from the next run on. */
void dt_rollout_use(struct dt_rollout *rollout, struct dt_places weights);

/* Who gives prompts and takes completions. */
struct dt_rollout_io {
    /* Sets *prompt to the next one, which is copied with all that it points to.
     * 1; 0, there are no more; -1 and err.
     */
    int (*next)(void *ctx, struct dt_prompt *prompt, struct dt_error *err);
    /* Takes a completion, valid until it returns, in the order in which they
     * end. 0; -1 and err.
     */
    int (*done)(void *ctx, const struct dt_completion *completion,
                struct dt_error *err);
    /* Hears of each token as it is drawn; NULL: nobody does. A sequence that is
     * dropped says its tokens again.
     */
    void (*token)(void *ctx, uint64_t prompt, uint32_t copy, int32_t id);
    /* Asked before each token: true ends the run; NULL: never. */
    bool (*stop)(void);
    void *ctx;
};

/* Completes all prompts, `copies` times each. 0; 1, io->stop said so; -1: the
 * device failed, EX_OSERR, EX_DATAERR (a prompt is longer than max_prompt or
 * empty, has more pictures than options say, or ends with one), or what io
 * returned.
 */
int dt_rollout_run(struct dt_rollout *rollout, const struct dt_rollout_io *io,
                   struct dt_error *err);

struct dt_rollout_counts {
    uint64_t steps;     /* of all slots together */
    uint64_t prompts;   /* computed: with preemption, some more than once */
    uint64_t preempted; /* sequences that were dropped */
};

/* What all runs have done so far. */
struct dt_rollout_counts dt_rollout_counts(const struct dt_rollout *rollout);

#endif /* DT_ROLLOUT_ROLLOUT_H */
