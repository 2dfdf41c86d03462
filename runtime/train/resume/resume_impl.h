/* SPDX-License-Identifier: Apache-2.0 */
/* resume_impl.h - where a run is, in a checkpoint, and whose checkpoint it is
 */
#ifndef DT_TRAIN_RESUME_RESUME_IMPL_H
#define DT_TRAIN_RESUME_RESUME_IMPL_H

#include <jansson.h>

#include "train/resume/resume.h"

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

/* The saved run, as described in trainer_state.json. */
struct dt_same_state {
    const json_t *settings; /* NULL: an old one has none */
    long samples;           /* of a step */
    const char *data_hash;  /* of the rows, 16 hex digits */
    size_t max_length;
    uint64_t data_seed;
};

/* Compares the run with the one that saved the checkpoint `dir`. Logs harmless
 * differences in one line. -1: EX_CONFIG, the key with both values, if the
 * model, the data or its order differs; or config.json cannot be read.
 */
int dt_same_run(const struct dt_run *run, const char *dir,
                const struct dt_same_state *was, struct dt_error *err);

/* Adds this rank's files of the checkpoint of the step that is done. All ranks
 * gather the models together, whatever fails. -1: EX_IOERR and the like, or, if
 * *lost, the device or a peer failed.
 */
int dt_run_add_files(struct dt_run *run, struct dt_ckpt_writer *writer,
                     bool *lost, struct dt_error *err);

/* In place of dt_ckpt_verify on rank 0, with the run as ctx: the ranks share
 * the files. -1: as dt_ckpt_verify, on whichever rank; a peer failed.
 */
int dt_verify_together(void *run, const char *path, struct dt_error *err);

/* On rank 0: no more checkpoints are verified. On the others: does their shares
 * until then. -1: a peer failed, EX_OSERR.
 */
int dt_verify_end(struct dt_run *run, struct dt_error *err);

#endif /* DT_TRAIN_RESUME_RESUME_IMPL_H */
