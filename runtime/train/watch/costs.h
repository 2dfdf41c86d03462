/* SPDX-License-Identifier: Apache-2.0 */
/* costs.h - the parts of the time of a step */
#ifndef DT_TRAIN_WATCH_COSTS_H
#define DT_TRAIN_WATCH_COSTS_H

#include "base/span.h"
#include "device/device.h"
#include "run/run.h"

enum dt_step_time {
    DT_TIME_COMPUTE,   /* passes, AdamW, sampling */
    DT_TIME_COMM,      /* collectives, also while the rank computes */
    DT_TIME_EXPOSED,   /* waiting for collectives */
    DT_TIME_DATA_WAIT, /* for the loader */
    DT_TIME_STALL,     /* for saves */
    DT_TIMES
};

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

/* slow_ranks.c: starts looking for slow ranks. -1: EX_OSERR. */
int dt_watch_begin(struct dt_run *run, struct dt_error *err);
void dt_watch_destroy(struct dt_watch *watch); /* NULL is fine */

/* slow_ranks.c: whether ranks will exchange numbers after the step queued last,
 * so that no step should be in flight then. The same on all ranks.
 */
bool dt_watch_due(const struct dt_run *run);

/* slow_ranks.c: after a step was collected; all ranks call it. Names slow ranks
 * on rank 0, each at most once in ten minutes. -1: a peer failed.
 */
int dt_watch_step(struct dt_run *run, struct dt_error *err);

#endif /* DT_TRAIN_WATCH_COSTS_H */
