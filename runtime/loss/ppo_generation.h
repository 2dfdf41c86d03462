/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ppo_generation.h - PPO's advantages of a generation, before it trains on it
 *
 * Rewards, advantages and returns of all tokens (gae.h), and the logged numbers
 * of the generation. Every rank has all completions in the same order and
 * computes the same bits.
 */
#ifndef DT_LOSS_PPO_GENERATION_H
#define DT_LOSS_PPO_GENERATION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "conf/conf.h"

/* Logged numbers, with TRL's names. */
enum dt_ppo_number {
    DT_PPO_KL,        /* estimate of a completion, in the mean; nats */
    DT_PPO_SURPRISE,  /* -logp of a completion, in the mean: its entropy */
    DT_PPO_NON_SCORE, /* reward of the KL divergence alone */
    DT_PPO_RLHF,      /* with the score */
    DT_PPO_SCORES,
    DT_PPO_KL_COEF,
    DT_PPO_EXPLAINED, /* share of the variance of returns */
    DT_PPO_EOS,       /* completions that ended by themselves */
    DT_PPO_NUMBERS
};
extern const char *const dt_ppo_number_names[DT_PPO_NUMBERS];

/* Row i has the tokens [at[i], at[i + 1]) of the arrays of tokens. */
struct dt_ppo_generation {
    size_t rows;
    const size_t *at; /* (rows + 1) */
    const float *logp;
    const float *ref;    /* NULL: no reference */
    const float *values; /* of the critic before each token */
    const float *after; /* (rows) and after the last token, where completions of
                           fewer than `longest` tokens have their score; NULL:
                           all have it at the last token */
    size_t longest;
    const double *scores; /* (rows); NaN: the row has none, and teaches nothing
                           */
    const bool *ended;    /* (rows) by itself, and not by its length */
    /* computed, (tokens): */
    double *advantages;    /* normalized; 0 without a score */
    double *returns;       /* values without a score */
    double *after_returns; /* (rows) if there is `after` */
    double numbers[DT_PPO_NUMBERS];
};

/* Fills advantages, returns and numbers, with this coefficient of the KL
 * divergence. -1: EX_OSERR; E135, too few tokens to normalize.
 */
int dt_ppo_compute(const struct dt_conf_ppo *options, double kl_coef,
                   struct dt_ppo_generation *g, struct dt_error *err);

#endif /* DT_LOSS_PPO_GENERATION_H */
