/* SPDX-License-Identifier: Apache-2.0 */
/* trace_impl.h - the parts of ranks, which become one trace of one clock */
#ifndef DT_TRACE_TRACE_IMPL_H
#define DT_TRACE_TRACE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/span.h"
#include "comm/comm.h"
#include "device/device.h"

/* --- parts ---
 *
 * The spans that one rank kept, as they travel to rank 0: a head and its
 * events, in the byte order of the ranks, which is the same on all of them.
 */

enum {
    DT_TRACE_HOST = 64,  /* bytes of a host's name */
    DT_TRACE_NAMES = 24, /* that spans have besides those of their kinds */
    DT_TRACE_NAME = 24,  /* bytes of one, and of a lane's name */
};

/* A span, or a counter if end < begin: as struct dt_span_event. */
struct dt_trace_event {
    int64_t begin, end; /* ns on the rank's clock; joined: on rank 0's */
    uint64_t number, bytes;
    int32_t first, size;
    uint8_t kind, lane;
    uint8_t name; /* of head.name; DT_TRACE_NAMES: that of the kind */
    uint8_t unused[5];
};

struct dt_trace_head {
    uint64_t magic;
    int32_t rank;
    uint32_t events, lanes, names;
    uint64_t dropped;   /* spans for which there was no room */
    int64_t begin, end; /* of the window, on the rank's clock: what is outside
                           of it only compares clocks */
    char host[DT_TRACE_HOST];
    char lane[DT_SPAN_LANES][DT_TRACE_NAME];
    char name[DT_TRACE_NAMES][DT_TRACE_NAME];
};

struct dt_trace_part {
    struct dt_trace_head head;
    struct dt_trace_event *events; /* (head.events), owned */
};

/* Packs what the last trace kept with what is set in *head: rank, host, begin
 * and end. The caller frees *data. -1: EX_OSERR, no memory.
 */
int dt_trace_pack(const struct dt_trace_head *head, void **data, size_t *bytes,
                  struct dt_error *err);

/* Reads a part of `bytes` bytes. -1: EX_DATAERR, it is none; EX_OSERR. Release
 * with dt_trace_part_fini in any case.
 */
int dt_trace_unpack(struct dt_trace_part *part, const void *data, size_t bytes,
                    struct dt_error *err);
void dt_trace_part_fini(struct dt_trace_part *part);

/* "all_reduce", "forward": as traces show an event of the part. */
const char *dt_trace_name(const struct dt_trace_part *part,
                          const struct dt_trace_event *event);

/* --- ranks of a trace that would be too large with all --- */

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

/* --- one time for the clocks of all ranks ---
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

/* --- joined --- */

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

/* perfetto.c: writes a joined trace to `out`. -1: EX_IOERR, or EX_OSERR, no
 * memory.
 */
int dt_trace_write_perfetto(const struct dt_trace_set *set, FILE *out,
                            struct dt_error *err);

/* --- gathered --- */

/* What this rank gives, and on rank 0 what it gets. */
struct dt_trace_gather {
    struct dt_comm *comm;
    const struct dt_device *device; /* where comm has its views */
    struct dt_stream *stream;
    const char *ranks; /* as in struct dt_trace_options */
    const void *data;  /* of this rank, packed; NULL: it has none */
    size_t bytes;
    double seconds; /* it computed for so long */
};

/* All ranks call it. On rank 0 *set gets the parts, and whether ranks were left
 * out; a part that is damaged or has no memory is left out with a warning. 1,
 * or 0 if there is no trace, because rank 0 has no part: a warning. -1: a peer
 * failed. dt_trace_set_fini in any case.
 */
int dt_trace_gather(const struct dt_trace_gather *gather,
                    struct dt_trace_set *set, struct dt_error *err);

/* --- requests --- */

/* Steps, or 0, as a number from 0 to below 1/2, exact in a double; and back,
 * from a sum with whole numbers.
 */
double dt_trace_request_encode(long steps);
long dt_trace_request_decode(double sum);

#endif /* DT_TRACE_TRACE_IMPL_H */
