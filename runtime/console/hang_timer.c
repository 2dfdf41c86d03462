/* SPDX-License-Identifier: Apache-2.0 */
/* hang_timer.c - decides when ranks have printed nothing for too long */
#include "config.h"

#include <math.h>

#include "console/hang_timer.h"

void dt_hang_timer_reset(struct dt_hang_timer *timer, double now)
{
    if (timer->told)
        timer->limit_s = fmax(timer->limit_s, 2 * (now - timer->since));
    timer->since = now;
    timer->told = false;
}

double dt_hang_timer_left(const struct dt_hang_timer *timer, double now)
{
    if (timer->limit_s == 0 || timer->told)
        return INFINITY;
    return fmax(timer->since + timer->limit_s - now, 0);
}

bool dt_hang_timer_expired(struct dt_hang_timer *timer, double now)
{
    if (dt_hang_timer_left(timer, now) > 0)
        return false;
    timer->told = true;
    return true;
}
