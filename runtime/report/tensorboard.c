/* SPDX-License-Identifier: Apache-2.0 */
/* tensorboard.c - records as scalars of TensorBoard */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "report/event_file.h"
#include "report/names.h"
#include "report/sink.h"

struct dt_sink {
    struct dt_event_file *file;
    enum dt_names names;
    long samples; /* of a step: the x axis of DeepSpeed's monitor; 0: steps */
    double wall;  /* of the last record: the reader refuses one without */
};

static void tensorboard_close(struct dt_sink *sink)
{
    if (sink)
        dt_event_file_destroy(sink->file);
    free(sink);
}

/* Where a step is on the x axis. */
static long tensorboard_x(const struct dt_sink *sink, long step)
{
    return sink->samples > 0 ? step * sink->samples : step;
}

static struct dt_sink *tensorboard_open(const struct dt_sink_options *options,
                                        struct dt_error *err)
{
    char *dir = NULL;
    const long first = options->first_step > 0 ? options->first_step + 1 : 0;
    struct dt_sink *sink = calloc(1, sizeof(*sink));
    if (!sink || asprintf(&dir, "%s/tb", options->dir) < 0) {
        dt_error_set(err, EX_OSERR, "out of memory");
        free(sink);
        return NULL;
    }
    sink->wall = dt_clock_wall();
    sink->names =
        dt_names_of(dt_sink_setting_text(options->run, "logging.names"));
    if (sink->names == DT_NAMES_DEEPSPEED)
        sink->samples = (long)json_integer_value(
            dt_sink_setting(options->run, "training.train_batch_size"));
    sink->file =
        dt_event_file_create(dir, sink->wall, tensorboard_x(sink, first), err);
    free(dir);
    if (!sink->file) {
        free(sink);
        return NULL;
    }
    return sink;
}

/* All values of a record are one event: each tag has its own steps, which
 * rise, since those of evaluations are others than those of training.
 */
static int tensorboard_record(struct dt_sink *sink,
                              const struct dt_report_record *record,
                              struct dt_error *err)
{
    char tag[DT_TAG_BYTES];
    if (isfinite(record->wall))
        sink->wall = record->wall;
    struct dt_protobuf *event = dt_event_file_begin(
        sink->file, sink->wall, tensorboard_x(sink, record->step));
    const size_t summary = dt_protobuf_begin(event, DT_EVENT_SUMMARY);
    for (size_t i = 0; i < record->count; i++) {
        if (!dt_names_tag(sink->names, record, i, tag))
            continue;
        const size_t value = dt_protobuf_begin(event, DT_SUMMARY_VALUE);
        dt_protobuf_string(event, DT_VALUE_TAG, tag);
        dt_protobuf_float(event, DT_VALUE_SIMPLE,
                          (float)record->value[i].value);
        dt_protobuf_end(event, value);
    }
    dt_protobuf_end(event, summary);
    return dt_event_file_end(sink->file, err);
}

const struct dt_sink_type dt_sink_tensorboard = {
    .name = "tensorboard",
    .open = tensorboard_open,
    .record = tensorboard_record,
    .close = tensorboard_close,
};
