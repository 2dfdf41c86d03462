/* SPDX-License-Identifier: Apache-2.0 */
/* median.h - the number in the middle */
#ifndef DT_BASE_MEDIAN_H
#define DT_BASE_MEDIAN_H

#include <stddef.h>

/* The median of count > 0 numbers, of an even count the lower one of the two in
 * the middle; sorts them, NaN last.
 */
double dt_median(double *values, size_t count);

#endif /* DT_BASE_MEDIAN_H */
