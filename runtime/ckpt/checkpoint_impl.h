/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_impl.h - the names of what lies under a root; for ckpt/ only */
#ifndef DT_CKPT_CHECKPOINT_IMPL_H
#define DT_CKPT_CHECKPOINT_IMPL_H

#include <dirent.h>

#include "ckpt/ckpt.h"

#define SUMS_NAME "checksums.txt"
#define TEMP_PREFIX ".tmp-"
#define TEMP_LATEST TEMP_PREFIX "latest"
/* A checkpoint that a new one of the same step is about to replace. */
#define OLD_PREFIX ".old-"
#define STEP_PREFIX "checkpoint-"

/* The checksums of the files of a rank > 0 until rank 0 collects them. */
#define RANK_SUMS_NAME ".checksums-rank-%05d"

/* The last line of checksums.txt; 16 hex digits follow. */
#define SUMS_SEAL "# XXH3 of the lines above = "

struct dt_ckpt_writer {
    int rank; /* those > 0 have joined */
    char *root;
    long step;       /* -1: path is not a checkpoint */
    bool replace;    /* if step is -1: an existing path may be replaced */
    char *path;      /* <root>/<name> */
    char *temp;      /* <root>/.tmp-<name> */
    bool in_place;   /* temp has become path: .tmp-latest must name it */
    char folder[64]; /* of the next files: "" or "<name>/" */
    char *sums;      /* the future checksums.txt, in the format of xxhsum -H3 */
};

/* Like asprintf, the caller frees. NULL and err: EX_OSERR, out of memory. */
char *dt_ckpt_format(struct dt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The step in the name of a directory (which may begin with OLD_PREFIX), or -1
 * if it is not the name of a checkpoint.
 */
long dt_ckpt_step_of(const char *name);

/* Filters for dt_ckpt_list: published checkpoints; temporary entries of a save,
 * running or interrupted; old checkpoints left by an interrupted replacement.
 */
int dt_ckpt_is_step(const struct dirent *entry);
int dt_ckpt_is_temp(const struct dirent *entry);
int dt_ckpt_is_old(const struct dirent *entry);

/* Lists the entries of root that `keep` accepts, the highest step first; within
 * a step, the published checkpoint comes before the old one. Returns how many,
 * 0 if root does not exist. -1: EX_NOINPUT, root is not a directory; EX_IOERR.
 * Release with dt_ckpt_free_list.
 */
int dt_ckpt_list(const char *root, struct dirent ***entries,
                 int (*keep)(const struct dirent *), struct dt_error *err);
void dt_ckpt_free_list(struct dirent **entries, int n);

/* The whole checkpoint with the highest step below `step`. Results and errors
 * are those of dt_ckpt_find.
 */
int dt_ckpt_find_below(const char *root, long step, char **path,
                       struct dt_error *err);

/* rename(2). -1: EX_IOERR. Fault point: ckpt.rename. */
int dt_ckpt_rename(const char *from, const char *to, struct dt_error *err);

/* Makes sure that nothing is at `path`, which is in `root`: what cannot be
 * removed, such as a directory of another user, is renamed out of the way.
 * -1: EX_IOERR with the cause.
 */
int dt_ckpt_clear(const char *root, const char *path, struct dt_error *err);

/* Writes `text` to `file` in the temporary directory without listing it in
 * checksums.txt, and returns its checksum in *xxh3. -1: as dt_ckpt_add_text.
 */
int dt_ckpt_write_text(struct dt_ckpt_writer *writer, const char *file,
                       const char *text, uint64_t *xxh3, struct dt_error *err);

#endif /* DT_CKPT_CHECKPOINT_IMPL_H */
