/* SPDX-License-Identifier: Apache-2.0 */
/* generation_plan.h - what sampling takes beside training, before it is done */
#ifndef DT_PLAN_GENERATION_PLAN_H
#define DT_PLAN_GENERATION_PLAN_H

#include "forecast/rates.h"
#include "run/run.h"

/* Seconds of a generation, if all prompts and completions are as long as they
 * may be. Rewards other than models are not known.
 */
struct dt_generation_plan {
    size_t completions; /* of all ranks; 0: nothing is sampled */
    size_t uses;        /* optimizer steps that train on them */
    size_t slots;       /* of a rank */
    size_t bytes;       /* of keys and values in these */
    double gather;      /* of weights that a rank has only a part of */
    double prefill, decode;
    double scoring; /* by reward models */
    double before;  /* passes whose values training compares with */
};

/* Its seconds together. */
double dt_generation_seconds(const struct dt_generation_plan *plan);

/* For a rank with these rates, of nodes of `node_size` ranks. */
struct dt_generation_plan dt_generation_plan_make(
    const struct dt_run *run, const struct dt_model_options *options,
    const struct dt_rates *rates, int node_size);

/* The micro-batches of an optimizer step of a rank, with rows of the longest
 * sequences.
 */
struct dt_step_shape {
    size_t micro_batches;
    size_t rows, T;    /* of a micro-batch */
    size_t values;     /* tokens of it whose values the head computes; 0: all */
    size_t references; /* passes of the reference in a micro-batch */
};

/* How many there are, and what each has. */
struct dt_step_shape dt_step_shape_of(const struct dt_run *run);

/* Seconds of a forward pass of `rows` rows of T tokens through a model, whose
 * head gives values to so many of the tokens.
 */
double dt_forward_seconds(const struct dt_learner *learner,
                          const struct dt_rates *rates, enum dt_dtype compute,
                          double rows, size_t T, double values);

/* What reward models take on each rank, to run->samples. Needs options.compute.
 * -1: EX_NOINPUT, EX_DATAERR of their config.json.
 */
int dt_run_reward_models(struct dt_run *run,
                         const struct dt_model_options *options,
                         struct dt_error *err);

#endif /* DT_PLAN_GENERATION_PLAN_H */
