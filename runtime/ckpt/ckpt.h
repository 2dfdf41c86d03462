/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt.h - named tensors and texts that are either whole on disk or absent
 *
 * <root>/checkpoint-<step>/ is written as
 * <root>/.tmp-checkpoint-<step>.<nonce>, a name that no client of a network
 * file system has ever looked for; every file is checksummed (XXH3-64, in
 * `checksums.txt`, written last) and synced, then the directory is renamed and
 * the symbolic link <root>/latest replaced. `xxhsum -c checksums.txt` checks
 * the files by hand. The last line of checksums.txt is a comment with the
 * checksum of the lines above it. Other directories can be written in the same
 * way, without checksums. This module handles bytes and does not know models.
 *
 * A checkpoint is damaged if a file is missing or its content is wrong. A
 * checkpoint that cannot be read does not count as damaged: its state is
 * unknown, so it is an error instead of being passed over.
 *
 * Several ranks may write one checkpoint: rank 0 begins and commits it, the
 * others join, and add files in between. The caller makes ranks wait for each
 * other, and brings nonce and checksums from one to the other: no file of the
 * shared directory is read for that.
 *
 * Fault points: ckpt.read, ckpt.write, ckpt.fsync, ckpt.rename.
 */
#ifndef DT_CKPT_CKPT_H
#define DT_CKPT_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tensor/tensor.h"

/* A tensor to write, or to read. */
struct dt_ckpt_tensor {
    const char *name;
    int ndim;
    size_t shape[5];
    struct dt_view view; /* count == product of shape, or less to read a part */
    enum dt_dtype stored; /* to write: that of the view, or both are floats */
    bool finite;  /* to read: NaN or infinity in a float tensor is an error */
    size_t first; /* to read a part: the element at which it begins */
};

/* Brings tensors into memory to be written, one after another. */
struct dt_ckpt_source {
    /* Sets *view to the elements of `tensor` in host memory, valid until the
     * next call. -1: err.
     */
    int (*fetch)(void *ctx, const struct dt_ckpt_tensor *tensor,
                 struct dt_view *view, struct dt_error *err);
    void *ctx;
    /* Or queues a copy of a tensor that is kept in a stage as it is, to `to`,
     * which is there before dt_ckpt_write. NULL: all are fetched. -1: err.
     */
    int (*send)(void *ctx, const struct dt_ckpt_tensor *tensor, void *to,
                struct dt_error *err);
};

struct dt_ckpt_writer;

/* Completes or removes the rest of interrupted saves under root. An entry that
 * cannot be removed stays and does not disturb later saves; `note`, unless it
 * is NULL, is told which entry that is, and why. Only one process may do this
 * at a time.
 */
void dt_ckpt_tidy(const char *root, void (*note)(const char *text));

/* Begins checkpoint-<step> (step >= 0) under root, which is created if needed,
 * after dt_ckpt_tidy. Only one process may do this at a time. The writer ends
 * with dt_ckpt_commit or dt_ckpt_abandon. NULL and err: EX_CANTCREAT, EX_IOERR.
 */
struct dt_ckpt_writer *dt_ckpt_begin(const char *root, long step,
                                     struct dt_error *err);

/* --- files that are written later --- */

/* Memory for the files of a checkpoint, so that a run goes on while they are
 * written.
 */
struct dt_ckpt_stage;

/* Of `bytes` bytes of `memory`, which the caller frees after it, and whose
 * pages are touched here. Files beyond them take memory of their own. NULL and
 * err: EX_OSERR.
 */
struct dt_ckpt_stage *dt_ckpt_stage_create(void *memory, size_t bytes,
                                           struct dt_error *err);
void dt_ckpt_stage_destroy(struct dt_ckpt_stage *stage); /* NULL is fine */

/* As dt_ckpt_begin and dt_ckpt_join, but files that are added stay in `stage`,
 * and nothing on the disk is touched before dt_ckpt_write. A stage has one
 * writer at a time. NULL and err: EX_OSERR.
 */
struct dt_ckpt_writer *dt_ckpt_stage_begin(struct dt_ckpt_stage *stage,
                                           const char *root, long step,
                                           struct dt_error *err);
struct dt_ckpt_writer *dt_ckpt_stage_join(struct dt_ckpt_stage *stage,
                                          const char *root, long step, int rank,
                                          uint32_t nonce, struct dt_error *err);

/* Writes these files, after which the writer is as any other one: it has the
 * checksums, and on rank 0 commits. It may be called in another thread, which
 * owns the writer meanwhile. -1: as dt_ckpt_begin and dt_ckpt_add_tensors; the
 * caller then abandons the writer.
 */
int dt_ckpt_write(struct dt_ckpt_writer *writer, struct dt_error *err);

/* --- other directories --- */

/* As dt_ckpt_begin for a directory `path` that is not a checkpoint of a step.
 * Its parents are created. If `path` exists, commit replaces it with `replace`,
 * and without `replace` fails unless it is empty.
 */
struct dt_ckpt_writer *dt_ckpt_begin_dir(const char *path, bool replace,
                                         struct dt_error *err);

