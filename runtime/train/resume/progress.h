/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - where a run is, in a checkpoint */
#ifndef DT_TRAIN_RESUME_PROGRESS_H
#define DT_TRAIN_RESUME_PROGRESS_H

#include "run/run.h"

#define DT_PROGRESS_FILE "trainer_state.json"

/* The text of the file: progress, optimizer steps, loss scaler, and what a
 * resumed run must have in common with this one. malloc'ed; NULL and err.
 */
char *dt_progress_format(const struct dt_run *run, struct dt_error *err);

/* Reads it back from the checkpoint `dir`. -1: EX_DATAERR, or EX_CONFIG if this
 * run learns from other data or in another order.
 */
int dt_progress_load(struct dt_run *run, const char *dir, struct dt_error *err);

/* From rank 0 to all. */
int dt_progress_share(struct dt_run *run, struct dt_error *err);

#endif /* DT_TRAIN_RESUME_PROGRESS_H */
