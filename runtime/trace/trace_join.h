/* SPDX-License-Identifier: Apache-2.0 */
/* trace_join.h - the parts of ranks become one trace, of one clock */
#ifndef DT_TRACE_TRACE_JOIN_H
#define DT_TRACE_TRACE_JOIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/part.h"

/*
 * One time for the clocks of all ranks.
 *
 * Nobody has the result of a collective before all have begun it. So each one
 * bounds how far two clocks are apart, from both sides: if rank r ends one at
 * e on its clock, and rank 0 begins it at b on its own, then rank r's clock is
 * ahead by at most e - b; and by at least b' - e' with the roles exchanged. The
 * messages that make the bounds narrow are collectives that one rank after the
 * other enters late, before and after the window of a trace (trace.c), as NTP
 * keeps the exchange with the shortest way (RFC 5905, 10). Half of what is
 * between the bounds is the residual: no clock is off by more. Those of the
 * window then move a clock only if some result would come before its cause.
 */

/* By how many ns a clock is ahead of rank 0's, at the begin and the end of the
 * part's window; in between it drifts evenly.
 */
struct dt_trace_clock {
    int64_t begin, end;
    int64_t residual; /* at most so many ns too much or too little; -1: unknown,
                         no collective was before or after the window */
};

/* Of a part, by that of rank 0; both in the order in which spans ended. */
struct dt_trace_clock dt_trace_align(const struct dt_trace_part *zero,
                                     const struct dt_trace_part *part);

/* A time of the part's clock on rank 0's. */
int64_t dt_trace_aligned(const struct dt_trace_clock *clock,
                         const struct dt_trace_head *head, int64_t time);

/* A collective on one rank, which a flow connects with the same one on others.
 */
struct dt_trace_flow {
    uint64_t id;
    int64_t begin;
    int32_t rank;
};

/* A trace. The caller sets what is above the line, and parts[0] is rank 0's. */
struct dt_trace_set {
    long first, last; /* steps */
    int world;
    bool sampled; /* ranks are left out for the size of the file */
    struct dt_trace_part *parts; /* owned */
    size_t count;

    int64_t residual; /* ns, the largest of all clocks; -1: not all are known */
    uint64_t spans, dropped;
    struct dt_trace_flow *flows; /* by id, then begin, then rank; owned */
    size_t flow_count;
};

/* Aligns the clocks, leaves out what is not in the window, orders the events of
 * each part by lane and begin, a span before those within it, and finds flows.
 * -1: EX_OSERR, no memory. dt_trace_set_fini in any case.
 */
int dt_trace_join(struct dt_trace_set *set, struct dt_error *err);
void dt_trace_set_fini(struct dt_trace_set *set);

/* Whether an event is a counter. */
static inline bool dt_trace_is_counter(const struct dt_trace_event *event)
{
    return event->end < event->begin;
}

/* The flow that an event of a joined part has; 0: none. */
uint64_t dt_trace_flow_of(const struct dt_trace_set *set,
                          const struct dt_trace_part *part,
                          const struct dt_trace_event *event);

/* Writes what a reader must know besides: which steps and ranks, how well
 * clocks are aligned, and what was left out.
 */
void dt_trace_describe(const struct dt_trace_set *set, char *text,
                       size_t bytes);

/* "rank 3 node7" */
void dt_trace_rank_name(const struct dt_trace_part *part, char *text,
                        size_t bytes);

/* perfetto.c: writes a joined trace to `out`. -1: EX_IOERR, or EX_OSERR, no
 * memory.
 */
int dt_trace_write_perfetto(const struct dt_trace_set *set, FILE *out,
                            struct dt_error *err);

#endif /* DT_TRACE_TRACE_JOIN_H */
