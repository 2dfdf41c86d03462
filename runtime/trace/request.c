/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - writes and takes the file of a request */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/request.h"

#define FILE_NAME "trace.request"

enum { MAX_BYTES = 256, SCALE = 4096 };

static void request_path(const char *dir, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/" FILE_NAME, dir);
}

int dt_trace_request_write(const char *dir,
                           const struct dt_trace_request *request,
                           struct dt_error *err)
{
    char path[PATH_MAX], text[MAX_BYTES];
    request_path(dir, path);
    int n = snprintf(text, sizeof(text), "steps %ld %s\n", request->steps,
                     request->json ? "json" : "perfetto");
    return dt_file_replace(path, text, (size_t)n, err);
}

bool dt_trace_request_waits(const char *dir)
{
    char path[PATH_MAX];
    request_path(dir, path);
    return access(path, F_OK) == 0;
}

static int parse(const char *path, const char *text,
                 struct dt_trace_request *request, struct dt_error *err)
{
    char format[16] = "";
    int end = 0;
    if (sscanf(text, "steps %ld %15s %n", &request->steps, format, &end) == 2 &&
        text[end] == '\0' && request->steps >= 1 &&
        request->steps <= DT_TRACE_STEPS_MAX &&
        (!strcmp(format, "json") || !strcmp(format, "perfetto"))) {
        request->json = strcmp(format, "json") == 0;
        return 1;
    }
    return dt_error_set(err, EX_DATAERR,
                        "%s: expected \"steps N perfetto\" or \"steps N "
                        "json\" with N from 1 to %d; `disttrain trace` writes "
                        "it",
                        path, DT_TRACE_STEPS_MAX);
}

int dt_trace_request_take(const char *dir, struct dt_trace_request *request,
                          struct dt_error *err)
{
    char path[PATH_MAX];
    *request = (struct dt_trace_request){0};
    request_path(dir, path);
    if (access(path, F_OK) < 0)
        return 0;
    char *text = dt_file_read(path, MAX_BYTES, err);
    if (unlink(path) < 0) {
        free(text);
        return dt_error_set(err, EX_IOERR, "%s: cannot be removed: %s", path,
                            strerror(errno));
    }
    int rc = text ? parse(path, text, request, err) : -1;
    free(text);
    return rc;
}

double dt_trace_request_encode(const struct dt_trace_request *request)
{
    return (double)(2 * request->steps + request->json) / SCALE;
}

struct dt_trace_request dt_trace_request_decode(double sum)
{
    const long code = lround((sum - floor(sum)) * SCALE);
    return (struct dt_trace_request){.steps = code / 2, .json = code % 2 == 1};
}
