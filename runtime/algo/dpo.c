/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpo.c - direct preference optimization: the preferred completion becomes more
 * likely than the other one, compared with a frozen reference model
 *
 * Rafailov et al., "Direct Preference Optimization", arXiv 2305.18290. The
 * losses are in pair_loss.h. This file has their options, the tokens they read,
 * and the sums over completions that they take.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "loss/pair_loss.h"
#include "run/reference/reference.h"

/* Reported metrics: those of pairs, then, with logging.logits, those of their
 * tokens, then the counts that the latter are divided by.
 */
enum {
    LOGITS_CHOSEN = DT_DPO_METRICS,
    LOGITS_REJECTED,
    ENTROPY,
    TOKEN_ACCURACY,
    TOKENS_CHOSEN,
    TOKENS_REJECTED,
    METRICS
};

static const struct dt_metric metrics[METRICS] = {
    [DT_DPO_REWARDS_CHOSEN] = {"rewards/chosen", DT_METRIC_MEAN, false},
    [DT_DPO_REWARDS_REJECTED] = {"rewards/rejected", DT_METRIC_MEAN, false},
    [DT_DPO_REWARDS_ACCURACIES] = {"rewards/accuracies", DT_METRIC_MEAN, true},
    [DT_DPO_REWARDS_MARGINS] = {"rewards/margins", DT_METRIC_MEAN, true},
    [DT_DPO_LOGPS_CHOSEN] = {"logps/chosen", DT_METRIC_MEAN, false},
    [DT_DPO_LOGPS_REJECTED] = {"logps/rejected", DT_METRIC_MEAN, false},
    [LOGITS_CHOSEN] = {"logits/chosen", DT_METRIC_MEAN, false},
    [LOGITS_REJECTED] = {"logits/rejected", DT_METRIC_MEAN, false},
    [ENTROPY] = {"entropy", DT_METRIC_MEAN, false},
    [TOKEN_ACCURACY] = {"mean_token_accuracy", DT_METRIC_MEAN, false},
    [TOKENS_CHOSEN] = {NULL, DT_METRIC_MEAN, false},
    [TOKENS_REJECTED] = {NULL, DT_METRIC_MEAN, false},
};

/* --- options --- */

/* Weights of the losses: one for each loss, or none at all. */
static int read_weights(const struct dt_conf *conf,
                        struct dt_dpo_options *options, struct dt_error *err)
{
    const struct dt_conf_list *list = &conf->dpo.loss_weights;
    if (list->count > 0 && list->count != options->loss_count)
        return dt_error_set(err, EX_CONFIG,
                            "dpo.loss_weights: %zu numbers for %zu losses in "
                            "dpo.loss",
                            list->count, options->loss_count);
    for (size_t i = 0; i < options->loss_count; i++) {
        char *end = "";
        options->loss_weight[i] =
            list->count > 0 ? strtod(list->text[i], &end) : 1.0;
        if (*end)
            return dt_error_set(err, EX_CONFIG,
                                "dpo.loss_weights: expected a number, got "
                                "\"%s\"",
                                list->text[i]);
    }
    return 0;
}

static int read_options(const struct dt_conf *conf,
                        struct dt_dpo_options *options, struct dt_error *err)
{
    const struct dt_conf_list *loss = &conf->dpo.loss;
    *options = (struct dt_dpo_options){
        .beta = conf->dpo.beta,
        .label_smoothing = conf->dpo.label_smoothing,
        .f_divergence = conf->dpo.f_divergence,
        .f_alpha = conf->dpo.f_alpha,
        .ld_alpha = conf->dpo.ld_alpha,
        .use_weighting = conf->dpo.use_weighting,
    };
    for (size_t i = 0; i < loss->count && i < DT_DPO_LOSS_COUNT; i++)
        options->loss[options->loss_count++] = dt_dpo_loss_find(loss->text[i]);
    if (read_weights(conf, options, err) < 0)
        return -1;
    return dt_dpo_check(options, err);
}

/* Error texts of the options begin with their key, from which the place in the
 * file is found.
 */
static int check(const struct dt_conf *conf, struct dt_error *err)
{
    struct dt_dpo_options options;
    struct dt_error plain;
    char key[64];
    if (read_options(conf, &options, &plain) == 0)
        return 0;
    size_t length = strcspn(plain.text, ":");
    snprintf(key, sizeof(key), "%.*s", (int)length, plain.text);
    return dt_conf_error_set(conf, key, err, "E113 %s",
                             plain.text + length + strlen(": "));
}

static int begin(struct dt_run *run, struct dt_error *err)
{
    return read_options(&run->spec.conf, &run->dpo, err);
}

static bool needs_reference(const struct dt_conf *conf)
{
    int mode = conf->dpo.reference.mode;
    return mode == DT_CONF_REFERENCE_LIVE ||
           (mode == DT_CONF_REFERENCE_PRECOMPUTE && conf->model.reference_path);
}

static int prepare(struct dt_run *run, struct dt_error *err)
{
    return run->spec.conf.dpo.reference.mode == DT_CONF_REFERENCE_PRECOMPUTE
               ? dt_run_precompute(run, err)
               : 0;
}

/* --- a micro-batch --- */

