/* SPDX-License-Identifier: Apache-2.0 */
/* predict.h - predicts a step of a run on the virtual clock */
#ifndef DT_PLAN_PREDICT_H
#define DT_PLAN_PREDICT_H

#include "forecast/timeline.h"
#include "plan/generation_plan.h"

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
