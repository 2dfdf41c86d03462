/* SPDX-License-Identifier: Apache-2.0 */
/* axis.c - a range of numbers on a line, and its ticks */
#include "config.h"

#include <math.h>

#include "page/axis.h"

static void axis_add(struct dt_axis *axis, double tick)
{
    const double slack = axis->log ? 0 : 1e-9 * (axis->to - axis->from);
    if (axis->count < DT_AXIS_TICKS && tick >= axis->from - slack &&
        tick <= axis->to + slack)
        axis->tick[axis->count++] = tick;
}

/* The step of 1, 2 or 5 times a power of ten that makes at most so many. */
static double round_step(double range, unsigned ticks)
{
    const double least = range / ticks;
    const double power = pow(10, floor(log10(least)));
    if (least <= power)
        return power;
    if (least <= 2 * power)
        return 2 * power;
    return least <= 5 * power ? 5 * power : 10 * power;
}

static void axis_ticks(struct dt_axis *axis, unsigned ticks)
{
    const double range = (axis->to - axis->from) / axis->unit;
    double step = round_step(range, ticks) * axis->unit;
    if (axis->whole && step < 1)
        step = 1;
    axis->step = step;
    const double first = ceil(axis->from / step - 1e-9);
    for (unsigned i = 0; i <= ticks; i++) {
        const double tick = (first + i) * step;
        axis_add(axis, fabs(tick) < step / 2 ? 0 : tick);
    }
}

/* Powers of ten; with few of them also 2 and 5 times those. */
static void axis_log_ticks(struct dt_axis *axis, unsigned ticks)
{
    const int first = (int)floor(log10(axis->from));
    const int last = (int)ceil(log10(axis->to));
    const int each = 1 + (last - first) / (int)ticks;
    const bool between = last - first <= 3;
    for (int power = first; power <= last; power += each) {
        axis_add(axis, pow(10, power));
        if (between) {
            axis_add(axis, 2 * pow(10, power));
            axis_add(axis, 5 * pow(10, power));
        }
    }
}

/* Of a constant only its value is known, so no other is at the axis. */
static void axis_constant(struct dt_axis *axis, double value)
{
    const double room = value != 0 ? fabs(value) / 2 : 1;
    axis->from = axis->log ? value / 2 : value - room;
    axis->to = axis->log ? value * 2 : value + room;
    axis->tick[axis->count++] = value;
}

void dt_axis_init(struct dt_axis *axis, double least, double greatest,
                  unsigned ticks, unsigned kind)
{
    const bool log = kind & DT_AXIS_LOG, loose = kind & DT_AXIS_LOOSE;
    *axis = (struct dt_axis){.from = least,
                             .to = greatest,
                             .log = log,
                             .whole = kind & DT_AXIS_WHOLE,
                             .unit = 1};
    if (!(greatest - least > 1e-12 * fabs(greatest))) {
        axis_constant(axis, least);
        return;
    }
    if (loose && log) {
        const double room = pow(greatest / least, 0.04);
        axis->from /= room;
        axis->to *= room;
    } else if (loose) {
        const double room = 0.05 * (greatest - least);
        axis->from = least >= 0 && least < room ? 0 : least - room;
        axis->to += room;
    }
    if (log)
        axis_log_ticks(axis, ticks);
    else
        axis_ticks(axis, ticks);
}

void dt_axis_binary(struct dt_axis *axis, unsigned ticks)
{
    if (axis->step == 0)
        return; /* of a constant */
    while (axis->to >= 1024 * axis->unit)
        axis->unit *= 1024;
    axis->count = 0;
    axis_ticks(axis, ticks);
}

int dt_axis_digits(const struct dt_axis *axis)
{
    const double most = fmax(fabs(axis->from), fabs(axis->to));
    return axis->step > 0
               ? 1 + (int)floor(log10(most)) - (int)floor(log10(axis->step))
               : 1;
}

double dt_axis_place(const struct dt_axis *axis, double value)
{
    const double share =
        axis->log ? log(value / axis->from) / log(axis->to / axis->from)
                  : (value - axis->from) / (axis->to - axis->from);
    const double inside = share > 0 ? share < 1 ? share : 1 : 0;
    return axis->begin + inside * (axis->end - axis->begin);
}
