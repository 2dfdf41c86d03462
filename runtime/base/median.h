/* SPDX-License-Identifier: Apache-2.0 */
/* median.h - the number in the middle */
#ifndef DT_BASE_MEDIAN_H
#define DT_BASE_MEDIAN_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

static inline int dt_median_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

/* The median of count > 0 numbers, of an even count the lower one of the two in
 * the middle; sorts them, NaN last.
 */
static inline double dt_median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), dt_median_compare);
    return values[(count - 1) / 2];
}

#endif /* DT_BASE_MEDIAN_H */
