/* SPDX-License-Identifier: Apache-2.0 */
/* rank_times.c - how long each rank computes, over time, in bounded memory */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "page/rank_times.h"

void dt_rank_times_fini(struct dt_rank_times *times)
{
    free(times->sums);
    free(times->sorted);
    memset(times, 0, sizeof(*times));
}

static int times_begin(struct dt_rank_times *times,
                       const struct dt_report_ranks *ranks)
{
    dt_rank_times_fini(times);
    times->sums = calloc(ranks->count, sizeof(*times->sums));
    times->sorted = calloc(ranks->count, sizeof(*times->sorted));
    if (!times->sums || !times->sorted) {
        dt_rank_times_fini(times);
        return -1;
    }
    times->world = ranks->count;
    times->per_band = (ranks->count + DT_RANK_BANDS - 1) / DT_RANK_BANDS;
    times->bands = (ranks->count + times->per_band - 1) / times->per_band;
    times->lines_a_column = 1;
    times->first_step = ranks->step;
    return 0;
}

/* The median of the finite values; NaN: none. */
static double median_of(struct dt_rank_times *times, const double *value)
{
    size_t n = 0;
    for (size_t i = 0; i < times->world; i++)
        if (isfinite(value[i]))
            times->sorted[n++] = value[i];
    return n > 0 ? dt_median(times->sorted, n) : NAN;
}

/* Merges each pair of columns. */
static void times_widen(struct dt_rank_times *times)
{
    for (size_t band = 0; band < times->bands; band++)
        for (size_t i = 0; i < times->columns; i++) {
            const struct dt_rank_cell from = times->cell[band][i];
            times->cell[band][i] = (struct dt_rank_cell){0};
            times->cell[band][i / 2].sum += from.sum;
            times->cell[band][i / 2].count += from.count;
        }
    times->columns = (times->columns + 1) / 2;
    times->lines_a_column *= 2;
}

static void times_add_column(struct dt_rank_times *times,
                             const double *compute_s)
{
    const double median = median_of(times, compute_s);
    if (times->lines / times->lines_a_column >= DT_RANK_COLUMNS)
        times_widen(times);
    const size_t column = times->lines++ / times->lines_a_column;
    times->columns = column + 1;
    for (size_t i = 0; median > 0 && i < times->world;) {
        struct dt_rank_cell *cell = &times->cell[i / times->per_band][column];
        double most = NAN;
        const size_t end = i + times->per_band;
        for (; i < end && i < times->world; i++)
            most = fmax(most, compute_s[i]);
        if (!isfinite(most))
            continue;
        cell->sum += most / median;
        cell->count++;
    }
}

static void add_to(double *sum, unsigned *count, const double *value, size_t i)
{
    if (!value || !isfinite(value[i]))
        return;
    *sum += value[i];
    ++*count;
}

void dt_rank_times_add(struct dt_rank_times *times,
                       const struct dt_report_ranks *ranks)
{
    if (ranks->count == 0 ||
        (times->world != ranks->count && times_begin(times, ranks) < 0))
        return;
    times->last_step = ranks->step;
    for (size_t i = 0; i < times->world; i++) {
        struct dt_rank_sums *sums = &times->sums[i];
        add_to(&sums->compute, &sums->compute_n, ranks->compute_s, i);
        add_to(&sums->comm, &sums->comm_n, ranks->comm_s, i);
        add_to(&sums->data, &sums->data_n, ranks->data_wait_s, i);
        if (ranks->mem && isfinite(ranks->mem[i]))
            sums->mem = fmax(sums->mem, ranks->mem[i]);
    }
    if (ranks->compute_s)
        times_add_column(times, ranks->compute_s);
}
