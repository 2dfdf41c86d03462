/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rm.c - reward models: of two completions the preferred one scores higher
 *
 * The score of a side is read at its last non-padding token, as in
 * transformers' sequence classifiers. Rows have no padding here. But in many
 * models the padding token is also the end-of-text token: transformers then
 * skips the end of the text, and so do we, unless rm.last_token says otherwise.
 */
#include "config.h"

#include "algo/algo.h"
#include "base/log.h"
#include "loss/pair_loss.h"
#include "model/model.h"
#include "run/algo_table.h"
#include "run/run.h"

static const struct dt_metric metrics[DT_RM_METRICS] = {
    [DT_RM_ACCURACY] = {"accuracy", DT_METRIC_MEAN, true},
    [DT_RM_MARGIN] = {"margin", DT_METRIC_MEAN, true},
    [DT_RM_MIN_REWARD] = {"min_reward", DT_METRIC_MIN, false},
    [DT_RM_MEAN_REWARD] = {"mean_reward", DT_METRIC_MEAN, false},
    [DT_RM_MAX_REWARD] = {"max_reward", DT_METRIC_MAX, false},
};

static bool ends_text(const struct dt_model_config *config, int32_t id)
{
    for (size_t i = 0; i < config->eos_count; i++)
        if (config->eos[i] == id)
            return true;
    return false;
}

/* The padding id, by which transformers finds the end of a sequence: that of
 * config.json or of the tokenizer, preferably one that does not also end a
 * text.
 */
static int32_t choose_pad(const struct dt_run *run)
{
    const struct dt_model_config *config = &run->spec.learner.config;
    int32_t pad = config->pad, other = -1;
    if (run->data.tokenizer)
        other = dt_tokenizer_special(run->data.tokenizer, DT_TOKEN_PAD);
    if (pad < 0 || (ends_text(config, pad) && other >= 0))
        pad = other;
    return pad < 0 && config->eos_count > 0 ? config->eos[0] : pad;
}

static int begin(struct dt_run *run, struct dt_error *err)
{
    struct dt_spec *spec = &run->spec;
    struct dt_model_config *config = &spec->learner.config;
    bool at_end = spec->conf.rm.last_token == DT_CONF_LAST_TOKEN_END;
    config->pad = choose_pad(run);
    if (at_end && ends_text(config, config->pad))
        config->pad = -1; /* transformers would skip the end */
    if (config->pad < 0 && !at_end)
        return dt_error_set(err, EX_CONFIG,
                            "%s: model: a reward model needs pad_token_id in "
                            "its config.json: neither that file nor the "
                            "tokenizer has a token for padding or for the end "
                            "of a text",
                            spec->conf.file);
    if (ends_text(config, config->pad))
        dt_log(spec->rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo",
               "the padding id, %d, also ends a text: scores are read at "
               "the token before it, as transformers does (rm.last_token: end "
               "reads them at the end)",
               config->pad);
    return 0;
}

static int32_t last_token(const struct dt_run *run,
                          const struct dt_batch *batch,
                          const struct dt_batch_side *side)
{
    size_t t =
        dt_score_token(batch->inputs + side->start, side->end - side->start,
                       run->spec.learner.config.pad);
    return (int32_t)(side->start + t);
}

static size_t pick(const struct dt_run *run, const struct dt_batch *batch,
                   int32_t *picked)
{
    for (size_t i = 0; i < batch->pair_count; i++) {
        picked[2 * i] = last_token(run, batch, &batch->pairs[i].chosen);
        picked[2 * i + 1] = last_token(run, batch, &batch->pairs[i].rejected);
    }
    return 2 * batch->pair_count;
}

static void loss(const struct dt_run *run, const struct dt_picked *p)
{
    for (size_t i = 0; i < p->batch->pair_count; i++) {
        struct dt_rm_result result = dt_rm_loss(
            p->value[2 * i], p->value[2 * i + 1], p->batch->pairs[i].margin,
            run->spec.conf.rm.center_rewards_coefficient);
        p->weight[2 * i] = (float)result.chosen;
        p->weight[2 * i + 1] = (float)result.rejected;
        dt_metrics_add_pair(run->spec.algo, p->metrics, result.loss,
                            result.metrics);
    }
}

const struct dt_algo dt_algo_rm = {
    .name = "rm",
    .scores = true,
    .metrics = metrics,
    .metric_count = DT_RM_METRICS,
    .begin = begin,
    .pick = pick,
    .loss = loss,
};
