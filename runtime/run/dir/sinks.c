/* SPDX-License-Identifier: Apache-2.0 */
/* sinks.c - adds further sinks to the report of a run */
#include "config.h"

#include "run/dir/facts.h"
#include "run/run.h"

void dt_run_sinks(struct dt_run *run)
{
    const struct dt_conf *conf = &run->spec.conf;
    const struct dt_sink_options options = {.dir = conf->logging.dir,
                                            .run = run->facts,
                                            .first_step = run->progress.step};
    /* An evaluation of an old step does not belong in an existing curve. */
    if (conf->training.eval_only)
        return;
    if (conf->logging.to_tensorboard)
        dt_report_add_sink(run->report, &dt_sink_tensorboard, &options);
    if (conf->logging.to_wandb)
        dt_report_note(run->report,
                       "wandb: nothing is sent from here; on a host that "
                       "reaches the server run contrib/wandb-follow %s",
                       conf->logging.dir);
}
