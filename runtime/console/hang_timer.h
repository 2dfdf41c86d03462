/* SPDX-License-Identifier: Apache-2.0 */
/* hang_timer.h - decides when ranks have printed nothing for too long
 *
 * Times are seconds on any monotonic clock.
 */
#ifndef DT_CONSOLE_HANG_TIMER_H
#define DT_CONSOLE_HANG_TIMER_H

#include <stdbool.h>

struct dt_hang_timer {
    double limit_s; /* 0: no limit; false alarms increase it */
    double since;
    bool told;
};

/* Call it when a rank has printed or started. If a hang was reported and the
 * ranks then continue, it was no hang but a compilation or a long step: from
 * now on only twice that time is too long.
 */
void dt_hang_timer_reset(struct dt_hang_timer *timer, double now);

/* Seconds until it has been too long; INFINITY if it has been reported or there
 * is no limit.
 */
double dt_hang_timer_left(const struct dt_hang_timer *timer, double now);

/* Whether it has been too long; true only once until the next reset. */
bool dt_hang_timer_expired(struct dt_hang_timer *timer, double now);

#endif /* DT_CONSOLE_HANG_TIMER_H */
