/* SPDX-License-Identifier: Apache-2.0 */
/* predict.h - how long a step of a run takes, on the virtual clock */
#ifndef DT_PLAN_PREDICT_H
#define DT_PLAN_PREDICT_H

#include "forecast/timeline.h"
#include "plan/generation_plan.h"

/* What a run is predicted for. */
struct dt_predictor {
    const struct dt_rates *rates; /* as they were read */
    int nodes, ranks;             /* of a node */
    bool gpu;                     /* a GPU for each rank */
};

/* Whether all rates are there that a run of this configuration needs, or that
 * state needs which is kept there (enum dt_conf_offload). -1: EX_DATAERR, which
 * one is missing.
 */
int dt_predict_check(const struct dt_predictor *predictor,
                     const struct dt_conf *conf, struct dt_error *err);
int dt_predict_check_offload(const struct dt_rates *rates, int state,
                             struct dt_error *err);

/* A step of a run, which is resolved, if ranks share it like this: all learners
 * with the share of the step in its generation, which is *generation. -1:
 * EX_OSERR.
 */
int dt_predict_step(const struct dt_predictor *predictor,
                    const struct dt_run *run,
                    const struct dt_model_options *options,
                    const struct dt_parallel_options *parallel,
                    struct dt_timeline *step,
                    struct dt_generation_plan *generation,
                    struct dt_error *err);

#endif /* DT_PLAN_PREDICT_H */
