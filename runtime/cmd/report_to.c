/* SPDX-License-Identifier: Apache-2.0 */
/* report_to.c - gives the records of a run to TensorBoard's sink */
#include "config.h"

#include <stdio.h>

#include "cmd/report_to.h"
#include "history/history.h"
#include "report/sink.h"

static int give_records(struct dt_history *history, struct dt_sink *sink,
                        struct dt_error *err)
{
    struct dt_report_record record;
    int more;
    while ((more = dt_history_next(history, &record, err)) > 0)
        if (dt_sink_tensorboard.record(sink, &record, err) < 0)
            return -1;
    return more;
}

int dt_report_to_tensorboard(const char *run, const char *output,
                             struct dt_error *err)
{
    struct dt_history *history = dt_history_open(run, err);
    if (!history)
        return -1;
    const struct dt_sink_options options = {
        .dir = output ? output : dt_history_dir(history),
        .run = dt_history_facts(history)->json};
    struct dt_sink *sink = dt_sink_tensorboard.open(&options, err);
    int rc = sink ? give_records(history, sink, err) : -1;
    dt_sink_tensorboard.close(sink);
    if (rc == 0)
        printf("%s/tb\n", options.dir);
    dt_history_destroy(history);
    return rc;
}
