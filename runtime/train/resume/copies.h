/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies.h - copies of a run in host memory that outlives its process
 *
 * The state of a run on GPUs, or of one that offloads to host memory, ends with
 * its process. So every few steps each rank copies its parts of it to memory
 * that stays (segment.h), while steps go on: nothing changes them before the
 * next update, which waits for the copy. There are two copies, and the older
 * one is overwritten. After a restart all ranks go on with the newest copy that
 * is whole, and do the steps after it again.
 *
 * There is one at any time. A copy is marked as whole before this rank gives
 * its scalars of the next step, and the one before it is overwritten only after
 * a step whose scalars all ranks have summed since.
 *
 * Copies are made as often as they cost one percent, as if steps stood still
 * meanwhile: the first one is waited for and measured, and rank 0 asks for the
 * next a hundred times as long after it, by a number in the sum that each step
 * makes anyway. Memory of more than a gigabyte becomes ready in a thread
 * (device/locker.h), and all ranks vote in that sum: there is no copy before
 * all have their memory.
 *
 * A copy has what a checkpoint has of a rank: its parts of the weights that
 * AdamW updates and of moments, in optimizer.state_dtype, and of a reference
 * that follows, in fp32; the progress of the run; and the generation in use. A
 * rank whose memory is lost has no copy. With ddp on nodes of as many ranks
 * each, the ranks of each other node have its part of what is trained, too
 * (host_copy.h), and bring it to all; and a copy has nothing else that differs
 * between ranks. Of a reference that follows, and with zero1 to zero3 of all,
 * one rank alone has each part: there a lost node costs the steps since the
 * checkpoint, and the line at the start says so. Where nobody has a part, all
 * resume from a checkpoint, and so they do if one is newer than the copies.
 *
 * run->copies is NULL without a keeper (inherited.h), where the state itself
 * outlives the process (run_state.h), if optimizer state is on a drive, or if
 * host memory has no room. All functions then do nothing.
 */
#ifndef DT_TRAIN_RESUME_COPIES_H
#define DT_TRAIN_RESUME_COPIES_H

#include "run/run.h"

/* Whether this process has memory for copies, and needs them. A run that was
 * restarted says why not.
 */
bool dt_copies_wanted(const struct dt_run *run,
                      const struct dt_parallel_options *options);

/* Makes run->copies, of engines that were made with these options, as one of
 * the run's models; all ranks call it together. If one of them has no memory
 * for it, there are none, and rank 0 says so. -1: EX_OSERR; a peer failed.
 * dt_copies_close in any case, before those engines are destroyed.
 */
int dt_copies_open(struct dt_run *run,
                   const struct dt_parallel_options *options,
                   struct dt_error *err);
void dt_copies_close(struct dt_run *run);

/* Gives back the memory of copies that an earlier process has left, where this
 * one makes none: nobody goes on with them. -1: EX_OSERR.
 */
int dt_copies_drop(struct dt_error *err);

/* Whether ranks have a copy of the same step that is whole; they call it
 * together. If not, rank 0 says why, and all copies are dropped. 1, 0; -1: a
 * peer failed, EX_OSERR.
 */
int dt_copies_agree(struct dt_run *run, struct dt_error *err);

/* Goes on with it, on all ranks, also on those that had none: weights,
 * optimizers, progress. -1: files cannot be read; the device or a peer failed.
 */
int dt_copies_take(struct dt_run *run, struct dt_error *err);

/* Makes the first copy where all ranks have memory for it by now, and measures
 * how long that takes; elsewhere dt_copies_make does. -1: the device or a peer
 * failed.
 */
int dt_copies_measure(struct dt_run *run, struct dt_error *err);

/* Amount that this rank adds to DT_STEP_STOP of the next step, beyond that of a
 * save (dt_flight_tell), to ask for a copy.
 */
double dt_copies_tell(const struct dt_run *run);

/* A rank's vote for a copy, in that amount. */
double dt_copies_vote(int world);

/* Takes the sum of a step that was collected, and returns it without this. */
double dt_copies_hear(struct dt_run *run, double sum);

/* Whether a copy is to be made after the step that is queued, once it is
 * collected; the same on all ranks.
 */
bool dt_copies_due(const struct dt_run *run);

/* Makes it, if it is due and the last step is worth it, with no step in flight.
 * -1: the device or a peer failed.
 */
int dt_copies_make(struct dt_run *run, struct dt_error *err);

/* Waits until the copy is whole, before the scalars of the next step are summed
 * and anything is updated. -1: the device or a peer failed.
 */
int dt_copies_end(struct dt_run *run, struct dt_error *err);

/* Records that a checkpoint of this step is whole, and can be resumed from. */
void dt_copies_saved(struct dt_run *run, long step);

/* Marks copies as wrong, before this process ends. */
void dt_copies_forget(struct dt_run *run);

#endif /* DT_TRAIN_RESUME_COPIES_H */
