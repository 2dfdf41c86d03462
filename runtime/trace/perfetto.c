/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfetto.c - writes a trace in the format of Perfetto
 *
 * A file is a Trace; its packets are field 1. Field numbers come from
 * https://github.com/google/perfetto, protos/perfetto/trace: trace_packet,
 * interned_data, track_event and track_descriptor. Each rank is a process with
 * a track for each lane, and a sequence of packets with names of its own.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/protobuf.h"
#include "trace/trace_impl.h"

/* TracePacket, in a Trace */
enum {
    PACKET = 1,
    PACKET_TIME = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_NAMES = 12,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60,
    NAMES_CLEARED = 1, /* flags */
    NAMES_NEEDED = 2,
};

/* TrackEvent, DebugAnnotation; InternedData, whose names have ids */
enum {
    EVENT_NOTES = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_ID = 10,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30,
    EVENT_FLOWS = 47,
    TYPE_BEGIN = 1,
    TYPE_END = 2,
    TYPE_INSTANT = 3,
    TYPE_COUNTER = 4,
    NOTE_NAME_ID = 1,
    NOTE_UINT = 3,
    NOTE_DOUBLE = 5,
    NAMES_EVENT = 2,
    NAMES_NOTE = 3,
    NAMED_ID = 1,
    NAMED_TEXT = 2,
};

/* TrackDescriptor, ProcessDescriptor, CounterDescriptor */
enum {
    TRACK_ID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    TRACK_ORDER = 11,
    TRACK_PLACE = 12,
    ORDER_EXPLICIT = 3,
    PROCESS_ID = 1,
    PROCESS_NAME = 6,
    COUNTER_UNIT = 3,
    UNIT_BYTES = 3,
};

/* Notes of spans; their ids are these plus one. */
enum { NOTE_NUMBER, NOTE_BYTES, NOTE_RANKS, NOTE_RATE, NOTES };
static const char *const note_names[NOTES] = {
    [NOTE_NUMBER] = "number",
    [NOTE_BYTES] = "bytes",
    [NOTE_RANKS] = "ranks",
    [NOTE_RATE] = "GB/s",
};

enum { DEPTH = 64 }; /* of spans within spans */

struct writer {
    const struct dt_trace_set *set;
    const struct dt_trace_part *part;
    FILE *out;
    struct dt_protobuf packet;
    bool failed;
};

/* --- packets --- */

/* Begins a packet of the part's sequence; sequence 1 belongs to the file. */
static size_t packet_begin(struct writer *w)
{
    dt_protobuf_clear(&w->packet);
    const size_t mark = dt_protobuf_begin(&w->packet, PACKET);
    dt_protobuf_varint(&w->packet, PACKET_SEQUENCE,
                       w->part ? (uint64_t)w->part->head.rank + 2 : 1);
    return mark;
}

static void packet_end(struct writer *w, size_t mark)
{
    dt_protobuf_end(&w->packet, mark);
    w->failed |= w->packet.failed || fwrite(w->packet.data, 1, w->packet.bytes,
                                            w->out) != w->packet.bytes;
}

/* Ids of tracks: of the file, of a rank, of a lane, of a counter. */
enum { TRACK_FILE = 1, TRACK_LANES = 1, TRACK_COUNTERS = 100 };

static uint64_t rank_track(const struct writer *w)
{
    return ((uint64_t)w->part->head.rank + 1) << 32;
}

static uint64_t event_track(const struct writer *w,
                            const struct dt_trace_event *event)
{
    return rank_track(w) + (dt_trace_is_counter(event)
                                ? (uint64_t)TRACK_COUNTERS + event->name
                                : (uint64_t)TRACK_LANES + event->lane);
}

/* --- tracks --- */

static void write_process(struct writer *w)
{
    char name[DT_TRACE_HOST + 32];
    snprintf(name, sizeof(name), "rank %d %s", w->part->head.rank,
             w->part->head.host);
    const size_t packet = packet_begin(w);
    const size_t track = dt_protobuf_begin(&w->packet, PACKET_TRACK);
    dt_protobuf_varint(&w->packet, TRACK_ID, rank_track(w));
    const size_t process = dt_protobuf_begin(&w->packet, TRACK_PROCESS);
    dt_protobuf_varint(&w->packet, PROCESS_ID,
                       (uint64_t)w->part->head.rank + 1);
    dt_protobuf_string(&w->packet, PROCESS_NAME, name);
    dt_protobuf_end(&w->packet, process);
    dt_protobuf_varint(&w->packet, TRACK_ORDER, ORDER_EXPLICIT);
    dt_protobuf_end(&w->packet, track);
    packet_end(w, packet);
}

