/* SPDX-License-Identifier: Apache-2.0 */
/*
 * curve.h - a line of any number of points in bounded memory
 *
 * Points are gathered in bins along x. When the bins are full, neighbors are
 * merged and each is twice as wide. A bin keeps its least and greatest point,
 * so that no spike is lost.
 */
#ifndef DT_PAGE_CURVE_H
#define DT_PAGE_CURVE_H

#include <stddef.h>

enum { DT_CURVE_BINS = 400 };

struct dt_curve_bin {
    double min, max, at_min, at_max; /* and the x of both */
    double sum, squares, x_sum;      /* over finite points */
    size_t count, bad;               /* finite points, others */
};

struct dt_curve {
    double from, width; /* bin i is [from + i * width, from + (i+1) * width) */
    size_t used;        /* bins up to the last one with a point */
    struct dt_curve_bin bin[DT_CURVE_BINS];
    /* Of all points; meaningful if there are any. */
    size_t count, bad;
    double first, last, first_x, last_x; /* of finite points */
    double min, max, at_min, at_max, sum;
};

/* Begins without points; the first bins have this width. */
void dt_curve_init(struct dt_curve *curve, double width);

/* Adds a point. An x before the first one counts as that. A y that is not
 * finite is counted as bad.
 */
void dt_curve_add(struct dt_curve *curve, double x, double y);

/* Mean of the points of the bin that holds x; NaN: it has none. */
double dt_curve_at(const struct dt_curve *curve, double x);

/* Where the bin's points are, on average. */
double dt_curve_bin_x(const struct dt_curve_bin *bin);

struct dt_curve_tail {
    size_t count;
    double mean, deviation; /* NaN: no points */
};

/* The points of about the last `share` of the range of x. */
struct dt_curve_tail dt_curve_tail(const struct dt_curve *curve, double share);

/* The exponential average of the bins over both sides, which does not lag, with
 * a memory of about a fortieth of the curve, at the x of each bin. Returns how
 * many points there are in x and y, which have room for DT_CURVE_BINS.
 */
size_t dt_curve_smooth(const struct dt_curve *curve, double *x, double *y);

#endif /* DT_PAGE_CURVE_H */
