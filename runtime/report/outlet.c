/* SPDX-License-Identifier: Apache-2.0 */
/* outlet.c - gives records to files and sinks, in a thread */
#include "config.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/log.h"
#include "report/entry.h"
#include "report/line_file.h"
#include "report/outlet.h"

enum {
    SINKS_MAX = 8,
    WAIT_MS = 2000, /* for a record; a disk that answers takes less */
    END_MS = 5000,  /* for all of them, at the end */
};

struct open_sink {
    const struct dt_sink_type *type;
    struct dt_sink *sink; /* NULL: it has failed */
};

struct dt_outlet {
    char *dir; /* of the files; "records" if there are none */
    bool late; /* records wait in memory */
    long lost; /* no more could wait */
    struct dt_background *writer;

    /* The writer's; this thread's while it has nothing to do. */
    struct dt_line_file *metrics, *events, *ranks; /* NULL: none */
    struct open_sink sinks[SINKS_MAX];
    size_t sink_count;
};

/* --- in the writer --- */

static void close_sink(struct open_sink *s)
{
    if (s->sink)
        s->type->close(s->sink);
    s->sink = NULL;
}

/* Closes a sink that could not write. */
static void drop_sink(struct open_sink *s, const struct dt_error *why)
{
    dt_log(DT_LOG_WARN, "report",
           "%s: %s; nothing more is written there, and the run continues",
           s->type->name, why->text);
    close_sink(s);
}

static void give_sink(struct open_sink *s, const struct dt_entry *entry)
{
    const struct dt_sink_type *type = s->type;
    struct dt_error err;
    int rc = 0;
    if (!s->sink)
        return;
    if (entry->kind == DT_ENTRY_RECORD)
        rc = type->record(s->sink, &entry->record, &err);
    else if (entry->kind == DT_ENTRY_EVENT && type->event)
        rc = type->event(s->sink, &entry->event, &err);
    else if (entry->kind == DT_ENTRY_RANKS && type->ranks)
        rc = type->ranks(s->sink, &entry->ranks, &err);
    if (rc < 0)
        drop_sink(s, &err);
}

static void print(const struct dt_entry *entry, FILE *out)
{
    if (entry->kind == DT_ENTRY_RECORD)
        dt_record_print(&entry->record, entry->time, out);
    else if (entry->kind == DT_ENTRY_EVENT)
        dt_event_print(&entry->event, out);
    else
        dt_ranks_print(&entry->ranks, out);
}

static void write_entry(void *ctx, void *item)
{
    struct dt_outlet *o = ctx;
    struct dt_entry *entry = item;
    struct dt_line_file *lines = entry->kind == DT_ENTRY_RECORD  ? o->metrics
                                 : entry->kind == DT_ENTRY_EVENT ? o->events
                                                                 : o->ranks;
    FILE *out = lines ? dt_line_file_begin(lines) : NULL;
    if (out) {
        print(entry, out);
        dt_line_file_end(lines);
    }
    if (!dt_background_is_left(o->writer)) /* a sink may be in use by it */
        for (size_t i = 0; i < o->sink_count; i++)
            give_sink(&o->sinks[i], entry);
    free(entry);
}

/* --- to the writer --- */

/* Warns once when the disk does not answer, and says when it does again. */
static void tell_late(struct dt_outlet *o, bool late)
{
    if (late && !o->late)
        dt_log(DT_LOG_WARN, "report",
               "%s: the disk has not answered for %d s; the run continues, and "
               "what it records waits in memory",
               o->dir, WAIT_MS / 1000);
    else if (!late && o->late)
        dt_log(DT_LOG_WARN, "report",
               "%s: the disk answers again; %ld records are lost", o->dir,
               o->lost);
    if (!late)
        o->lost = 0;
    o->late = late;
}

