/* SPDX-License-Identifier: Apache-2.0 */
/* align.c - bounds from collectives, and what is between them */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace_join.h"

enum phase { BEFORE, WITHIN, AFTER };

/* By how much a clock is ahead, at least and at most. */
struct bounds {
    int64_t least, most;
};

static const struct bounds unknown = {INT64_MIN, INT64_MAX};

/* A broadcast waits for its root only, and a group of one for nobody. */
static bool is_of_all(const struct dt_trace_part *part,
                      const struct dt_trace_event *event)
{
    return event->kind == DT_SPAN_COLLECTIVE && event->size > 1 &&
           strcmp(dt_trace_name(part, event), "broadcast") != 0;
}

/* The next collective of a part from *at on; NULL: there is none. Numbers rise
 * in the order in which they end.
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

/* Bounds from the collectives that both have in a phase, with times of the part
 * moved by a clock that is known roughly.
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

/* Rounded up. Bounds that a drift has crossed are that far from the middle. */
static int64_t half(struct bounds bounds)
{
    return (llabs(bounds.most - bounds.least) + 1) / 2;
}

/* 0 if that is between the bounds, else the nearer one. */
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
