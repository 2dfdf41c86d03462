/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair_loss.h - losses of preference pairs, for policies and reward models
 *
 * Losses are sums over pairs, to be divided by the pairs of the step. Nothing
 * here fails; NaN in is NaN out.
 */
#ifndef DT_LOSS_PAIR_LOSS_H
#define DT_LOSS_PAIR_LOSS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/choices.h"
#include "base/error.h"

/* --- direct preference optimization --- */

/*
 * The loss of a pair, and the derivatives by the log-probabilities of its
 * tokens. For each side of a pair, logp is the sum of the policy's
 * log-probabilities of the tokens of the completion, ref that of the reference.
 * The formula of each loss stands above its function in pair_loss.c, in these
 * terms:
 *   a, d   logp - ref of the chosen and of the rejected side
 *   f      the score of a log-ratio, by dpo.f_divergence
 *   delta  f(a) - f(d)
 *   n      f(a) / len_c - f(d) / len_r, by the lengths of the completions
 *   eps    label_smoothing
 *   sig    the logistic function, ls its logarithm
 * Losses are those of TRL 1.16 (trl/trainer/dpo_trainer.py). Several losses
 * form a weighted sum.
 */

struct dt_dpo_options {
    size_t loss_count; /* at least 1 */
    enum dt_dpo_loss loss[DT_DPO_LOSS_COUNT];
    double loss_weight[DT_DPO_LOSS_COUNT];
    double beta;            /* > 0 */
    double label_smoothing; /* in [0, 0.5) */
    enum dt_f_divergence f_divergence;
    double f_alpha;
    double ld_alpha;    /* weight, in [0, 1], of the tokens beyond the length of
                           the shorter completion (LD-DPO, arXiv 2409.06411) */
    bool use_weighting; /* WPO (arXiv 2406.11827): multiplies the loss of a pair
                           by the probability of both sides */
};

/* The loss called `name`, or -1. */
int dt_dpo_loss_find(const char *name);

/* -1: EX_CONFIG, "dpo.<key>: <problem>", of the first value that does not fit
 * the losses. The schema has checked the ranges of single keys.
 */
int dt_dpo_check(const struct dt_dpo_options *options, struct dt_error *err);

/* One side of a pair. */
struct dt_dpo_side {
    size_t length;    /* tokens of the completion, at least 1 */
    double logp, ref; /* by dt_dpo_sum */
    double plain;     /* sum of the policy's log-probabilities, each once */
    double aligned;   /* with use_weighting: mean over the tokens of logp -
                         collision, both of the policy (ops.h) */
};

struct dt_dpo_pair {
    struct dt_dpo_side chosen, rejected;
};

/* The sum of logp(length) of a side, with tokens beyond the length of the other
 * side multiplied by ld_alpha.
 */
double dt_dpo_sum(const struct dt_dpo_options *options, const float *logp,
                  size_t length, size_t other_length);

/* The mean over the tokens of logp(length) - collision(length). */
double dt_dpo_aligned(const float *logp, const float *collision, size_t length);

/* Metrics of pairs, each a mean, with TRL's names. */
enum dt_dpo_metric {
    DT_DPO_REWARDS_CHOSEN,
    DT_DPO_REWARDS_REJECTED,
    DT_DPO_REWARDS_ACCURACIES,
    DT_DPO_REWARDS_MARGINS,
    DT_DPO_LOGPS_CHOSEN,
    DT_DPO_LOGPS_REJECTED,
    DT_DPO_METRICS
};

/* The loss of a pair, and its derivatives: by logp of each side, and in
 * addition by the log-probability of every chosen token.
 */
struct dt_dpo_result {
    double loss;
    double chosen, rejected, token;
    double metrics[DT_DPO_METRICS];
};

/* pairs_per_token: the pairs of the optimizer step divided by its chosen
 * tokens; used by the sft loss only.
 */
struct dt_dpo_result dt_dpo_loss(const struct dt_dpo_options *options,
                                 const struct dt_dpo_pair *pair,
                                 double pairs_per_token);

/* Fills chosen(chosen length) and rejected(rejected length) with the
 * derivatives of the loss by the log-probability of each token.
 */
void dt_dpo_token_weights(const struct dt_dpo_options *options,
                          const struct dt_dpo_pair *pair,
                          const struct dt_dpo_result *result, float *chosen,
                          float *rejected);

/* --- reward models --- */

/*
 * Bradley and Terry's model of preferences (1952), as in TRL's RewardTrainer:
 *   loss = -log sig(chosen - rejected - margin)
 *          + center_rewards_coefficient (chosen + rejected)^2
 */

/* Logged metrics, with TRL's names: of pairs, and of the scores of both sides.
 */
enum dt_rm_metric {
    DT_RM_ACCURACY,    /* mean */
    DT_RM_MARGIN,      /* mean */
    DT_RM_MIN_REWARD,  /* minimum */
    DT_RM_MEAN_REWARD, /* mean */
    DT_RM_MAX_REWARD,  /* maximum */
    DT_RM_METRICS
};

/* The loss of a pair, and its derivatives by the score of each side. */
struct dt_rm_result {
    double loss, chosen, rejected;
    double metrics[DT_RM_METRICS];
};

/* margin: by how much more chosen should score; 0: just more. The coefficient 0
 * leaves out the second term.
 */
struct dt_rm_result dt_rm_loss(double chosen, double rejected, double margin,
                               double center_rewards_coefficient);

#endif /* DT_LOSS_PAIR_LOSS_H */
