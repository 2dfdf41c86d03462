/* SPDX-License-Identifier: Apache-2.0 */
/*
 * span.c - totals and buffers, one for each thread
 *
 * A thread writes only its own lane, so that nobody waits for anybody:
 * totals are atomic without a lock, and the events of a trace are published by
 * their count. Memory of a trace is kept for the next one, because a thread may
 * still be about to write to it when the trace has ended.
 */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/span.h"

/* Belongs to a thread; after its end, to the next one of that name. */
struct lane {
    const char *name; /* NULL: it never had a thread */
    bool taken;
    int64_t counted; /* within the open span */
    int whole;       /* open spans that count as a whole */
    _Atomic int64_t ns[DT_SPAN_KINDS];
    _Atomic uint64_t count[DT_SPAN_KINDS];
    struct dt_span_event *events; /* (DT_SPAN_EVENTS) or NULL */
    _Atomic uint64_t trace;       /* which one the events are of */
    _Atomic size_t event_count, dropped;
};

static struct {
    pthread_mutex_t mutex; /* guards names and taken */
    pthread_once_t once;
    pthread_key_t key; /* gives the lane back when its thread ends */
    struct lane lanes[DT_SPAN_LANES];
    _Atomic uint64_t trace; /* the number of the one that is taken; 0: none */
    uint64_t traces;
    _Atomic int64_t trace_since;
    void (*range_begin)(const char *name); /* or NULL */
    void (*range_end)(void);
} spans = {.mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static _Thread_local struct lane *own_lane;

static const char *const kind_names[DT_SPAN_KINDS] = {
    [DT_SPAN_STEP] = "step",
    [DT_SPAN_DATA_WAIT] = "data wait",
    [DT_SPAN_FORWARD] = "forward",
    [DT_SPAN_BACKWARD] = "backward",
    [DT_SPAN_LOSS] = "loss",
    [DT_SPAN_VALUES] = "values",
    [DT_SPAN_OPTIMIZER] = "optimizer",
    [DT_SPAN_DEVICE_WAIT] = "device wait",
    [DT_SPAN_COMM_WAIT] = "collective wait",
    [DT_SPAN_COLLECTIVE] = "collective",
    [DT_SPAN_ROLLOUT] = "rollout",
    [DT_SPAN_REWARD] = "reward wait",
    [DT_SPAN_SAVE] = "save",
    [DT_SPAN_EVALUATION] = "evaluation",
    [DT_SPAN_BATCH] = "batch",
    [DT_SPAN_SCORE] = "reward",
    [DT_SPAN_DRIVE] = "drive wait",
};

const char *dt_span_name(enum dt_span_kind kind)
{
    return kind_names[kind];
}

/* --- the lane of a thread --- */

static void give_back(void *arg)
{
    struct lane *lane = arg;
    pthread_mutex_lock(&spans.mutex);
    lane->taken = false;
    pthread_mutex_unlock(&spans.mutex);
}

static void create_key(void)
{
    (void)pthread_key_create(&spans.key, give_back);
}

/* A free lane of this name, or one that never had a thread. */
static struct lane *find_lane(const char *name)
{
    for (size_t i = 0; i < DT_SPAN_LANES; i++) {
        struct lane *lane = &spans.lanes[i];
        if (!lane->name || (!lane->taken && strcmp(lane->name, name) == 0))
            return lane;
    }
    return NULL;
}

void dt_span_lane(const char *name)
{
    (void)pthread_once(&spans.once, create_key);
    pthread_mutex_lock(&spans.mutex);
    struct lane *lane = find_lane(name);
    if (lane) {
        /* a trace may have begun before the thread did */
        if (!lane->events && atomic_load(&spans.trace))
            lane->events = malloc(DT_SPAN_EVENTS * sizeof(*lane->events));
        lane->name = name;
        lane->taken = true;
        lane->counted = 0;
        lane->whole = 0;
    }
    pthread_mutex_unlock(&spans.mutex);
    (void)pthread_setspecific(spans.key, lane);
    own_lane = lane;
}

static struct lane *lane_here(void)
{
    if (!own_lane)
        dt_span_lane("host");
    return own_lane;
}

/* --- spans --- */

/* Only this thread writes, so that no read has to be one with its write. */
static void add(struct lane *lane, enum dt_span_kind kind, int64_t ns)
{
    atomic_store_explicit(
        &lane->ns[kind],
        atomic_load_explicit(&lane->ns[kind], memory_order_relaxed) + ns,
        memory_order_relaxed);
    atomic_store_explicit(
        &lane->count[kind],
        atomic_load_explicit(&lane->count[kind], memory_order_relaxed) + 1,
        memory_order_relaxed);
}

/* The place of the next event of this trace; NULL: there is no room. */
static struct dt_span_event *next_event(struct lane *lane, uint64_t trace,
                                        size_t *count)
{
    if (atomic_load_explicit(&lane->trace, memory_order_relaxed) != trace) {
        atomic_store(&lane->event_count, 0);
        atomic_store(&lane->dropped, 0);
        atomic_store(&lane->trace, trace);
    }
    *count = atomic_load_explicit(&lane->event_count, memory_order_relaxed);
    if (lane->events && *count < DT_SPAN_EVENTS)
        return &lane->events[*count];
    atomic_fetch_add(&lane->dropped, 1);
    return NULL;
}

static void keep(struct lane *lane, const struct dt_span_event *event)
{
    uint64_t trace = atomic_load_explicit(&spans.trace, memory_order_acquire);
    size_t count;
    if (trace == 0 || event->begin < spans.trace_since)
        return;
    struct dt_span_event *place = next_event(lane, trace, &count);
    if (!place)
        return;
    *place = *event;
    atomic_store_explicit(&lane->event_count, count + 1, memory_order_release);
}

/* Kinds that count as a whole. */
static bool is_whole(enum dt_span_kind kind)
{
    return kind == DT_SPAN_SAVE || kind == DT_SPAN_EVALUATION;
}

void dt_span_begin(struct dt_span *span, enum dt_span_kind kind,
                   const struct dt_span_detail *detail)
{
    struct lane *lane = lane_here();
    *span = (struct dt_span){.kind = kind, .detail = *detail};
    if (lane) {
        span->counted = lane->counted;
        lane->counted = 0;
        lane->whole += is_whole(kind);
    }
    if (spans.range_begin)
        spans.range_begin(detail->name ? detail->name : kind_names[kind]);
    span->begin = dt_clock_ns(CLOCK_MONOTONIC);
}

void dt_span_begin_number(struct dt_span *span, enum dt_span_kind kind,
                          uint64_t number)
{
    dt_span_begin(span, kind, &(struct dt_span_detail){.number = number});
}

void dt_span_end(struct dt_span *span)
{
    const int64_t now = dt_clock_ns(CLOCK_MONOTONIC);
    struct lane *lane = own_lane;
    if (spans.range_begin)
        spans.range_end();
    if (!lane)
        return;
    const int64_t ns = now - span->begin;
    lane->whole -= is_whole(span->kind);
    if (lane->whole == 0) {
        add(lane, span->kind, ns - lane->counted);
        lane->counted = span->counted + ns;
    } else {
        lane->counted = span->counted;
    }
    keep(lane, &(struct dt_span_event){.begin = span->begin,
                                       .end = now,
                                       .detail = span->detail,
                                       .kind = span->kind});
}

void dt_span_ranges(void (*range_begin)(const char *name),
                    void (*range_end)(void))
{
    spans.range_begin = range_begin;
    spans.range_end = range_end;
}

void dt_span_totals(struct dt_span_totals *totals)
{
    *totals = (struct dt_span_totals){0};
    for (size_t i = 0; i < DT_SPAN_LANES; i++)
        for (size_t kind = 0; kind < DT_SPAN_KINDS; kind++) {
            struct lane *lane = &spans.lanes[i];
            totals->seconds[kind] +=
                1e-9 * (double)atomic_load_explicit(&lane->ns[kind],
                                                    memory_order_relaxed);
            totals->count[kind] +=
                atomic_load_explicit(&lane->count[kind], memory_order_relaxed);
        }
}

/* --- traces --- */

int dt_span_trace_begin(struct dt_error *err)
{
    bool ok = true;
    (void)lane_here();
    pthread_mutex_lock(&spans.mutex);
    for (size_t i = 0; i < DT_SPAN_LANES && ok; i++) {
        struct lane *lane = &spans.lanes[i];
        if (lane->name && !lane->events)
            lane->events = malloc(DT_SPAN_EVENTS * sizeof(*lane->events));
        ok = !lane->name || lane->events;
    }
    if (ok) {
        spans.trace_since = dt_clock_ns(CLOCK_MONOTONIC);
        atomic_store_explicit(&spans.trace, ++spans.traces,
                              memory_order_release);
    }
    pthread_mutex_unlock(&spans.mutex);
    return ok ? 0
              : dt_error_set(err, EX_OSERR,
                             "a trace: no memory for %d events of a thread",
                             DT_SPAN_EVENTS);
}

void dt_span_counter(const char *name, uint64_t bytes)
{
    struct lane *lane = lane_here();
    const int64_t now = dt_clock_ns(CLOCK_MONOTONIC);
    if (lane)
        keep(lane,
             &(struct dt_span_event){.begin = now,
                                     .end = now - 1,
                                     .detail = {.name = name, .bytes = bytes}});
}

void dt_span_trace_end(void)
{
    atomic_store(&spans.trace, 0);
}

size_t dt_span_trace_lanes(struct dt_span_lane lanes[DT_SPAN_LANES])
{
    size_t count = 0;
    pthread_mutex_lock(&spans.mutex);
    for (size_t i = 0; i < DT_SPAN_LANES; i++) {
        struct lane *lane = &spans.lanes[i];
        if (atomic_load(&lane->trace) != spans.traces || spans.traces == 0)
            continue;
        lanes[count++] = (struct dt_span_lane){
            .name = lane->name,
            .events = lane->events,
            .count =
                atomic_load_explicit(&lane->event_count, memory_order_acquire),
            .dropped = atomic_load(&lane->dropped),
        };
    }
    pthread_mutex_unlock(&spans.mutex);
    return count;
}
