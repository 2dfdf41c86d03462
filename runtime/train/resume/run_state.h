/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_state.h - a run in memory that outlives its process (segment.h)
 *
 * Weights, gradients and moments are in that memory. This module adds a record
 * of all that the host needs to end a step: its numbers before the step; the
 * numbers of the step, as soon as the gradients on this rank are complete; and
 * the scalars, once they are the same on all ranks. Their all-reduce commits
 * the step: when one rank has the result, the gradients of all ranks are
 * complete. After a restart, one rank with the scalars is therefore enough for
 * all ranks to end the step, each with its own gradients. If no rank has them,
 * no rank has begun to update.
 *
 * A step has collectives, so ranks are never more than one step apart. Each
 * keeps the numbers of the last two steps.
 *
 * The memory of a rank may be empty, as its keeper or its node was lost, and
 * another one has taken its number. With ddp, where ranks hold the same, it
 * gets a copy of another rank's; and the record has nothing that differs
 * between ranks. Else all resume from a checkpoint, as what was lost is nowhere
 * else: a hybrid, too, divides optimizer state over all ranks, and so does every
 * strategy with a reference that follows.
 *
 * Completions that a run has sampled are in that memory, too (sampling.h), and
 * so is a reference that follows the model: a committed step ends with its move
 * (reference.h), of which each rank does a part.
 *
 * run->state is NULL without a keeper (inherited.h), and in runs that change
 * more than that: on GPUs, or with offloaded tensors (copies.h).
 */
#ifndef DT_TRAIN_RESUME_RUN_STATE_H
#define DT_TRAIN_RESUME_RUN_STATE_H

#include "run/run.h"

/* Bytes of memory that an earlier process of this rank has left, and that this
 * one uses again.
 */
size_t dt_state_held(void);

/* Makes run->state, and has engines with these options allocate in it. -1:
 * EX_OSERR; dt_state_close in any case, after those engines.
 */
int dt_state_open(struct dt_run *run, struct dt_parallel_options *options,
                  struct dt_error *err);
void dt_state_close(struct dt_run *run);

/* Whether all ranks can continue where their earlier processes were; they call
 * it together. If not, rank 0 says why, and the memory becomes zero. 1, 0; -1:
 * a peer failed, EX_OSERR.
 */
int dt_state_agree(struct dt_run *run, struct dt_error *err);

/* Continues there, on all ranks: weights, optimizers, progress. Ranks whose
 * memory is empty first get a copy of another rank's. If a step was committed,
 * its update is completed, and it is in flight. -1: files cannot be read; a
 * peer failed.
 */
int dt_state_take(struct dt_run *run, struct dt_error *err);

/* --- while the run trains; without run->state they do nothing --- */

/* Records that the last step is done, with its reports and saves. */
void dt_state_settle(struct dt_run *run);

/* Records that the gradients of the next step are complete on this rank. */
void dt_state_prepare(struct dt_run *run, const struct dt_in_flight *step);

/* Records its scalars, the same on all ranks, before any learner is updated. */
void dt_state_commit(struct dt_run *run);

/* Marks the memory as wrong, before this process ends. */
void dt_state_forget(struct dt_run *run);

#endif /* DT_TRAIN_RESUME_RUN_STATE_H */
