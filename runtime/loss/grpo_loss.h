/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpo_loss.h - group relative policy optimization: the loss of a completion,
 * and the derivatives by the log-probabilities of its tokens
 *
 * Of a completion of n tokens with advantage A, logp are the log-probabilities
 * of its tokens in the policy, old those when the generation was sampled, both
 * at the temperature of sampling. With
 *   rho = exp(logp - old) of a token; at the level of sequences exp(mean of
 *         logp - old) for all tokens,
 *   x = ref - logp, k3 = exp(x) - x - 1,
 * the loss is the sum over tokens of the policy's part, whose formula for each
 * type stands in grpo_loss.c (grpo_policy), reduced by `off_policy_mask` and
 * the correction of the sampler,
 * plus beta k3 (times rho with kl_unbiased; / n with grpo and sapo), minus
 * entropy_coef times the token's entropy, as in TRL 1.16
 * (trl/trainer/grpo_trainer.py). With top_entropy_quantile, tokens of less
 * entropy have only the part of k3. Papers: GRPO arXiv 2402.03300, DAPO
 * 2503.14476, Dr. GRPO 2503.20783, GSPO (sequences) 2507.18071, CISPO
 * 2506.13585, SAPO 2511.20347, LUSPO 2602.05261; off_policy_mask: DeepSeek-V3.2
 * 2512.02556; top_entropy_quantile: 2506.01939.
 *
 * Losses are sums, to be divided once by the denominator of the optimizer step,
 * so that neither ranks nor micro-batches change them. Here it is always that
 * of the step; TRL takes bnpo's of each micro-batch, and dapo's as the mean
 * over the steps of a generation. Exponents end at +-20, which TRL's do not.
 * All is computed in double. Nothing here fails; NaN in is NaN out.
 */
#ifndef DT_LOSS_GRPO_LOSS_H
#define DT_LOSS_GRPO_LOSS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/choices.h"
#include "conf/conf.h"

struct dt_grpo_options {
    enum dt_grpo_type type;
    enum dt_grpo_level level;
    double epsilon, epsilon_high;
    double delta; /* 0: none */
    double beta;  /* 0: no reference is read */
    bool kl_unbiased;
    double entropy_coef;
    double sapo_temperature_pos, sapo_temperature_neg;
    double off_policy_mask; /* 0: none */
    enum dt_correction correction;
    double cap; /* of the correction */
    size_t max_completion_length;
};

/* The options in a configuration of algorithm grpo. */
struct dt_grpo_options dt_grpo_options(const struct dt_conf *conf);

/* A completion; arrays have `count` values. */
struct dt_grpo_row {
    size_t count; /* tokens, with the one that ends it; at least 1 */
    const float *logp;
    const float *old; /* NULL: logp, whose ratio is 1 and has a derivative */
    const float *sampled;   /* log-probabilities of the sampler, or NULL */
    const float *ref;       /* of the reference, if beta > 0 */
    const float *entropy;   /* nats, or NULL; needed by entropy_coef */
    const float *chosen_by; /* entropies before the first update, which decide
                               whether a token takes part; NULL: all do */
    double least;           /* of these, for a token to take part */
    double advantage;
    bool masked; /* is not trained on, such as one that was cut off */
};

/* Metrics, with TRL's names. Ratios are those of tokens, or one of
 * each completion at the level of sequences.
 */
enum dt_grpo_metric {
    DT_GRPO_KL,                  /* mean of tokens */
    DT_GRPO_ENTROPY,             /* mean of tokens */
    DT_GRPO_CLIP_LOW_MEAN,       /* mean of ratios */
    DT_GRPO_CLIP_LOW_MIN,        /* least mean of a completion */
    DT_GRPO_CLIP_HIGH_MEAN,      /* mean of ratios */
    DT_GRPO_CLIP_HIGH_MAX,       /* largest mean of a completion */
    DT_GRPO_CLIP_REGION_MEAN,    /* mean of ratios */
    DT_GRPO_CISPO_CLIP_RATIO,    /* mean of ratios */
    DT_GRPO_RATIO_ERROR_MAX,     /* largest |rho - 1| of a token */
    DT_GRPO_SAMPLING_DIFF_MEAN,  /* mean of |old - sampled| of tokens */
    DT_GRPO_SAMPLING_DIFF_MAX,   /* largest */
    DT_GRPO_SAMPLING_RATIO_MIN,  /* least factor of the correction */
    DT_GRPO_SAMPLING_RATIO_MEAN, /* mean of tokens */
    DT_GRPO_SAMPLING_RATIO_MAX,  /* largest */
    DT_GRPO_METRICS
};

/* Sums over completions. A rank adds those of its own, and ranks those of each
 * other in the order of their numbers.
 */
struct dt_grpo_sums {
    double loss;
    double rows;                   /* completions, with those that are masked */
    double tokens, ratios;         /* of completions that are not */
    double value[DT_GRPO_METRICS]; /* a sum, a minimum or a maximum */
};

/* Sets sums to those of no completion. */
void dt_grpo_sums_clear(struct dt_grpo_sums *sums);

/* The numbers to report; NaN without a token. */
void dt_grpo_results(const struct dt_grpo_sums *sums,
                     double results[DT_GRPO_METRICS]);

/* Denominator of the sum of losses of an optimizer step of all ranks: `rows`
 * completions, with masked ones, that have `tokens` in those that are not; at
 * least 1.
 */
double dt_grpo_denominator(const struct dt_grpo_options *options, double rows,
                           double tokens);

/* The `least` of a step whose tokens have entropy(count), which are sorted
 * here: the quantile 1 - share, between two of them if it falls there, as
 * torch.quantile has it. Infinite without tokens.
 */
double dt_grpo_least_entropy(double share, float *entropy, size_t count);

/* Fills weights(count) with the derivatives of the loss by each logp, and adds
 * loss and metrics. entropy_share: the denominator for each token of the step
 * that takes part, which makes the entropy's part the mean over these with
 * every type.
 */
void dt_grpo_loss(const struct dt_grpo_options *options,
                  const struct dt_grpo_row *row, double entropy_share,
                  float *weights, struct dt_grpo_sums *sums);

/* Whether token t takes part in more than the KL divergence. */
bool dt_grpo_takes_part(const struct dt_grpo_row *row, size_t t);

/* The derivative of the loss by the entropy of token t. */
double dt_grpo_entropy_weight(const struct dt_grpo_options *options,
                              const struct dt_grpo_row *row, size_t t,
                              double entropy_share);

#endif /* DT_LOSS_GRPO_LOSS_H */
