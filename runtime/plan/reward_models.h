/* SPDX-License-Identifier: Apache-2.0 */
/* reward_models.h - what the reward models of a run take */
#ifndef DT_PLAN_REWARD_MODELS_H
#define DT_PLAN_REWARD_MODELS_H

#include "run/data.h"
#include "run/spec.h"

/* Sets spec->sampling.reward_* with models that compute in this type: of the
 * images of these data, each as the model's own processor makes it, or, with
 * NULL, of the most that its prompts may have. -1: a model cannot be read, or
 * an image is none for its processor; EX_OSERR.
 */
int dt_plan_rewards(struct dt_spec *spec, const struct dt_run_data *data,
                    enum dt_dtype compute, struct dt_error *err);

#endif /* DT_PLAN_REWARD_MODELS_H */
