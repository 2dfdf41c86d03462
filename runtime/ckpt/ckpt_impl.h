/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_impl.h - declarations that files of ckpt/ share (private to ckpt/) */
#ifndef DT_CKPT_CKPT_IMPL_H
#define DT_CKPT_CKPT_IMPL_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>
#include <xxhash.h>

#include "base/error.h"
#include "ckpt/ckpt.h"

#define SUMS_NAME "checksums.txt"
#define TEMP_PREFIX ".tmp-"
#define TEMP_LATEST TEMP_PREFIX "latest"
/* A checkpoint that a new one of the same step is about to replace. */
#define OLD_PREFIX ".old-"
#define STEP_PREFIX "checkpoint-"

/* The last line of checksums.txt; 16 hex digits follow. */
#define SUMS_SEAL "# XXH3 of the lines above = "

struct dt_ckpt_writer {
    int rank;                    /* those > 0 have joined */
    struct dt_ckpt_stage *stage; /* takes the files, or NULL */
    char *root;
    long step;       /* -1: path is not a checkpoint */
    bool replace;    /* if step is -1: an existing path may be replaced */
    char *path;      /* <root>/<name> */
    uint32_t nonce;  /* of a step */
    char *temp;      /* <root>/.tmp-<name>.<nonce>, or .tmp-<name> */
    bool in_place;   /* temp has become path: .tmp-latest must name it */
    char folder[64]; /* of the next files: "" or "<name>/" */
    char *sums;      /* the future checksums.txt, in the format of xxhsum -H3 */
};

/* A line of checksums.txt. */
struct dt_ckpt_sum {
    char *name;
    uint64_t xxh3;
    int number; /* from 0 */
};

