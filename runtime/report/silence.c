/* SPDX-License-Identifier: Apache-2.0 */
/* silence.c - when ranks have printed nothing for too long */
#include "config.h"

#include <math.h>

#include "report/silence.h"

void dt_silence_break(struct dt_silence *silence, double now)
{
    if (silence->told)
        silence->limit_s = fmax(silence->limit_s, 2 * (now - silence->since));
    silence->since = now;
    silence->told = false;
}

double dt_silence_left(const struct dt_silence *silence, double now)
{
    if (silence->limit_s == 0 || silence->told)
        return INFINITY;
    return fmax(silence->since + silence->limit_s - now, 0);
}

bool dt_silence_tell(struct dt_silence *silence, double now)
{
    if (dt_silence_left(silence, now) > 0)
        return false;
    silence->told = true;
    return true;
}
