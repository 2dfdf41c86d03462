/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - opens the files of a run and reads them line by line */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "history/event_line.h"
#include "history/facts.h"
#include "history/history.h"
#include "history/line_reader.h"
#include "history/metric_line.h"

enum {
    RUN_BYTES_MAX = 64 << 20,
    METRICS_LINE_MAX = 1 << 16,
    EVENTS_LINE_MAX = 1 << 16,
    RANKS_LINE_MAX = 64 << 20, /* 10^6 ranks */
};

static const struct {
    const char *name;
    size_t limit;
} files[DT_HISTORY_FILES] = {
    [DT_HISTORY_METRICS] = {"metrics.jsonl", METRICS_LINE_MAX},
    [DT_HISTORY_EVENTS] = {"events.jsonl", EVENTS_LINE_MAX},
    [DT_HISTORY_RANKS] = {"ranks.jsonl", RANKS_LINE_MAX},
};

struct dt_history {
    char *dir;
    struct dt_run_facts facts;
    struct dt_line_reader lines[DT_HISTORY_FILES];
    long damaged[DT_HISTORY_FILES];
    struct dt_metric_names *names;
    double seconds;
    json_t *event; /* owns the texts of the event read last */
    struct dt_rank_numbers rank_numbers;
};

/* "dir/name", or "dir/below/name"; to be freed. */
static char *join_path(const char *dir, const char *below, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s%s", dir, below, name) < 0 ? NULL : path;
}

static bool is_there(const char *dir, const char *below, const char *name)
{
    char *path = join_path(dir, below, name);
    struct stat st;
    const bool there = path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    free(path);
    return there;
}

static bool has_run(const char *dir, const char *below)
{
    return is_there(dir, below, "metrics.jsonl") ||
           is_there(dir, below, "run.json");
}

/* The directory and the name of the metrics for a path of either kind. -1:
 * EX_NOINPUT, EX_OSERR.
 */
static int find_files(const char *path, char **dir, const char **metrics,
                      struct dt_error *err)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    *metrics = files[DT_HISTORY_METRICS].name;
    if (stat(path, &st) < 0)
        return dt_error_set(err, EX_NOINPUT, "%s: cannot open: %s", path,
                            strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        *metrics = slash ? slash + 1 : path;
        *dir = !slash          ? strdup(".")
               : slash == path ? strdup("/")
                               : strndup(path, (size_t)(slash - path));
    } else if (has_run(path, "")) {
        *dir = strdup(path);
    } else if (has_run(path, "logs/")) {
        *dir = join_path(path, "", "logs");
    } else {
        return dt_error_set(err, EX_NOINPUT,
                            "%s: neither metrics.jsonl nor run.json is here "
                            "or in logs/; expected the output directory of a "
                            "run, its logging.dir, or a metrics.jsonl",
                            path);
    }
    return *dir ? 0 : dt_error_set(err, EX_OSERR, "%s: out of memory", path);
}