/* Like asprintf, the caller frees. NULL and err: EX_OSERR, out of memory. */
char *dt_ckpt_format(struct dt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a line to the future checksums.txt. -1: EX_OSERR. */
int dt_ckpt_add_sum(struct dt_ckpt_writer *writer, const char *file,
                    uint64_t xxh3, struct dt_error *err);

/* Creates root and the temporary directory; on rank 0 first removes what
 * earlier saves have left. -1: EX_CANTCREAT, EX_IOERR.
 */
int dt_ckpt_make_room(const struct dt_ckpt_writer *writer,
                      struct dt_error *err);

/* As dt_ckpt_tidy, but leaves the entry `keep`, which may be NULL, alone. */
void dt_ckpt_tidy_beside(const char *root, const char *keep,
                         void (*note)(const char *text));

/* ---- stage.c: files in memory ---- */

/* Addresses and lengths that a disk takes past the page cache are multiples. */
#define DT_CKPT_BLOCK ((size_t)4096)

/* A file whose content is there, or a copy of <from>/<name of path>. */
struct dt_ckpt_staged {
    char *path;
    char *from; /* NULL: no copy */
    size_t max_bytes;
    size_t first, end; /* its pieces */
};

struct dt_ckpt_piece {
    char *data;
    size_t bytes;
    bool own; /* malloc'ed, and not in the memory */
};

struct dt_ckpt_stage {
    char *memory;
    size_t bytes, used;
    struct dt_ckpt_staged *files;
    struct dt_ckpt_piece *pieces;
    size_t file_count, piece_count;
};

/* Begins the file `path`; appends to it, or appends bytes that come later to
 * the place that is returned; removes it again. -1 or NULL: EX_OSERR.
 */
int dt_ckpt_stage_file(struct dt_ckpt_stage *stage, const char *path,
                       struct dt_error *err);
int dt_ckpt_stage_put(struct dt_ckpt_stage *stage, const void *data,
                      size_t bytes, struct dt_error *err);
void *dt_ckpt_stage_room(struct dt_ckpt_stage *stage, size_t bytes,
                         struct dt_error *err);
void dt_ckpt_stage_drop(struct dt_ckpt_stage *stage);

/* Notes that <from>/<name of path> is to be copied. -1: EX_OSERR. */
int dt_ckpt_stage_copy(struct dt_ckpt_stage *stage, const char *path,
                       const char *from, size_t max_bytes,
                       struct dt_error *err);

/* Removes all files. */
void dt_ckpt_stage_clear(struct dt_ckpt_stage *stage);

/* ---- ckpt_list.c ---- */

/* Whether a name begins with OLD_PREFIX. */
bool dt_ckpt_is_old(const char *name);

/* The step in the name of a directory (which may begin with OLD_PREFIX), or -1
 * if it is not the name of a checkpoint.
 */
long dt_ckpt_step_of(const char *name);

/* Filters for dt_ckpt_list: published checkpoints; old ones left by an
 * interrupted replacement; both; temporary entries of a save, running or
 * interrupted.
 */
int dt_ckpt_is_step(const struct dirent *entry);
int dt_ckpt_is_old_step(const struct dirent *entry);
int dt_ckpt_is_candidate(const struct dirent *entry);
int dt_ckpt_is_temp(const struct dirent *entry);

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

/* Renames `from` to `to`. If `to` exists, the two are exchanged, so the old one
 * ends up at `from`. -1: EX_IOERR.
 */
int dt_ckpt_replace(const char *from, const char *to, struct dt_error *err);

/* Makes sure that nothing is at `path`, which is in `root`: an entry that
 * cannot be removed, such as a directory of another user, is renamed. -1:
 * EX_IOERR with the cause.
 */
int dt_ckpt_clear(const char *root, const char *path, struct dt_error *err);

/* Calls `use` for each file that the list `text` of the directory `dir` has.
 * -1: EX_DATAERR, a line has another form, EX_OSERR; or as `use`.
 */
int dt_ckpt_each_sum(const char *dir, const char *text,
                     int (*use)(void *ctx, const struct dt_ckpt_sum *sum,
                                struct dt_error *err),
                     void *ctx, struct dt_error *err);

/* A use of the last one: the file is in the directory `ctx`. -1: EX_NOINPUT. */
int dt_ckpt_is_there(void *ctx, const struct dt_ckpt_sum *sum,
                     struct dt_error *err);

/* Writes `text` to `file` in the temporary directory without listing it in
 * checksums.txt, and returns its checksum in *xxh3. -1: as dt_ckpt_add_text.
 */
int dt_ckpt_write_text(struct dt_ckpt_writer *writer, const char *file,
                       const char *text, uint64_t *xxh3, struct dt_error *err);

/* ---- safetensors_write.c: a file that is checksummed while it is written ----
 */

struct dt_ckpt_sink {
    struct dt_ckpt_stage *stage; /* the file goes there, or NULL */
    int fd;
    bool direct; /* writes go past the page cache */
    char *path;
    XXH3_state_t *state;
    off_t written; /* bytes written so far */
    off_t flushed; /* bytes for which write-back has been started */
};

/* Creates or truncates the file `path`, or begins it in `stage` if that is not
 * NULL. After success the caller calls exactly one of finish and abandon. -1:
 * EX_CANTCREAT, EX_OSERR.
 */
int dt_ckpt_sink_init(struct dt_ckpt_sink *sink, struct dt_ckpt_stage *stage,
                      const char *path, struct dt_error *err);

/* Lets whole blocks of memory that begins at one go past the page cache, if the
 * file system offers that; or not any more.
 */
void dt_ckpt_sink_direct(struct dt_ckpt_sink *sink, bool direct);

/* Appends `bytes` bytes. -1: EX_IOERR with path and cause. */
int dt_ckpt_sink_write(struct dt_ckpt_sink *sink, const void *data,
                       size_t bytes, struct dt_error *err);

/* Syncs and closes the file and returns the XXH3-64 of its content in *xxh3,
 * or 0 of one in a stage. -1: EX_IOERR; the file is removed.
 */
int dt_ckpt_sink_finish(struct dt_ckpt_sink *sink, uint64_t *xxh3,
                        struct dt_error *err);

/* Closes and removes the file. */
void dt_ckpt_sink_abandon(struct dt_ckpt_sink *sink);

/* As dt_safetensors_write, into `stage` if that is not NULL. */
int dt_safetensors_put(struct dt_ckpt_stage *stage, const char *path,
                       const struct dt_ckpt_tensor *tensors, size_t count,
                       const struct dt_ckpt_source *source, uint64_t *xxh3,
                       struct dt_error *err);

/* ---- safetensors*.c: the structure of open files ---- */

enum {
    ST_MAX_DIMS = 8,
};

/* A type of the format. */
struct st_dtype {
    const char *name;
    unsigned bits;
    int dtype; /* enum dt_dtype, or -1 if there is none for it */
};

/* One file. It is mapped and not open, as a checkpoint of a thousand ranks has
 * more files than a process may open.
 */
struct st_part {
    char *path;
    dev_t device; /* with inode: which file it is */
    ino_t inode;
    const char *map; /* of the whole file; touched in dt_guard_run only */
    size_t bytes;
    uint64_t data; /* offset in the file at which the data starts */
    json_t *header;
};

struct st_entry {
    const char *name; /* owned by the part */
    const struct st_part *part;
    const struct st_dtype *dtype;
    int ndim;
    size_t shape[ST_MAX_DIMS];
    uint64_t begin, end; /* bytes from the start of the data */
};

struct dt_safetensors {
    struct st_part *parts;
    size_t part_count;
    struct st_entry *entries; /* sorted by name once all files are open */
    size_t count;
};

/* Opens the file `path` as the next part, checks its header in full and adds
 * its entries. -1: as dt_safetensors_open.
 */
int dt_safetensors_add(struct dt_safetensors *st, const char *path,
                       struct dt_error *err);

/* Sets EX_DATAERR "<path>: <formatted>" and returns -1. Control characters
 * become '?', since names in the text come from untrusted files.
 */
int dt_safetensors_bad(const char *path, struct dt_error *err, const char *fmt,
                       ...) __attribute__((format(printf, 3, 4)));

/* To call after dt_guard_run has read from the mapping, with its `result`:
 * checks that all of the data was there. If the file was truncated, pages
 * beyond the new end fail in dt_guard_run, but the rest of the last page reads
 * as zeros, so the size is checked again, too. A file that has been removed or
 * replaced meanwhile stays mapped, whole. -1: EX_IOERR.
 */
int dt_safetensors_verify(const struct st_part *part, int result,
                          struct dt_error *err);

#endif /* DT_CKPT_CKPT_IMPL_H */
