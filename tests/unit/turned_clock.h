/* SPDX-License-Identifier: Apache-2.0 */
/* turned_clock.h - clocks that a test turns forward or back */
#ifndef DT_TESTS_UNIT_TURNED_CLOCK_H
#define DT_TESTS_UNIT_TURNED_CLOCK_H

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* By so much clocks are ahead. Waits of libc go by the true ones, so what waits
 * until a turned time waits longer; each case ends with 0.
 */
static _Atomic time_t turned_s;

/* In place of libc's. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, t);
    t->tv_sec += turned_s;
    return rc;
}

#endif /* DT_TESTS_UNIT_TURNED_CLOCK_H */