/* Whether an entry beside the directory `name` is what such a writer leaves if
 * its process is killed.
 */
bool dt_ckpt_is_rest(const char *entry, const char *name);

/* A random number in the name of the writer's temporary directory. */
uint32_t dt_ckpt_nonce(const struct dt_ckpt_writer *writer);

/* A writer on rank `rank` > 0 of the checkpoint that rank 0 has begun, in the
 * same directory. It ends with dt_ckpt_abandon. NULL and err: EX_CANTCREAT if
 * this host does not see that directory, EX_OSERR.
 */
struct dt_ckpt_writer *dt_ckpt_join(const char *root, long step, int rank,
                                    uint32_t nonce, struct dt_error *err);

/* The checksums of the files that were added, as lines of checksums.txt; valid
 * until the next one is.
 */
const char *dt_ckpt_sums(const struct dt_ckpt_writer *writer);

/* Rank 0 takes the files of another rank into the checkpoint. -1: EX_NOINPUT,
 * it does not see one of them, EX_DATAERR, EX_OSERR; the caller then abandons
 * the writer.
 */
int dt_ckpt_merge(struct dt_ckpt_writer *writer, const char *sums,
                  struct dt_error *err);

/* The folder of the directory that files are added to: "<name>/", or "" for the
 * directory itself.
 */
const char *dt_ckpt_folder(const struct dt_ckpt_writer *writer);

/* Later files go into this folder of the directory, which is created if needed;
 * "" means the directory itself. -1: EX_CANTCREAT, EX_IOERR; the caller then
 * abandons the writer.
 */
int dt_ckpt_enter(struct dt_ckpt_writer *writer, const char *folder,
                  struct dt_error *err);

/* Adds a file of tensors (`source` as in dt_safetensors_write), or of text;
 * `file` is a name without a slash. -1: EX_CANTCREAT, EX_IOERR, or those of
 * source; the caller then abandons the writer.
 */
int dt_ckpt_add_tensors(struct dt_ckpt_writer *writer, const char *file,
                        const struct dt_ckpt_tensor *tensors, size_t count,
                        const struct dt_ckpt_source *source,
                        struct dt_error *err);
int dt_ckpt_add_text(struct dt_ckpt_writer *writer, const char *file,
                     const char *text, struct dt_error *err);

/* Adds tensors as model.safetensors or, if they take more than max_bytes, as
 * shards model-00001-of-0000N.safetensors and so on, in the order given, with
 * an index. A tensor larger than max_bytes gets a shard of its own. Of the
 * ranks of a world that all make this call, one writes each file and all fetch
 * the tensors of all files in the same order, also after a failure. -1: as
 * dt_ckpt_add_tensors.
 */
int dt_ckpt_add_model(struct dt_ckpt_writer *writer, int world,
                      const struct dt_ckpt_tensor *tensors, size_t count,
                      size_t max_bytes, const struct dt_ckpt_source *source,
                      struct dt_error *err);

/* The same as the one file `file`. */
int dt_ckpt_add_shared(struct dt_ckpt_writer *writer, int world,
                       const char *file, const struct dt_ckpt_tensor *tensors,
                       size_t count, const struct dt_ckpt_source *source,
                       struct dt_error *err);

/* Adds a copy of <dir>/<file>; does nothing if that does not exist. -1:
 * EX_DATAERR, not a regular file or larger than max_bytes; EX_NOINPUT,
 * EX_IOERR, cannot be opened; others as dt_ckpt_add_tensors.
 */
int dt_ckpt_add_copy(struct dt_ckpt_writer *writer, const char *file,
                     const char *dir, size_t max_bytes, struct dt_error *err);

/* Makes the directory durable and visible. A checkpoint of the same step is
 * replaced. Always frees the writer. -1: EX_IOERR; every checkpoint that was
 * whole still is, and nothing temporary is left, except for a link if only
 * <root>/latest could not be replaced: by it dt_ckpt_find finds the new one.
 */
int dt_ckpt_commit(struct dt_ckpt_writer *writer, struct dt_error *err);

/* Points <root>/latest at `path`, a checkpoint under root, so that dt_ckpt_find
 * returns it. -1: EX_IOERR.
 */
int dt_ckpt_set_latest(const char *root, const char *path,
                       struct dt_error *err);

/* Points <root>/best at the checkpoint of a step >= 0, or removes the link. -1:
 * EX_IOERR.
 */
int dt_ckpt_set_best(const char *root, long step, struct dt_error *err);

/* The step that <root>/best names, or -1. */
long dt_ckpt_best(const char *root);

/* Which checkpoints stay. */
struct dt_ckpt_keep {
    int limit;  /* how many, 0: all */
    long every; /* further ones: multiples of this step, 0: none */
    long step;  /* this one in any case */
};

/* Removes the lowest steps under root until keep->limit are left, but never
 * those that stay, and the target of <root>/best. -1: EX_NOINPUT; EX_IOERR, one
 * could not be removed, and all others were. dt_ckpt_tidy tries again to remove
 * the rest of it.
 */
int dt_ckpt_prune(const char *root, const struct dt_ckpt_keep *keep,
                  struct dt_error *err);