/* Writes a track below that of the rank, or with `parent` 0 one of the file. */
static void write_track(struct writer *w, uint64_t id, uint64_t parent,
                        const char *name, bool counter)
{
    const size_t packet = packet_begin(w);
    const size_t track = dt_protobuf_begin(&w->packet, PACKET_TRACK);
    dt_protobuf_varint(&w->packet, TRACK_ID, id);
    dt_protobuf_string(&w->packet, TRACK_NAME, name);
    if (parent > 0) {
        dt_protobuf_varint(&w->packet, TRACK_PARENT, parent);
        dt_protobuf_varint(&w->packet, TRACK_PLACE, id - parent);
    }
    if (counter) {
        const size_t unit = dt_protobuf_begin(&w->packet, TRACK_COUNTER);
        dt_protobuf_varint(&w->packet, COUNTER_UNIT, UNIT_BYTES);
        dt_protobuf_end(&w->packet, unit);
    }
    dt_protobuf_end(&w->packet, track);
    packet_end(w, packet);
}

static void write_tracks(struct writer *w)
{
    const struct dt_trace_part *part = w->part;
    bool counters[DT_TRACE_NAMES + 1] = {false};
    write_process(w);
    for (uint32_t i = 0; i < part->head.lanes; i++)
        write_track(w, rank_track(w) + TRACK_LANES + i, rank_track(w),
                    part->head.lane[i], false);
    for (uint32_t i = 0; i < part->head.events; i++)
        if (dt_trace_is_counter(&part->events[i]))
            counters[part->events[i].name] = true;
    for (uint32_t i = 0; i < part->head.names; i++)
        if (counters[i])
            write_track(w, rank_track(w) + TRACK_COUNTERS + i, rank_track(w),
                        part->head.name[i], true);
}

/* --- names --- */

static void write_name(struct writer *w, uint32_t kind, uint64_t id,
                       const char *text)
{
    const size_t name = dt_protobuf_begin(&w->packet, kind);
    dt_protobuf_varint(&w->packet, NAMED_ID, id);
    dt_protobuf_string(&w->packet, NAMED_TEXT, text);
    dt_protobuf_end(&w->packet, name);
}

/* Ids of event names: first those of kinds, then those of the part; from 1. */
static uint64_t name_id(const struct dt_trace_part *part,
                        const struct dt_trace_event *event)
{
    return event->name < part->head.names
               ? (uint64_t)DT_SPAN_KINDS + event->name + 1
               : (uint64_t)event->kind + 1;
}

/* Writes all names of a part, before its first event. */
static void write_names(struct writer *w)
{
    const struct dt_trace_head *head = &w->part->head;
    const size_t packet = packet_begin(w);
    dt_protobuf_varint(&w->packet, PACKET_FLAGS, NAMES_CLEARED);
    const size_t names = dt_protobuf_begin(&w->packet, PACKET_NAMES);
    for (unsigned i = 0; i < DT_SPAN_KINDS; i++)
        write_name(w, NAMES_EVENT, i + 1, dt_span_name((enum dt_span_kind)i));
    for (uint32_t i = 0; i < head->names; i++)
        write_name(w, NAMES_EVENT, DT_SPAN_KINDS + i + 1, head->name[i]);
    for (unsigned i = 0; i < NOTES; i++)
        write_name(w, NAMES_NOTE, i + 1, note_names[i]);
    dt_protobuf_end(&w->packet, names);
    packet_end(w, packet);
}

/* --- events --- */

static size_t event_begin(struct writer *w, uint64_t track, int64_t time,
                          unsigned type)
{
    dt_protobuf_varint(&w->packet, PACKET_TIME, (uint64_t)time);
    if (w->part)
        dt_protobuf_varint(&w->packet, PACKET_FLAGS, NAMES_NEEDED);
    const size_t mark = dt_protobuf_begin(&w->packet, PACKET_EVENT);
    dt_protobuf_varint(&w->packet, EVENT_TYPE, type);
    dt_protobuf_varint(&w->packet, EVENT_TRACK, track);
    return mark;
}

