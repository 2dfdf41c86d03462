/* SPDX-License-Identifier: Apache-2.0 */
/* trace_join.c - joins parts: one time, one order, and flows between ranks */
#include "config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace_impl.h"

/* --- clocks: bounds from collectives, and the middle between them --- */

enum phase { BEFORE, WITHIN, AFTER };

/* The least and the largest lead of a clock. */
struct bounds {
    int64_t least, most;
};

static const struct bounds unknown = {INT64_MIN, INT64_MAX};

/* Whether all ranks wait for each other: in a broadcast they wait only for its
 * root.
 */
static bool is_of_all(const struct dt_trace_part *part,
                      const struct dt_trace_event *event)
{
    return event->kind == DT_SPAN_COLLECTIVE && event->size > 1 &&
           strcmp(dt_trace_name(part, event), "broadcast") != 0;
}

/* The next collective of a part from *at on; NULL: there is none. Numbers rise
 * in the order of the ends.
 */
static const struct dt_trace_event *next_collective(
    const struct dt_trace_part *part, size_t *at)
{
    while (*at < part->head.events) {
        const struct dt_trace_event *event = &part->events[(*at)++];
        if (is_of_all(part, event))
            return event;
    }
    return NULL;
}

static bool is_in(const struct dt_trace_head *head,
                  const struct dt_trace_event *event, enum phase phase)
{
    if (phase == BEFORE)
        return event->end <= head->begin;
    if (phase == AFTER)
        return event->begin >= head->end;
    return event->begin >= head->begin && event->end <= head->end;
}

static void tighten(struct bounds *bounds, int64_t least, int64_t most)
{
    if (least > bounds->least)
        bounds->least = least;
    if (most < bounds->most)
        bounds->most = most;
}

/* Finds bounds from the common collectives of a phase, with times of the part
 * converted by a roughly known clock.
 */
static struct bounds find_bounds(const struct dt_trace_part *zero,
                                 const struct dt_trace_part *part,
                                 const struct dt_trace_clock *rough,
                                 enum phase phase)
{
    struct bounds bounds = unknown;
    size_t at_zero = 0, at_part = 0;
    const struct dt_trace_event *a = next_collective(zero, &at_zero);
    const struct dt_trace_event *b = next_collective(part, &at_part);
    while (a && b) {
        if (a->number < b->number) {
            a = next_collective(zero, &at_zero);
            continue;
        }
        if (a->number == b->number && a->first == b->first &&
            is_in(&zero->head, a, phase) && is_in(&part->head, b, phase))
            tighten(&bounds,
                    dt_trace_aligned(rough, &part->head, b->begin) - a->end,
                    dt_trace_aligned(rough, &part->head, b->end) - a->begin);
        b = next_collective(part, &at_part);
    }
    return bounds;
}

static bool is_known(struct bounds bounds)
{
    return bounds.least != INT64_MIN && bounds.most != INT64_MAX;
}

static int64_t middle(struct bounds bounds)
{
    return bounds.least + (bounds.most - bounds.least) / 2;
}

/* Half of the distance, rounded up, also of bounds that have crossed by a
 * drift.
 */
static int64_t half(struct bounds bounds)
{
    return (llabs(bounds.most - bounds.least) + 1) / 2;
}

/* 0 if the bounds allow it, else the nearer bound. */
static int64_t correction(struct bounds bounds)
{
    if (!is_known(bounds))
        return 0;
    if (bounds.least > bounds.most)
        return middle(bounds);
    if (bounds.least > 0)
        return bounds.least;
    return bounds.most < 0 ? bounds.most : 0;
}

struct dt_trace_clock dt_trace_align(const struct dt_trace_part *zero,
                                     const struct dt_trace_part *part)
{
    struct dt_trace_clock clock = {0};
    const struct bounds before = find_bounds(zero, part, &clock, BEFORE);
    const struct bounds after = find_bounds(zero, part, &clock, AFTER);
    if (!is_known(before) || !is_known(after)) {
        clock.residual = -1;
        return clock;
    }
    clock.begin = middle(before);
    clock.end = middle(after);
    clock.residual = half(before) > half(after) ? half(before) : half(after);
    const int64_t move = correction(find_bounds(zero, part, &clock, WITHIN));
    clock.begin += move;
    clock.end += move;
    clock.residual += move < 0 ? -move : move;
    return clock;
}

int64_t dt_trace_aligned(const struct dt_trace_clock *clock,
                         const struct dt_trace_head *head, int64_t time)
{
    const double window = (double)(head->end - head->begin);
    const double share =
        window > 0 ? (double)(time - head->begin) / window : 0.0;
    const double drift = (double)(clock->end - clock->begin);
    return time - clock->begin - (int64_t)(share * drift);
}

/* --- order --- */

static int by_lane_and_begin(const void *left, const void *right)
{
    const struct dt_trace_event *a = left, *b = right;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end > b->end ? -1 : 1;
    return 0;
}

static bool is_in_window(const struct dt_trace_head *head,
                         const struct dt_trace_event *event)
{
    return event->begin >= head->begin && event->end <= head->end;
}

/* Keeps the events of the window, and converts their times to rank 0's clock.
 */
