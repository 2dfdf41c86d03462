/* SPDX-License-Identifier: Apache-2.0 */
/* trace_join.c - one time, one order, and flows between ranks */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace_join.h"

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

/* Keeps the events of the window, with their times on rank 0's clock. */
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

/* The same for a collective on all of its ranks, and for no other. */
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

void dt_trace_rank_name(const struct dt_trace_part *part, char *text,
                        size_t bytes)
{
    snprintf(text, bytes, "rank %d %s", part->head.rank, part->head.host);
}
