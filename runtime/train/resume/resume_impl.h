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

/* Adds this rank's files of the checkpoint of the step that is done; to a
 * stage, copies of what a device holds are then queued in `stream`. All ranks
 * gather the models together, whatever fails. -1: EX_IOERR and the like, or, if
 * *lost, the device or a peer failed.
 */
int dt_run_add_files(struct dt_run *run, struct dt_ckpt_writer *writer,
                     struct dt_stream *stream, bool *lost,
                     struct dt_error *err);

/* ---- save_shared.c: whether the run waits for a save or not ---- */

/* Whether checkpoint.keep_every asks for this step, which is never left out. */
bool dt_save_is_kept(const struct dt_run *run, long step);

/* The newest checkpoint, if it is known to be good, so that older ones may be
 * removed before this save; else 0.
 */
long dt_save_may_go(const struct dt_run *run);

/* On rank 0, in any thread: makes room if the disk may be too full for a
 * checkpoint of so many bytes and `may_go` is not 0. Returns whether it still
 * is, as `why` says. The other function tells the user once.
 */
bool dt_save_look_ahead(const struct dt_run *run, size_t bytes, long may_go,
                        struct dt_error *why);
void dt_save_tell_full(struct dt_run *run, bool full,
                       const struct dt_error *why);

/* Whether a rank has failed: 1 or 0; on those that have not, `why` then says
 * so. -1: a peer is lost.
 */
int dt_save_any_failed(struct dt_run *run, bool failed, struct dt_error *why,
                       struct dt_error *err);

/* On rank 0, in any thread: dt_ckpt_commit. Ranks that start again then resume
 * from there, whatever the configuration names.
 */
int dt_save_commit(const struct dt_run *run, struct dt_ckpt_writer *writer,
                   struct dt_error *why);

/* Logs the error on ranks other than 0, whose errors the caller does not
 * report.
 */
void dt_save_tell_failure(const struct dt_run *run, const struct dt_error *why);

/* The sums of the files of ranks > 0, in their order. malloc'ed; NULL and err:
 * a peer is lost, EX_OSERR.
 */
char *dt_save_gather_sums(struct dt_run *run,
                          const struct dt_ckpt_writer *writer,
                          struct dt_error *err);

/* How a save has ended. */
struct dt_save_end {
    long step;
    bool failed;    /* on this rank, as its `why` says */
    bool last;      /* of the run */
    bool good;      /* a later step had a finite loss */
    double seconds; /* that the run waited */
    double took;    /* until the checkpoint was whole */
};

/* Records it, or schedules the next try. -1: a peer is lost; on rank 0 that
 * there is no next try.
 */
int dt_save_conclude(struct dt_run *run, const struct dt_save_end *end,
                     struct dt_error *why, struct dt_error *err);

/* ---- flight.c: saves that the run does not wait for ---- */

/* With nothing in flight and no step either: takes a copy of the state, and has
 * it written. -1: the device or a peer failed; as dt_save_conclude.
 */
int dt_flight_begin(struct dt_run *run, struct dt_error *err);

/* Counts a save that was due meanwhile. */
void dt_flight_skip(struct dt_run *run);

/* After dt_flight_ready: takes the next step of it. -1: as dt_flight_begin. */
int dt_flight_advance(struct dt_run *run, struct dt_error *err);

/* ---- */

/* In place of dt_ckpt_verify on rank 0, with the run as ctx: the ranks share
 * the files. -1: as dt_ckpt_verify, on whichever rank; a peer failed.
 */
int dt_verify_together(void *run, const char *path, struct dt_error *err);

/* On rank 0: no more checkpoints are verified. On the others: does their shares
 * until then. -1: a peer failed, EX_OSERR.
 */
int dt_verify_end(struct dt_run *run, struct dt_error *err);

#endif /* DT_TRAIN_RESUME_RESUME_IMPL_H */
