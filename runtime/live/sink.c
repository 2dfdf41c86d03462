/* SPDX-License-Identifier: Apache-2.0 */
/* sink.c - takes the records of a report into the state of the run */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "live/live.h"

struct dt_sink {
    struct dt_live *live; /* not owned */
    double energy_j;      /* since this start */
};

static struct dt_sink *sink_open(const struct dt_sink_options *options,
                                 struct dt_error *err)
{
    struct dt_sink *sink = calloc(1, sizeof(*sink));
    if (!sink) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    sink->live = options->context;
    sink->energy_j = NAN;
    return sink;
}

static double find_value(const struct dt_report_record *record,
                         const char *name)
{
    for (size_t i = 0; i < record->count; i++)
        if (strcmp(record->value[i].name, name) == 0)
            return record->value[i].value;
    return NAN;
}

/* GRPO and PPO have different names for it. */
static double find_divergence(const struct dt_report_record *record)
{
    const double kl = find_value(record, "kl");
    return isnan(kl) ? find_value(record, "objective/kl") : kl;
}

static int sink_record(struct dt_sink *sink,
                       const struct dt_report_record *record,
                       struct dt_error *err)
{
    (void)err;
    if (record->split != DT_SPLIT_TRAIN)
        return 0;
    double energy = find_value(record, "energy_j");
    if (!isnan(energy))
        sink->energy_j = energy + (isnan(sink->energy_j) ? 0 : sink->energy_j);
    dt_live_numbers(sink->live,
                    &(struct dt_live_numbers){
                        .step = record->step,
                        .epoch = find_value(record, "epoch"),
                        .loss = find_value(record, "loss"),
                        .tokens_per_s = find_value(record, "tokens_per_s"),
                        .total_tokens = find_value(record, "total_tokens"),
                        .mfu = find_value(record, "mfu"),
                        .energy_j = sink->energy_j,
                        .tokens_per_j = find_value(record, "tokens_per_j"),
                        .reward = find_value(record, "reward"),
                        .kl = find_divergence(record),
                        .length = find_value(record, "completions/mean_length"),
                    });
    return 0;
}

static int sink_event(struct dt_sink *sink, const struct dt_report_event *event,
                      struct dt_error *err)
{
    (void)err;
    dt_live_event(sink->live, event);
    return 0;
}

static int sink_ranks(struct dt_sink *sink, const struct dt_report_ranks *ranks,
                      struct dt_error *err)
{
    (void)err;
    dt_live_ranks(sink->live, ranks);
    return 0;
}

static void sink_close(struct dt_sink *sink)
{
    free(sink);
}

const struct dt_sink_type dt_live_sink = {
    .name = "status.json",
    .open = sink_open,
    .record = sink_record,
    .event = sink_event,
    .ranks = sink_ranks,
    .close = sink_close,
};
