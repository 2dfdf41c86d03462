/* SPDX-License-Identifier: Apache-2.0 */
/*
 * align.h - one time for the clocks of all ranks
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
#ifndef DT_TRACE_ALIGN_H
#define DT_TRACE_ALIGN_H

#include "trace/part.h"

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

#endif /* DT_TRACE_ALIGN_H */
