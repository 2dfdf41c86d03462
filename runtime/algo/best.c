/* SPDX-License-Identifier: Apache-2.0 */
/* best.c - finds the best evaluation, and stops a run that no longer improves
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/algo.h"
#include "base/log.h"
#include "run/dir/dir.h"
#include "sampling/sampling.h"

static const char key[] = "training.metric_for_best_model";

static bool is_asked(const struct dt_conf *conf)
{
    return conf->training.load_best_model_at_end ||
           conf->training.early_stopping_patience > 0;
}

/* The metric's name without the prefix that transformers gives it. */
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

/* A search for one name among the metrics that evaluations report. */
struct search {
    const char *name;
    bool found;
    char names[512]; /* all of them, or as many as fit */
};

static void look_at(struct search *search, const char *name)
{
    const size_t used = strlen(search->names);
    search->found |= strcmp(name, search->name) == 0;
    snprintf(search->names + used, sizeof(search->names) - used, "%s%s",
             used > 0 ? ", " : "", name);
}

/* Numbers that compare completions of one prompt need several of them. */
static bool has_number(const struct dt_conf *conf, const char *name)
{
    return conf->rollout.eval_generations > 1 ||
           strcmp(name, "frac_reward_zero_std") != 0;
}

static int look_at_numbers(struct search *search, const struct dt_conf *conf,
                           struct dt_error *err)
{
    char names[DT_NUMBERS_MAX][DT_NUMBER_NAME];
    struct dt_sample_column *columns = dt_run_reward_columns(conf, err);
    if (!columns)
        return -1;
    const size_t count = dt_run_measured_names(conf, columns, names);
    free(columns);
    for (size_t i = 0; i < count; i++)
        if (has_number(conf, names[i]))
            look_at(search, names[i]);
    return 0;
}

static void look_at_metrics(struct search *search, const struct dt_algo *algo,
                            const struct dt_conf *conf)
{
    look_at(search, "loss");
    for (size_t i = 0; i < algo->metric_count; i++)
        if (dt_algo_reports(algo, conf, i))
            look_at(search, algo->metrics[i].name);
}

int dt_best_check(const struct dt_algo *algo, const struct dt_conf *conf,
                  struct dt_error *err)
{
    struct search search = {.name = metric_name(conf)};
    if (!is_asked(conf) || conf->training.eval_only)
        return 0;
    if (!algo->advantages)
        look_at_metrics(&search, algo, conf);
    else if (look_at_numbers(&search, conf, err) < 0)
        return -1;
    return search.found ? 0
                        : dt_conf_error_set(conf, key, err,
                                            "an evaluation has no %s, but %s",
                                            search.name, search.names);
}

/* The metric of an evaluation; NaN: this one has none. For example, no
 * completion ended by itself, so there is no mean length of those.
 */
static double value_of(const struct dt_run *run,
                       const struct dt_report_eval *line)
{
    const char *name = metric_name(&run->spec.conf);
    if (!run->spec.algo->advantages && strcmp(name, "loss") == 0)
        return line->loss;
    for (size_t i = 0; i < line->values.count; i++)
        if (strcmp(name, line->values.value[i].name) == 0)
            return line->values.value[i].value;
    return NAN;
}

static void end_early(struct dt_run *run)
{
    const struct dt_best *best = &run->progress.best;
    run->total_steps = run->progress.step;
    dt_run_event(run, "early_stop", NAN,
                 "%s has not been better than %.4g for %ld evaluations",
                 metric_name(&run->spec.conf), best->value, best->without);
    if (run->report)
        dt_report_note(run->report,
                       "early stop at step %ld: %s has not been better than "
                       "%.4g for %ld evaluations "
                       "(training.early_stopping_patience)",
                       run->progress.step, metric_name(&run->spec.conf),
                       best->value, best->without);
}

