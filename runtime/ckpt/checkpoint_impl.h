/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_impl.h - the names of what lies under a root; for ckpt/ only */
#ifndef DT_CKPT_CHECKPOINT_IMPL_H
#define DT_CKPT_CHECKPOINT_IMPL_H

#include <dirent.h>

#include "ckpt/ckpt.h"

#define SUMS_NAME "checksums.txt"
#define TEMP_PREFIX ".tmp-"
#define TEMP_LATEST TEMP_PREFIX "latest"
#define OLD_PREFIX ".old-" /* on its way out, while a new one takes its place  \
                            */
#define STEP_PREFIX "checkpoint-"

/* The last line of checksums.txt; 16 hex digits follow. */
#define SUMS_SEAL "# XXH3 of the lines above = "

struct dt_ckpt_writer {
    char *root;
    long step;    /* -1: path is not a checkpoint */
    bool replace; /* then: what is at path already may go */
    char *path;   /* <root>/<name> */
    char *temp;   /* <root>/.tmp-<name> */
    char *sums;   /* what checksums.txt will say: lines as of xxhsum -H3 */
};

/* asprintf; NULL and err (EX_OSERR) if memory is out. */
char *dt_ckpt_format(struct dt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The step of a directory name, which may begin with OLD_PREFIX, or -1 if it is
 * not one of ours.
 */
long dt_ckpt_step_of(const char *name);

/* For dt_ckpt_list: checkpoints in their place; what is being written, or was;
 * what was on its way out.
 */
int dt_ckpt_is_step(const struct dirent *entry);
int dt_ckpt_is_temp(const struct dirent *entry);
int dt_ckpt_is_old(const struct dirent *entry);

/* Entries of root that `keep` accepts, the highest step first, and of one step
 * that in its place: their number. A missing root has none. -1:
 * EX_NOINPUT, it is no directory; EX_IOERR. Release with dt_ckpt_free_list.
 */
int dt_ckpt_list(const char *root, struct dirent ***entries,
                 int (*keep)(const struct dirent *), struct dt_error *err);
void dt_ckpt_free_list(struct dirent **entries, int n);

/* The highest whole checkpoint below `step`: as dt_ckpt_find. */
int dt_ckpt_find_below(const char *root, long step, char **path,
                       struct dt_error *err);

/* Writes `text` to `file` of the directory, and does not list it among the
 * checksums. -1: as dt_ckpt_add_text.
 */
int dt_ckpt_write_text(struct dt_ckpt_writer *writer, const char *file,
                       const char *text, uint64_t *xxh3, struct dt_error *err);

#endif /* DT_CKPT_CHECKPOINT_IMPL_H */
