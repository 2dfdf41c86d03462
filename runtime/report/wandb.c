/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wandb.c - records as an offline run of Weights & Biases
 *
 * Nothing of wandb is needed; `wandb sync DIR` uploads the run from wherever
 * there is a network. The messages are those of wandb_internal.proto. What
 * wandb itself would fill in is written here: steps, times and the summary.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "report/names.h"
#include "report/sink.h"
#include "report/wandb_dir.h"
#include "report/wandb_file.h"
#include "report/wandb_run.h"

enum {
    RECORD_HISTORY = 2,
    RECORD_SUMMARY = 3,
    RECORD_STATS = 7,
    RECORD_METRIC = 12,
    RECORD_EXIT = 18,
    RECORD_HEADER = 21,
    HISTORY_STEP = 2,
    STEP_NUM = 1,
    LIST_ITEM = 1, /* of a history, and an update of a summary */
    ITEM_KEY = 1,
    ITEM_NESTED_KEY = 2,
    ITEM_JSON = 16,
    STATS_TIME = 2,
    STATS_ITEM = 3,
    METRIC_NAME = 1,
    METRIC_GLOB = 2,
    METRIC_STEP = 4,
    METRIC_OPTIONS = 6,
    OPTION_STEP_SYNC = 1,
    OPTION_DEFINED = 3,
    EXIT_CODE = 1,
    EXIT_RUNTIME = 2,
    HEADER_VERSION = 1,
    VERSION_PRODUCER = 1,
};

#define STEP_METRIC "train/global_step"

/* At most as often as this, in seconds, summaries and system graphs. */
static const double interval_s = 15;

struct dt_sink {
    struct dt_wandb_file *file;
    enum dt_names names;
    double start, wall;          /* of the run and of the last record */
    double summed, stats;        /* when the last of these were written */
    uint64_t lines;              /* of the history */
    enum dt_split last;          /* the split of the last one */
    struct dt_protobuf items[2]; /* the last one of each split */
    bool ended_well, broken;
};

static int wandb_put(struct dt_sink *sink, struct dt_error *err)
{
    int rc = dt_wandb_file_end(sink->file, err);
    sink->broken |= rc < 0;
    return rc;
}

/* --- the beginning --- */

static int put_header(struct dt_sink *sink, struct dt_error *err)
{
    struct dt_protobuf *record = dt_wandb_file_begin(sink->file);
    const size_t header = dt_protobuf_begin(record, RECORD_HEADER);
    const size_t version = dt_protobuf_begin(record, HEADER_VERSION);
    dt_protobuf_string(record, VERSION_PRODUCER, "disttrain " PACKAGE_VERSION);
    dt_protobuf_end(record, version);
    dt_protobuf_end(record, header);
    return wandb_put(sink, err);
}

/* Makes the optimizer step the x axis of all values, as transformers does. */
static int put_metric(struct dt_sink *sink, const char *name, const char *glob,
                      struct dt_error *err)
{
    struct dt_protobuf *record = dt_wandb_file_begin(sink->file);
    const size_t metric = dt_protobuf_begin(record, RECORD_METRIC);
    if (name)
        dt_protobuf_string(record, METRIC_NAME, name);
    if (glob) {
        dt_protobuf_string(record, METRIC_GLOB, glob);
        dt_protobuf_string(record, METRIC_STEP, STEP_METRIC);
    }
    const size_t options = dt_protobuf_begin(record, METRIC_OPTIONS);
    if (glob)
        dt_protobuf_varint(record, OPTION_STEP_SYNC, true);
    dt_protobuf_varint(record, OPTION_DEFINED, true);
    dt_protobuf_end(record, options);
    dt_protobuf_end(record, metric);
    return wandb_put(sink, err);
}

static void wandb_free(struct dt_sink *sink)
{
    dt_wandb_file_destroy(sink->file);
    dt_protobuf_fini(&sink->items[DT_SPLIT_TRAIN]);
    dt_protobuf_fini(&sink->items[DT_SPLIT_EVAL]);
    free(sink);
}

