/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - asks a running job for a trace, through a file
 *
 * `disttrain trace` writes the file to logging.dir, where rank 0 looks for it
 * when it reports. What it asks for fits in a number, which rank 0 adds to one
 * that all ranks sum up in every step.
 */
#ifndef DT_TRACE_REQUEST_H
#define DT_TRACE_REQUEST_H

#include <stdbool.h>

#include "base/error.h"

enum { DT_TRACE_STEPS_MAX = 1000 };

struct dt_trace_request {
    long steps; /* 1 .. DT_TRACE_STEPS_MAX; 0: nothing is asked for */
    bool json;
};

/* Puts the request into the directory `dir`; an older one is replaced. -1:
 * EX_CANTCREAT, EX_IOERR.
 */
int dt_trace_request_write(const char *dir,
                           const struct dt_trace_request *request,
                           struct dt_error *err);

/* Whether one is there that nobody has taken. */
bool dt_trace_request_waits(const char *dir);

/* Takes the request out of `dir`. 1, or 0 if there is none. -1: EX_DATAERR, it
 * was none; EX_IOERR, it cannot be read or removed.
 */
int dt_trace_request_take(const char *dir, struct dt_trace_request *request,
                          struct dt_error *err);

/* A request as a number from 0 to below 1/2, exact in a double; and back, from
 * a sum with whole numbers.
 */
double dt_trace_request_encode(const struct dt_trace_request *request);
struct dt_trace_request dt_trace_request_decode(double sum);

#endif /* DT_TRACE_REQUEST_H */
