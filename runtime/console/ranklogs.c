/* SPDX-License-Identifier: Apache-2.0 */
/* ranklogs.c - writes one log file per rank */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/proc.h"
#include "console/console_impl.h"

struct dt_ranklogs {
    char *dir;
    uint32_t count;
    FILE **files;    /* NULL: not open yet */
    uint32_t *dirty; /* ranks with buffered data */
    uint32_t dirties;
    bool *is_dirty;
};

void dt_ranklogs_destroy(struct dt_ranklogs *logs)
{
    if (!logs)
        return;
    for (uint32_t i = 0; logs->files && i < logs->count; i++)
        if (logs->files[i])
            fclose(logs->files[i]);
    free(logs->is_dirty);
    free(logs->dirty);
    free(logs->files);
    free(logs->dir);
    free(logs);
}

struct dt_ranklogs *dt_ranklogs_create(const char *dir, uint32_t ranks,
                                       struct dt_error *err)
{
    struct dt_ranklogs *logs = calloc(1, sizeof(*logs));
    if (logs) {
        logs->count = ranks;
        logs->dir = strdup(dir);
        logs->files = calloc(ranks, sizeof(FILE *));
        logs->dirty = calloc(ranks, sizeof(*logs->dirty));
        logs->is_dirty = calloc(ranks, sizeof(*logs->is_dirty));
    }
    if (!logs || !logs->dir || !logs->files || !logs->dirty || !logs->is_dirty)
        dt_error_set(err, EX_OSERR, "out of memory");
    else if (dt_file_mkdirs(dir, err) == 0) {
        dt_limits_raise_files(); /* each rank needs a descriptor */
        return logs;
    }
    dt_ranklogs_destroy(logs);
    return NULL;
}

static int open_log(struct dt_ranklogs *logs, uint32_t rank,
                    struct dt_error *err)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/rank-%04" PRIu32 ".log", logs->dir,
                     rank);
    errno = ENAMETOOLONG;
    if (n > 0 && (size_t)n < sizeof(path))
        logs->files[rank] = fopen(path, "ae");
    if (!logs->files[rank])
        return dt_error_set(err, EX_CANTCREAT, "%s: %s", path, strerror(errno));
    return 0;
}

int dt_ranklogs_write(struct dt_ranklogs *logs, uint32_t rank, const char *text,
                      size_t len, struct dt_error *err)
{
    if (!logs->files[rank] && open_log(logs, rank, err) != 0)
        return -1;
    fwrite(text, 1, len, logs->files[rank]);
    if (!logs->is_dirty[rank]) {
        logs->is_dirty[rank] = true;
        logs->dirty[logs->dirties++] = rank;
    }
    return 0;
}

int dt_ranklogs_flush(struct dt_ranklogs *logs, struct dt_error *err)
{
    int rc = 0;
    while (logs->dirties > 0) {
        uint32_t rank = logs->dirty[--logs->dirties];
        logs->is_dirty[rank] = false;
        if (fflush(logs->files[rank]) != 0 || ferror(logs->files[rank]))
            rc = dt_error_set(err, EX_IOERR, "%s/rank-%04" PRIu32 ".log: %s",
                              logs->dir, rank, strerror(errno));
    }
    return rc;
}