/* When the run started for the first time. */
static double first_start(const json_t *run)
{
    const json_t *start = json_array_get(json_object_get(run, "starts"), 0);
    const json_t *wall = json_object_get(start, "wall");
    return json_is_number(wall) ? json_number_value(wall) : dt_clock_wall();
}

static int put_run(struct dt_sink *sink, const json_t *run, const char *id,
                   struct dt_error *err)
{
    struct dt_protobuf *record = dt_wandb_file_begin(sink->file);
    if (dt_wandb_run(record, run, id, sink->start, err) < 0)
        return -1;
    return wandb_put(sink, err);
}

static struct dt_sink *wandb_open(const struct dt_sink_options *options,
                                  struct dt_error *err)
{
    const json_t *run = options->run;
    const char *id = json_string_value(json_object_get(run, "run_id"));
    struct dt_wandb_dir dir;
    struct dt_sink *sink = calloc(1, sizeof(*sink));
    if (!sink) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    sink->start = sink->wall = sink->summed = first_start(run);
    sink->names = dt_names_of(dt_sink_setting_text(run, "logging.names"));
    if (dt_wandb_dir_make(&dir, options->dir, id ? id : "", dt_clock_wall(),
                          err) == 0)
        sink->file = dt_wandb_file_create(dir.file, err);
    if (sink->file && put_header(sink, err) == 0 &&
        put_run(sink, run, dir.id, err) == 0 &&
        put_metric(sink, STEP_METRIC, NULL, err) == 0 &&
        put_metric(sink, NULL, "*", err) == 0)
        return sink;
    wandb_free(sink);
    return NULL;
}

/* --- a record --- */

/* Appends an item: JSON, which in wandb's files may be NaN. */
static void put_item(struct dt_protobuf *to, uint32_t list, uint32_t key,
                     const char *name, double value, int digits)
{
    char text[32];
    if (isfinite(value))
        snprintf(text, sizeof(text), "%.*g", digits, value);
    else
        snprintf(text, sizeof(text), "NaN");
    const size_t item = dt_protobuf_begin(to, list);
    dt_protobuf_string(to, key, name);
    dt_protobuf_string(to, ITEM_JSON, text);
    dt_protobuf_end(to, item);
}

static void put_value(struct dt_protobuf *to, const char *name, double value)
{
    enum { DIGITS = 9 }; /* as in metrics.jsonl */
    put_item(to, LIST_ITEM, ITEM_NESTED_KEY, name, value, DIGITS);
}

/* Whole numbers and times, of which no digit may be lost. */
static void put_count(struct dt_protobuf *to, const char *name, double value)
{
    enum { DIGITS = 16 };
    put_item(to, LIST_ITEM, ITEM_NESTED_KEY, name, value, DIGITS);
}

static double runtime_of(const struct dt_sink *sink)
{
    return fmax(sink->wall - sink->start, 0);
}

/* The last values of both splits; the newer ones come second and stay. */
static int put_summary(struct dt_sink *sink, struct dt_error *err)
{
    struct dt_protobuf *record = dt_wandb_file_begin(sink->file);
    const struct dt_protobuf *newer = &sink->items[sink->last],
                             *older = &sink->items[!sink->last];
    char text[32];
    const size_t summary = dt_protobuf_begin(record, RECORD_SUMMARY);
    dt_protobuf_raw(record, older->data, older->bytes);
    dt_protobuf_raw(record, newer->data, newer->bytes);
    snprintf(text, sizeof(text), "%.0f", runtime_of(sink));
    const size_t item = dt_protobuf_begin(record, LIST_ITEM);
    dt_protobuf_string(record, ITEM_NESTED_KEY, "_wandb");
    dt_protobuf_string(record, ITEM_NESTED_KEY, "runtime");
    dt_protobuf_string(record, ITEM_JSON, text);
    dt_protobuf_end(record, item);
    dt_protobuf_end(record, summary);
    sink->summed = sink->wall;
    return wandb_put(sink, err);
}

static void put_items(struct dt_sink *sink,
                      const struct dt_report_record *record)
{
    char tag[DT_TAG_BYTES];
    struct dt_protobuf *items = &sink->items[record->split];
    dt_protobuf_clear(items);
    for (size_t i = 0; i < record->count; i++)
        if (dt_names_tag(sink->names, record, i, tag))
            put_value(items, tag, record->value[i].value);
    put_count(items, STEP_METRIC, (double)record->step);
    put_count(items, "_step", (double)sink->lines);
    put_count(items, "_runtime", runtime_of(sink));
    put_count(items, "_timestamp", sink->wall);
}

