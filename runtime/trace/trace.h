/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - takes traces of some steps of a run, of all ranks
 *
 * The steps come from the configuration, or from a request to the running run.
 * All ranks call these functions at the same steps, in the same order with
 * other collectives. Before the first step and after the last one, ranks
 * compare their clocks; then rank 0 gets the spans of all ranks and writes
 * trace-<first step>.pftrace. A failed trace is a warning of rank 0, and ends
 * the run only if a peer is lost.
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
    const struct dt_device *device; /* the device of comm's views */
    struct dt_stream *stream;
    const char *dir;   /* of the files and of requests */
    long first, last;  /* steps; 0: only those of requests */
    const char *ranks; /* "0,4-7": only these and rank 0; NULL: all */
};

/* Borrows the objects of the options. NULL and err: EX_OSERR. */
struct dt_trace *dt_trace_create(const struct dt_trace_options *options,
                                 struct dt_error *err);
void dt_trace_destroy(struct dt_trace *trace); /* NULL is fine */

/* Looks for a request, on rank 0. Returns a fraction to add to a number that is
 * summed over all ranks in this step and is whole otherwise; 0: no request.
 */
double dt_trace_look(struct dt_trace *trace);

/* Takes the request out of that sum, for `next` and the steps after it. A
 * request during a trace, or before one that waits for its steps, is refused.
 */
void dt_trace_take(struct dt_trace *trace, double sum, long next);

/* Called before a step is queued, and after it was collected as far as the host
 * knows. After the last step of a trace, or one that `ends` the run,
 * dt_trace_after returns 1, and on rank 0 *text names the file, or is NULL;
 * otherwise 0. -1: a peer failed.
 */
int dt_trace_before(struct dt_trace *trace, long step, struct dt_error *err);
int dt_trace_after(struct dt_trace *trace, long step, bool ends,
                   const char **text, struct dt_error *err);

/* --- requests ---
 *
 * `disttrain trace` requests a trace of a running job by a file in logging.dir.
 * Rank 0 looks for it when it reports. The request fits in a fraction, which
 * rank 0 adds to a number that is summed over all ranks in every step.
 */

enum { DT_TRACE_STEPS_MAX = 1000 };

/* Puts a request for `steps`, 1 to DT_TRACE_STEPS_MAX, into the directory
 * `dir`, in place of an older one. -1: EX_CANTCREAT, EX_IOERR.
 */
int dt_trace_request_write(const char *dir, long steps, struct dt_error *err);

/* Whether a request is there that nobody has taken. */
bool dt_trace_request_waits(const char *dir);

/* Takes the request out of `dir`: the number of its steps, or 0 if there is
 * none. -1: EX_DATAERR, it was none; EX_IOERR, it cannot be read or removed.
 */
long dt_trace_request_take(const char *dir, struct dt_error *err);

#endif /* DT_TRACE_TRACE_H */
