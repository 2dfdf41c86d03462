/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - looks for slow ranks while the run goes on
 *
 * Ranks tell each other once in 15 steps how long they took, and rank 0 adds
 * these up to windows of some seconds. So a rank is named 100 steps after it
 * has become slow, or a minute if steps are short.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/costs.h"
#include "algo/gather.h"
#include "algo/stragglers.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/median.h"

enum {
    STEPS = 15,          /* between questions */
    QUIET_SECONDS = 600, /* between two warnings of a rank */
    /* numbers of a rank, of a step */
    OWN = 0, /* seconds that it does not wait for others */
    DATA_WAIT,
    STRAIN, /* struct dt_strain */
    NUMBERS = STRAIN + DT_STRAIN_NUMBERS
};

static const double window_seconds = 8; /* at least */

struct dt_watch {
    struct dt_stragglers *found;
    struct dt_span_totals totals; /* when ranks asked last */
    struct dt_strain strain;
    long asked;    /* after which step */
    double *ranks; /* (world, NUMBERS) that they said */
    double *sums;  /* (world, NUMBERS) since the window began */
    double *room;  /* (world) */
    double *told;  /* (world) when a rank was named, 0: never */
    double began;  /* the window */
    int questions; /* in it */
};

void dt_watch_destroy(struct dt_watch *w)
{
    if (!w)
        return;
    dt_stragglers_destroy(w->found);
    free(w->ranks);
    free(w->sums);
    free(w->room);
    free(w->told);
    free(w);
}

int dt_watch_begin(struct dt_run *run, struct dt_error *err)
{
    const size_t world = (size_t)run->world;
    struct dt_watch *w = calloc(1, sizeof(*w));
    run->watch = w;
    if (w) {
        w->ranks = calloc(world * NUMBERS, sizeof(double));
        w->sums = calloc(world * NUMBERS, sizeof(double));
        w->room = calloc(world, sizeof(double));
        w->told = calloc(world, sizeof(double));
    }
    if (!w || !w->ranks || !w->sums || !w->room || !w->told)
        return dt_error_set(err, EX_OSERR, "slow ranks: out of memory");
    dt_span_totals(&w->totals);
    dt_strain_read(&w->strain, "");
    w->asked = run->progress.step;
    w->began = dt_clock_now();
    w->found = dt_stragglers_create(world, err);
    return w->found ? 0 : -1;
}

/* The numbers of this rank in one of the steps since ranks asked last. */
static void measure(struct dt_watch *w, double mine[NUMBERS])
{
    double times[DT_TIMES], *strain = mine + STRAIN;
    struct dt_strain now;
    double before[DT_STRAIN_NUMBERS];
    dt_step_times(&w->totals, STEPS, times);
    mine[OWN] = times[DT_TIME_COMPUTE] + times[DT_TIME_DATA_WAIT];
    mine[DATA_WAIT] = times[DT_TIME_DATA_WAIT];
    dt_strain_read(&now, "");
    memcpy(before, &w->strain, sizeof(before));
    memcpy(strain, &now, sizeof(now));
    for (size_t i = 0; i < DT_STRAIN_NUMBERS; i++)
        strain[i] = (strain[i] - before[i]) / STEPS;
    w->strain = now;
}

/* A number of a rank, as a mean of the window. */
static double number_of(const struct dt_watch *w, size_t rank, size_t number)
{
    return w->sums[rank * NUMBERS + number] / w->questions;
}

static double median_of(const struct dt_run *run, size_t number)
{
    struct dt_watch *w = run->watch;
    for (size_t r = 0; r < (size_t)run->world; r++)
        w->room[r] = number_of(w, r, number);
    return dt_median(w->room, (size_t)run->world);
}

/* Of a rank that is slower by `excess`, a part of the median, also if it was
 * not in this window.
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

/* The line and the event of a slow rank. */
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

/* Judges a window on rank 0, and begins the next one. */
static void end_window(struct dt_run *run)
{
    struct dt_watch *w = run->watch;
    const double now = dt_clock_now();
    double *seconds = w->ranks, excess;
    for (size_t r = 0; r < (size_t)run->world; r++)
        seconds[r] = number_of(w, r, OWN);
    int slow = dt_stragglers_add(w->found, seconds, &excess);
    if (slow >= 0 && run->report &&
        (w->told[slow] == 0 || now - w->told[slow] >= QUIET_SECONDS)) {
        w->told[slow] = now;
        name_rank(run, slow, excess);
    }
    memset(w->sums, 0, (size_t)run->world * NUMBERS * sizeof(*w->sums));
    w->questions = 0;
    w->began = now;
}

int dt_watch_step(struct dt_run *run, struct dt_error *err)
{
    struct dt_watch *w = run->watch;
    double mine[NUMBERS];
    if (run->world == 1 || !run->exec.device->is_host ||
        run->progress.step - w->asked < STEPS)
        return 0;
    w->asked = run->progress.step;
    measure(w, mine);
    if (dt_gather(run->comm, mine, NUMBERS, w->ranks, err) < 0)
        return -1;
    for (size_t i = 0; i < (size_t)run->world * NUMBERS; i++)
        w->sums[i] += w->ranks[i];
    w->questions++;
    if (run->rank == 0 && dt_clock_now() - w->began >= window_seconds)
        end_window(run);
    return 0;
}
