/* SPDX-License-Identifier: Apache-2.0 */
/* stop.c - asks now and then whether to end */
#include "config.h"

#include "base/clock.h"
#include "data/forms/stop.h"

#define ASK_S 0.1

int dt_stop_check(struct dt_stop *stop, const char *path, struct dt_error *err)
{
    const double now = stop->asked ? dt_clock_now() : 0;
    if (!stop->asked || now < stop->next)
        return 0;
    stop->next = now + ASK_S;
    return stop->asked()
               ? dt_error_set(err, EX_TEMPFAIL, "%s: stopped by a signal", path)
               : 0;
}
