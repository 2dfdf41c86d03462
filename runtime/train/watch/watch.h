/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - the cost of steps, and their traces */
#ifndef DT_TRAIN_WATCH_WATCH_H
#define DT_TRAIN_WATCH_WATCH_H

#include "run/run.h"

/* Prepares for the traces of a run whose steps are known. -1: EX_OSERR. */
int dt_run_trace_init(struct dt_run *run, struct dt_error *err);

/* Amount that this rank adds to DT_STEP_STOP of the next step: 1 to `stop`, and
 * on rank 0 the code of a requested trace.
 */
double dt_run_trace_tell(struct dt_run *run, bool stop);

/* Called before a step is queued, and after the host has collected it. `ends`:
 * it is the last one. -1: a peer failed.
 */
int dt_run_trace_before(struct dt_run *run, long step, struct dt_error *err);
int dt_run_trace_after(struct dt_run *run, long step, bool ends,
                       struct dt_error *err);

/* Starts counting the costs of steps. -1: EX_OSERR. */
int dt_costs_begin(struct dt_run *run, struct dt_error *err);

/* Fills the costs in time, memory and energy of the steps since the last
 * report, which took `seconds` and had `tokens`. The next window begins where
 * these seconds end. All ranks call it after the same step. -1: a peer failed.
 */
int dt_run_costs(struct dt_run *run, double tokens, double seconds,
                 struct dt_report_values *costs, struct dt_error *err);

/* Writes the last line of ranks.jsonl, on rank 0, and ends counting. */
void dt_costs_end(struct dt_run *run);
void dt_costs_destroy(struct dt_costs *costs); /* NULL is fine */

/* Starts counting energy, before the first step, on all ranks. */
void dt_run_energy_begin(struct dt_run *run);
void dt_run_energy_end(struct dt_run *run);

/* Reads the counters if the last reading is old. Called after each step. */
void dt_run_energy_poll(struct dt_run *run);

/* Joules that this rank has counted since the previous call. NAN: unknown; 0:
 * another rank of its host counts them.
 */
double dt_run_energy_take(struct dt_run *run);

#endif /* DT_TRAIN_WATCH_WATCH_H */
