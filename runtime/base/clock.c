/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - CLOCK_MONOTONIC and CLOCK_REALTIME */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"

int64_t dt_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double dt_clock_now(void)
{
    return 1e-9 * (double)dt_clock_ns(CLOCK_MONOTONIC);
}

double dt_clock_wall(void)
{
    return 1e-9 * (double)dt_clock_ns(CLOCK_REALTIME);
}

void dt_clock_sleep(double seconds)
{
    struct timespec left = {
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
    };
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

void dt_clock_format(double seconds, char *text, size_t size)
{
    const long s = (long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, "%02ld:%02ld", s / 60, s % 60);
}

struct timespec dt_clock_in(clockid_t clock, int ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}
