/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - time that never jumps, and that of calendars */
#ifndef DT_BASE_CLOCK_H
#define DT_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Seconds on the monotonic clock. Only differences mean anything. */
double dt_clock_now(void);

/* Seconds since 1970, which may jump: for people, and for other machines. */
double dt_clock_wall(void);

/* Nanoseconds on a clock. */
int64_t dt_clock_ns(clockid_t clock);

/* Sleeps for at least `seconds`, also across signals. */
void dt_clock_sleep(double seconds);

/* Formats a duration as "1:02:03" or "02:03". */
void dt_clock_format(double seconds, char *text, size_t size);

/* `ms` milliseconds from now on that clock, for waits that end at a time. */
struct timespec dt_clock_in(clockid_t clock, int ms);

#endif /* DT_BASE_CLOCK_H */
