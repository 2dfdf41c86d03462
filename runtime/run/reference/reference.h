/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - the frozen reference model of a run */
#ifndef DT_RUN_REFERENCE_REFERENCE_H
#define DT_RUN_REFERENCE_REFERENCE_H

#include "run/run.h"

/* Creates the reference, with weights of zero. All ranks call it. One that
 * follows the model is in `segment`, unless that is NULL, and another process
 * can end its moves. -1: EX_CONFIG, it is of another architecture; as
 * dt_parallel_create. dt_run_reference_fini in any case.
 */
int dt_run_reference_init(struct dt_run *run, struct dt_segment *segment,
                          struct dt_error *err);
void dt_run_reference_fini(struct dt_run *run);

/* Loads its weights, if it has any, from model.reference_path or the model that
 * the run starts from. All ranks call it. -1: as dt_weights_open; a peer
 * failed.
 */
int dt_run_reference_read(struct dt_run *run, struct dt_error *err);

/* The same if the parts of all ranks may be as another process has left them in
 * the segment.
 */
int dt_run_reference_renew(struct dt_run *run, struct dt_error *err);

/* Whether the run has a reference. */
bool dt_run_refers(const struct dt_run *run);

/* The directory of its weights; NULL: they are random, or those of the model
 * without its adapter.
 */
const char *dt_run_reference_dir(const struct dt_run *run);

/* Fills run->reference.precomputed, from a file or with a pass over all pairs.
 * -1: as dt_run_reference_init; EX_DATAERR, the file is damaged; the device or
 * a peer failed. dt_run_precompute_fini in any case.
 */
int dt_run_precompute(struct dt_run *run, struct dt_error *err);
void dt_run_precompute_fini(struct dt_run *run);

/* After its parts were written: brings the weights to where its passes read
 * them, on all ranks. -1: the device or a peer failed.
 */
int dt_run_reference_changed(struct dt_run *run, struct dt_error *err);

/* Whether there is a reference that follows the model. */
bool dt_run_reference_follows(const struct dt_run *run);

/* Makes room for the moves of one that follows, in `segment` as above. -1:
 * EX_OSERR.
 */
int dt_run_reference_room(struct dt_run *run, struct dt_segment *segment,
                          struct dt_error *err);

/* Moves the reference towards the model, on all ranks, if that is due after
 * this step, whose update is queued. In a segment, the process after one that
 * was killed within it does the rest. -1: the device or a peer failed.
 */
int dt_run_reference_follow(struct dt_run *run, long step,
                            struct dt_error *err);

/* Loads a reference that followed the model, if the checkpoint in `dir` has
 * one; all ranks call it together. -1: EX_CONFIG, this run's does not follow;
 * as dt_parts_open, dt_parts_read; a peer failed.
 */
int dt_run_reference_load(struct dt_run *run, const char *dir,
                          struct dt_error *err);

/* Computes the reference's values of the batch's picked tokens into
 * values.reference, before the passes of the model itself, which leave out what
 * a frozen tower has computed here. `shape`: that of its graphs; NULL: nothing
 * is recorded. -1: the device or a peer failed.
 */
int dt_run_reference(struct dt_run *run, const struct dt_graph_shape *shape,
                     struct dt_error *err);

#endif /* DT_RUN_REFERENCE_REFERENCE_H */
