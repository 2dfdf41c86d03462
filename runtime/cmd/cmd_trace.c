/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_trace.c - `disttrain trace`: takes a trace of a run that is running */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "cmd/cmd_impl.h"
#include "conf/conf.h"
#include "top/top.h"
#include "trace/trace.h"

/* The command line. */
struct wish {
    long steps, timeout;
    char dir[PATH_MAX]; /* with the logs */
};

static const double look_s = 0.2;

static const struct dt_option table[] = {
    {"steps", "N", "trace N steps, at most 1000 [3]",
     DT_INTO(struct wish, steps), .min = 1, .max = DT_TRACE_STEPS_MAX},
    {"timeout", "S", "give up after S seconds [600]",
     DT_INTO(struct wish, timeout), .min = 1, .max = 1000000},
    {"json", NULL,
     "--json is gone: open the trace at https://ui.perfetto.dev, or run "
     "Perfetto's `traceconv json FILE.pftrace FILE.json`",
     .kind = DT_OPTION_GONE},
    {0},
};

static const struct dt_cmd_line line = {
    "trace",
    "usage: disttrain trace RUN [OPTIONS]\n\n"
    "Takes a trace of the next steps of a run that is running, over all of\n"
    "its ranks, and prints the name of the file. RUN is the run.output_dir\n"
    "or the logging.dir of the run. Its rank 0 looks for requests every\n"
    "logging.steps steps. Open the file at https://ui.perfetto.dev.\n",
    table, NULL};

static bool is_file_in(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    return n < PATH_MAX && stat(path, &st) == 0;
}

/* RUN/logs, or RUN itself if that has the files of a run. */
static int find_logs(const char *run, char dir[PATH_MAX])
{
    int n = snprintf(dir, PATH_MAX, "%s/logs", run);
    if (n < PATH_MAX && is_file_in(dir, "."))
        return 0;
    n = snprintf(dir, PATH_MAX, "%s", run);
    if (n < PATH_MAX &&
        (is_file_in(dir, "metrics.jsonl") || is_file_in(dir, "run.json")))
        return 0;
    fprintf(stderr,
            "disttrain trace: %s: no run; expected its run.output_dir or "
            "logging.dir\n",
            run);
    return EX_NOINPUT;
}

/* --- whether the run is there --- */

enum { SILENT_S = 30 }; /* status.json is written every two seconds */

/* The last time in status.json, and when it appeared on our monotonic clock:
 * clocks of hosts differ.
 */
struct pulse {
    double wall, since;
};

/* Whether the run can no longer write a trace, after a message. A run without a
 * status.json may be running.
 */
static bool is_over(const struct wish *wish, struct pulse *pulse)
{
    char path[PATH_MAX + 16];
    struct dt_error err;
    struct dt_live_state *state = calloc(1, sizeof(*state));
    const double now = dt_clock_now();
    snprintf(path, sizeof(path), "%s/status.json", wish->dir);
    bool read = state && dt_top_read(path, state, &err) == 0;
    bool ended = read && state->status[0] != '\0' &&
                 strcmp(state->status, "running") != 0;
    if (!read || state->wall != pulse->wall)
        *pulse = (struct pulse){read ? state->wall : 0, now};
    bool silent = read && !ended && now - pulse->since > SILENT_S;
    if (ended)
        fprintf(stderr,
                "disttrain trace: %s: the run has ended (%s): only steps to "
                "come can be traced\n",
                wish->dir, state->status);
    else if (silent)
        fprintf(stderr,
                "disttrain trace: %s: the run was killed or hangs: it has "
                "written nothing for %d seconds\n",
                wish->dir, SILENT_S);
    free(state);
    return ended || silent;
}

/* --- the file that comes --- */

/* A trace in the directory, and when it was written. */
struct newest {
    char name[256];
    struct timespec time;
};

static bool is_later(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* The newest trace; its name is empty if there is none. */
static struct newest find_newest(const struct wish *wish)
{
    struct newest newest = {0};
    struct dirent *entry;
    DIR *dir = opendir(wish->dir);
    while (dir && (entry = readdir(dir))) {
        struct stat st;
        if (strncmp(entry->d_name, "trace-", 6) != 0 ||
            !dt_str_ends_with(entry->d_name, ".pftrace") ||
            fstatat(dirfd(dir), entry->d_name, &st, 0) < 0 ||
            !is_later(st.st_mtim, newest.time))
            continue;
        snprintf(newest.name, sizeof(newest.name), "%s", entry->d_name);
        newest.time = st.st_mtim;
    }
    if (dir)
        closedir(dir);
    return newest;
}

/* Gives up, and takes the request back if the run has not taken it. */
static int give_up(const struct wish *wish)
{
    struct dt_error err;
    if (dt_trace_request_waits(wish->dir) &&
        dt_trace_request_take(wish->dir, &err) >= 0)
        fprintf(
            stderr,
            "disttrain trace: %s: the run did not take the request within %ld "
            "seconds: is it running? Its rank 0 looks for one every "
            "logging.steps steps\n",
            wish->dir, wish->timeout);
    else
        fprintf(stderr,
                "disttrain trace: %s: the run took the request, and wrote no "
                "trace within %ld seconds; its log says why if it could not\n",
                wish->dir, wish->timeout);
    return EX_TEMPFAIL;
}

static int wait_for_file(const struct wish *wish, const struct newest *before,
                         struct pulse *pulse)
{
    const double end = dt_clock_now() + (double)wish->timeout;
    while (dt_clock_now() < end) {
        const struct newest now = find_newest(wish);
        if (is_later(now.time, before->time)) {
            printf("%s/%s\n", wish->dir, now.name);
            return dt_cmd_flush("trace", EX_OK);
        }
        if (is_over(wish, pulse)) {
            dt_trace_request_take(wish->dir, NULL);
            return EX_NOINPUT;
        }
        dt_clock_sleep(look_s);
    }
    return give_up(wish);
}

int dt_cmd_trace(int argc, char **argv)
{
    struct wish wish = {.steps = 3, .timeout = 600};
    struct dt_error err;
    int status = dt_cmd_parse(&line, argc, argv, &wish);
    if (status != DT_CMD_RUN)
        return status;
    if (argc - optind != 1)
        return dt_cmd_usage_error("trace", argc == optind ? "expected RUN"
                                                          : "expected one RUN");
    status = find_logs(argv[optind], wish.dir);
    if (status != 0)
        return status;
    struct pulse pulse = {.since = dt_clock_now()};
    if (is_over(&wish, &pulse))
        return EX_NOINPUT;
    const struct newest before = find_newest(&wish);
    if (dt_trace_request_write(wish.dir, wish.steps, &err) < 0)
        return dt_cmd_fail("trace", &err);
    return wait_for_file(&wish, &before, &pulse);
}
