/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - reading whole files, and writing them so that they survive */
#ifndef DT_BASE_FILE_H
#define DT_BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Whether this errno of a call with a path says that there is nothing of that
 * name. Any other one says nothing about that.
 */
bool dt_file_is_missing(int bad);

/* Whether `path`, or the target of a link there, exists: 1 or 0. -1: EX_IOERR,
 * nobody can say.
 */
int dt_file_exists(const char *path, struct dt_error *err);

/* Whether two paths lead to one file, or directory. */
bool dt_file_is_same(const char *left, const char *right);

/* Opens the regular file `path`, or the target of a link, to read it; a
 * FIFO or a device is refused at once. The descriptor, which the caller closes,
 * or -1: EX_NOINPUT if there is no such regular file, EX_IOERR if it cannot be
 * opened for any other reason: that says nothing about its content.
 */
int dt_file_open(const char *path, struct dt_error *err);

/* A read-only mapping of a whole regular file. */
struct dt_map {
    const void *data; /* NULL if the file is empty */
    size_t bytes;
};

/* Maps `path`. 0, or -1: as dt_file_open, and EX_IOERR if it cannot be mapped.
 * Release with dt_map_fini.
 */
int dt_map_init(struct dt_map *map, const char *path, struct dt_error *err);
void dt_map_fini(struct dt_map *map);

/* A page of a mapping that the file no longer has, or that the disk cannot
 * give, is a SIGBUS for the thread that touches it. In dt_guard_run it becomes
 * a result; anywhere else SIGBUS has its usual effect.
 *
 * Calls read(ctx), which only copies from a mapping: it owns nothing and holds
 * no lock. -1 if it was cut off by a SIGBUS; its results are undefined then.
 * Any number of threads may be in it.
 */
int dt_guard_run(void (*read)(void *ctx), void *ctx);

/* The whole text file `path`, NUL-terminated; free() it. NULL and err: as
 * dt_map_init, and EX_DATAERR if it is larger than `max_bytes` or holds a NUL.
 */
char *dt_file_read(const char *path, size_t max_bytes, struct dt_error *err);

/* Reads the first `bytes` bytes of a regular file, or all *count < bytes that
 * it has. -1: EX_NOINPUT as dt_map_init, EX_IOERR.
 */
int dt_file_peek(const char *path, void *head, size_t bytes, size_t *count,
                 struct dt_error *err);

/* Writes all `bytes` to fd. 0, or an errno. */
int dt_file_write(int fd, const void *data, size_t bytes);

/* Reads `bytes` bytes of fd, or all *count < bytes that are left. 0, or an
 * errno.
 */
int dt_file_fill(int fd, void *into, size_t bytes, size_t *count);

/* Creates a file in `dir` that has no name, to write and read it: nothing of it
 * is left when it is closed, whatever ends the process. The descriptor, or -1
 * with errno.
 */
int dt_file_unnamed(const char *dir);

/* Writes `bytes` of text to `path`, whose readers see all of it or the content
 * from before: to path.new, which is renamed. It is not synced to disk. -1:
 * EX_CANTCREAT, EX_IOERR; `path` is as before.
 */
int dt_file_replace(const char *path, const char *text, size_t bytes,
                    struct dt_error *err);

/* Appends `bytes` bytes to the open file `path` with one write, so that no
 * reader sees half of them unless the disk is full. -1: EX_IOERR, also if it
 * was removed: the bytes would be lost.
 */
int dt_file_append(int fd, const char *path, const void *data, size_t bytes,
                   struct dt_error *err);

/* Creates `path` and its parents as directories (mode 0777 & ~umask); an
 * existing directory is fine. -1: EX_CANTCREAT.
 */
int dt_file_mkdirs(const char *path, struct dt_error *err);

/* fsync of a directory, so that renames in it are durable. -1: EX_IOERR. */
int dt_file_sync_dir(const char *path, struct dt_error *err);

/* Removes `path`: a file, a link, or a directory tree. A missing one
 * is fine. -1: EX_IOERR.
 */
int dt_file_remove(const char *path, struct dt_error *err);

/* Removes a directory tree without following symbolic links; a missing one is
 * fine. -1: EX_IOERR.
 */
int dt_file_remove_tree(const char *path, struct dt_error *err);

/* Finds the directory `name`, seen from here or else from `dir`; `found` has no
 * symbolic links. False: there is none.
 */
bool dt_file_find_dir(const char *dir, const char *name, char found[PATH_MAX]);

#endif /* DT_BASE_FILE_H */
