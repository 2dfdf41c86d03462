/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_request.h - asks a running job for a trace, through a file
 *
 * `disttrain trace` writes the file to logging.dir, where rank 0 looks for it
 * when it reports. What it asks for fits in a number, which rank 0 adds to one
 * that all ranks sum up in every step.
 */
#ifndef DT_TRACE_TRACE_REQUEST_H
#define DT_TRACE_TRACE_REQUEST_H

#include <stdbool.h>

#include "base/error.h"

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

/* Steps, or 0, as a number from 0 to below 1/2, exact in a double; and back,
 * from a sum with whole numbers.
 */
double dt_trace_request_encode(long steps);
long dt_trace_request_decode(double sum);

#endif /* DT_TRACE_TRACE_REQUEST_H */
