/* SPDX-License-Identifier: Apache-2.0 */
/* median.c - sorts and takes the middle */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "base/median.h"

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

double dt_median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[(count - 1) / 2];
}
