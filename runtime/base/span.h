/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.h - how the threads of this process spend their time
 *
 * A span is the time between begin and end on one thread. Its time always
 * counts in totals, which metrics are made of; while a trace is taken, the span
 * itself is kept, too. Spans nest; a kind's total is without the spans within,
 * so that totals of one thread never count a moment twice. Within a save or an
 * evaluation nothing else counts: all of it is that of the save.
 *
 * The time is the host's. A device that only queues work, as CUDA does, is done
 * with it later; there the totals of passes are those of queueing.
 */
#ifndef DT_BASE_SPAN_H
#define DT_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum dt_span_kind {
    DT_SPAN_STEP, /* all of a step; its total is the time of no other kind */
    DT_SPAN_DATA_WAIT, /* for a batch of the loader */
    DT_SPAN_FORWARD,   /* of a unit; number: which */
    DT_SPAN_BACKWARD,  /* of a unit */
    DT_SPAN_LOSS, /* the last unit forward, the loss, the last unit backward */
    DT_SPAN_VALUES,    /* of tokens, by weights that this pass does not train */
    DT_SPAN_OPTIMIZER, /* norm, clipping, AdamW */
    DT_SPAN_DEVICE_WAIT, /* for queued work of a device */
    DT_SPAN_COMM_WAIT,   /* for a collective, which is not hidden by computing;
                            number: that of the newest one waited for */
    DT_SPAN_COLLECTIVE,  /* runs, on the thread of comm; number: which, counted
                            alike by all ranks */
    DT_SPAN_ROLLOUT,     /* prompts are completed */
    DT_SPAN_REWARD,      /* for rewards of all ranks */
    DT_SPAN_SAVE,
    DT_SPAN_EVALUATION,
    DT_SPAN_BATCH, /* is made, on a thread of the loader; number: which */
    DT_SPAN_SCORE, /* of completions, on a thread of their reward; number: how
                      many */
    DT_SPAN_DRIVE, /* the thread of tiles waits for it */
    DT_SPAN_KINDS
};

/* "data wait", "forward": as traces name them. */
const char *dt_span_name(enum dt_span_kind kind);

/* Facts about a span besides its kind. */
struct dt_span_detail {
    const char *name; /* static: "all_reduce"; NULL: dt_span_name */
    uint64_t number;  /* of the unit, collective or step */
    uint64_t bytes;   /* of a collective: that this rank has of it; else 0 */
    int first, size;  /* of a collective: its first rank in the world, and how
                         many ranks it has; else 0 */
};

/* One that has begun; on the stack of the thread that ends it. */
struct dt_span {
    enum dt_span_kind kind;
    struct dt_span_detail detail;
    int64_t begin;   /* ns on the monotonic clock */
    int64_t counted; /* of the span around it, so far */
};

/* Begins a span on this thread, and ends it. Spans end in the opposite order.
 * Never fail. With _number, of the kind alone.
 */
void dt_span_begin(struct dt_span *span, enum dt_span_kind kind,
                   const struct dt_span_detail *detail);
void dt_span_begin_number(struct dt_span *span, enum dt_span_kind kind,
                          uint64_t number);
void dt_span_end(struct dt_span *span);

/* Says on which lane of traces the spans of this thread are, before its first
 * one; else they are on "host". `name` is static. Threads that run at once have
 * lanes of their own, also of one name.
 */
void dt_span_lane(const char *name);

/* Tells a profiler of spans, too: begin gets the name of a span. Before other
 * threads have spans; NULL: nobody.
 */
void dt_span_ranges(void (*begin)(const char *name), void (*end)(void));

/* Sums over all threads since the process began, those that have ended
 * included. A span counts when it ends.
 */
struct dt_span_totals {
    double seconds[DT_SPAN_KINDS];
    uint64_t count[DT_SPAN_KINDS];
};

/* Never fails; takes a microsecond. */
void dt_span_totals(struct dt_span_totals *totals);

/* --- while a trace is taken; one thread calls these --- */

/* A span that is kept. end < begin: none, but the value of a counter, bytes, at
 * `begin`.
 */
struct dt_span_event {
    int64_t begin, end; /* ns on the monotonic clock */
    struct dt_span_detail detail;
    enum dt_span_kind kind;
};

/* The spans of a lane, in the order in which they ended. */
struct dt_span_lane {
    const char *name;
    const struct dt_span_event *events;
    size_t count;
    size_t dropped; /* that the memory had no room for */
};

enum {
    DT_SPAN_LANES = 16,    /* threads with spans, at most; no more count */
    DT_SPAN_EVENTS = 32768 /* of a lane, at most */
};

/* Keeps spans that begin from here on. -1: EX_OSERR, no memory. */
int dt_span_trace_begin(struct dt_error *err);

/* Keeps the value of a counter of bytes, if a trace is taken. */
void dt_span_counter(const char *name, uint64_t bytes);

/* Keeps no more. Spans that have not ended are not among them. */
void dt_span_trace_end(void);

/* The spans that the last trace kept; valid until the next one begins. Returns
 * the number of lanes.
 */
size_t dt_span_trace_lanes(struct dt_span_lane lanes[DT_SPAN_LANES]);

#endif /* DT_BASE_SPAN_H */
