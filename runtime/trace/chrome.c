/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chrome.c - writes a trace as JSON in Chrome's Trace Event Format
 *
 * For readers that know no protobuf. A span is one event X, with a thread of
 * its own for each lane of a rank; times are microseconds.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <jansson.h>

#include "trace/join.h"

struct writer {
    const struct dt_trace_set *set;
    const struct dt_trace_part *part;
    FILE *out;
};

/* A host's name may be any bytes. */
static void write_string(FILE *out, const char *text)
{
    json_t *string = json_string(text);
    if (!string || json_dumpf(string, out, JSON_ENCODE_ANY) < 0)
        fputs("\"?\"", out);
    json_decref(string);
}

/* The number of a rank's process; those of its threads follow it. Perfetto
 * takes 0 and a thread that has the number of another process for special ones,
 * and their spans for those of other lanes.
 */
static int32_t process_of(const struct writer *w)
{
    enum { NUMBERS = 100 }; /* of a process and its threads */
    return (w->part->head.rank + 1) * NUMBERS;
}

/* The beginning that all events of a lane have. */
static void event_begin(const struct writer *w, const char *phase,
                        unsigned lane)
{
    const int32_t process = process_of(w);
    fprintf(w->out, ",\n{\"ph\":\"%s\",\"pid\":%" PRId32 ",\"tid\":%" PRId32,
            phase, process, process + 1 + (int32_t)lane);
}

static void write_time(const struct writer *w, const char *key, int64_t ns)
{
    fprintf(w->out, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000,
            (int)(ns % 1000));
}

static void write_text(const struct writer *w, const char *key,
                       const char *text)
{
    fprintf(w->out, ",\"%s\":", key);
    write_string(w->out, text);
}

static void write_meta(const struct writer *w, const char *what, unsigned lane,
                       const char *name)
{
    event_begin(w, "M", lane);
    write_text(w, "name", what);
    fputs(",\"args\":{\"name\":", w->out);
    write_string(w->out, name);
    fputs("}}", w->out);
}

static void write_names(const struct writer *w)
{
    char name[DT_TRACE_HOST + 32];
    dt_trace_rank_name(w->part, name, sizeof(name));
    write_meta(w, "process_name", 0, name);
    for (uint32_t i = 0; i < w->part->head.lanes; i++)
        write_meta(w, "thread_name", i, w->part->head.lane[i]);
}

static void write_span(const struct writer *w,
                       const struct dt_trace_event *event)
{
    event_begin(w, "X", event->lane);
    write_time(w, "ts", event->begin);
    write_time(w, "dur", event->end - event->begin);
    write_text(w, "name", dt_trace_name(w->part, event));
    fprintf(w->out, ",\"args\":{\"number\":%" PRIu64, event->number);
    if (event->kind == DT_SPAN_COLLECTIVE)
        fprintf(w->out, ",\"bytes\":%" PRIu64 ",\"ranks\":%" PRId32,
                event->bytes, event->size);
    fputs("}}", w->out);
}

static void write_flow(const struct writer *w,
                       const struct dt_trace_event *event)
{
    const struct dt_trace_ends flow = dt_trace_flow_of(w->set, w->part, event);
    if (flow.id == 0)
        return;
    event_begin(w, flow.first ? "s" : flow.last ? "f" : "t", event->lane);
    write_time(w, "ts", event->begin);
    fprintf(w->out, ",\"id\":%" PRIu64 "%s", flow.id,
            flow.last ? ",\"bp\":\"e\"" : "");
    write_text(w, "cat", "collective");
    write_text(w, "name", dt_trace_name(w->part, event));
    fputs("}", w->out);
}

static void write_counter(const struct writer *w,
                          const struct dt_trace_event *event)
{
    event_begin(w, "C", event->lane);
    write_time(w, "ts", event->begin);
    write_text(w, "name", dt_trace_name(w->part, event));
    fprintf(w->out, ",\"args\":{\"bytes\":%" PRIu64 "}}", event->bytes);
}

static void write_part(const struct writer *w)
{
    write_names(w);
    for (uint32_t i = 0; i < w->part->head.events; i++) {
        const struct dt_trace_event *event = &w->part->events[i];
        if (dt_trace_is_counter(event)) {
            write_counter(w, event);
            continue;
        }
        write_span(w, event);
        write_flow(w, event);
    }
}

int dt_trace_write_chrome(const struct dt_trace_set *set, FILE *out,
                          struct dt_error *err)
{
    struct writer w = {.set = set, .out = out};
    char text[512];
    dt_trace_describe(set, text, sizeof(text));
    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"about\":", out);
    write_string(out, text);
    fprintf(out, ",\"program\":\"%s\"},\"traceEvents\":[", PACKAGE_STRING);
    fprintf(out,
            "{\"ph\":\"M\",\"name\":\"trace\",\"args\":{\"steps\":[%ld,%ld]}}",
            set->first, set->last);
    for (size_t i = 0; i < set->count; i++) {
        w.part = &set->parts[i];
        write_part(&w);
    }
    fputs("\n]}\n", out);
    return ferror(out) ? dt_error_set(err, EX_IOERR, "%s", strerror(errno)) : 0;
}
