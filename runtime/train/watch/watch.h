/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - what steps cost, which rank is slow or wrong, and which steps are
 * traced
 */
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

/* Begins to watch the steps of a run: what they cost, and whether a rank is
 * slow. -1: EX_OSERR. dt_watch_destroy in any case.
 */
int dt_watch_begin(struct dt_run *run, struct dt_error *err);
void dt_watch_destroy(struct dt_watch *watch); /* NULL is fine */

/* Starts counting energy, before the first step, on all ranks. */
void dt_watch_energy(struct dt_run *run);

/* Whether ranks will exchange numbers after the step queued last, so that no
 * step should be in flight then. The same on all ranks.
 */
bool dt_watch_due(const struct dt_run *run);

/* After a step was collected; all ranks call it. Names slow ranks on rank 0,
 * each at most once in ten minutes. -1: a peer failed.
 */
int dt_watch_step(struct dt_run *run, struct dt_error *err);

/* Tokens of the steps since the last report. */
double dt_watch_tokens(const struct dt_run *run);

/* Fills the seconds, the tokens and the costs, in time, memory and energy, of
 * the steps of this process since the last report. The next window begins where
 * these seconds end. All ranks call it after the same step. -1: a peer failed.
 */
int dt_watch_costs(struct dt_run *run, struct dt_report_step *line,
                   struct dt_error *err);

/* Writes the last line of ranks.jsonl, on rank 0. */
void dt_watch_end(struct dt_run *run);

/* Makes run->same, if there are several ranks and
 * distributed.check_replicas is not 0; end frees it. -1: the device has no
 * memory, EX_OSERR.
 */
int dt_replicas_begin(struct dt_run *run, struct dt_error *err);
void dt_replicas_end(struct dt_run *run);

/* Whether replicas are compared in this step. */
bool dt_replicas_due(const struct dt_run *run, long step);

/* Compares the replicas that ranks hold, before or after the update of `step`;
 * all call it. Without run->same nothing. -1: some differ, EX_OSERR with
 * the ranks and hosts; the lowest of these ranks fails, and the others by its
 * words; or a peer failed.
 */
int dt_replicas_check(struct dt_run *run, long step, struct dt_error *err);

/* Fault points replica.*: flips a bit of a replica (replicas.h). -1:
 * the device failed.
 */
int dt_replicas_spoil(struct dt_run *run, struct dt_error *err);

#endif /* DT_TRAIN_WATCH_WATCH_H */
