/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - takes traces of some steps of a run, over all ranks
 *
 * The steps come from the configuration, or from a request while the run is
 * running. All ranks call these functions at the same steps, between any other
 * collectives. Before the first step and after the last one ranks compare their
 * clocks; then rank 0 gets what the others have kept and writes
 * trace-<first step>.pftrace. What goes wrong with a trace is a warning of rank
 * 0, never the end of the run, unless a peer is lost.
 */
#ifndef DT_TRACE_TRACE_H
#define DT_TRACE_TRACE_H

#include <stdbool.h>

#include "base/error.h"
#include "comm/comm.h"
#include "device/device.h"

struct dt_trace;

struct dt_trace_options {
    struct dt_comm *comm;
    const struct dt_device *device; /* where comm has its views */
    struct dt_stream *stream;
    const char *dir;   /* where rank 0 writes, and requests are */
    long first, last;  /* steps; 0: none but those of requests */
    const char *ranks; /* "0,4-7": of these and rank 0; NULL: of all */
};

/* Borrows what options point to. NULL and err: EX_OSERR. */
struct dt_trace *dt_trace_create(const struct dt_trace_options *options,
                                 struct dt_error *err);
void dt_trace_destroy(struct dt_trace *trace); /* NULL is fine */

/* Rank 0 looks for a request; returns what to add to the number that this
 * step's reduction sums up, beside whole numbers of others, or 0.
 */
double dt_trace_look(struct dt_trace *trace);

/* Takes the request that is in that sum, for `next` and the steps after it. One
 * that comes while a trace is taken or waits for its steps is refused.
 */
void dt_trace_take(struct dt_trace *trace, double sum, long next);

/* A step is about to be queued, or was collected, at least as far as the host
 * can know. After the last one of a trace, or one that `ends` the run,
 * dt_trace_after returns 1, and *text says on rank 0 which file there is, or
 * NULL; else 0. -1: a peer failed.
 */
int dt_trace_before(struct dt_trace *trace, long step, struct dt_error *err);
int dt_trace_after(struct dt_trace *trace, long step, bool ends,
                   const char **text, struct dt_error *err);

/* --- requests ---
 *
 * `disttrain trace` asks a running job for a trace through a file in
 * logging.dir, where rank 0 looks for it when it reports. The request fits in a
 * number, which rank 0 adds to one that all ranks sum up in every step.
 */

enum { DT_TRACE_STEPS_MAX = 1000 };

/* Puts a request of so many steps, 1 to DT_TRACE_STEPS_MAX, into the directory
 * `dir`; an older one is replaced. -1: EX_CANTCREAT, EX_IOERR.
 */
int dt_trace_request_write(const char *dir, long steps, struct dt_error *err);

/* Whether one is there that nobody has taken. */
bool dt_trace_request_waits(const char *dir);

/* Takes the request out of `dir`: the number of its steps, or 0 if there is
 * none. -1: EX_DATAERR, it was none; EX_IOERR, it cannot be read or removed.
 */
long dt_trace_request_take(const char *dir, struct dt_error *err);

#endif /* DT_TRACE_TRACE_H */