static void give(struct dt_outlet *o, struct dt_entry *entry)
{
    const int rc = entry ? dt_background_give(o->writer, entry, WAIT_MS) : -1;
    if (rc < 0) {
        free(entry);
        o->lost++;
    }
    tell_late(o, rc != 0);
}

void dt_outlet_record(struct dt_outlet *outlet,
                      const struct dt_report_record *record, double time)
{
    give(outlet, dt_entry_record(record, time));
}

void dt_outlet_event(struct dt_outlet *outlet,
                     const struct dt_report_event *event)
{
    give(outlet, dt_entry_event(event));
}

void dt_outlet_ranks(struct dt_outlet *outlet,
                     const struct dt_report_ranks *ranks)
{
    give(outlet, dt_entry_ranks(ranks));
}

void dt_outlet_add_sink(struct dt_outlet *outlet,
                        const struct dt_sink_type *type,
                        const struct dt_sink_options *options)
{
    struct open_sink *s = &outlet->sinks[outlet->sink_count];
    struct dt_error err;
    assert(outlet->sink_count < SINKS_MAX);
    *s = (struct open_sink){type, type->open(options, &err)};
    if (s->sink)
        outlet->sink_count++;
    else
        dt_log(DT_LOG_WARN, "report", "%s: %s; the run continues without it",
               type->name, err.text);
}

int dt_outlet_sync(struct dt_outlet *outlet, struct dt_error *err)
{
    if (!outlet->metrics)
        return 0;
    if (!dt_background_wait(outlet->writer, WAIT_MS))
        return dt_error_set(err, EX_IOERR, "%s: the disk does not answer",
                            outlet->dir);
    return dt_line_file_sync(outlet->metrics, err);
}

/* --- its beginning and its end --- */

/* Opens a file of the run. */
static struct dt_line_file *open_lines(const char *dir, const char *name,
                                       long last, struct dt_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return dt_line_file_open(path, last, err);
}

/* Opens a file that a run can do without. */
static struct dt_line_file *try_lines(const char *dir, const char *name,
                                      bool resumes)
{
    struct dt_error err;
    struct dt_line_file *lines =
        open_lines(dir, name, resumes ? LONG_MAX : -1, &err);
    if (!lines)
        dt_log(DT_LOG_WARN, "report", "%s; the run continues without it",
               err.text);
    return lines;
}

static int open_files(struct dt_outlet *o, const char *dir, long first_step,
                      bool resumes, struct dt_error *err)
{
    o->metrics = open_lines(dir, "metrics.jsonl", first_step, err);
    if (!o->metrics)
        return -1;
    o->events = try_lines(dir, "events.jsonl", resumes);
    o->ranks = try_lines(dir, "ranks.jsonl", resumes);
    return 0;
}

struct dt_outlet *dt_outlet_create(const char *dir, long first_step,
                                   bool resumes, struct dt_error *err)
{
    struct dt_outlet *o = calloc(1, sizeof(*o));
    if (!o || !(o->dir = strdup(dir ? dir : "records"))) {
        dt_error_set(err, EX_OSERR, "out of memory");
        free(o);
        return NULL;
    }
    if ((!dir || open_files(o, dir, first_step, resumes, err) == 0) &&
        (o->writer = dt_background_create("dt-report", write_entry, o, err)))
        return o;
    dt_outlet_destroy(o);
    return NULL;
}

void dt_outlet_destroy(struct dt_outlet *outlet)
{
    if (!outlet)
        return;
    if (!dt_background_destroy(outlet->writer, END_MS)) {
        dt_log(DT_LOG_WARN, "report",
               "%s: the last records are not written: the disk does not answer",
               outlet->dir);
        return; /* the writer has the rest */
    }
    for (size_t i = 0; i < outlet->sink_count; i++)
        close_sink(&outlet->sinks[i]);
    dt_line_file_close(outlet->metrics);
    dt_line_file_close(outlet->events);
    dt_line_file_close(outlet->ranks);
    free(outlet->dir);
    free(outlet);
}