void dt_best_note(struct dt_run *run, const struct dt_report_eval *line,
                  bool saved)
{
    const struct dt_conf *conf = &run->spec.conf;
    struct dt_best *best = &run->progress.best;
    if (!is_asked(conf) || conf->training.eval_only)
        return;
    const double value = value_of(run, line);
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
}

bool dt_best_ended(const struct dt_run *run)
{
    const long patience = run->spec.conf.training.early_stopping_patience;
    return patience > 0 && run->progress.best.without >= patience;
}

void dt_best_link(const struct dt_run *run)
{
    const struct dt_best *best = &run->progress.best;
    const bool loads = run->spec.conf.training.load_best_model_at_end;
    struct dt_error err;
    const long step = run->progress.step;
    if (run->spec.rank != 0 || run->saves.unproven != step ||
        (loads && best->step != step))
        return;
    if (dt_ckpt_set_best(run->spec.ckpt_root, loads ? best->step : -1, &err) <
        0)
        dt_log(DT_LOG_WARN, "ckpt", "%s", err.text);
}

void dt_best_look(struct dt_run *run)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_best *best = &run->progress.best;
    char path[sizeof(spec->ckpt_root) + 32];
    if (best->step == 0 || spec->conf.training.eval_only ||
        !spec->conf.training.load_best_model_at_end)
        return;
    snprintf(path, sizeof(path), "%s/checkpoint-%ld", spec->ckpt_root,
             best->step);
    if (access(path, F_OK) == 0)
        return;
    dt_log(DT_LOG_WARN, "ckpt",
           "%s, which had the best %s, is gone: the best one is now chosen "
           "among later checkpoints",
           path, metric_name(&spec->conf));
    best->saved = NAN;
    best->step = 0;
}

void dt_best_link_again(const struct dt_run *run)
{
    const long step = run->progress.best.step;
    struct dt_error err;
    if (run->spec.conf.training.load_best_model_at_end &&
        dt_ckpt_best(run->spec.ckpt_root) != (step > 0 ? step : -1) &&
        dt_ckpt_set_best(run->spec.ckpt_root, step > 0 ? step : -1, &err) < 0)
        dt_log(DT_LOG_WARN, "ckpt", "%s", err.text);
}

void dt_best_tell(const struct dt_run *run)
{
    const struct dt_best *best = &run->progress.best;
    if (run->report && run->spec.conf.training.load_best_model_at_end &&
        best->step > 0)
        dt_report_note(run->report,
                       "the best model is checkpoint-%ld, with %s %.4g: "
                       "model.path: %s means it",
                       best->step, metric_name(&run->spec.conf), best->saved,
                       run->spec.conf.run.output_dir);
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

int dt_best_put(json_t *state, const struct dt_run *run)
{
    const struct dt_best *best = &run->progress.best;
    if (!is_asked(&run->spec.conf))
        return 0;
    return json_object_set_new(
        state, "best",
        json_pack("{s:s, s:o, s:o, s:I, s:I}", "metric",
                  metric_name(&run->spec.conf), "value", number(best->value),
                  "saved", number(best->saved), "step", (json_int_t)best->step,
                  "without", (json_int_t)best->without));
}

/* If the metric is not the checkpoint's, the search starts over. */
int dt_best_get(const json_t *state, struct dt_run *run)
{
    const json_t *from = json_object_get(state, "best");
    json_t *value, *saved;
    json_int_t step, without;
    const char *metric;
    if (!from || !is_asked(&run->spec.conf))
        return 0;
    if (json_unpack((json_t *)from, "{s:s, s:o, s:o, s:I, s:I}", "metric",
                    &metric, "value", &value, "saved", &saved, "step", &step,
                    "without", &without) < 0)
        return -1;
    if (strcmp(metric, metric_name(&run->spec.conf)) == 0)
        run->progress.best = (struct dt_best){
            .value = json_is_number(value) ? json_number_value(value) : NAN,
            .saved = json_is_number(saved) ? json_number_value(saved) : NAN,
            .step = (long)step,
            .without = (long)without};
    return 0;
}
