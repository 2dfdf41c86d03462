/* SPDX-License-Identifier: Apache-2.0 */
/* costs.h - the parts of the time of a step (private to algo/) */
#ifndef DT_ALGO_COSTS_H
#define DT_ALGO_COSTS_H

#include "algo/run.h"
#include "base/span.h"

enum dt_step_time {
    DT_TIME_COMPUTE,   /* passes, AdamW, sampling */
    DT_TIME_COMM,      /* collectives, also while the rank computes */
    DT_TIME_EXPOSED,   /* waiting for collectives */
    DT_TIME_DATA_WAIT, /* for the loader */
    DT_TIME_STALL,     /* for saves */
    DT_TIMES
};

/* Fills the seconds of each part since *since was filled, as those of one of
 * `steps` steps, and fills *since again.
 */
void dt_step_times(struct dt_span_totals *since, long steps,
                   double times[DT_TIMES]);

/* watch.c: begins to look for slow ranks. -1: EX_OSERR. */
int dt_watch_begin(struct dt_run *run, struct dt_error *err);
void dt_watch_destroy(struct dt_watch *watch); /* NULL is fine */

/* watch.c: after a step was collected; all ranks call it. Names slow ranks on
 * rank 0, each at most once in ten minutes. -1: a peer failed.
 */
int dt_watch_step(struct dt_run *run, struct dt_error *err);

#endif /* DT_ALGO_COSTS_H */
