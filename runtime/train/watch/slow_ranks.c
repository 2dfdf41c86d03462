/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_ranks.c - watches the steps of a run, and looks for slow ranks
 *
 * Ranks exchange the time of their part of a step every three seconds, but not
 * more often than every five steps. Each exchange ends a window (watch_impl.h),
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
#include "run/exchange.h"
#include "train/watch/watch_impl.h"

enum {
    STEPS_MIN = 5, /* of a window */
    STEPS_MAX = 100000,
    QUIET_SECONDS = 600, /* between two warnings of a rank */
};

static const double window_seconds = 3;    /* at least */
static const double share_of_window = 0.1; /* in the means, at least */

void dt_watch_destroy(struct dt_watch *w)
{
    if (!w)
        return;
    dt_stragglers_destroy(w->slow.found);
    dt_energy_close(w->energy.counters);
    free(w->memory);
    free(w);
}

/* Divides memory among the arrays. */
static void place_arrays(struct dt_watch *w, size_t world)
{
    double *next = w->memory;
    const struct {
        double **array;
        size_t count;
    } arrays[] = {{&w->room, 1},
                  {&w->costs.ranks, DT_COSTS},
                  {&w->costs.sums, DT_COSTS},
                  {&w->slow.ranks, DT_SLOWS},
                  {&w->slow.means, DT_SLOWS},
                  {&w->slow.told, 1}};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        *arrays[i].array = next;
        next += arrays[i].count * world;
    }
}

int dt_watch_begin(struct dt_run *run, struct dt_error *err)
{
    const size_t world = (size_t)run->spec.world;
    const struct dt_device *device = run->spec.exec.device;
    struct dt_watch *w = run->watch = calloc(1, sizeof(*w));
    if (w)
        w->memory = calloc(world * (2 + 2 * DT_COSTS + 2 * DT_SLOWS),
                           sizeof(*w->memory));
    if (!w || !w->memory)
        return dt_error_set(err, EX_OSERR, "costs of a step: out of memory");
    place_arrays(w, world);
    dt_spent_now(device, &w->costs.spent);
    w->window.since = w->costs.written = w->costs.asked = dt_clock_now();
    w->window.before = dt_watch_tokens(run);
    dt_spent_now(device, &w->slow.spent);
    dt_strain_read(&w->slow.strain, "");
    w->slow.asked = dt_clock_now();
    w->slow.step = run->progress.step;
    w->slow.steps = STEPS_MIN;
    w->slow.found = dt_stragglers_create(world, err);
    return w->slow.found ? 0 : -1;
}

/* Measures the numbers of this rank, per step since the last exchange. */
static void measure(struct dt_watch *w, const struct dt_device *device,
                    double mine[DT_SLOWS])
{
    double times[DT_TIMES], *strain = mine + DT_SLOW_STRAIN;
    const double now = dt_clock_now(), steps = (double)w->slow.steps;
    struct dt_strain after;
    double before[DT_STRAIN_NUMBERS];
    dt_step_times(device, &w->slow.spent, w->slow.steps, times);
    mine[DT_SLOW_OWN] = dt_own_time(device, times);
    mine[DT_SLOW_DATA_WAIT] = times[DT_TIME_DATA_WAIT];
    mine[DT_SLOW_WALL] = (now - w->slow.asked) / steps;
    dt_strain_read(&after, "");
    memcpy(before, &w->slow.strain, sizeof(before));
    memcpy(strain, &after, sizeof(after));
    for (size_t i = 0; i < DT_STRAIN_NUMBERS; i++)
        strain[i] = (strain[i] - before[i]) / steps;
    w->slow.strain = after;
    w->slow.asked = now;
}

static double number_of(const struct dt_watch *w, size_t rank, size_t number)
{
    return w->slow.means[rank * DT_SLOWS + number];
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
    struct dt_slowness slow = {
        .excess_s = excess * median_of(run, DT_SLOW_OWN),
        .data_wait_s = number_of(w, rank, DT_SLOW_DATA_WAIT),
        .median_data_wait_s = median_of(run, DT_SLOW_DATA_WAIT)};
    for (size_t i = 0; i < DT_STRAIN_NUMBERS; i++) {
        its[i] = number_of(w, rank, DT_SLOW_STRAIN + i);
        median[i] = median_of(run, DT_SLOW_STRAIN + i);
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
    const double share = fmax(1.0 / (double)++w->slow.windows, share_of_window);
    for (size_t i = 0; i < count; i++)
        w->slow.means[i] += (w->slow.ranks[i] - w->slow.means[i]) * share;
}

/* Judges a window on rank 0. */
static void judge(struct dt_run *run)
{
    struct dt_watch *w = run->watch;
    double *seconds = w->room, excess;
    for (size_t r = 0; r < (size_t)run->spec.world; r++) {
        seconds[r] = w->slow.ranks[r * DT_SLOWS + DT_SLOW_OWN];
        if (isnan(seconds[r]))
            return;
    }
    add_to_means(w, (size_t)run->spec.world * DT_SLOWS);
    int slow = dt_stragglers_add(w->slow.found, seconds, &excess);
    if (slow >= 0 && run->report &&
        (w->slow.told[slow] == 0 ||
         w->slow.asked - w->slow.told[slow] >= QUIET_SECONDS)) {
        w->slow.told[slow] = w->slow.asked;
        name_rank(run, slow, excess);
    }
}

/* Steps of a window, by the times of rank 0, which all ranks know. */
static long steps_of_window(const struct dt_watch *w)
{
    const double steps = ceil(window_seconds / w->slow.ranks[DT_SLOW_WALL]);
    return (long)fmin(fmax(steps, STEPS_MIN), STEPS_MAX);
}

bool dt_watch_due(const struct dt_run *run)
{
    return run->spec.world > 1 &&
           run->queued - run->watch->slow.step >= run->watch->slow.steps;
}

int dt_watch_step(struct dt_run *run, struct dt_error *err)
{
    struct dt_watch *w = run->watch;
    double mine[DT_SLOWS];
    w->window.steps++;
    dt_energy_poll(w);
    if (!dt_watch_due(run) || !dt_run_can_ask(run))
        return 0;
    w->slow.step = run->progress.step;
    measure(w, run->spec.exec.device, mine);
    if (dt_gather(run->comm, mine, DT_SLOWS, w->slow.ranks, err) < 0)
        return -1;
    w->slow.steps = steps_of_window(w);
    if (run->spec.rank == 0)
        judge(run);
    return 0;
}
