/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - requests for traces, and the window of one: clocks, steps, clocks,
 * file
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/span.h"
#include "trace/trace.h"
#include "trace/trace_impl.h"

/* --- files of requests --- */

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

/* --- the trace --- */

/* Steps to trace; first 0: none. */
struct window {
    long first, last;
};

struct dt_trace {
    struct dt_trace_options options;
    int rank, world;
    struct window planned; /* of the configuration */
    struct window asked;   /* of a request that waits for its first step */
    struct window now;     /* of the trace that is taken */
    struct dt_trace_head head;
    double computed; /* time of computing at the begin of the window */
    char text[PATH_MAX + 512];
};

struct dt_trace *dt_trace_create(const struct dt_trace_options *options,
                                 struct dt_error *err)
{
    struct dt_trace *t = calloc(1, sizeof(*t));
    if (!t) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    t->options = *options;
    t->rank = dt_comm_rank(options->comm);
    t->world = dt_comm_size(options->comm);
    t->planned = (struct window){options->first, options->last};
    t->head.rank = t->rank;
    snprintf(t->head.host, sizeof(t->head.host), "%s",
             dt_comm_host(options->comm, t->rank));
    return t;
}

void dt_trace_destroy(struct dt_trace *t)
{
    free(t);
}

/* --- requests of this run --- */

double dt_trace_look(struct dt_trace *t)
{
    struct dt_error why;
    if (t->rank != 0)
        return 0;
    const long steps = dt_trace_request_take(t->options.dir, &why);
    if (steps < 0)
        dt_log(DT_LOG_WARN, "trace", "%s", why.text);
    return steps > 0 ? dt_trace_request_encode(steps) : 0;
}

void dt_trace_take(struct dt_trace *t, double sum, long next)
{
    const long steps = dt_trace_request_decode(sum);
    if (steps == 0)
        return;
    if (t->now.first == 0 && t->asked.first == 0)
        t->asked = (struct window){next, next + steps - 1};
    else if (t->rank == 0)
        dt_log(DT_LOG_WARN, "trace",
               "a request is refused while another trace is taken: ask again");
}

/* --- clocks --- */

enum {
    ROUNDS_TOTAL = 512, /* over all ranks */
    ROUNDS_MIN = 2,
    ROUNDS_MAX = 32,
};

static const double late_s = 50e-6;

/* One rank after the other comes late to a reduction for which all others wait.
 * They learn its time at most one message after it has come (trace_impl.h).
 */
static int compare_clocks(struct dt_trace *t, struct dt_error *err)
{
    int rounds = ROUNDS_TOTAL / t->world;
    if (t->world == 1)
        return 0;
    if (rounds < ROUNDS_MIN)
        rounds = ROUNDS_MIN;
    if (rounds > ROUNDS_MAX)
        rounds = ROUNDS_MAX;
    for (int i = 0; i < rounds * t->world; i++) {
        double nothing = 0;
        if (i % t->world == t->rank)
            dt_clock_sleep(late_s);
        if (dt_comm_reduce_scalars(t->options.comm, &nothing, 1, DT_MAX, err) <
            0)
            return -1;
    }
    return 0;
}

/* --- the window --- */

static double computed(void)
{
    struct dt_span_totals totals;
    dt_span_totals(&totals);
    return totals.seconds[DT_SPAN_FORWARD] + totals.seconds[DT_SPAN_BACKWARD] +
           totals.seconds[DT_SPAN_LOSS] + totals.seconds[DT_SPAN_OPTIMIZER] +
           totals.seconds[DT_SPAN_VALUES];
}

static void count_memory(const struct dt_trace *t)
{
    size_t bytes = t->options.device->used_bytes();
    if (bytes > 0)
        dt_span_counter("memory", bytes);
}

static int begin(struct dt_trace *t, struct dt_error *err)
{
    struct dt_error why = {0};
    double failed = dt_span_trace_begin(&why) < 0;
    if (failed > 0)
        dt_log(DT_LOG_WARN, "trace", "%s", why.text);
    if (t->world > 1 &&
        dt_comm_reduce_scalars(t->options.comm, &failed, 1, DT_MAX, err) < 0)
        return -1;
    if (failed > 0) {
        dt_span_trace_end();
        t->now = (struct window){0};
        return 0;
    }
    if (compare_clocks(t, err) < 0)
        return -1;
    t->computed = computed();
    t->head.begin = dt_clock_ns(CLOCK_MONOTONIC);
    return 0;
}