static void settle_part(struct dt_trace_part *part,
                        const struct dt_trace_clock *clock)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < part->head.events; i++) {
        struct dt_trace_event event = part->events[i];
        if (!is_in_window(&part->head, &event))
            continue;
        event.begin = dt_trace_aligned(clock, &part->head, event.begin);
        event.end = dt_trace_aligned(clock, &part->head, event.end);
        part->events[kept++] = event;
    }
    part->head.events = kept;
    qsort(part->events, kept, sizeof(*part->events), by_lane_and_begin);
}

/* --- flows --- */

static int by_id_and_begin(const void *left, const void *right)
{
    const struct dt_trace_flow *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* The id of a collective: the same on all of its ranks, and different from
 * others.
 */
static uint64_t flow_id(const struct dt_trace_event *event)
{
    return event->number << 24 | (uint64_t)(event->first + 1);
}

static bool may_flow(const struct dt_trace_event *event)
{
    return event->kind == DT_SPAN_COLLECTIVE && event->size > 1 &&
           !dt_trace_is_counter(event);
}

/* Leaves out collectives that only one rank has: a flow has two ends. */
static void drop_single(struct dt_trace_set *set)
{
    size_t kept = 0, end;
    for (size_t i = 0; i < set->flow_count; i = end) {
        for (end = i + 1;
             end < set->flow_count && set->flows[end].id == set->flows[i].id;)
            end++;
        for (size_t k = i; k < end && end - i > 1; k++)
            set->flows[kept++] = set->flows[k];
    }
    set->flow_count = kept;
}

static int find_flows(struct dt_trace_set *set, struct dt_error *err)
{
    size_t events = 0;
    for (size_t i = 0; i < set->count; i++)
        events += set->parts[i].head.events;
    if (!(set->flows = malloc((events + 1) * sizeof(*set->flows))))
        return dt_error_set(err, EX_OSERR, "no memory for %zu spans", events);
    for (size_t i = 0; i < set->count; i++)
        for (uint32_t k = 0; k < set->parts[i].head.events; k++) {
            const struct dt_trace_event *event = &set->parts[i].events[k];
            if (may_flow(event))
                set->flows[set->flow_count++] =
                    (struct dt_trace_flow){.id = flow_id(event),
                                           .begin = event->begin,
                                           .rank = set->parts[i].head.rank};
        }
    qsort(set->flows, set->flow_count, sizeof(*set->flows), by_id_and_begin);
    drop_single(set);
    return 0;
}

uint64_t dt_trace_flow_of(const struct dt_trace_set *set,
                          const struct dt_trace_part *part,
                          const struct dt_trace_event *event)
{
    const struct dt_trace_flow key = {
        .id = flow_id(event), .begin = event->begin, .rank = part->head.rank};
    return may_flow(event) && bsearch(&key, set->flows, set->flow_count,
                                      sizeof(key), by_id_and_begin)
               ? key.id
               : 0;
}

/* --- the whole --- */

int dt_trace_join(struct dt_trace_set *set, struct dt_error *err)
{
    struct dt_trace_clock *clocks = calloc(set->count, sizeof(*clocks));
    set->spans = set->dropped = 0;
    set->residual = 0;
    if (!clocks)
        return dt_error_set(err, EX_OSERR, "no memory for %zu clocks",
                            set->count);
    for (size_t i = 1; i < set->count; i++)
        clocks[i] = dt_trace_align(&set->parts[0], &set->parts[i]);
    for (size_t i = 0; i < set->count; i++) {
        if (clocks[i].residual < 0 || set->residual < 0)
            set->residual = -1;
        else if (clocks[i].residual > set->residual)
            set->residual = clocks[i].residual;
        settle_part(&set->parts[i], &clocks[i]);
        set->dropped += set->parts[i].head.dropped;
        set->spans += set->parts[i].head.events;
    }
    free(clocks);
    return find_flows(set, err);
}

void dt_trace_set_fini(struct dt_trace_set *set)
{
    for (size_t i = 0; set->parts && i < set->count; i++)
        dt_trace_part_fini(&set->parts[i]);
    free(set->parts);
    free(set->flows);
    set->parts = NULL;
    set->flows = NULL;
}

void dt_trace_describe(const struct dt_trace_set *set, char *text, size_t bytes)
{
    char ranks[96], clocks[80], dropped[80] = "";
    if (set->count == (size_t)set->world)
        snprintf(ranks, sizeof(ranks), "all %d ranks", set->world);
    else
        snprintf(
            ranks, sizeof(ranks), "%zu of %d ranks%s", set->count, set->world,
            set->sampled ? ", the slowest, median and fastest of nodes" : "");
    if (set->world == 1)
        snprintf(ranks, sizeof(ranks), "the only rank");
    if (set->count == 1)
        snprintf(clocks, sizeof(clocks), "one clock");
    else if (set->residual < 0)
        snprintf(clocks, sizeof(clocks), "clocks not aligned");
    else
        snprintf(clocks, sizeof(clocks), "clocks aligned to +-%.1f us",
                 (double)set->residual / 1e3);
    if (set->dropped > 0)
        snprintf(dropped, sizeof(dropped),
                 "; %" PRIu64 " spans left out, for which there was no room",
                 set->dropped);
    snprintf(text, bytes, "steps %ld to %ld of %s; %s%s", set->first, set->last,
             ranks, clocks, dropped);
}