/* Points <root>/latest at the highest whole checkpoint below `step`, so that
 * dt_ckpt_find returns it. *path is malloc'ed; if there is none, it is NULL and
 * the result is 0. -1: as dt_ckpt_find.
 */
int dt_ckpt_retreat(const char *root, long step, char **path,
                    struct dt_error *err);

/* Frees the writer; on rank 0 removes the temporary directory. NULL is fine.
 */
void dt_ckpt_abandon(struct dt_ckpt_writer *writer);

/* Checks that checkpoints can be saved under root (which is created if needed)
 * by doing every operation of a save on a tiny directory. Returns 0, or 1 with
 * err if fewer than `bytes` bytes are free. -1: EX_CANTCREAT, EX_IOERR with the
 * cause.
 */
int dt_ckpt_probe(const char *root, size_t bytes, struct dt_error *err);

/* Whether `bytes` bytes are free under root, or nobody can say: 0; 1 with err
 * if not.
 */
int dt_ckpt_space(const char *root, double bytes, struct dt_error *err);

enum { DT_CKPT_MARK_BYTES = 32 };

/* Makes an empty file of a new name under root, to see who else sees it.
 * dt_ckpt_unmark removes it; one that stays goes with dt_ckpt_tidy. -1:
 * EX_CANTCREAT.
 */
int dt_ckpt_mark(const char *root, char name[DT_CKPT_MARK_BYTES],
                 struct dt_error *err);
void dt_ckpt_unmark(const char *root, const char *name);

/* Whether the file that another host has made is under root here, within
 * `wait_ms`: caches of network file systems may show it later.
 */
bool dt_ckpt_sees_mark(const char *root, const char *name, int wait_ms);

/* Callbacks while checkpoints are read. Each may be NULL. */
struct dt_ckpt_watch {
    /* Told which entry is passed over, and why: it is damaged or temporary, or
     * `latest` names another one, or nothing.
     */
    void (*note)(const char *text);
    /* Called often; true ends the call with EX_TEMPFAIL. */
    bool (*stop)(void);
    /* In place of dt_ckpt_verify, for ranks that share the work. */
    int (*verify)(void *ctx, const char *path, struct dt_error *err);
    void *ctx;
};

/* Finds the checkpoint to resume from: the one saved last, which `latest`
 * names, if it is whole, else the whole one with the highest step under root.
 * *path is malloc'ed; if there is no checkpoint at all, it is NULL and the
 * result is 0. -1: EX_DATAERR, all checkpoints are damaged, or none is left but
 * `latest` or one whose name was changed; EX_NOINPUT, root is not a directory;
 * EX_IOERR or EX_OSERR, root, `latest` or a preferred checkpoint cannot be
 * read; EX_TEMPFAIL.
 */
int dt_ckpt_find(const char *root, const struct dt_ckpt_watch *watch,
                 char **path, struct dt_error *err);

/* The number of checkpoints under root, whole or not, and the highest of their
 * steps into *newest; 0 if there are none. -1: EX_NOINPUT, root is not a
 * directory; EX_IOERR.
 */
int dt_ckpt_count(const char *root, long *newest, struct dt_error *err);

/* The step in the name of a checkpoint directory, or -1 if `path` has any other
 * name.
 */
long dt_ckpt_step(const char *path);

/* Whether the directory `path` is a checkpoint, whole or not. -1: EX_NOINPUT,
 * it is something else; where it has checkpoints, names the newest one.
 */
int dt_ckpt_check_path(const char *path, struct dt_error *err);

/* Checks a checkpoint directory: checksums.txt itself, then every file that it
 * lists. `watch` may be NULL. -1: EX_DATAERR naming the damaged file;
 * EX_NOINPUT naming the missing one; EX_IOERR, EX_OSERR, EX_TEMPFAIL: the check
 * did not finish, so the state is unknown.
 */
int dt_ckpt_verify(const char *path, const struct dt_ckpt_watch *watch,
                   struct dt_error *err);

/* The two parts of dt_ckpt_verify, for ranks that share the files of a
 * checkpoint. The first reads the list of sums, checks it, and that every file
 * is there; the caller frees it. NULL and err: as dt_ckpt_verify. The second
 * compares the files of rank `rank` of `world`: of the optimizer's, those that
 * it reads itself if the checkpoint is of an equal world, and its share of the
 * others. -1: as dt_ckpt_verify.
 */
char *dt_ckpt_read_sums(const char *path, struct dt_error *err);
int dt_ckpt_verify_share(const char *path, const char *sums, int rank,
                         int world, const struct dt_ckpt_watch *watch,
                         struct dt_error *err);

/* Checks every checkpoint at `path`: one, or those of a directory of
 * checkpoints or of a run.output_dir, the newest first. `tell` gets each with
 * NULL, or with what dt_ckpt_verify says against it. -1: EX_NOINPUT, there is
 * none; EX_IOERR, the directory cannot be read.
 */
int dt_ckpt_survey(const char *path,
                   void (*tell)(void *ctx, const char *path,
                                const struct dt_error *why),
                   void *ctx, struct dt_error *err);

#endif /* DT_CKPT_CKPT_H */
