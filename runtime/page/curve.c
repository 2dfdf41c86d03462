/* SPDX-License-Identifier: Apache-2.0 */
/* curve.c - a line of any number of points in bounded memory */
#include "config.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "page/curve.h"

void dt_curve_init(struct dt_curve *curve, double width)
{
    memset(curve, 0, sizeof(*curve));
    curve->width = width;
    curve->first = curve->last = curve->min = curve->max = NAN;
    curve->first_x = curve->last_x = NAN;
}

/* Where there are only bad points, at_min and at_max are the place of one. */
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

/* The kernel keep^|distance| is two sums, one from each side. */
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