static int open_lines(struct dt_history *history, const char *metrics,
                      struct dt_error *err)
{
    for (int i = 0; i < DT_HISTORY_FILES; i++) {
        char *path =
            join_path(history->dir, "",
                      i == DT_HISTORY_METRICS ? metrics : files[i].name);
        int rc = path ? dt_line_reader_init(&history->lines[i], path,
                                            files[i].limit, err)
                      : dt_error_set(err, EX_OSERR, "out of memory");
        free(path);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Reads run.json. A run without it has no facts. */
static int read_facts(struct dt_history *history, struct dt_error *err)
{
    struct dt_error why;
    char *path = join_path(history->dir, "", "run.json");
    if (!path)
        return dt_error_set(err, EX_OSERR, "out of memory");
    char *text = dt_file_read(path, RUN_BYTES_MAX, &why);
    int rc = dt_run_facts_read(&history->facts, path, text ? text : "{}", err);
    if (!text) {
        history->facts.facts.json = NULL;
        snprintf(history->facts.problem, sizeof(history->facts.problem), "%s",
                 why.text);
        if (why.status != EX_NOINPUT)
            history->facts.facts.problem = history->facts.problem;
    }
    free(text);
    free(path);
    return rc < 0 ? -1 : dt_run_facts_name(&history->facts, history->dir, err);
}

/* A directory such as "." or ".." has no name to show. */
static char *real_dir(char *dir)
{
    char *real = realpath(dir, NULL);
    if (!real)
        return dir;
    free(dir);
    return real;
}

struct dt_history *dt_history_open(const char *path, struct dt_error *err)
{
    const char *metrics;
    struct dt_history *history = calloc(1, sizeof(*history));
    if (!history) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
        return NULL;
    }
    for (int i = 0; i < DT_HISTORY_FILES; i++)
        history->lines[i].fd = -1;
    history->seconds = NAN;
    history->names = dt_metric_names_create();
    if (!history->names)
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    else if (find_files(path, &history->dir, &metrics, err) == 0) {
        history->dir = real_dir(history->dir);
        if (open_lines(history, metrics, err) == 0 &&
            read_facts(history, err) == 0)
            return history;
    }
    dt_history_destroy(history);
    return NULL;
}

void dt_history_destroy(struct dt_history *history)
{
    if (!history)
        return;
    for (int i = 0; i < DT_HISTORY_FILES; i++)
        dt_line_reader_fini(&history->lines[i]);
    dt_metric_names_destroy(history->names);
    dt_run_facts_fini(&history->facts);
    dt_rank_numbers_fini(&history->rank_numbers);
    json_decref(history->event);
    free(history->dir);
    free(history);
}

const struct dt_history_facts *dt_history_facts(
    const struct dt_history *history)
{
    return &history->facts.facts;
}

const char *dt_history_dir(const struct dt_history *history)
{
    return history->dir;
}

double dt_history_seconds(const struct dt_history *history)
{
    return history->seconds;
}

long dt_history_damaged(const struct dt_history *history,
                        enum dt_history_file file)
{
    return history->damaged[file];
}

static bool is_blank(const char *text, size_t bytes)
{
    return strspn(text, " \t\r") == bytes;
}

/* Calls `take` with each line until it takes one: 1. It returns 0 for a line
 * that is damaged, -1 without memory. A torn last line may be whole but for its
 * line end; if it is not, it is not damaged but early.
 */
static int next_line(struct dt_history *history, enum dt_history_file file,
                     int (*take)(struct dt_history *history, const char *text,
                                 size_t bytes, void *to),
                     void *to, struct dt_error *err)
{
    enum dt_line_kind kind;
    const char *text;
    size_t bytes;
    struct dt_line_reader *reader = &history->lines[file];
    for (;;) {
        if (dt_line_reader_next(reader, &kind, &text, &bytes, err) < 0)
            return -1;
        if (kind == DT_LINE_NONE)
            return 0;
        int taken = text ? take(history, text, bytes, to) : 0;
        if (taken < 0)
            return dt_error_set(err, EX_OSERR, "%s: out of memory",
                                reader->path);
        if (taken)
            return 1;
        if (kind != DT_LINE_TORN && !(text && is_blank(text, bytes)))
            history->damaged[file]++;
    }
}

static int take_record(struct dt_history *history, const char *text,
                       size_t bytes, void *to)
{
    return dt_metric_line_read(history->names, text, bytes, to,
                               &history->seconds);
}

int dt_history_next(struct dt_history *history, struct dt_report_record *record,
                    struct dt_error *err)
{
    return next_line(history, DT_HISTORY_METRICS, take_record, record, err);
}

static int take_event(struct dt_history *history, const char *text,
                      size_t bytes, void *to)
{
    json_decref(history->event);
    history->event = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    return dt_event_read(history->event, to);
}

int dt_history_next_event(struct dt_history *history,
                          struct dt_report_event *event, struct dt_error *err)
{
    return next_line(history, DT_HISTORY_EVENTS, take_event, event, err);
}

static int take_ranks(struct dt_history *history, const char *text,
                      size_t bytes, void *to)
{
    json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    int rc = dt_ranks_read(object, &history->rank_numbers, to);
    json_decref(object);
    return rc;
}

int dt_history_next_ranks(struct dt_history *history,
                          struct dt_report_ranks *ranks, struct dt_error *err)
{
    return next_line(history, DT_HISTORY_RANKS, take_ranks, ranks, err);
}
