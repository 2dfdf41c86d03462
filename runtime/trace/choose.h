/* SPDX-License-Identifier: Apache-2.0 */
/* choose.h - which ranks a trace has that would be too large with all */
#ifndef DT_TRACE_CHOOSE_H
#define DT_TRACE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>

/* A rank that could be in the trace. */
struct dt_trace_rank {
    int node;       /* any number that its node has, and no other */
    double seconds; /* it computed for so long */
    double events;  /* it has so many; 0: it is not asked for */
    bool chosen;
};

/* Chooses ranks with at most `limit` events in all: all that are asked for if
 * possible, else rank 0, then the slowest of each node, then those in the
 * middle, then the fastest; slow ones first. Returns whether some that are
 * asked for were left out. Out of memory, only rank 0 is chosen.
 */
bool dt_trace_choose(struct dt_trace_rank *ranks, size_t count, double limit);

#endif /* DT_TRACE_CHOOSE_H */
