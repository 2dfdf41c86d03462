/* SPDX-License-Identifier: Apache-2.0 */
/*
 * predict.h - predicts the seconds of a step and of its generation
 *
 * A step is made on the virtual clock. Sampling has no order to follow: its
 * prompts, tokens, scores and passes are added up.
 */
#ifndef DT_PLAN_PREDICT_H
#define DT_PLAN_PREDICT_H

#include "forecast/rates.h"
#include "forecast/timeline.h"
#include "run/spec.h"

/* Seconds of a generation in which all prompts and completions have full
 * length. The time of rewards other than models is unknown.
 */
struct dt_generation_plan {
    size_t completions; /* of all ranks; 0: nothing is sampled */
    size_t uses;        /* optimizer steps that train on them */
    size_t slots;       /* of a rank */
    size_t bytes;       /* of keys and values in these */
    double gather;      /* of weights, if a rank has only its parts */
    double prefill, decode;
    double scoring; /* by reward models */
    double before;  /* passes for the values that training compares with */
};

/* Total seconds of a generation. */
double dt_generation_seconds(const struct dt_generation_plan *plan);

/* The plan for a rank with these rates, on nodes of `node_size` ranks. */
struct dt_generation_plan dt_generation_plan_make(
    const struct dt_spec *spec, const struct dt_model_options *options,
    const struct dt_rates *rates, int node_size);

/* Micro-batches of an optimizer step of a rank, with rows of full length. */
struct dt_step_shape {
    size_t micro_batches;
    size_t rows, T;    /* of a micro-batch */
    size_t values;     /* tokens whose values the head computes; 0: all */
    size_t references; /* passes of the reference in a micro-batch */
};

/* The number and shape of the micro-batches of a run. */
struct dt_step_shape dt_step_shape_of(const struct dt_spec *spec);

/* The machines that a run is predicted for. */
struct dt_predictor {
    const struct dt_rates *rates; /* as they were read */
    int nodes, ranks;             /* of a node */
    bool gpu;                     /* a GPU for each rank */
};

/* Checks that there are all rates that a run of this configuration needs, or
 * that state in `state` (enum dt_conf_offload) needs. -1: EX_DATAERR, the
 * missing rate.
 */
int dt_predict_check(const struct dt_predictor *predictor,
                     const struct dt_conf *conf, struct dt_error *err);
int dt_predict_check_offload(const struct dt_rates *rates, int state,
                             struct dt_error *err);

/* Predicts a step of a resolved run whose ranks share it by `parallel`: all
 * learners, and the step's share of its generation, which is *generation. -1:
 * EX_OSERR.
 */
int dt_predict_step(const struct dt_predictor *predictor,
                    const struct dt_spec *spec,
                    const struct dt_model_options *options,
                    const struct dt_parallel_options *parallel,
                    struct dt_timeline *step,
                    struct dt_generation_plan *generation,
                    struct dt_error *err);

#endif /* DT_PLAN_PREDICT_H */
