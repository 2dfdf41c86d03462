/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_impl.h - the parts of dt_watch
 *
 * Which rank is slow: Steps take equally long on all ranks, as they wait for
 * each other. So we compare the time of a step that a rank does not wait for
 * others, over windows of several steps. A rank is slow if the median of its
 * last 17 windows is 15 % above that of ranks, and 13 of them are 10 % above
 * it. Another process that uses a rank's CPUs for some seconds makes fewer
 * windows slow, and one that slows another rank hides a slow one in fewer. The
 * median also has to exceed the remaining noise of a window by five standard
 * errors. Noise is measured by differences of successive windows, so that a
 * slow rank does not hide in its own slowness, and two ranks are enough.
 */
#ifndef DT_TRAIN_WATCH_WATCH_IMPL_H
#define DT_TRAIN_WATCH_WATCH_IMPL_H

#include "base/span.h"
#include "device/device.h"
#include "train/watch/watch.h"

/* --- the parts of the time of a step --- */

enum dt_step_time {
    DT_TIME_COMPUTE,   /* passes, AdamW, sampling */
    DT_TIME_COMM,      /* collectives, also while the rank computes */
    DT_TIME_EXPOSED,   /* waiting for collectives */
    DT_TIME_DATA_WAIT, /* for the loader */
    DT_TIME_STALL,     /* for saves */
    DT_TIMES
};

/* Numbers of a rank: times of a step, bytes, and the energy it has counted. */
enum { DT_COST_NOW = DT_TIMES, DT_COST_PEAK, DT_COST_JOULES, DT_COSTS };

/* Totals of the host and the device at some point. */
struct dt_spent {
    struct dt_span_totals spans;
    struct dt_lap_times laps; /* of a device that has them */
};

/* Fills *spent. */
void dt_spent_now(const struct dt_device *device, struct dt_spent *spent);

/* Fills the seconds of each part since *since was filled, per step of `steps`,
 * and fills *since again. NaN: the device does not tell.
 */
void dt_step_times(const struct dt_device *device, struct dt_spent *since,
                   long steps, double times[DT_TIMES]);

/* Seconds of a step in which a rank does not wait for others. Time in which a
 * device waits for data counts as its own.
 */
double dt_own_time(const struct dt_device *device,
                   const double times[DT_TIMES]);

/* Whether ranks can exchange numbers now without waiting for the device, which
 * would have to end a step in flight first.
 */
bool dt_run_can_ask(const struct dt_run *run);

/* --- which rank is slow, and why --- */

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

/* Numbers of a rank, of a step. */
enum {
    DT_SLOW_OWN, /* seconds that it does not wait for others */
    DT_SLOW_DATA_WAIT,
    DT_SLOW_WALL,   /* seconds in all */
    DT_SLOW_STRAIN, /* struct dt_strain */
    DT_SLOWS = DT_SLOW_STRAIN + DT_STRAIN_NUMBERS
};

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

/* --- all of it --- */

struct dt_watch {
    double *memory; /* of all arrays */
    double *room;   /* (world) */
    /* of the steps since the last line of the report */
    struct {
        double since;  /* when it began */
        double before; /* tokens of its line from before this process */
        long steps;
    } window;
    struct {
        struct dt_spent spent; /* at the last line */
        double *ranks;         /* (world, DT_COSTS) of the last line */
        double *sums; /* (DT_COSTS, world) since the last line of ranks.jsonl */
        long steps, step; /* number of summed steps, and the last of them */
        double seconds;   /* that these steps took */
        double written;   /* time of that line */
        double asked;     /* time of the last exchange between ranks */
        double tokens;    /* since then */
    } costs;
    /* since the last line of the report that had it */
    struct {
        struct dt_energy *counters;
        double last;   /* their last reading */
        double joules; /* used since it was asked; NAN: unknown */
        double read;   /* when */
    } energy;
    struct {
        struct dt_stragglers *found;
        struct dt_spent spent; /* at the last exchange */
        struct dt_strain strain;
        double asked;  /* when */
        long step;     /* after which step */
        long steps;    /* until the next exchange: the same on all ranks */
        double *ranks; /* (world, DT_SLOWS) of the last exchange */
        double *means; /* (world, DT_SLOWS) of about the last ten windows */
        double *told;  /* (world) when a rank was named, 0: never */
        long windows;
    } slow;
};

/* Reads the counters of energy if the last reading is old. */
void dt_energy_poll(struct dt_watch *watch);

/* --- which rank is wrong --- */

/* Sets odd[r] if more than half of the ranks with the number sets[r] have
 * another value than rank r, or no value has more than half of them; all arrays
 * are (world). A rank alone in its set is never odd. Returns how many are.
 */
size_t dt_replicas_vote(const uint64_t *values, const int *sets, size_t world,
                        bool *odd);

/* dt_replicas_check without an end. 1: some differ: err says which, *rank is
 * the lowest. -1: a peer failed.
 */
int dt_replicas_compare(struct dt_run *run, long step, int *rank,
                        struct dt_error *err);

#endif /* DT_TRAIN_WATCH_WATCH_IMPL_H */
