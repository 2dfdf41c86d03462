/* SPDX-License-Identifier: Apache-2.0 */
/* curve.c - points in bounded memory, and axes that show them */
#include "config.h"

#include <math.h>
#include <string.h>

#include "page/page_impl.h"

/* --- curves --- */

void dt_curve_init(struct dt_curve *curve, double width)
{
    memset(curve, 0, sizeof(*curve));
    curve->width = width;
    curve->first = curve->last = curve->min = curve->max = NAN;
    curve->first_x = curve->last_x = NAN;
}

/* If all points are bad, at_min and at_max are the place of one. */
static void bin_merge(struct dt_curve_bin *to, const struct dt_curve_bin *from)
{
    const bool only = to->count + to->bad == 0;
    if (only || (from->count > 0 && (to->count == 0 || from->min < to->min))) {
        to->min = from->min;
        to->at_min = from->at_min;
    }
    if (only || (from->count > 0 && (to->count == 0 || from->max > to->max))) {
        to->max = from->max;
        to->at_max = from->at_max;
    }
    to->sum += from->sum;
    to->squares += from->squares;
    to->x_sum += from->x_sum;
    to->count += from->count;
    to->bad += from->bad;
}

/* Merges each pair of bins. */
static void curve_widen(struct dt_curve *curve)
{
    for (size_t i = 0; i < curve->used; i++) {
        const struct dt_curve_bin from = curve->bin[i];
        memset(&curve->bin[i], 0, sizeof(from));
        bin_merge(&curve->bin[i / 2], &from);
    }
    curve->used = (curve->used + 1) / 2;
    curve->width *= 2;
}

static void curve_count(struct dt_curve *curve, double x, double y)
{
    if (curve->count == 0 || y < curve->min) {
        curve->min = y;
        curve->at_min = x;
    }
    if (curve->count == 0 || y > curve->max) {
        curve->max = y;
        curve->at_max = x;
    }
    if (curve->count == 0) {
        curve->first = y;
        curve->first_x = x;
    }
    curve->last = y;
    curve->last_x = x;
    curve->sum += y;
    curve->count++;
}

void dt_curve_add(struct dt_curve *curve, double x, double y)
{
    if (!isfinite(x))
        return;
    if (curve->count + curve->bad == 0)
        curve->from = x;
    double place = (x - curve->from) / curve->width;
    for (; place >= DT_CURVE_BINS; place /= 2)
        curve_widen(curve);
    const size_t i = place > 0 ? (size_t)place : 0;
    struct dt_curve_bin *bin = &curve->bin[i];
    if (i >= curve->used)
        curve->used = i + 1;
    if (!isfinite(y)) {
        bin->bad++;
        curve->bad++;
        if (bin->count == 0)
            bin->at_min = bin->at_max = x;
        return;
    }
    bin_merge(bin, &(struct dt_curve_bin){.min = y,
                                          .max = y,
                                          .at_min = x,
                                          .at_max = x,
                                          .sum = y,
                                          .squares = y * y,
                                          .x_sum = x,
                                          .count = 1});
    curve_count(curve, x, y);
}

double dt_curve_bin_x(const struct dt_curve_bin *bin)
{
    return bin->count > 0 ? bin->x_sum / (double)bin->count : bin->at_min;
}

double dt_curve_at(const struct dt_curve *curve, double x)
{
    const double place = (x - curve->from) / curve->width;
    if (!(place >= 0) || place >= (double)curve->used)
        return NAN;
    const struct dt_curve_bin *bin = &curve->bin[(size_t)place];
    return bin->count > 0 ? bin->sum / (double)bin->count : NAN;
}

struct dt_curve_tail dt_curve_tail(const struct dt_curve *curve, double share)
{
    struct dt_curve_tail tail = {0, NAN, NAN};
    double sum = 0, squares = 0;
    const double from =
        curve->last_x - share * (curve->last_x - curve->first_x);
    for (size_t i = 0; i < curve->used; i++) {
        const struct dt_curve_bin *bin = &curve->bin[i];
        if (bin->count == 0 || dt_curve_bin_x(bin) < from)
            continue;
        sum += bin->sum;
        squares += bin->squares;
        tail.count += bin->count;
    }
    if (tail.count == 0)
        return tail;
    tail.mean = sum / (double)tail.count;
    const double variance =
        squares / (double)tail.count - tail.mean * tail.mean;
    tail.deviation = sqrt(variance > 0 ? variance : 0);
    return tail;
}

/* The kernel keep^|distance| is computed as two sums, one from each side. */
size_t dt_curve_smooth(const struct dt_curve *curve, double *x, double *y)
{
    double mean[DT_CURVE_BINS], sum = 0, weight = 0;
    double weights[DT_CURVE_BINS];
    size_t n = 0;
    for (size_t i = 0; i < curve->used; i++) {
        const struct dt_curve_bin *bin = &curve->bin[i];
        if (bin->count == 0)
            continue;
        x[n] = dt_curve_bin_x(bin);
        mean[n++] = bin->sum / (double)bin->count;
    }
    const double keep = 1 - 1 / fmax(2, (double)n / 40);
    for (size_t i = 0; i < n; i++) {
        y[i] = sum = keep * sum + mean[i];
        weights[i] = weight = keep * weight + 1;
    }
    sum = weight = 0;
    for (size_t i = n; i-- > 0;) {
        y[i] = (y[i] + keep * sum) / (weights[i] + keep * weight);
        sum = keep * sum + mean[i];
        weight = keep * weight + 1;
    }
    return n;
}

/* --- axes --- */

static void axis_add(struct dt_axis *axis, double tick)
{
    const double slack = axis->log ? 0 : 1e-9 * (axis->to - axis->from);
    if (axis->count < DT_AXIS_TICKS && tick >= axis->from - slack &&
        tick <= axis->to + slack)
        axis->tick[axis->count++] = tick;
}

/* The smallest step of 1, 2 or 5 times a power of ten with at most `ticks`
 * ticks.
 */
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

/* Adds powers of ten; if they are few, also 2 and 5 times those. */
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

/* A constant gets a tick at its value, and no other. */
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
        return; /* the axis of a constant */
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
