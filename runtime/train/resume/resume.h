/* SPDX-License-Identifier: Apache-2.0 */
/* resume.h - saves and resumes a run */
#ifndef DT_TRAIN_RESUME_RESUME_H
#define DT_TRAIN_RESUME_RESUME_H

#include <jansson.h>

#include "run/run.h"

/* Whether the run is saved after this step; the same on all ranks. */
bool dt_run_save_due(const struct dt_run *run, long step);

/* Saves the run, on all ranks together, with no step in flight. If that fails,
 * the run continues and tries again sooner than usual, unless this is the
 * `last` save or checkpoint.max_failures saves in a row have failed: -1 on rank
 * 0. Also -1 if the device or a peer failed.
 */
int dt_run_save_or_retry(struct dt_run *run, bool last, struct dt_error *err);

/* --- saves that the run does not wait for --- */

/* Prepares them, with `bytes` bytes of host memory for the files of this rank.
 * Without this call all saves hold the run up. -1: EX_OSERR; dt_flight_fini
 * releases it.
 */
int dt_flight_init(struct dt_run *run, size_t bytes, struct dt_error *err);
void dt_flight_fini(struct dt_run *run);

/* Before run.output_dir is given up: no save is published from here on, and the
 * thread that writes one does not use the run any more. False: it still does,
 * as the disk does not answer, so that the run must stay as it is until the
 * process ends.
 */
bool dt_flight_stop(struct dt_run *run);

/* After a start that goes on from memory, with the run's report: if a save was
 * in flight when the processes before ended, takes its checkpoint if that was
 * published, or else says so, and has the run saved again after the step that
 * was queued last. All ranks call it. -1: a peer failed.
 */
int dt_flight_recover(struct dt_run *run, struct dt_error *err);

/* Waits until the copies of the save in flight are there, before anything is
 * updated, and has them written. -1: the device or a peer failed.
 */
int dt_flight_settle(struct dt_run *run, struct dt_error *err);

/* Amount that this rank adds to DT_STEP_STOP of the next step, beyond those of
 * a stop and of a trace, to say that its part of a save is done.
 */
double dt_flight_tell(const struct dt_run *run);

/* Takes the sum of a step that was collected, and returns it without this. */
double dt_flight_hear(struct dt_run *run, double sum);

/* Whether all ranks have done their parts of the save in flight, and it can
 * go on with dt_run_save_advance; the same on all ranks.
 */
bool dt_flight_ready(const struct dt_run *run);

/* Goes on with it, on all ranks together, with no step in flight. -1: as
 * dt_run_save_or_retry.
 */
int dt_run_save_advance(struct dt_run *run, struct dt_error *err);

/* Waits, on all ranks, until no save is in flight. -1: EX_IOERR, the disk does
 * not answer within the deadline of the run; as dt_run_save_or_retry.
 */
int dt_run_save_finish(struct dt_run *run, struct dt_error *err);

/* Says at the end of the run how many saves were left out, on rank 0. */
void dt_flight_report(const struct dt_run *run);

/* --- saves that it waits for --- */

/* Writes checkpoint-<step>, on all ranks together. Checkpoints beyond
 * checkpoint.total_limit stay until this one is known to be good. 0; 1 if it
 * could not be written, with the reason in `why` on rank 0. -1: the device or a
 * peer failed, or the directory belongs to another run.
 */
int dt_run_save(struct dt_run *run, struct dt_error *why, struct dt_error *err);

/* Checks that the directory training.resume names, if any, is a checkpoint. -1:
 * EX_NOINPUT.
 */
int dt_run_check_resume(const struct dt_conf *conf, struct dt_error *err);

/* Bytes that dt_run_save will write, except for a few texts. */
size_t dt_run_checkpoint_bytes(struct dt_run *run);

/* Whether a checkpoint of this step has no optimizer state, so that nothing can
 * resume from it.
 */
bool dt_run_saves_model_alone(const struct dt_run *run);

/* The settings that affect the result, as stored in trainer_state.json: an
 * object of texts by key. Before dt_conf_resolve_steps, so that ratios of the
 * run's length are still as given. The caller decrefs; NULL and err: EX_OSERR.
 */
json_t *dt_same_settings(const struct dt_spec *spec, struct dt_error *err);

/* Loads the starting point, on every rank: weights, optimizer and progress of
 * the checkpoint that training.resume asks for, or the weights of a new run.
 * Rank 0 takes run.output_dir first. -1 on all ranks with EX_TEMPFAIL if rank 0
 * was told to stop.
 */
int dt_run_restore(struct dt_run *run, struct dt_error *err);

#endif /* DT_TRAIN_RESUME_RESUME_H */