static size_t length_of(const struct dt_batch_side *side)
{
    return side->end - 1 - side->first;
}

static size_t pick_side(const struct dt_batch_side *side, int32_t *picked)
{
    for (size_t i = 0; i < length_of(side); i++)
        picked[i] = (int32_t)(side->first + i);
    return length_of(side);
}

static size_t pick(const struct dt_run *run, const struct dt_batch *batch,
                   int32_t *picked)
{
    size_t count = 0;
    (void)run;
    for (size_t i = 0; i < batch->pair_count; i++) {
        count += pick_side(&batch->pairs[i].chosen, picked + count);
        count += pick_side(&batch->pairs[i].rejected, picked + count);
    }
    return count;
}

/* Sums over a completion of `length` tokens whose values begin at `at`. */
static struct dt_dpo_side sum_side(const struct dt_dpo_options *options,
                                   const struct dt_picked *p, size_t at,
                                   size_t length, size_t other_length)
{
    struct dt_dpo_side side = {
        .length = length,
        .logp = dt_dpo_sum(options, p->value + at, length, other_length),
        .ref = dt_dpo_sum(options, p->reference + at, length, other_length),
    };
    for (size_t t = at; t < at + length; t++)
        side.plain += (double)p->value[t];
    if (options->use_weighting)
        side.aligned = dt_dpo_aligned(p->value + at, p->collision + at, length);
    return side;
}

/* Sums of the reference for a pair, computed before the first step. */
static void recall(const struct dt_run *run, uint64_t number,
                   struct dt_dpo_pair *sums)
{
    if (!run->reference.sums->buf)
        return;
    const float *two =
        dt_view_f32(dt_view_of(run->reference.sums->buf, DT_F32)) + 2 * number;
    sums->chosen.ref = two[0];
    sums->rejected.ref = two[1];
}

static double sum_of(const float *values, size_t count)
{
    double sum = 0;
    for (size_t t = 0; t < count; t++)
        sum += (double)values[t];
    return sum;
}

/* Sums over the tokens of a pair, whose values begin at `at`. */
static void add_tokens(const struct dt_picked *p, size_t at, size_t chosen,
                       size_t rejected, double values[METRICS])
{
    values[LOGITS_CHOSEN] = sum_of(p->mean + at, chosen);
    values[LOGITS_REJECTED] = sum_of(p->mean + at + chosen, rejected);
    values[ENTROPY] = sum_of(p->entropy + at, chosen + rejected);
    values[TOKEN_ACCURACY] = sum_of(p->top + at, chosen);
    values[TOKENS_CHOSEN] = (double)chosen;
    values[TOKENS_REJECTED] = (double)rejected;
}

static void loss(const struct dt_run *run, const struct dt_picked *p)
{
    const struct dt_dpo_options *options = &run->dpo;
    size_t at = 0;
    for (size_t i = 0; i < p->batch->pair_count; i++) {
        const struct dt_batch_pair *pair = &p->batch->pairs[i];
        size_t chosen = length_of(&pair->chosen);
        size_t rejected = length_of(&pair->rejected);
        struct dt_dpo_pair sums = {
            .chosen = sum_side(options, p, at, chosen, rejected),
            .rejected = sum_side(options, p, at + chosen, rejected, chosen),
        };
        recall(run, pair->number, &sums);
        struct dt_dpo_result result =
            dt_dpo_loss(options, &sums, p->pairs_per_token);
        dt_dpo_token_weights(options, &sums, &result, p->weight + at,
                             p->weight + at + chosen);
        double values[METRICS] = {0};
        memcpy(values, result.metrics, sizeof(result.metrics));
        if (run->spec.conf.logging.logits)
            add_tokens(p, at, chosen, rejected, values);
        dt_metrics_add_pair(run->spec.algo, p->metrics, result.loss, values);
        at += chosen + rejected;
    }
}

/* --- metrics --- */

static bool reports(const struct dt_conf *conf, size_t metric)
{
    return metric < DT_DPO_METRICS || conf->logging.logits;
}

/* Means over pairs, and over tokens as in TRL; NaN without them. */
static void results(const struct dt_metrics *of, double to[DT_METRICS_MAX])
{
    const double *value = of->value;
    const double all = value[TOKENS_CHOSEN] + value[TOKENS_REJECTED];
    for (size_t i = 0; i < DT_DPO_METRICS; i++)
        to[i] = value[i] / of->pairs;
    to[LOGITS_CHOSEN] = value[LOGITS_CHOSEN] / value[TOKENS_CHOSEN];
    to[LOGITS_REJECTED] = value[LOGITS_REJECTED] / value[TOKENS_REJECTED];
    to[ENTROPY] = value[ENTROPY] / all;
    to[TOKEN_ACCURACY] = value[TOKEN_ACCURACY] / value[TOKENS_CHOSEN];
}

const struct dt_algo dt_algo_dpo = {
    .name = "dpo",
    .needs_reference = needs_reference,
    .check = check,
    .metrics = metrics,
    .metric_count = METRICS,
    .reports = reports,
    .begin = begin,
    .prepare = prepare,
    .pick = pick,
    .loss = loss,
    .results = results,
};
