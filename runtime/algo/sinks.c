/* SPDX-License-Identifier: Apache-2.0 */
/* sinks.c - adds the other forms in which a run is reported */
#include "config.h"

#include "algo/facts.h"
#include "algo/run.h"
#include "history/history.h"

/* Gives records of earlier starts to sinks that have the whole run. */
static int give_past(struct dt_run *run, struct dt_history *history,
                     struct dt_error *err)
{
    struct dt_report_record record;
    struct dt_report_ranks ranks;
    int more;
    while ((more = dt_history_next(history, &record, err)) > 0)
        dt_report_past(run->report, &record, NULL);
    if (more < 0)
        return -1;
    while ((more = dt_history_next_ranks(history, &ranks, err)) > 0)
        if (ranks.step <= run->progress.step)
            dt_report_past(run->report, NULL, &ranks);
    return more;
}

/* metrics.jsonl ends with the step that the run resumes from. */
static void read_past(struct dt_run *run)
{
    struct dt_error err;
    struct dt_history *history = dt_history_open(run->conf.logging.dir, &err);
    if (!history || give_past(run, history, &err) < 0)
        dt_run_warn(run,
                    "wandb: %s; the run there begins with step %ld; write it "
                    "again with `disttrain report --to wandb`",
                    err.text, run->progress.step + 1);
    dt_history_destroy(history);
}

void dt_run_sinks(struct dt_run *run)
{
    const struct dt_conf *conf = &run->conf;
    const struct dt_sink_options options = {.dir = conf->logging.dir,
                                            .run = run->facts,
                                            .first_step = run->progress.step};
    /* An evaluation of an old step is no part of a curve that is there. */
    if (conf->training.eval_only)
        return;
    if (conf->logging.to_tensorboard)
        dt_report_add_sink(run->report, &dt_sink_tensorboard, &options);
    if (conf->logging.to_wandb)
        dt_report_add_sink(run->report, &dt_sink_wandb, &options);
    if (conf->logging.to_wandb && run->progress.step > 0)
        read_past(run);
}
