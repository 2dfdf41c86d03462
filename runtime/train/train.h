/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train.h - trains a model: the loop of one rank, from configuration to summary
 *
 * A run is set up, takes steps whose results are collected one step later, and
 * evaluates, reports and saves as due.
 */
#ifndef DT_TRAIN_TRAIN_H
#define DT_TRAIN_TRAIN_H

#include "run/run.h"

/* Opens start->board. Until the run has been set up, nothing is printed again
 * that processes before this one have printed in its place (said.h). -1: as
 * dt_board_open.
 */
int dt_trainer_begin(struct dt_run_start *start, struct dt_error *err);

/* Trains as `conf` says with the hardware of `exec`, together with all ranks of
 * `comm`, of which `local_size` are on this node. `stop` is called once a step;
 * if it returns true on any rank, all ranks finish the steps in flight and rank
 * 0 saves a checkpoint. 0 when the last step is done. -1: EX_TEMPFAIL after
 * such a stop (the run can be resumed); any other status is a failure of this
 * rank, and the caller must tell the other ranks. `start`: NULL, a process that
 * has just begun and follows no loss. *recorded (may be NULL): whether run.json
 * says how the run ended. It does so on rank 0 only, and not if the run was
 * refused or another one has its directory.
 */
int dt_trainer_run(const struct dt_conf *conf, const struct dt_exec *exec,
                   struct dt_comm *comm, int local_size,
                   const struct dt_run_start *start, bool (*stop)(void),
                   bool *recorded, struct dt_error *err);

/* Does the work that a run of `conf` does once before its first step, such as
 * computing the reference's sums for all pairs, and leaves run.output_dir
 * alone. -1: as dt_trainer_run.
 */
int dt_trainer_prepare(const struct dt_conf *conf, const struct dt_exec *exec,
                       struct dt_comm *comm, struct dt_error *err);

/* --- the parts of the loop --- */

/* Fills run up to the loader. Before, run is zeroed except for stop and start.
 * This node has `local_size` ranks. dt_run_fini releases everything that was
 * created.
 */
int dt_run_init(struct dt_run *run, const struct dt_conf *conf,
                const struct dt_exec *exec, struct dt_comm *comm,
                int local_size, struct dt_error *err);
void dt_run_fini(struct dt_run *run);

/* Queues the next optimizer step. `stop` tells all ranks that this one was told
 * to stop. At most one step may be in flight. 0; 1: a rank was told to stop
 * while completions were sampled, and nothing is queued; -1: data, the device
 * or a peer failed.
 */
int dt_run_queue_step(struct dt_run *run, bool stop, struct dt_error *err);

/* Waits for the oldest step in flight and adds its results to progress and
 * `line`. *stop_asked becomes true if any rank was told to stop. Returns 1, or
 * 0 if no step is in flight. -1: the device or a peer failed, or continuing
 * would be useless (EX_DATAERR).
 */
int dt_run_collect(struct dt_run *run, struct dt_report_step *line,
                   bool *stop_asked, struct dt_error *err);

/* Compares the bits that several ranks hold, as dt_replicas_check. A rank that
 * has lost some does not leave its memory to the processes after it, which
 * resume from a checkpoint then.
 */
int dt_run_compare(struct dt_run *run, long step, struct dt_error *err);

/* Computes the mean loss on the held-out rows, over all ranks, the number of
 * tokens or pairs in it, and the metrics of pairs. No step may be in flight.
 */
int dt_run_evaluate(struct dt_run *run, double *loss, double *count,
                    struct dt_metrics *metrics, struct dt_error *err);

#endif /* DT_TRAIN_TRAIN_H */
