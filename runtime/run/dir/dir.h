/* SPDX-License-Identifier: Apache-2.0 */
/* dir.h - live status, health and checkpoints of a run */
#ifndef DT_RUN_DIR_DIR_H
#define DT_RUN_DIR_DIR_H

#include "run/run.h"

/* Rank 0 makes run->live, for those who watch a run of that algorithm, before
 * it does anything that takes time. -1: EX_OSERR.
 */
int dt_run_live_begin(struct dt_run *run, const char *algorithm,
                      struct dt_error *err);

/* Records in run->live how the run has ended, before the last lines are
 * printed.
 */
void dt_run_live_end(struct dt_run *run, int result,
                     const struct dt_error *err);

/* Rank 0 removes the checkpoints beyond checkpoint.total_limit, never that of
 * `step`. One that cannot be removed is a warning.
 */
void dt_run_prune(const struct dt_run *run, long step);

/* Judges the health of the run by the mean loss and outcome of a collected
 * step. Prunes checkpoints once the newest one is known to be good.
 */
void dt_run_judge(struct dt_run *run, double loss,
                  enum dt_step_outcome outcome);

/* 1 if all weights are finite, 0 if not; the same on all ranks, which all call
 * it. No step may be in flight. -1: the device or a peer failed.
 */
int dt_run_weights_finite(struct dt_run *run, struct dt_error *err);

/* Ends a run that cannot recover, as `err` says (EX_DATAERR): adds the last
 * good checkpoint to `err`, and makes it the one to resume from. Only rank 0
 * does so; the others learn that it has failed. Returns -1.
 */
int dt_run_give_up(struct dt_run *run, struct dt_error *err);

#endif /* DT_RUN_DIR_DIR_H */
