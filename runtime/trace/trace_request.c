/* SPDX-License-Identifier: Apache-2.0 */
/* trace_request.c - writes and takes the file of a request */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/trace_request.h"

#define FILE_NAME "trace.request"

enum { MAX_BYTES = 256, SCALE = 2048 };

static void request_path(const char *dir, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/" FILE_NAME, dir);
}

int dt_trace_request_write(const char *dir, long steps, struct dt_error *err)
{
    char path[PATH_MAX], text[MAX_BYTES];
    request_path(dir, path);
    int n = snprintf(text, sizeof(text), "steps %ld\n", steps);
    return dt_file_replace(path, text, (size_t)n, err);
}

bool dt_trace_request_waits(const char *dir)
{
    char path[PATH_MAX];
    request_path(dir, path);
    return access(path, F_OK) == 0;
}

static long parse(const char *path, const char *text, struct dt_error *err)
{
    long steps;
    int end = 0;
    if (sscanf(text, "steps %ld %n", &steps, &end) == 1 && text[end] == '\0' &&
        steps >= 1 && steps <= DT_TRACE_STEPS_MAX)
        return steps;
    return dt_error_set(err, EX_DATAERR,
                        "%s: expected \"steps N\" with N from 1 to %d; "
                        "`disttrain trace` writes it",
                        path, DT_TRACE_STEPS_MAX);
}

long dt_trace_request_take(const char *dir, struct dt_error *err)
{
    char path[PATH_MAX];
    request_path(dir, path);
    if (access(path, F_OK) < 0)
        return 0;
    char *text = dt_file_read(path, MAX_BYTES, err);
    if (unlink(path) < 0) {
        free(text);
        return dt_error_set(err, EX_IOERR, "%s: cannot be removed: %s", path,
                            strerror(errno));
    }
    const long steps = text ? parse(path, text, err) : -1;
    free(text);
    return steps;
}

double dt_trace_request_encode(long steps)
{
    return (double)steps / SCALE;
}

long dt_trace_request_decode(double sum)
{
    return lround((sum - floor(sum)) * SCALE);
}
