/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_ranks.c - looks for slow ranks while the run goes on
 *
 * Ranks exchange the time of their part of a step every three seconds, but not
 * more often than every five steps. Each exchange ends a window (stragglers.h),
 * so a rank is named at most 100 steps after it became slow, or after a minute
 * if steps are short.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/median.h"
#include "run/gather.h"
#include "train/watch/costs.h"
#include "train/watch/stragglers.h"

enum {
    STEPS_MIN = 5, /* of a window */
    STEPS_MAX = 100000,
    QUIET_SECONDS = 600, /* between two warnings of a rank */
    /* numbers of a rank, of a step */
    OWN = 0, /* seconds that it does not wait for others */
    DATA_WAIT,
    WALL,   /* seconds in all */
    STRAIN, /* struct dt_strain */
    NUMBERS = STRAIN + DT_STRAIN_NUMBERS
};

static const double window_seconds = 3;    /* at least */
static const double share_of_window = 0.1; /* in the means, at least */

struct dt_watch {
    struct dt_stragglers *found;
    struct dt_spent spent; /* at the last exchange */
    struct dt_strain strain;
    double asked;  /* when */
    long step;     /* after which step */
    long steps;    /* until the next exchange: the same on all ranks */
    double *ranks; /* (world, NUMBERS) of the last exchange */
    double *means; /* (world, NUMBERS) of about the last ten windows */
    double *room;  /* (world) */
    double *told;  /* (world) when a rank was named, 0: never */
    long windows;
};

void dt_watch_destroy(struct dt_watch *w)
{
    if (!w)
        return;
    dt_stragglers_destroy(w->found);
    free(w->ranks);
    free(w->means);
    free(w->room);
    free(w->told);
    free(w);
}

int dt_watch_begin(struct dt_run *run, struct dt_error *err)
{
    const size_t world = (size_t)run->spec.world;
    struct dt_watch *w = calloc(1, sizeof(*w));
    run->watch = w;
    if (w) {
        w->ranks = calloc(world * NUMBERS, sizeof(double));
        w->means = calloc(world * NUMBERS, sizeof(double));
        w->room = calloc(world, sizeof(double));
        w->told = calloc(world, sizeof(double));
    }
    if (!w || !w->ranks || !w->means || !w->room || !w->told)
        return dt_error_set(err, EX_OSERR, "slow ranks: out of memory");
    dt_spent_now(run->spec.exec.device, &w->spent);
    dt_strain_read(&w->strain, "");
    w->asked = dt_clock_now();
    w->step = run->progress.step;
    w->steps = STEPS_MIN;
    w->found = dt_stragglers_create(world, err);
    return w->found ? 0 : -1;
}

/* Measures the numbers of this rank, per step since the last exchange. */
static void measure(struct dt_watch *w, const struct dt_device *device,
                    double mine[NUMBERS])
{
    double times[DT_TIMES], *strain = mine + STRAIN;
    const double now = dt_clock_now(), steps = (double)w->steps;
    struct dt_strain after;
    double before[DT_STRAIN_NUMBERS];
    dt_step_times(device, &w->spent, w->steps, times);
    mine[OWN] = dt_own_time(device, times);
    mine[DATA_WAIT] = times[DT_TIME_DATA_WAIT];
    mine[WALL] = (now - w->asked) / steps;
    dt_strain_read(&after, "");
    memcpy(before, &w->strain, sizeof(before));
    memcpy(strain, &after, sizeof(after));
    for (size_t i = 0; i < DT_STRAIN_NUMBERS; i++)
        strain[i] = (strain[i] - before[i]) / steps;
    w->strain = after;
    w->asked = now;
}

static double number_of(const struct dt_watch *w, size_t rank, size_t number)
{
    return w->means[rank * NUMBERS + number];
}

static double median_of(const struct dt_run *run, size_t number)
{
    struct dt_watch *w = run->watch;
    for (size_t r = 0; r < (size_t)run->spec.world; r++)
        w->room[r] = number_of(w, r, number);
    return dt_median(w->room, (size_t)run->spec.world);
}

