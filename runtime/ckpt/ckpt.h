/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt.h - named tensors and texts that are either whole on disk or absent
 *
 * <root>/checkpoint-<step>/ is written as <root>/.tmp-checkpoint-<step>, every
 * file is checksummed (XXH3-64, in `checksums.txt`, written last) and synced,
 * then the directory is renamed and the symbolic link <root>/latest replaced.
 * `xxhsum -c checksums.txt` checks the same by hand. Any other directory can be
 * written in the same way, without checksums. Knows bytes, not models.
 *
 * Fault points: ckpt.write, ckpt.fsync, ckpt.rename.
 */
#ifndef DT_CKPT_CKPT_H
#define DT_CKPT_CKPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "ckpt/safetensors.h"

struct dt_ckpt_writer;

/* Begins checkpoint-<step> (step >= 0) under root (created), and removes what
 * interrupted saves left there and a damaged checkpoint of the same step. One
 * process only. NULL and err: EX_CANTCREAT, EX_IOERR.
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

/* Makes it durable and visible, in place of a checkpoint of the same step,
 * then removes the lowest steps beyond `total_limit` (0: keep all), never the
 * new one (dt_ckpt_begin only). Frees writer in any case. -1: EX_IOERR; nothing
 * temporary is left, and every checkpoint that was whole is still whole or was
 * one to remove.
 */
int dt_ckpt_commit(struct dt_ckpt_writer *writer, int total_limit,
                   struct dt_error *err);

/* Gives up: removes the temporary directory, frees writer. NULL is fine. */
void dt_ckpt_abandon(struct dt_ckpt_writer *writer);

/* The whole checkpoint to go on from: what `latest` names, otherwise that of
 * the highest step under root. *path is malloc'ed, or NULL with 0 if there is
 * none. Each damaged or half-written one that was passed over is told to `note`
 * (may be NULL) with what is wrong with it. -1: EX_NOINPUT if root cannot be
 * listed.
 */
int dt_ckpt_find(const char *root, char **path,
                 void (*note)(void *ctx, const char *text), void *ctx,
                 struct dt_error *err);

/* Checks all checksums of one checkpoint directory. -1: EX_DATAERR naming the
 * file, EX_NOINPUT.
 */
int dt_ckpt_verify(const char *path, struct dt_error *err);

#endif /* DT_CKPT_CKPT_H */
