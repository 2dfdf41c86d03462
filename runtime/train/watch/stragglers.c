/* SPDX-License-Identifier: Apache-2.0 */
/* stragglers.c - tells which rank is slow, and the likely cause */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/median.h"
#include "train/watch/watch_impl.h"

enum {
    JUDGED = 17, /* newest windows: their median has to be slow */
    SLOW = 13,   /* number of them that have to be somewhat slow */
    KEPT = 64,   /* windows from which the noise of a rank is estimated */
};

static const double least_excess = 0.15;     /* of the median of windows */
static const double least_of_each = 0.1;     /* of those that count as slow */
static const double least_errors = 5;        /* standard errors of the median */
static const double mad_to_sigma = 1.4826;   /* of a normal distribution */
static const double median_to_mean = 1.2533; /* their standard errors */
static const double share_of_cause = 0.3;    /* of the excess, at least */

struct dt_stragglers {
    size_t world, count; /* windows that were added */
    double *ratio;       /* (KEPT, world) to the median, as a ring */
    double *room;        /* (world) */
};

void dt_stragglers_destroy(struct dt_stragglers *s)
{
    if (!s)
        return;
    free(s->ratio);
    free(s->room);
    free(s);
}

struct dt_stragglers *dt_stragglers_create(size_t world, struct dt_error *err)
{
    struct dt_stragglers *s = calloc(1, sizeof(*s));
    if (s) {
        s->world = world;
        s->ratio = calloc(KEPT * world, sizeof(double));
        s->room = calloc(world, sizeof(double));
        if (s->ratio && s->room)
            return s;
    }
    dt_stragglers_destroy(s);
    dt_error_set(err, EX_OSERR, "slow ranks: out of memory");
    return NULL;
}

/* The ratio of a rank `ago` windows ago, 0: in the newest one. */
static double ratio_of(const struct dt_stragglers *s, size_t rank, size_t ago)
{
    return s->ratio[(s->count - 1 - ago) % KEPT * s->world + rank];
}

/* Standard error of the median of the judged windows, from the noise of one
 * window: the median of absolute differences of successive windows, which have
 * the noise of two.
 */
static double error_of(const struct dt_stragglers *s, size_t rank)
{
    const size_t windows = s->count < KEPT ? s->count : KEPT;
    double step[KEPT];
    for (size_t i = 0; i + 1 < windows; i++)
        step[i] = fabs(ratio_of(s, rank, i) - ratio_of(s, rank, i + 1));
    const double noise =
        dt_median(step, windows - 1) * mad_to_sigma * M_SQRT1_2;
    return noise * median_to_mean / sqrt(JUDGED);
}

/* Excess of a rank over the median of ranks; 0: it is not slow. */
static double excess_of(const struct dt_stragglers *s, size_t rank)
{
    double above[JUDGED];
    size_t slow = 0;
    for (size_t i = 0; i < JUDGED; i++) {
        above[i] = ratio_of(s, rank, i) - 1;
        slow += above[i] > least_of_each;
    }
    if (slow < SLOW)
        return 0;
    const double excess = dt_median(above, JUDGED);
    return excess > least_excess && excess > least_errors * error_of(s, rank)
               ? excess
               : 0;
}

int dt_stragglers_add(struct dt_stragglers *s, const double *seconds,
                      double *excess)
{
    const size_t row = s->count++ % KEPT * s->world;
    int slowest = -1;
    memcpy(s->room, seconds, s->world * sizeof(*seconds));
    const double median = dt_median(s->room, s->world);
    for (size_t r = 0; r < s->world; r++)
        s->ratio[row + r] = seconds[r] / median;
    *excess = 0;
    for (size_t r = 0; s->count >= JUDGED && r < s->world; r++) {
        const double more = excess_of(s, r);
        if (more > *excess) {
            *excess = more;
            slowest = (int)r;
        }
    }
    return slowest;
}

/* --- causes, as the kernel counts them --- */

/* Seconds for which a control group, or its nearest ancestor with a counter,
 * was throttled.
 */
static double throttled(const char *root)
{
    struct dt_cgroup group;
    double value;
    dt_cgroup_find(&group, root, "cpu");
    const bool v1 = group.version == 1;
    do
        value = dt_cgroup_number(&group, "cpu.stat",
                                 v1 ? "throttled_time" : "throttled_usec");
    while (isnan(value) && dt_cgroup_rise(&group) == 0);
    return value * (v1 ? 1e-9 : 1e-6);
}

/* The eighth number of the line "cpu" in ticks: of all CPUs together. */
static double stolen(const char *root)
{
    char file[PATH_MAX];
    double ticks = NAN;
    snprintf(file, sizeof(file), "%s/proc/stat", root);
    FILE *stat = fopen(file, "re");
    if (stat &&
        fscanf(stat, "cpu %*f %*f %*f %*f %*f %*f %*f %lf", &ticks) != 1)
        ticks = NAN;
    if (stat)
        fclose(stat);
    return ticks / (double)sysconf(_SC_CLK_TCK) /
           (double)sysconf(_SC_NPROCESSORS_ONLN);
}

void dt_strain_read(struct dt_strain *strain, const char *root)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    *strain = (struct dt_strain){.throttled_s = throttled(root),
                                 .steal_s = stolen(root),
                                 .faults = (double)usage.ru_majflt,
                                 .preempted = (double)usage.ru_nivcsw};
}

/* Whether seconds of a step, beyond those at the median, explain an excess. */
static bool explains(double seconds, double median, double excess)
{
    return seconds - fmax(median, 0) >= share_of_cause * excess;
}

void dt_slowness_cause(const struct dt_slowness *slow, char *text, size_t bytes)
{
    const struct dt_strain *its = &slow->strain, *median = &slow->median;
    const double excess = slow->excess_s;
    if (explains(its->throttled_s, median->throttled_s, excess))
        snprintf(text, bytes,
                 "its control group is throttled for %.3g s a step: it has a "
                 "limit of CPU time (cpu.max)",
                 its->throttled_s);
    else if (explains(its->steal_s, median->steal_s, excess))
        snprintf(text, bytes,
                 "the hypervisor takes %.3g s a step from the CPUs of its host",
                 its->steal_s);
    else if (explains(slow->data_wait_s, slow->median_data_wait_s, excess))
        snprintf(text, bytes,
                 "it waits %.3g s a step for data, and the median rank %.3g s",
                 slow->data_wait_s, slow->median_data_wait_s);
    else if (its->faults >= 1 && its->faults > 2 * median->faults)
        snprintf(text, bytes,
                 "it reads %.0f pages a step back from a drive: its host is "
                 "short of memory",
                 its->faults);
    else if (its->preempted >= 10 && its->preempted > 2 * median->preempted)
        snprintf(text, bytes,
                 "it is preempted %.0f times a step, and the median rank %.0f "
                 "times: other processes use its CPUs",
                 its->preempted, median->preempted);
    else
        snprintf(text, bytes,
                 "the kernel of its host counts no cause: look at the clock of "
                 "its CPUs, and at what else runs there");
}