static int wandb_record(struct dt_sink *sink,
                        const struct dt_report_record *record,
                        struct dt_error *err)
{
    if (isfinite(record->wall))
        sink->wall = record->wall;
    put_items(sink, record);
    struct dt_protobuf *out = dt_wandb_file_begin(sink->file);
    const struct dt_protobuf *items = &sink->items[record->split];
    const size_t history = dt_protobuf_begin(out, RECORD_HISTORY);
    dt_protobuf_raw(out, items->data, items->bytes);
    const size_t step = dt_protobuf_begin(out, HISTORY_STEP);
    dt_protobuf_varint(out, STEP_NUM, sink->lines);
    dt_protobuf_end(out, step);
    dt_protobuf_end(out, history);
    out->failed |= items->failed;
    sink->lines++;
    sink->last = record->split;
    if (wandb_put(sink, err) < 0)
        return -1;
    return sink->wall >= sink->summed + interval_s ? put_summary(sink, err) : 0;
}

/* --- system graphs --- */

static void put_stat(struct dt_protobuf *to, size_t rank, const char *what,
                     double value)
{
    enum { DIGITS = 12 }; /* of bytes */
    char name[64];
    snprintf(name, sizeof(name), "gpu.%zu.%s", rank, what);
    if (isfinite(value))
        put_item(to, STATS_ITEM, ITEM_KEY, name, value, DIGITS);
}

/* One graph for each rank, whose number stands where wandb has that of a GPU.
 */
static int wandb_ranks(struct dt_sink *sink,
                       const struct dt_report_ranks *ranks,
                       struct dt_error *err)
{
    if (!isfinite(ranks->wall) || ranks->wall < sink->stats + interval_s)
        return 0;
    sink->stats = ranks->wall;
    struct dt_protobuf *record = dt_wandb_file_begin(sink->file);
    const size_t stats = dt_protobuf_begin(record, RECORD_STATS);
    dt_wandb_time(record, STATS_TIME, ranks->wall);
    for (size_t i = 0; i < ranks->count; i++) {
        if (ranks->mem)
            put_stat(record, i, "memoryAllocatedBytes", ranks->mem[i]);
        if (ranks->power_w)
            put_stat(record, i, "powerWatts", ranks->power_w[i]);
    }
    dt_protobuf_end(record, stats);
    return wandb_put(sink, err);
}

/* --- the end --- */

static int wandb_event(struct dt_sink *sink,
                       const struct dt_report_event *event,
                       struct dt_error *err)
{
    static const struct {
        const char *kind;
        bool well;
    } kinds[] = {{"end", true},
                 {"stop", true},
                 {"start", false},
                 {"resume", false},
                 {"failed", false}};
    (void)err;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!strcmp(event->kind, kinds[i].kind))
            sink->ended_well = kinds[i].well;
    return 0;
}

/* A run without a record of its exit counts as crashed. */
static void put_exit(struct dt_sink *sink)
{
    struct dt_protobuf *record = dt_wandb_file_begin(sink->file);
    const size_t message = dt_protobuf_begin(record, RECORD_EXIT);
    dt_protobuf_varint(record, EXIT_CODE, !sink->ended_well);
    dt_protobuf_varint(record, EXIT_RUNTIME, (uint64_t)runtime_of(sink));
    dt_protobuf_end(record, message);
    wandb_put(sink, NULL);
}

static void wandb_close(struct dt_sink *sink)
{
    if (!sink)
        return;
    if (!sink->broken && (sink->lines == 0 || put_summary(sink, NULL) == 0))
        put_exit(sink);
    wandb_free(sink);
}

const struct dt_sink_type dt_sink_wandb = {
    .name = "wandb",
    .whole = true,
    .open = wandb_open,
    .record = wandb_record,
    .event = wandb_event,
    .ranks = wandb_ranks,
    .close = wandb_close,
};
