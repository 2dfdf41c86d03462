/* SPDX-License-Identifier: Apache-2.0 */
/* measure_impl.h - the parts of a measurement; for forecast/ only */
#ifndef DT_FORECAST_MEASURE_IMPL_H
#define DT_FORECAST_MEASURE_IMPL_H

#include "forecast/measure.h"

enum { DT_MEASURE_ROUNDS = 7 };

/* Seconds of rounds; the first one warms up. */
struct dt_stopwatch {
    double all[DT_MEASURE_ROUNDS];
    int count;
};

/* Adds a round; the median of all but the first. */
void dt_stopwatch_add(struct dt_stopwatch *watch, double seconds);
double dt_stopwatch_median(const struct dt_stopwatch *watch);

/* Sets a rate to amount / seconds, with the seconds of the slowest rank. All
 * ranks call it. -1: a peer failed.
 */
int dt_measure_set(const struct dt_measure *measure, struct dt_rates *rates,
                   enum dt_rate rate, double amount, double seconds,
                   struct dt_error *err);

/* Passes through blocks and head, and AdamW. -1: as dt_measure_rates. */
int dt_measure_passes(const struct dt_measure *measure, struct dt_rates *rates,
                      struct dt_error *err);

/* Collectives, copies to a GPU, host memory and the drive. -1: as
 * dt_measure_rates.
 */
int dt_measure_links(const struct dt_measure *measure, struct dt_rates *rates,
                     struct dt_error *err);

#endif /* DT_FORECAST_MEASURE_IMPL_H */
