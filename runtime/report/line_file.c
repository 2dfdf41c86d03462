/* SPDX-License-Identifier: Apache-2.0 */
/* line_file.c - appends lines of JSON, and survives full disks and removals */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "report/line_file.h"

struct dt_line_file {
    char *path;
    long last; /* of the lines that were kept when it was opened */
    FILE *file;
    off_t whole; /* length of the whole lines written */
    long lost;   /* lines lost since the last one that was written */
};

/* The step in a line of n bytes, or -1 if the line is damaged. */
static long step_of(const char *line, size_t n)
{
    json_t *object = json_loadb(line, n, 0, NULL);
    const json_t *step = json_object_get(object, "step");
    long number = json_is_integer(step) ? (long)json_integer_value(step) : -1;
    json_decref(object);
    return number;
}

/* Lines that a run does not write like that. */
struct odd_lines {
    long count, first; /* the number of the first one */
};

static void count_odd(struct odd_lines *odd, long number)
{
    if (odd->count++ == 0)
        odd->first = number;
}

static void tell_odd(const struct odd_lines *odd, const char *path,
                     const char *what)
{
    if (odd->count > 0)
        dt_log(DT_LOG_WARN, "report", "%s:%ld: %s%s", path, odd->first, what,
               odd->count > 1 ? ", and others after it" : "");
}

/* Removes lines with step > last from the file, in place. Returns its length up
 * to the last whole line that stays, or -1 and errno. The later lines are at
 * the end, unless a step is damaged or an older checkpoint was evaluated.
 */
static off_t keep_lines(FILE *file, const char *path, long last)
{
    struct odd_lines damaged = {0}, late = {0}, inside = {0}, above = {0};
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    off_t here = 0, put = 0, kept = 0; /* read, written, up to a good line */
    for (long number = 1; (n = getline(&line, &size, file)) > 0; number++) {
        long step = line[n - 1] == '\n' ? step_of(line, (size_t)n) : -1;
        here += n;
        if (step > last) {
            count_odd(&late, number);
            continue;
        }
        if (put < here - n && pwrite(fileno(file), line, (size_t)n, put) != n) {
            kept = -1;
            break;
        }
        put += n;
        if (step < 0) {
            count_odd(&damaged, number);
            continue;
        }
        inside.count += damaged.count;
        inside.first = inside.first ? inside.first : damaged.first;
        damaged = (struct odd_lines){0};
        above = late;
        kept = put;
    }
    free(line);
    tell_odd(&inside, path, "not a line of JSON with a step, skipped");
    tell_odd(&above, path, "of a later step than a line below it, removed");
    if (last > 0 && late.count == above.count) /* else it is written again */
        tell_odd(&damaged, path, "not a line of JSON with a step, removed");
    return kept;
}

/* Truncates the file after its last whole line, where writing continues. */
static int cut(struct dt_line_file *j)
{
    __fpurge(j->file);
    clearerr(j->file);
    return ftruncate(fileno(j->file), j->whole) < 0 ||
                   fseeko(j->file, j->whole, SEEK_SET) < 0
               ? -1
               : 0;
}

static int open_file(struct dt_line_file *j, struct dt_error *err)
{
    struct stat st;
    int fd = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    j->file = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!j->file) {
        dt_error_set(err, EX_CANTCREAT, "%s: cannot open: %s", j->path,
                     strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return dt_error_set(err, EX_CANTCREAT, "%s: not a regular file",
                            j->path);
    j->whole = keep_lines(j->file, j->path, j->last);
    if (j->whole < 0 || ferror(j->file) || cut(j) < 0)
        return dt_error_set(err, EX_IOERR, "%s: cannot continue: %s", j->path,
                            strerror(errno));
    return 0;
}

struct dt_line_file *dt_line_file_open(const char *path, long last,
                                       struct dt_error *err)
{
    struct dt_line_file *j = calloc(1, sizeof(*j));
    if (!j || !(j->path = strdup(path))) {
        dt_error_set(err, EX_OSERR, "out of memory");
        dt_line_file_close(j);
        return NULL;
    }
    j->last = last;
    if (open_file(j, err) == 0)
        return j;
    dt_line_file_close(j);
    return NULL;
}

void dt_line_file_close(struct dt_line_file *j)
{
    if (!j)
        return;
    if (j->file)
        fclose(j->file);
    free(j->path);
    free(j);
}

/* Counts a line that is lost. Only the first of a series is reported. */
static void lose_line(struct dt_line_file *j, const char *why)
{
    if (j->lost++ == 0)
        dt_log(DT_LOG_WARN, "report",
               "%s; lines are lost until it can be written", why);
}

static int make_parent(const char *path, struct dt_error *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path)) : NULL;
    int rc = dir ? dt_file_mkdirs(dir, err) : 0;
    free(dir);
    return rc;
}

/* Whether the file was removed, or moved with its directory. Another file at
 * its path does not count: inode numbers are not stable everywhere.
 */
static bool is_gone(const struct dt_line_file *j)
{
    struct stat st;
    if (fstat(fileno(j->file), &st) == 0 && st.st_nlink == 0)
        return true;
    return stat(j->path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* Creates the file again if it is gone; lines written to a removed file would
 * be lost silently. False: it cannot be created, and the line is lost.
 */
static bool find_again(struct dt_line_file *j)
{
    struct dt_error err;
    FILE *removed = j->file;
    if (!is_gone(j))
        return true;
    if (make_parent(j->path, &err) < 0 || open_file(j, &err) < 0) {
        if (j->file && j->file != removed)
            fclose(j->file);
        j->file = removed;
        lose_line(j, err.text);
        return false;
    }
    fclose(removed);
    dt_log(DT_LOG_WARN, "report",
           "%s: was removed or moved during the run; it is created again, "
           "without the lines before this one",
           j->path);
    return true;
}

FILE *dt_line_file_begin(struct dt_line_file *j)
{
    return find_again(j) ? j->file : NULL;
}

void dt_line_file_end(struct dt_line_file *j)
{
    if (fflush(j->file) == 0 && !ferror(j->file)) {
        j->whole = ftello(j->file);
        if (j->lost > 0)
            dt_log(DT_LOG_WARN, "report", "%s: written again, %ld lines lost",
                   j->path, j->lost);
        j->lost = 0;
        return;
    }
    struct dt_error err;
    dt_error_set(&err, EX_IOERR, "%s: cannot write: %s", j->path,
                 strerror(errno));
    lose_line(j, err.text);
    cut(j);
}

int dt_line_file_sync(struct dt_line_file *j, struct dt_error *err)
{
    if (fsync(fileno(j->file)) < 0)
        return dt_error_set(err, EX_IOERR, "%s: cannot sync: %s", j->path,
                            strerror(errno));
    return 0;
}
