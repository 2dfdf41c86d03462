/* SPDX-License-Identifier: Apache-2.0 */
/* trace_impl.h - the parts of ranks, which are joined to a trace of one clock
 */
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
    DT_TRACE_NAMES = 24, /* of spans, besides those of their kinds */
    DT_TRACE_NAME = 24,  /* bytes of one, and of a lane's name */
};

/* A span, or a counter if end < begin, as in struct dt_span_event. */
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
    uint64_t dropped;   /* spans without room */
    int64_t begin, end; /* of the window, on the rank's clock; events outside of
                           it only compare clocks */
    char host[DT_TRACE_HOST];
    char lane[DT_SPAN_LANES][DT_TRACE_NAME];
    char name[DT_TRACE_NAMES][DT_TRACE_NAME];
};

struct dt_trace_part {
    struct dt_trace_head head;
    struct dt_trace_event *events; /* (head.events), owned */
};

/* Packs the spans of the last trace with the rank, host, begin and end of
 * *head. The caller frees *data. -1: EX_OSERR, no memory.
 */
int dt_trace_pack(const struct dt_trace_head *head, void **data, size_t *bytes,
                  struct dt_error *err);

/* Reads a part of `bytes` bytes. -1: EX_DATAERR, it is none; EX_OSERR. Release
 * with dt_trace_part_fini in any case.
 */
int dt_trace_unpack(struct dt_trace_part *part, const void *data, size_t bytes,
                    struct dt_error *err);
void dt_trace_part_fini(struct dt_trace_part *part);

/* The name of an event of the part in the trace, "all_reduce" or "forward". */
const char *dt_trace_name(const struct dt_trace_part *part,
                          const struct dt_trace_event *event);

/* --- ranks of a trace that would be too large with all of them --- */

/* A rank that could be in the trace. */
struct dt_trace_rank {
    int node;       /* any number, different for each node */
    double seconds; /* time of computing */
    double events;  /* number of events; 0: it is not wanted */
    bool chosen;
};

/* Chooses ranks with at most `limit` events in total: all wanted ranks if
 * possible, else rank 0, then the slowest of each node, then the median ones,
 * then the fastest; slow nodes first. Returns whether wanted ranks were left
 * out. Without memory, only rank 0 is chosen.
 */
bool dt_trace_choose(struct dt_trace_rank *ranks, size_t count, double limit);

/* --- one time for the clocks of all ranks ---
 *
 * No rank has the result of a collective before all have begun it. So each
 * collective bounds the difference of two clocks from both sides: if rank r
 * ends one at e on its clock, and rank 0 begins it at b on its own, then rank
 * r's clock is ahead by at most e - b; and by at least b' - e' with the roles
 * exchanged. Collectives that one rank after the other enters late, before and
 * after the window of a trace (trace.c), make the bounds narrow, as NTP keeps
 * the exchange with the shortest delay (RFC 5905, 10). Half of the distance
 * between the bounds is the residual: no clock is off by more. Collectives of
 * the window then move a clock only if a result would come before its cause.
 */

/* The lead of a clock over rank 0's in ns, at the begin and the end of the
 * part's window; in between it drifts evenly.
 */
struct dt_trace_clock {
    int64_t begin, end;
    int64_t residual; /* largest error of it in ns; -1: unknown, no collective
                         was before or after the window */
};

/* Aligns the clock of a part to that of rank 0. Both parts are in the order in
 * which spans ended.
 */
struct dt_trace_clock dt_trace_align(const struct dt_trace_part *zero,
                                     const struct dt_trace_part *part);

/* Converts a time of the part's clock to rank 0's. */
int64_t dt_trace_aligned(const struct dt_trace_clock *clock,
                         const struct dt_trace_head *head, int64_t time);

/* --- the joined trace --- */

/* A collective on one rank; a flow connects it with the same one on other
 * ranks.
 */
struct dt_trace_flow {
    uint64_t id;
    int64_t begin;
    int32_t rank;
};

/* A trace. The caller sets the members up to `count`; parts[0] is rank 0's. */
struct dt_trace_set {
    long first, last; /* steps */
    int world;
    bool sampled; /* ranks are left out because of the size of the file */
    struct dt_trace_part *parts; /* owned */
    size_t count;

    int64_t residual; /* ns, the largest of all clocks; -1: not all are known */
    uint64_t spans, dropped;
    struct dt_trace_flow *flows; /* by id, then begin, then rank; owned */
    size_t flow_count;
};

/* Aligns the clocks, removes events outside of the window, orders the events of
 * each part by lane and begin, a span before those within it, and finds flows.
 * -1: EX_OSERR, no memory. Call dt_trace_set_fini in any case.
 */
int dt_trace_join(struct dt_trace_set *set, struct dt_error *err);
void dt_trace_set_fini(struct dt_trace_set *set);

/* Whether an event is a counter. */
static inline bool dt_trace_is_counter(const struct dt_trace_event *event)
{
    return event->end < event->begin;
}

/* The id of the flow of an event of a joined part; 0: none. */
uint64_t dt_trace_flow_of(const struct dt_trace_set *set,
                          const struct dt_trace_part *part,
                          const struct dt_trace_event *event);

/* Describes the trace in a line: its steps and ranks, the alignment of the
 * clocks, and the number of spans that were left out.
 */
void dt_trace_describe(const struct dt_trace_set *set, char *text,
                       size_t bytes);

/* perfetto.c: writes a joined trace to `out`. -1: EX_IOERR, or EX_OSERR, no
 * memory.
 */
int dt_trace_write_perfetto(const struct dt_trace_set *set, FILE *out,
                            struct dt_error *err);

/* --- gathering --- */

/* The contribution of this rank, and the way to rank 0. */
struct dt_trace_gather {
    struct dt_comm *comm;
    const struct dt_device *device; /* where comm has its views */
    struct dt_stream *stream;
    const char *ranks; /* as in struct dt_trace_options */
    const void *data;  /* packed part of this rank; NULL: none */
    size_t bytes;
    double seconds; /* time of computing */
};

/* All ranks call it. On rank 0 it puts the parts into *set, and notes whether
 * ranks were left out for their size. A part that is damaged, or for which
 * there is no memory, is left out with a warning. Returns 1; 0 with a warning:
 * there is no trace, because rank 0 has no part. -1: a peer failed. Call
 * dt_trace_set_fini in any case.
 */
int dt_trace_gather(const struct dt_trace_gather *gather,
                    struct dt_trace_set *set, struct dt_error *err);

/* --- requests --- */

/* Encode steps, or 0, as a number from 0 to below 1/2 that is exact in a
 * double, and decode them from a sum with whole numbers.
 */
double dt_trace_request_encode(long steps);
long dt_trace_request_decode(double sum);

#endif /* DT_TRACE_TRACE_IMPL_H */
