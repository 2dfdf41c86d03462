/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - a directory for the files of one test program, removed at exit */
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

static char scratch_root[256];
static pid_t scratch_owner;

static inline void scratch_remove(void)
{
    if (getpid() == scratch_owner)
        dt_file_remove_tree(scratch_root, NULL);
}

/* The path of `name` in the directory. The last four results stay valid. */
static inline const char *scratch_path(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    if (!scratch_owner) {
        const char *base = getenv("TMPDIR");
        snprintf(scratch_root, sizeof(scratch_root), "%s/disttrain-XXXXXX",
                 base ? base : "/tmp");
        if (!mkdtemp(scratch_root))
            abort();
        scratch_owner = getpid();
        atexit(scratch_remove);
    }
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", scratch_root, name);
    return path;
}

/* Writes a file and returns its path. */
static inline const char *scratch_write(const char *name, const void *data,
                                        size_t bytes)
{
    const char *path = scratch_path(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        abort();
    return path;
}

#endif /* TESTS_UNIT_SCRATCH_H */