static void write_note(struct writer *w, unsigned note, uint64_t value)
{
    const size_t mark = dt_protobuf_begin(&w->packet, EVENT_NOTES);
    dt_protobuf_varint(&w->packet, NOTE_NAME_ID, note + 1);
    dt_protobuf_varint(&w->packet, NOTE_UINT, value);
    dt_protobuf_end(&w->packet, mark);
}

static void write_notes(struct writer *w, const struct dt_trace_event *event)
{
    const int64_t ns = event->end - event->begin;
    write_note(w, NOTE_NUMBER, event->number);
    if (event->kind != DT_SPAN_COLLECTIVE)
        return;
    write_note(w, NOTE_BYTES, event->bytes);
    write_note(w, NOTE_RANKS, (uint64_t)event->size);
    const size_t mark = dt_protobuf_begin(&w->packet, EVENT_NOTES);
    dt_protobuf_varint(&w->packet, NOTE_NAME_ID, NOTE_RATE + 1);
    dt_protobuf_double(&w->packet, NOTE_DOUBLE,
                       ns > 0 ? (double)event->bytes / (double)ns : 0);
    dt_protobuf_end(&w->packet, mark);
}

static void write_begin(struct writer *w, const struct dt_trace_event *event)
{
    const uint64_t flow = dt_trace_flow_of(w->set, w->part, event);
    const size_t packet = packet_begin(w);
    const size_t mark =
        event_begin(w, event_track(w, event), event->begin, TYPE_BEGIN);
    dt_protobuf_varint(&w->packet, EVENT_NAME_ID, name_id(w->part, event));
    write_notes(w, event);
    if (flow > 0)
        dt_protobuf_fixed64(&w->packet, EVENT_FLOWS, flow);
    dt_protobuf_end(&w->packet, mark);
    packet_end(w, packet);
}

static void write_end(struct writer *w, const struct dt_trace_event *event)
{
    const size_t packet = packet_begin(w);
    dt_protobuf_end(&w->packet, event_begin(w, event_track(w, event),
                                            event->end, TYPE_END));
    packet_end(w, packet);
}

static void write_counter(struct writer *w, const struct dt_trace_event *event)
{
    const size_t packet = packet_begin(w);
    const size_t mark =
        event_begin(w, event_track(w, event), event->begin, TYPE_COUNTER);
    dt_protobuf_varint(&w->packet, EVENT_COUNTER, event->bytes);
    dt_protobuf_end(&w->packet, mark);
    packet_end(w, packet);
}

/* Writes the events of a part, which are in order: a span ends before the next
 * span outside of it begins.
 */
static void write_events(struct writer *w)
{
    const struct dt_trace_event *open[DEPTH];
    const struct dt_trace_event *event = w->part->events;
    const struct dt_trace_event *end = event + w->part->head.events;
    size_t depth = 0;
    for (; event < end; event++) {
        while (depth > 0 && (open[depth - 1]->lane != event->lane ||
                             open[depth - 1]->end <= event->begin))
            write_end(w, open[--depth]);
        if (dt_trace_is_counter(event)) {
            write_counter(w, event);
        } else if (depth < DEPTH) {
            write_begin(w, event);
            open[depth++] = event;
        }
    }
    while (depth > 0)
        write_end(w, open[--depth]);
}

/* Writes the description of the trace, as an event before all others. */
static void write_about(struct writer *w)
{
    char text[512];
    dt_trace_describe(w->set, text, sizeof(text));
    write_track(w, TRACK_FILE, 0, PACKAGE_STRING, false);
    const size_t packet = packet_begin(w);
    const size_t mark =
        event_begin(w, TRACK_FILE, w->set->parts[0].head.begin, TYPE_INSTANT);
    dt_protobuf_string(&w->packet, EVENT_NAME, text);
    dt_protobuf_end(&w->packet, mark);
    packet_end(w, packet);
}

int dt_trace_write_perfetto(const struct dt_trace_set *set, FILE *out,
                            struct dt_error *err)
{
    struct writer w = {.set = set, .out = out};
    write_about(&w);
    for (size_t i = 0; i < set->count; i++) {
        w.part = &set->parts[i];
        write_tracks(&w);
        write_names(&w);
        write_events(&w);
    }
    const bool memory = w.packet.failed;
    dt_protobuf_fini(&w.packet);
    if (!w.failed)
        return 0;
    return dt_error_set(err, memory ? EX_OSERR : EX_IOERR, "%s",
                        memory ? "no memory for a packet" : strerror(errno));
}
