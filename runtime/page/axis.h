/* SPDX-License-Identifier: Apache-2.0 */
/* axis.h - a range of numbers on a line, and its ticks */
#ifndef DT_PAGE_AXIS_H
#define DT_PAGE_AXIS_H

#include <stdbool.h>
#include <stddef.h>

enum { DT_AXIS_TICKS = 12 };

struct dt_axis {
    double from, to;   /* from < to; both > 0 if log */
    double begin, end; /* where they are in the picture */
    bool log;
    double unit; /* of the ticks: 1, or that of a power of 1024 */
    size_t count;
    double tick[DT_AXIS_TICKS]; /* at 1, 2 or 5 times a power of ten units */
};

/* An axis for values from `least` to `greatest`, which may be equal, with about
 * `ticks` ticks, at most DT_AXIS_TICKS. Leaves room beyond them if `loose`.
 */
void dt_axis_init(struct dt_axis *axis, double least, double greatest,
                  unsigned ticks, bool log, bool loose);

/* Puts the ticks at round multiples of the greatest power of 1024 that fits. */
void dt_axis_binary(struct dt_axis *axis, unsigned ticks);

/* Where a value is; those beyond the range are at its ends. */
double dt_axis_place(const struct dt_axis *axis, double value);

#endif /* DT_PAGE_AXIS_H */