/* Finds the trace that begins with this step: a requested one, or the rest of
 * the planned one, in which a run may have been resumed.
 */
static struct window find_window(struct dt_trace *t, long step)
{
    struct window window = t->asked;
    if (window.first > 0) {
        t->asked = (struct window){0};
    } else if (t->planned.first > 0 && step >= t->planned.first &&
               step <= t->planned.last) {
        window = t->planned;
        t->planned = (struct window){0};
    }
    if (window.first > 0)
        window.first = step;
    return window;
}

int dt_trace_before(struct dt_trace *t, long step, struct dt_error *err)
{
    if (t->now.first == 0) {
        t->now = find_window(t, step);
        if (t->now.first > 0 && begin(t, err) < 0)
            return -1;
    }
    if (t->now.first > 0)
        count_memory(t);
    return 0;
}

/* --- the file --- */

static int write_to(const struct dt_trace_set *set, const char *path,
                    struct dt_error *err)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return dt_error_set(err, EX_CANTCREAT, "%s", strerror(errno));
    int rc = dt_trace_write_perfetto(set, out, err);
    if (fclose(out) != 0 && rc == 0)
        rc = dt_error_set(err, EX_IOERR, "%s", strerror(errno));
    return rc;
}

/* The file appears whole or not at all. */
static int write_file(const struct dt_trace_set *set, const char *path,
                      struct dt_error *err)
{
    char new[PATH_MAX + 8];
    snprintf(new, sizeof(new), "%s.new", path);
    int rc = write_to(set, new, err);
    if (rc == 0 && rename(new, path) < 0)
        rc = dt_error_set(err, EX_CANTCREAT, "%s", strerror(errno));
    if (rc < 0)
        unlink(new);
    return rc;
}

/* Writes the trace, on rank 0. Returns a line about it; NULL: it failed. */
static const char *write_set(struct dt_trace *t, struct dt_trace_set *set)
{
    struct dt_error why = {0};
    char path[PATH_MAX], about[400];
    snprintf(path, sizeof(path), "%s/trace-%ld.pftrace", t->options.dir,
             set->first);
    if (dt_trace_join(set, &why) < 0 || write_file(set, path, &why) < 0) {
        dt_log(DT_LOG_WARN, "trace", "no trace: %s: %s", path, why.text);
        return NULL;
    }
    dt_trace_describe(set, about, sizeof(about));
    snprintf(t->text, sizeof(t->text), "trace: %s: %s; %" PRIu64 " spans", path,
             about, set->spans);
    return t->text;
}

/* Collects the parts. A rank without memory for its part contributes none. */
static int collect(struct dt_trace *t, const char **text, struct dt_error *err)
{
    struct dt_trace_set set = {.first = t->now.first, .last = t->now.last};
    struct dt_error why;
    void *data = NULL;
    size_t bytes = 0;
    if (dt_trace_pack(&t->head, &data, &bytes, &why) < 0)
        dt_log(DT_LOG_WARN, "trace", "%s", why.text);
    const struct dt_trace_gather gather = {
        .comm = t->options.comm,
        .device = t->options.device,
        .stream = t->options.stream,
        .ranks = t->options.ranks,
        .data = data,
        .bytes = bytes,
        .seconds = computed() - t->computed,
    };
    int rc = dt_trace_gather(&gather, &set, err);
    if (rc > 0 && t->rank == 0)
        *text = write_set(t, &set);
    dt_trace_set_fini(&set);
    free(data);
    return rc < 0 ? -1 : 0;
}

int dt_trace_after(struct dt_trace *t, long step, bool ends, const char **text,
                   struct dt_error *err)
{
    *text = NULL;
    if (t->now.first == 0)
        return 0;
    count_memory(t);
    if (step < t->now.last && !ends)
        return 0;
    t->now.last = step;
    t->head.end = dt_clock_ns(CLOCK_MONOTONIC);
    int rc = compare_clocks(t, err);
    dt_span_trace_end();
    if (rc == 0)
        rc = collect(t, text, err);
    t->now = (struct window){0};
    return rc < 0 ? -1 : 1;
}
