/* SPDX-License-Identifier: Apache-2.0 */
/* measure_watch.c - a median on each rank, and the slowest of them */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "forecast/measure_impl.h"

void dt_stopwatch_add(struct dt_stopwatch *watch, double seconds)
{
    if (watch->count < DT_MEASURE_ROUNDS)
        watch->all[watch->count++] = seconds;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double dt_stopwatch_median(const struct dt_stopwatch *watch)
{
    double sorted[DT_MEASURE_ROUNDS];
    size_t count = (size_t)watch->count - 1;
    memcpy(sorted, watch->all + 1, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_size);
    return sorted[count / 2];
}

int dt_measure_set(const struct dt_measure *measure, struct dt_rates *rates,
                   enum dt_rate rate, double amount, double seconds,
                   struct dt_error *err)
{
    if (dt_comm_size(measure->comm) > 1 &&
        dt_comm_reduce_scalars(measure->comm, &seconds, 1, DT_MAX, err) < 0)
        return -1;
    rates->of[rate] = amount / seconds;
    return 0;
}
