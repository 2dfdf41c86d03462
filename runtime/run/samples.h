/* SPDX-License-Identifier: Apache-2.0 */
/*
 * samples.h - completions that a run samples and scores to learn from them
 *
 * Optimizer step s uses generation s / uses, of `groups` prompts with `copies`
 * completions each, which the weights before its first step have sampled, or
 * with rollout.overlap those before the step before it. The ranks sample their
 * own prompts, score them, and bring everything to all.
 */
#ifndef DT_RUN_SAMPLES_H
#define DT_RUN_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "loss/advantages.h"
#include "loss/grpo_loss.h"
#include "report/report.h"
#include "reward/reward.h"
#include "rollout/rollout.h"
#include "run/experience.h"
#include "run/sample_batches.h"

struct dt_generations;
struct dt_run;
struct dt_metrics;

/* Numbers of a generation that all ranks know, for the report. */
enum { DT_NUMBERS_MAX = 96, DT_NUMBER_NAME = 96 };

struct dt_numbers {
    size_t count;
    double value[DT_NUMBERS_MAX]; /* NaN: none */
};

/* Their sums since the last report. */
struct dt_number_sums {
    double sum[DT_NUMBERS_MAX];
    double steps[DT_NUMBERS_MAX]; /* in which there was such a number */
};

/* Numbers of dynamic sampling in a generation. */
enum dt_refill_number {
    DT_REFILL_ROUNDS,  /* times that prompts were sampled once more */
    DT_REFILL_PROMPTS, /* that were sampled in all */
    DT_REFILL_FLAT,    /* share of them that teach nothing */
    DT_REFILL_REWARD,  /* mean of all their completions */
    DT_REFILL_NUMBERS
};

enum { DT_SAMPLES_STOPS = 64, DT_WHERES = 2 };

struct dt_samples {
    double denominator; /* of the step */
    struct dt_rollout_options options;
    struct dt_rollout *rollout;
    struct dt_rollout *held_out; /* of held-out prompts, or NULL */
    struct dt_buffer *memory;    /* of activations and rollouts; NULL: of the
                                    model */
    int32_t stops[DT_SAMPLES_STOPS];
    struct dt_rewards *rewards[DT_WHERES]; /* by enum dt_conf_where; NULL: no
                                              such function runs here */
    struct dt_sample_column {
        char name[DT_NUMBER_NAME]; /* of the function, or function/channel */
        double weight;
    } * columns;                /* of the rewards of all functions */
    struct dt_scoring *scoring; /* of a generation, or NULL */

    struct dt_generations *kept; /* generations in memory that outlives the
                             process; NULL: none are */

    struct dt_experience experience; /* the generation */
    struct dt_experience ahead;      /* the one after it; no groups: none */
    bool ahead_scored;               /* and its rewards are there */
    struct dt_sample_batches batches;
    size_t use;          /* number of its next use; 0: the next one is of a new
                            generation */
    uint64_t generation; /* generations made so far */
    size_t sampled;      /* prompts that were sampled when it was made */
    uint64_t position;   /* of the stream of prompts, after those */
    double refill[DT_REFILL_NUMBERS]; /* of it; stored in checkpoints */
    double entropy_share;             /* of algorithm grpo: grpo_loss.h */
    double least_entropy;             /* of it, too */
    struct dt_grpo_options grpo;      /* of algorithm grpo */
    struct dt_advantage_stats stats;  /* of the generation */
    char names[DT_NUMBERS_MAX][DT_NUMBER_NAME];
    struct dt_numbers numbers;  /* of the generation */
    size_t own;                 /* from here on they are the algorithm's */
    struct dt_number_sums sums; /* stored in checkpoints */
    double first_reward;        /* of the first generation; NAN: none yet */
    int idle;       /* steps in a row that look alive and learn nothing */
    bool disagrees; /* that sampler and trainer do was said */
};

#endif /* DT_RUN_SAMPLES_H */
