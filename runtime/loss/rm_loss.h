/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rm_loss.h - reward models: the loss of a pair of scores
 *
 * Bradley and Terry's model of preferences (1952), as in TRL's RewardTrainer:
 *   loss = -log sig(chosen - rejected - margin)
 *          + center_rewards_coefficient (chosen + rejected)^2
 * Losses are sums over pairs, to be divided by the pairs of the step. Nothing
 * here fails; NaN in is NaN out.
 */
#ifndef DT_LOSS_RM_LOSS_H
#define DT_LOSS_RM_LOSS_H

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
extern const char *const dt_rm_metric_names[DT_RM_METRICS];

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

#endif /* DT_LOSS_RM_LOSS_H */
