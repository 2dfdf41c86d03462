/* SPDX-License-Identifier: Apache-2.0 */
/* best.c - finds the best evaluation, and when none is better any more */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/best.h"
#include "algo/facts.h"
#include "base/log.h"

static const char key[] = "training.metric_for_best_model";

static bool is_asked(const struct dt_conf *conf)
{
    return conf->training.load_best_model_at_end ||
           conf->training.early_stopping_patience > 0;
}

/* The metric without the prefix that transformers has. */
static const char *metric_name(const struct dt_conf *conf)
{
    static const char prefix[] = "eval_";
    const char *name = conf->training.metric_for_best_model;
    if (name && strncmp(name, prefix, strlen(prefix)) == 0)
        name += strlen(prefix);
    return name ? name : "loss";
}

static bool greater_is_better(const struct dt_conf *conf)
{
    const char *name = metric_name(conf);
    const size_t n = strlen(name), loss = strlen("loss");
    if (conf->training.greater_is_better != DT_CONF_AUTO_CHOICE)
        return conf->training.greater_is_better;
    return n < loss || strcmp(name + n - loss, "loss") != 0;
}

/* Whether `value` is better than `best`, which is NaN until there is one. */
static bool is_better(const struct dt_conf *conf, double value, double best)
{
    if (isnan(value) || isnan(best))
        return !isnan(value);
    return greater_is_better(conf) ? value > best : value < best;
}

/* The metric of an evaluation. -1: EX_CONFIG, it has none of this name. */
static int find_metric(const struct dt_run *run,
                       const struct dt_report_eval *line, double *value,
                       struct dt_error *err)
{
    const char *name = metric_name(&run->conf);
    const bool has_loss = !run->algo->advantages;
    char names[512] = "";
    if (has_loss && strcmp(name, "loss") == 0) {
        *value = line->loss;
        return 0;
    }
    for (size_t i = 0; i < line->values.count; i++) {
        const struct dt_report_value *v = &line->values.value[i];
        size_t used = strlen(names);
        *value = v->value;
        if (strcmp(name, v->name) == 0)
            return 0;
        snprintf(names + used, sizeof(names) - used, "%s%s",
                 used > 0 || has_loss ? ", " : "", v->name);
    }
    return dt_conf_error_set(&run->conf, key, err,
                             "an evaluation has no %s, but %s%s", name,
                             has_loss ? "loss" : "", names);
}

static void end_early(struct dt_run *run)
{
    const struct dt_best *best = &run->progress.best;
    run->total_steps = run->progress.step;
    dt_run_event(run, "early_stop", NAN,
                 "%s has not been better than %.4g for %ld evaluations",
                 metric_name(&run->conf), best->value, best->without);
    if (run->report)
        dt_report_note(run->report,
                       "early stop at step %ld: %s has not been better than "
                       "%.4g for %ld evaluations "
                       "(training.early_stopping_patience)",
                       run->progress.step, metric_name(&run->conf), best->value,
                       best->without);
}

int dt_best_note(struct dt_run *run, const struct dt_report_eval *line,
                 bool saved, struct dt_error *err)
{
    const struct dt_conf *conf = &run->conf;
    struct dt_best *best = &run->progress.best;
    double value;
    if (!is_asked(conf) || conf->training.eval_only)
        return 0;
    if (find_metric(run, line, &value, err) < 0)
        return -1;
    const bool better = is_better(conf, value, best->value);
    if (better &&
        !(fabs(value - best->value) <= conf->training.early_stopping_threshold))
        best->without = 0;
    else
        best->without++;
    if (better)
        best->value = value;
    if (dt_best_ended(run) && run->progress.step < run->total_steps)
        end_early(run);
    if ((saved || run->progress.step == run->total_steps) &&
        is_better(conf, value, best->saved)) {
        best->saved = value;
        best->step = run->progress.step;
    }
    return 0;
}

bool dt_best_ended(const struct dt_run *run)
{
    const long patience = run->conf.training.early_stopping_patience;
    return patience > 0 && run->progress.best.without >= patience;
}

void dt_best_link(const struct dt_run *run)
{
    const struct dt_best *best = &run->progress.best;
    const bool loads = run->conf.training.load_best_model_at_end;
    struct dt_error err;
    const long step = run->progress.step;
    if (run->rank != 0 || run->unproven_step != step ||
        (loads && best->step != step))
        return;
    if (dt_ckpt_set_best(run->ckpt_root, loads ? best->step : -1, &err) < 0)
        dt_log(DT_LOG_WARN, "ckpt", "%s", err.text);
}

void dt_best_tell(const struct dt_run *run)
{
    const struct dt_best *best = &run->progress.best;
    if (run->report && run->conf.training.load_best_model_at_end &&
        best->step > 0)
        dt_report_note(run->report,
                       "the best model is checkpoint-%ld, with %s %.4g: who "
                       "names %s gets it",
                       best->step, metric_name(&run->conf), best->saved,
                       run->conf.run.output_dir);
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

int dt_best_put(json_t *state, const struct dt_run *run)
{
    const struct dt_best *best = &run->progress.best;
    if (!is_asked(&run->conf))
        return 0;
    return json_object_set_new(
        state, "best",
        json_pack("{s:s, s:o, s:o, s:I, s:I}", "metric",
                  metric_name(&run->conf), "value", number(best->value),
                  "saved", number(best->saved), "step", (json_int_t)best->step,
                  "without", (json_int_t)best->without));
}

/* Another metric than that of the checkpoint begins anew. */
int dt_best_get(const json_t *state, struct dt_run *run)
{
    const json_t *from = json_object_get(state, "best");
    json_t *value, *saved;
    json_int_t step, without;
    const char *metric;
    if (!from || !is_asked(&run->conf))
        return 0;
    if (json_unpack((json_t *)from, "{s:s, s:o, s:o, s:I, s:I}", "metric",
                    &metric, "value", &value, "saved", &saved, "step", &step,
                    "without", &without) < 0)
        return -1;
    if (strcmp(metric, metric_name(&run->conf)) == 0)
        run->progress.best = (struct dt_best){
            .value = json_is_number(value) ? json_number_value(value) : NAN,
            .saved = json_is_number(saved) ? json_number_value(saved) : NAN,
            .step = (long)step,
            .without = (long)without};
    return 0;
}
