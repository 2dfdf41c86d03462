/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_impl.h - the structure of open files; for ckpt/ only */
#ifndef DT_CKPT_SAFETENSORS_IMPL_H
#define DT_CKPT_SAFETENSORS_IMPL_H

#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "ckpt/safetensors.h"

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

/* Creates a set with room for `parts` files, none of them open yet. Release
 * with dt_safetensors_close. NULL and err: EX_OSERR.
 */
struct dt_safetensors *dt_safetensors_create(size_t parts,
                                             struct dt_error *err);

/* Opens the file `path` as the next part, checks its header in full and adds
 * its entries. -1: as dt_safetensors_open.
 */
int dt_safetensors_add(struct dt_safetensors *st, const char *path,
                       struct dt_error *err);

/* Sorts all entries by name. -1: EX_DATAERR, a name is in two files. */
int dt_safetensors_sort(struct dt_safetensors *st, struct dt_error *err);

/* The entry called `name`, or NULL. */
const struct st_entry *dt_safetensors_find(const struct dt_safetensors *st,
                                           const char *name);

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

#endif /* DT_CKPT_SAFETENSORS_IMPL_H */
