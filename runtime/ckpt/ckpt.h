/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt.h - named tensors and texts that are either whole on disk or absent
 *
 * <root>/checkpoint-<step>/ is written as <root>/.tmp-checkpoint-<step>, every
 * file is checksummed (XXH3-64, in `checksums.txt`, written last) and synced,
 * then the directory is renamed and the symbolic link <root>/latest replaced.
 * `xxhsum -c checksums.txt` checks the same by hand; its last line, a comment,
 * is a sum of those above. Any other directory can be written in the same way,
 * without checksums. Knows bytes, not models.
 *
 * A checkpoint is damaged if it was read and is wrong, or lacks a file. One
 * that cannot be read is not: nothing is known about it.
 *
 * Fault points: ckpt.read, ckpt.write, ckpt.fsync, ckpt.rename.
 */
#ifndef DT_CKPT_CKPT_H
#define DT_CKPT_CKPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "ckpt/safetensors.h"

struct dt_ckpt_writer;

/* Begins checkpoint-<step> (step >= 0) under root (created), and finishes or
 * removes what interrupted saves left there. One process only. NULL and err:
 * EX_CANTCREAT, EX_IOERR.
 */
struct dt_ckpt_writer *dt_ckpt_begin(const char *root, long step,
                                     struct dt_error *err);

/* The same for the directory `path` (its parents are created) that has nothing
 * to do with steps. With `replace` it takes the place of a directory that is
 * there; without, commit fails then, unless it is empty.
 */
struct dt_ckpt_writer *dt_ckpt_begin_dir(const char *path, bool replace,
                                         struct dt_error *err);

/* Adds a file (a plain name) of tensors, or of text. -1: EX_CANTCREAT,
 * EX_IOERR; the caller then abandons.
 */
int dt_ckpt_add_tensors(struct dt_ckpt_writer *writer, const char *file,
                        const struct dt_ckpt_tensor *tensors, size_t count,
                        struct dt_error *err);
int dt_ckpt_add_text(struct dt_ckpt_writer *writer, const char *file,
                     const char *text, struct dt_error *err);

/* Adds tensors as model.safetensors or, where one file of at most max_bytes of
 * tensors has no room for all, as model-00001-of-0000N.safetensors and so on,
 * in the order given, with their index. A larger tensor has a file for itself.
 * -1: as dt_ckpt_add_tensors.
 */
int dt_ckpt_add_model(struct dt_ckpt_writer *writer,
                      const struct dt_ckpt_tensor *tensors, size_t count,
                      size_t max_bytes, struct dt_error *err);

/* Adds a copy of <dir>/<file>, of at most max_bytes; nothing if there is none.
 * -1: EX_DATAERR, it is no regular file or larger; EX_NOINPUT; as above.
 */
int dt_ckpt_add_copy(struct dt_ckpt_writer *writer, const char *file,
                     const char *dir, size_t max_bytes, struct dt_error *err);

/* Makes it durable and visible, in place of a checkpoint of the same step.
 * Frees writer in any case. -1: EX_IOERR; nothing temporary is left, and every
 * checkpoint that was whole still is.
 */
int dt_ckpt_commit(struct dt_ckpt_writer *writer, struct dt_error *err);

/* Removes the lowest steps under root beyond `total_limit` (0: keep all), never
 * `step`. -1: EX_NOINPUT, EX_IOERR.
 */
int dt_ckpt_prune(const char *root, long step, int total_limit,
                  struct dt_error *err);

/* Points <root>/latest at the highest whole checkpoint below `step`: what
 * dt_ckpt_find will give. *path is malloc'ed, or NULL with 0 if there is none.
 * -1: as dt_ckpt_find.
 */
int dt_ckpt_retreat(const char *root, long step, char **path,
                    struct dt_error *err);

/* Gives up: removes the temporary directory, frees writer. NULL is fine. */
void dt_ckpt_abandon(struct dt_ckpt_writer *writer);

/* Whether checkpoints can be saved under root (created), by doing all that a
 * save does in small: 0, or 1 if fewer than `bytes` bytes are free for it, and
 * err says so. -1: EX_CANTCREAT, EX_IOERR with what is in the way.
 */
int dt_ckpt_probe(const char *root, size_t bytes, struct dt_error *err);

/* What goes on while checkpoints are read. Both may be NULL. */
struct dt_ckpt_watch {
    void (*note)(const char *text); /* a damaged one was passed over, and why */
    bool (*stop)(void); /* asked often; true ends it with EX_TEMPFAIL */
};

/* The whole checkpoint to go on from: the last one that was saved, which
 * `latest` names, or that of the highest step under root. *path is malloc'ed,
 * or NULL with 0 if there is no checkpoint at all. -1: EX_DATAERR if there are
 * some, and all are damaged; EX_NOINPUT if root is no directory; EX_IOERR or
 * EX_OSERR if it, or one that would come first, cannot be read; EX_TEMPFAIL.
 */
int dt_ckpt_find(const char *root, const struct dt_ckpt_watch *watch,
                 char **path, struct dt_error *err);

/* The step that the name of a checkpoint directory says, or -1 if it is called
 * anything else.
 */
long dt_ckpt_step(const char *path);

/* Checks a checkpoint directory: its list of checksums, and all files by it.
 * `watch` may be NULL. -1: EX_DATAERR naming the file that is wrong; EX_NOINPUT
 * one that is missing; EX_IOERR, EX_OSERR, EX_TEMPFAIL: nobody knows.
 */
int dt_ckpt_verify(const char *path, const struct dt_ckpt_watch *watch,
                   struct dt_error *err);

#endif /* DT_CKPT_CKPT_H */