/* The slowness of a rank that is slower by `excess`, a fraction of the median,
 * even if it was not slow in this window.
 */
static struct dt_slowness slowness_of(const struct dt_run *run, size_t rank,
                                      double excess)
{
    const struct dt_watch *w = run->watch;
    double its[DT_STRAIN_NUMBERS], median[DT_STRAIN_NUMBERS];
    struct dt_slowness slow = {.excess_s = excess * median_of(run, OWN),
                               .data_wait_s = number_of(w, rank, DATA_WAIT),
                               .median_data_wait_s = median_of(run, DATA_WAIT)};
    for (size_t i = 0; i < DT_STRAIN_NUMBERS; i++) {
        its[i] = number_of(w, rank, STRAIN + i);
        median[i] = median_of(run, STRAIN + i);
    }
    memcpy(&slow.strain, its, sizeof(its));
    memcpy(&slow.median, median, sizeof(median));
    return slow;
}

/* Logs a slow rank and records the event. */
static void name_rank(const struct dt_run *run, int rank, double excess)
{
    const char *host = dt_comm_host(run->comm, rank);
    const struct dt_slowness slow = slowness_of(run, (size_t)rank, excess);
    char cause[256], text[512];
    dt_slowness_cause(&slow, cause, sizeof(cause));
    snprintf(text, sizeof(text),
             "rank %d (%s) takes %.0f %% longer for its part of a step than "
             "the median of ranks, which wait for it: %s",
             rank, host, 100 * excess, cause);
    dt_log(DT_LOG_WARN, "algo", "step %ld: %s", run->progress.step, text);
    dt_report_event(run->report,
                    &(struct dt_report_event){.kind = "straggler",
                                              .step = run->progress.step,
                                              .seconds = NAN,
                                              .bytes = NAN,
                                              .rank = rank,
                                              .host = host,
                                              .text = text});
}

/* Adds the ranks' numbers to the means, in which old windows fade. */
static void add_to_means(struct dt_watch *w, size_t count)
{
    const double share = fmax(1.0 / (double)++w->windows, share_of_window);
    for (size_t i = 0; i < count; i++)
        w->means[i] += (w->ranks[i] - w->means[i]) * share;
}

/* Judges a window on rank 0. */
static void judge(struct dt_run *run)
{
    struct dt_watch *w = run->watch;
    double *seconds = w->room, excess;
    for (size_t r = 0; r < (size_t)run->spec.world; r++) {
        seconds[r] = w->ranks[r * NUMBERS + OWN];
        if (isnan(seconds[r]))
            return;
    }
    add_to_means(w, (size_t)run->spec.world * NUMBERS);
    int slow = dt_stragglers_add(w->found, seconds, &excess);
    if (slow >= 0 && run->report &&
        (w->told[slow] == 0 || w->asked - w->told[slow] >= QUIET_SECONDS)) {
        w->told[slow] = w->asked;
        name_rank(run, slow, excess);
    }
}

/* Steps of a window, by the times of rank 0, which all ranks know. */
static long steps_of_window(const struct dt_watch *w)
{
    const double steps = ceil(window_seconds / w->ranks[WALL]);
    return (long)fmin(fmax(steps, STEPS_MIN), STEPS_MAX);
}

bool dt_watch_due(const struct dt_run *run)
{
    return run->spec.world > 1 &&
           run->queued - run->watch->step >= run->watch->steps;
}

int dt_watch_step(struct dt_run *run, struct dt_error *err)
{
    struct dt_watch *w = run->watch;
    double mine[NUMBERS];
    if (!dt_watch_due(run) || !dt_run_can_ask(run))
        return 0;
    w->step = run->progress.step;
    measure(w, run->spec.exec.device, mine);
    if (dt_gather(run->comm, mine, NUMBERS, w->ranks, err) < 0)
        return -1;
    w->steps = steps_of_window(w);
    if (run->spec.rank == 0)
        judge(run);
    return 0;
}
