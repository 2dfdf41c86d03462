/* SPDX-License-Identifier: Apache-2.0 */
/* ppo_state.h - state of a run of algorithm ppo, in addition to its samples */
#ifndef DT_RUN_PPO_STATE_H
#define DT_RUN_PPO_STATE_H

#include "loss/ppo_generation.h"
#include "loss/ppo_loss.h"

struct dt_ppo {
    struct dt_ppo_options options;
    /* Stored in checkpoints: the coefficient of the KL divergence of this
     * generation, and the divergence that it had; NaN: none yet.
     */
    double kl_coef, kl;
    /* Stored, too: optimizer steps that were left out as generations ended
     * early, unless training.max_steps says how many there are.
     */
    long left_out;
    /* of the generation, (tokens) of the experience: */
    double *advantages, *returns;
    double *after_returns; /* (rows) */
    double value_share; /* of the step: tokens for each value of the critic */
    double numbers[DT_PPO_NUMBERS];
};

/* ppo.c: frees and zeroes. */
void dt_ppo_fini(struct dt_ppo *ppo);

#endif /* DT_RUN_PPO_STATE_H */
