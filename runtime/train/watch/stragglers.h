/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stragglers.h - which rank is slower than the others, and why
 *
 * Steps take equally long on all ranks, as they wait for each other. So we
 * compare the time of a step that a rank does not wait for others, over windows
 * of several steps. A rank is slow if the median of its last 17 windows is 15 %
 * above that of ranks, and 13 of them are 10 % above it. Another process that
 * uses a rank's CPUs for some seconds makes fewer windows slow, and one that
 * slows another rank hides a slow one in fewer. The median also has to exceed
 * the remaining noise of a window by five standard errors. Noise is measured by
 * differences of successive windows, so that a slow rank does not hide in its
 * own slowness, and two ranks are enough.
 */
#ifndef DT_TRAIN_WATCH_STRAGGLERS_H
#define DT_TRAIN_WATCH_STRAGGLERS_H

#include <stddef.h>

#include "base/error.h"

struct dt_stragglers;

/* For so many ranks. NULL and err: EX_OSERR. */
struct dt_stragglers *dt_stragglers_create(size_t world, struct dt_error *err);
void dt_stragglers_destroy(struct dt_stragglers *s); /* NULL is fine */

/* Adds a window: seconds[world] of a step that ranks did not wait. Returns the
 * slow rank, the slowest of several, or -1. *excess: its excess over the median
 * of ranks as a fraction of that, in the median of its last windows.
 */
int dt_stragglers_add(struct dt_stragglers *s, const double *seconds,
                      double *excess);

/* Causes that may slow a process down, as the kernel counts them: seconds and
 * numbers since some time, or of a step. NaN: unknown.
 */
struct dt_strain {
    double throttled_s; /* its control group was throttled */
    double steal_s;     /* the hypervisor took from all CPUs of its host */
    double faults;      /* pages that were read from a drive */
    double preempted;   /* switches to another process that it did not ask for
                         */
};

enum { DT_STRAIN_NUMBERS = sizeof(struct dt_strain) / sizeof(double) };

/* Reads the kernel's counters for this process. `root` is prepended to /proc
 * and /sys ("").
 */
void dt_strain_read(struct dt_strain *strain, const char *root);

/* Times and counts in a step: of a rank, and of the median rank. */
struct dt_slowness {
    double excess_s; /* seconds that the rank is slower */
    double data_wait_s, median_data_wait_s;
    struct dt_strain strain, median;
};

/* Writes the likely cause as the end of a sentence. */
void dt_slowness_cause(const struct dt_slowness *slow, char *text,
                       size_t bytes);

#endif /* DT_TRAIN_WATCH_STRAGGLERS_H */
