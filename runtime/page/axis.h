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
    bool log, whole;
    double step; /* between ticks; 0: a constant, or log */
    double unit; /* of the ticks: 1, or that of a power of 1024 */
    size_t count;
    double tick[DT_AXIS_TICKS]; /* at 1, 2 or 5 times a power of ten units */
};

enum {
    DT_AXIS_LOG = 1 << 0,
    DT_AXIS_LOOSE = 1 << 1, /* leave room beyond the values */
    DT_AXIS_WHOLE = 1 << 2, /* ticks are whole numbers */
};

/* An axis for values from `least` to `greatest`, with about `ticks` ticks, at
 * most DT_AXIS_TICKS; if they are equal, with that value as the only one.
 * `kind` is a sum of the above.
 */
void dt_axis_init(struct dt_axis *axis, double least, double greatest,
                  unsigned ticks, unsigned kind);

/* The digits that tell two ticks apart; 1 if nothing has to be told. */
int dt_axis_digits(const struct dt_axis *axis);

/* Puts the ticks at round multiples of the greatest power of 1024 that fits. */
void dt_axis_binary(struct dt_axis *axis, unsigned ticks);

/* Where a value is; those beyond the range are at its ends. */
double dt_axis_place(const struct dt_axis *axis, double value);

#endif /* DT_PAGE_AXIS_H */
