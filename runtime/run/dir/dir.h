/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir.h - the directories of a run, and its records there
 *
 * run.output_dir belongs to one run at a time (owner.h), which keeps its
 * checkpoints there and judges which of them are good. It records its events
 * and facts in logging.dir, and its status for those who watch.
 */
#ifndef DT_RUN_DIR_DIR_H
#define DT_RUN_DIR_DIR_H

#include "run/run.h"

/* --- run.output_dir --- */

/* Checks that run.output_dir is empty, but for the model that is made there, if
 * the run is new and run.overwrite does not allow otherwise. What an earlier
 * start in this step has left there does not count. -1: EX_CANTCREAT, EX_IOERR.
 */
int dt_run_check_free(const struct dt_conf *conf, struct dt_error *err);

/* Rank 0 takes run.output_dir for this run, and prepares it for writing;
 * `continues`: with the memory of an earlier process, so that what is there is
 * its own. -1: EX_CANTCREAT, EX_IOERR; EX_TEMPFAIL if it was told to stop
 * while it checked whether the previous run has ended.
 */
int dt_run_take_output(struct dt_run *run, bool continues,
                       struct dt_error *err);

/* Checks that run.output_dir still exists and still belongs to this run. If it
 * or its checkpoints were removed, they are made again with a warning. -1:
 * EX_CANTCREAT, another run has it; run->report is destroyed, and nothing more
 * may be written.
 */
int dt_run_check_output(struct dt_run *run, struct dt_error *err);

/* The same in any thread, for one that is to warn. 1: something was removed and
 * is there again, as `removed` says. -1: EX_CANTCREAT, another run has it, as
 * dt_run_keep_output then says, too.
 */
int dt_run_look_at_output(const struct dt_run *run, struct dt_error *removed,
                          struct dt_error *err);

/* The same check before anything is written, after a wait of any length. It
 * looks only if this process was stopped, or its heartbeat has seen another
 * run: no step costs a system call.
 */
int dt_run_keep_output(struct dt_run *run, struct dt_error *err);

/* dt_owner_holds, for threads that write outside of steps. */
bool dt_run_holds_output(void *run);

/* --- what is there of this step of keepers --- */

/* Ranks that start again resume what this run has saved: not the checkpoints of
 * another run, which are there while no earlier start of the ranks has come far
 * enough. So rank 0 writes down how far it has come, in .owner-step, with the
 * name of its step (base/epoch.h).
 */
enum dt_hold {
    DT_HOLD_NONE,
    DT_HOLD_TAKEN, /* the directory was free, or its checkpoints are removed */
    DT_HOLD_ALL,   /* the records there, and what `latest` names, are its own */
};

/* Finds what this step holds there. -1: EX_IOERR, nobody can say. */
int dt_hold_find(const char *dir, enum dt_hold *hold, struct dt_error *err);

/* Writes it down, unless that is there or more. Nothing without a keeper. -1:
 * EX_CANTCREAT, EX_IOERR.
 */
int dt_hold_set(const char *dir, enum dt_hold hold, struct dt_error *err);

/* Rank 0, before it looks at the directory: a run that was started again counts
 * as restarted (training.restarted) only if an earlier start has come to
 * DT_HOLD_ALL. -1: EX_IOERR.
 */
int dt_hold_begin(struct dt_run *run, struct dt_error *err);

/* --- health, and good checkpoints --- */

/* Rank 0 removes the checkpoints beyond checkpoint.total_limit, where `more`
 * are to come, never that of `step`. One that cannot be removed is a warning.
 */
void dt_run_prune(const struct dt_run *run, long step, int more);

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

/* --- status and events --- */

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

/* Rank 0 records an event of the step that is done; a duration of NaN
 * is none.
 */
void dt_run_event(const struct dt_run *run, const char *kind, double seconds,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* A warning to the user that is an event, too, on rank 0. */
void dt_run_warn(const struct dt_run *run, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether the run goes on with the records that are there. */
bool dt_run_continues(const struct dt_conf *conf);

enum { DT_RUN_ALLOCATION_BYTES = 96 };

/* The allocation of this process: that of a job that was requeued is another
 * one. NULL: without Slurm.
 */
const char *dt_run_allocation(char text[DT_RUN_ALLOCATION_BYTES]);

/* Rank 0 reads the account of earlier starts, for run->live, and how the last
 * one ended. Call it before status.json is replaced. A file that cannot be read
 * is a warning.
 */
void dt_run_account_begin(struct dt_run *run);

/* Records the ends of earlier processes that could not do so themselves. */
void dt_events_before(const struct dt_run *run);

/* The first event of this process, start or resume, after those of
 * dt_events_before. An evaluation alone has neither a first nor a last one: it
 * does not tell of the run that trained.
 */
void dt_events_begin(const struct dt_run *run);

/* The last one, and the verdict of run.json, for a run that ends with
 * this result.
 */
void dt_events_end(struct dt_run *run, int result, const struct dt_error *err);

/* --- run.json --- */

/* Rank 0 writes run.json in logging.dir when the run begins and when it ends:
 * description and result. If rank 0 is killed, the status stays "running" until
 * the console of srun says how it ended. Secrets are removed. run->facts are
 * made in any case; they are written if the run has files. A run that resumes
 * keeps the id and the earlier starts. All ranks call it. -1: a peer failed,
 * out of memory.
 */
int dt_facts_begin(struct dt_run *run, struct dt_error *err);

/* Rank 0: adds how the run has ended, "finished", "stopped" or "failed", with a
 * sentence. Nothing without dt_facts_begin.
 */
void dt_facts_end(struct dt_run *run, const char *status, const char *verdict);

#endif /* DT_RUN_DIR_DIR_H */
