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
#include "base/json.h"
#include "history/history.h"
#include "history/history_impl.h"

/* --- lines of a file that may be damaged or still growing --- */

enum { FIRST_BYTES = 1 << 18 };

struct line_reader {
    int fd; /* -1: there is no file */
    char *buffer;
    size_t size;       /* of the buffer, without a NUL */
    size_t begin, end; /* bytes that are read and not yet taken */
    size_t scanned;    /* bytes from begin on without a line end */
    size_t limit;      /* longest line */
    bool ended, overlong;
    char *path;
};

/* Opens the file; a missing file has no lines. Release with reader_fini, also
 * after a failure: -1, EX_IOERR or EX_OSERR.
 */
static int reader_init(struct line_reader *reader, const char *path,
                       size_t limit, struct dt_error *err)
{
    struct dt_error why;
    *reader = (struct line_reader){.fd = -1, .limit = limit};
    reader->size = limit < FIRST_BYTES ? limit : FIRST_BYTES;
    reader->path = strdup(path);
    reader->buffer = malloc(reader->size + 1);
    if (!reader->path || !reader->buffer)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    reader->fd = dt_file_open(path, &why);
    if (reader->fd >= 0 || why.status == EX_NOINPUT)
        return 0;
    return dt_error_set(err, why.status, "%s", why.text);
}

static void reader_fini(struct line_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->buffer);
    free(reader->path);
    *reader = (struct line_reader){.fd = -1};
}

/* Makes room in the buffer: moves the rest to its front, and if that fills it,
 * lets it grow up to the limit. A longer line is dropped.
 */
static int reader_make_room(struct line_reader *reader, struct dt_error *err)
{
    const size_t left = reader->end - reader->begin;
    memmove(reader->buffer, reader->buffer + reader->begin, left);
    reader->begin = 0;
    reader->end = left;
    if (left < reader->size)
        return 0;
    if (reader->size == reader->limit) {
        reader->overlong = true;
        reader->end = reader->scanned = 0;
        return 0;
    }
    size_t size =
        reader->size < reader->limit / 2 ? 2 * reader->size : reader->limit;
    char *buffer = realloc(reader->buffer, size + 1);
    if (!buffer)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", reader->path);
    reader->buffer = buffer;
    reader->size = size;
    return 0;
}

static int reader_fill(struct line_reader *reader, struct dt_error *err)
{
    if (reader_make_room(reader, err) < 0)
        return -1;
    ssize_t n;
    do
        n = read(reader->fd, reader->buffer + reader->end,
                 reader->size - reader->end);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return dt_error_set(err, EX_IOERR, "%s: cannot read: %s", reader->path,
                            strerror(errno));
    reader->ended = n == 0;
    reader->end += (size_t)n;
    return 0;
}

/* Takes `bytes` of a line and the line end after them. NULL: the line is too
 * long.
 */
static const char *reader_take(struct line_reader *reader, size_t bytes,
                               bool whole)
{
    char *line = reader->buffer + reader->begin;
    const bool overlong = reader->overlong;
    line[bytes] = '\0';
    reader->begin += bytes + whole;
    reader->scanned = 0;
    reader->overlong = false;
    return overlong ? NULL : line;
}

/* Gets the next line, with NUL in place of LF, until the next call; *whole: it
 * ended with LF, or is too long. 1; 0: there are no more; -1: EX_IOERR,
 * EX_OSERR.
 */
static int reader_next(struct line_reader *reader, const char **text,
                       size_t *bytes, bool *whole, struct dt_error *err)
{
    while (reader->fd >= 0) {
        char *from = reader->buffer + reader->begin;
        size_t left = reader->end - reader->begin;
        char *lf = memchr(from + reader->scanned, '\n', left - reader->scanned);
        if (lf || (reader->ended && (left > 0 || reader->overlong))) {
            *bytes = lf ? (size_t)(lf - from) : left;
            *whole = lf || reader->overlong;
            *text = reader_take(reader, *bytes, lf);
            return 1;
        }
        if (reader->ended)
            return 0;
        reader->scanned = left;
        if (reader_fill(reader, err) < 0)
            return -1;
    }
    return 0;
}

/* --- the files of a run --- */

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
    struct line_reader lines[DT_HISTORY_FILES];
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

/* Finds the directory and the name of the metrics for a path of either kind.
 * -1: EX_NOINPUT, EX_OSERR.
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
        int rc =
            path ? reader_init(&history->lines[i], path, files[i].limit, err)
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

/* Resolves a directory such as "." or "..", which has no name to show. */
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
        reader_fini(&history->lines[i]);
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

/* Calls `take` for each line until it takes one, and returns 1. `take` returns
 * 0 for a damaged line, -1 without memory. A last line without a line end
 * counts if it is complete otherwise; if not, it is not damaged, but still
 * being written.
 */
static int next_line(struct dt_history *history, enum dt_history_file file,
                     int (*take)(struct dt_history *history, const char *text,
                                 size_t bytes, void *to),
                     void *to, struct dt_error *err)
{
    const char *text;
    size_t bytes;
    bool whole;
    struct line_reader *reader = &history->lines[file];
    for (;;) {
        int more = reader_next(reader, &text, &bytes, &whole, err);
        if (more <= 0)
            return more;
        int taken = text ? take(history, text, bytes, to) : 0;
        if (taken < 0)
            return dt_error_set(err, EX_OSERR, "%s: out of memory",
                                reader->path);
        if (taken)
            return 1;
        if (whole && !(text && is_blank(text, bytes)))
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
    return dt_history_read_event(history->event, to);
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
    int rc = dt_history_read_ranks(object, &history->rank_numbers, to);
    json_decref(object);
    return rc;
}

int dt_history_next_ranks(struct dt_history *history,
                          struct dt_report_ranks *ranks, struct dt_error *err)
{
    return next_line(history, DT_HISTORY_RANKS, take_ranks, ranks, err);
}

int dt_history_account(const char *path, struct dt_account *account,
                       struct dt_error *err)
{
    struct dt_report_event event;
    struct dt_history *history = dt_history_open(path, err);
    int rc = history ? 1 : -1;
    while (rc > 0 && (rc = dt_history_next_event(history, &event, err)) > 0)
        dt_account_event(account, &event);
    dt_history_destroy(history);
    return rc;
}
