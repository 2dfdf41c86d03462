/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - directories that are whole or absent, and the newest of them
 */
#include "config.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "ckpt/ckpt.h"
#include "ckpt/sink.h"

#define SUMS_NAME "checksums.txt"
#define TEMP_PREFIX ".tmp-"
#define TEMP_LATEST TEMP_PREFIX "latest"
#define STEP_PREFIX "checkpoint-"

enum {
    MAX_SUMS_BYTES = 1 << 20,
    READ_BYTES = 1 << 20,
    SUM_DIGITS = 16,
};

struct dt_ckpt_writer {
    char *root;
    long step;
    char *path; /* <root>/checkpoint-<step> */
    char *temp; /* <root>/.tmp-checkpoint-<step> */
    char *sums; /* what checksums.txt will say: lines as of xxhsum -H3 */
};

static char *format(struct dt_error *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* asprintf with NULL and err when memory is out */
static char *format(struct dt_error *err, const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n >= 0)
        return text;
    dt_error_set(err, EX_OSERR, "checkpoint: out of memory");
    return NULL;
}

/* --- what is under root --- */

/* The step of a directory name, or -1 if it is not one of ours. */
static long step_of(const char *name)
{
    const char *digits = name + strlen(STEP_PREFIX);
    if (strncmp(name, STEP_PREFIX, strlen(STEP_PREFIX)) != 0 ||
        strspn(digits, "0123456789") != strlen(digits) || !*digits ||
        (digits[0] == '0' && digits[1]))
        return -1;
    errno = 0;
    long step = strtol(digits, NULL, 10);
    return errno ? -1 : step;
}

static int is_step(const struct dirent *entry)
{
    return step_of(entry->d_name) >= 0;
}

static int is_temp(const struct dirent *entry)
{
    return strncmp(entry->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0;
}

static int newest_first(const struct dirent **a, const struct dirent **b)
{
    long x = step_of((*a)->d_name), y = step_of((*b)->d_name);
    return (x < y) - (x > y);
}

/* Entries of root that `keep` accepts: their number, or -1. A missing root
 * has none. Release with free_entries.
 */
static int list_entries(const char *root, struct dirent ***entries,
                        int (*keep)(const struct dirent *),
                        struct dt_error *err)
{
    *entries = NULL;
    int n = scandir(root, entries, keep, newest_first);
    if (n >= 0)
        return n;
    if (errno == ENOENT)
        return 0;
    return dt_error_set(err, EX_NOINPUT, "%s: cannot list: %s", root,
                        strerror(errno));
}

static void free_entries(struct dirent **entries, int n)
{
    for (int i = 0; i < n; i++)
        free(entries[i]);
    free(entries);
}

/* --- verifying --- */

static int hash_fd(int fd, const char *path, uint64_t *xxh3,
                   struct dt_error *err)
{
    XXH3_state_t *state = XXH3_createState();
    char *data = malloc(READ_BYTES);
    ssize_t n = -1;
    if (!state || !data) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
        goto done;
    }
    XXH3_64bits_reset(state);
    while ((n = read(fd, data, READ_BYTES)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            XXH3_64bits_update(state, data, (size_t)n);
    if (n < 0)
        dt_error_set(err, EX_DATAERR, "%s: cannot read: %s", path,
                     strerror(errno));
    *xxh3 = XXH3_64bits_digest(state);
done:
    free(data);
    XXH3_freeState(state);
    return n < 0 ? -1 : 0;
}

static int verify_file(const char *dir, const char *name, uint64_t expected,
                       struct dt_error *err)
{
    uint64_t found;
    char *path = format(err, "%s/%s", dir, name);
    if (!path)
        return -1;
    int rc = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        dt_error_set(err, EX_DATAERR, "%s: cannot open: %s", path,
                     strerror(errno));
    else if (hash_fd(fd, path, &found, err) == 0)
        rc = found == expected
                 ? 0
                 : dt_error_set(err, EX_DATAERR,
                                "%s: damaged: checksum %016" PRIx64
                                ", expected %016" PRIx64,
                                path, found, expected);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

/* Cuts "XXH3 (NAME) = HEX" into its parts. -1 if it is none. */
static int parse_sum(char *line, char **name, uint64_t *xxh3)
{
    static const char head[] = "XXH3 (", middle[] = ") = ";
    size_t n = strlen(line), tail = strlen(middle) + SUM_DIGITS;
    if (n <= strlen(head) + tail || strncmp(line, head, strlen(head)) != 0)
        return -1;
    char *end = line + n - tail, *digits = end + strlen(middle);
    if (strncmp(end, middle, strlen(middle)) != 0 ||
        strspn(digits, "0123456789abcdef") != SUM_DIGITS)
        return -1;
    *end = '\0';
    *name = line + strlen(head);
    *xxh3 = strtoull(digits, NULL, 16);
    return strchr(*name, '/') ? -1 : 0;
}

static int verify_sums(const char *dir, char *text, struct dt_error *err)
{
    char *name;
    uint64_t xxh3;
    if (!*text)
        return dt_error_set(err, EX_DATAERR, "%s/%s: empty", dir, SUMS_NAME);
    for (int number = 1; *text; number++) {
        char *end = strchr(text, '\n');
        if (end)
            *end = '\0';
        if (!end || parse_sum(text, &name, &xxh3) < 0)
            return dt_error_set(err, EX_DATAERR,
                                "%s/%s:%d: expected "
                                "\"XXH3 (file) = 16 hex digits\"",
                                dir, SUMS_NAME, number);
        if (verify_file(dir, name, xxh3, err) < 0)
            return -1;
        text = end + 1;
    }
    return 0;
}

int dt_ckpt_verify(const char *path, struct dt_error *err)
{
    char *sums = format(err, "%s/%s", path, SUMS_NAME);
    char *text = sums ? dt_file_read(sums, MAX_SUMS_BYTES, err) : NULL;
    int rc = text ? verify_sums(path, text, err) : -1;
    free(text);
    free(sums);
    return rc;
}

/* --- finding --- */

static int note_temps(const char *root,
                      void (*note)(void *ctx, const char *text), void *ctx,
                      struct dt_error *err)
{
    struct dirent **entries;
    int n = list_entries(root, &entries, is_temp, err);
    int rc = n < 0 ? -1 : 0;
    for (int i = 0; i < n && rc == 0; i++) {
        char *text = format(err, "%s/%s: left by an interrupted save", root,
                            entries[i]->d_name);
        if (text)
            note(ctx, text);
        else
            rc = -1;
        free(text);
    }
    free_entries(entries, n);
    return rc;
}

/* Moves what `latest` names to the front: after a run went on from an older
 * checkpoint, a higher step may belong to the run that was given up.
 */
static void latest_first(const char *root, struct dirent **entries, int n)
{
    char link[PATH_MAX], target[NAME_MAX + 1];
    if (snprintf(link, sizeof(link), "%s/latest", root) >= (int)sizeof(link))
        return;
    ssize_t bytes = readlink(link, target, sizeof(target) - 1);
    if (bytes < 0)
        return;
    target[bytes] = '\0';
    for (int i = 0; i < n; i++) {
        struct dirent *entry = entries[i];
        if (strcmp(entry->d_name, target) != 0)
            continue;
        memmove(entries + 1, entries, (size_t)i * sizeof(*entries));
        entries[0] = entry;
    }
}

int dt_ckpt_find(const char *root, char **path,
                 void (*note)(void *ctx, const char *text), void *ctx,
                 struct dt_error *err)
{
    struct dirent **entries;
    struct dt_error why;
    *path = NULL;
    if (note && note_temps(root, note, ctx, err) < 0)
        return -1;
    int n = list_entries(root, &entries, is_step, err);
    int rc = n < 0 ? -1 : 0;
    latest_first(root, entries, n);
    for (int i = 0; i < n && rc == 0 && !*path; i++) {
        *path = format(err, "%s/%s", root, entries[i]->d_name);
        if (!*path) {
            rc = -1;
        } else if (dt_ckpt_verify(*path, &why) < 0) {
            if (note)
                note(ctx, why.text);
            free(*path);
            *path = NULL;
        }
    }
    free_entries(entries, n);
    return rc;
}

/* --- writing --- */

static void writer_free(struct dt_ckpt_writer *writer)
{
    free(writer->root);
    free(writer->path);
    free(writer->temp);
    free(writer->sums);
    free(writer);
}

static int remove_temps(const char *root, struct dt_error *err)
{
    struct dirent **entries;
    int n = list_entries(root, &entries, is_temp, err);
    int rc = n < 0 ? -1 : 0;
    for (int i = 0; i < n && rc == 0; i++) {
        char *path = format(err, "%s/%s", root, entries[i]->d_name);
        if (!path || (unlink(path) < 0 && dt_file_remove_tree(path, err) < 0))
            rc = -1;
        free(path);
    }
    free_entries(entries, n);
    return rc;
}

/* Makes root and an empty temporary directory; a damaged checkpoint of the
 * same step is of no use to anybody and goes.
 */
static int make_room(const struct dt_ckpt_writer *writer, struct dt_error *err)
{
    if (dt_file_mkdirs(writer->root, err) < 0 ||
        remove_temps(writer->root, err) < 0)
        return -1;
    if (access(writer->path, F_OK) == 0 &&
        dt_ckpt_verify(writer->path, NULL) < 0 &&
        dt_file_remove_tree(writer->path, err) < 0)
        return -1;
    return dt_file_mkdirs(writer->temp, err);
}

struct dt_ckpt_writer *dt_ckpt_begin(const char *root, long step,
                                     struct dt_error *err)
{
    assert(step >= 0);
    struct dt_ckpt_writer *writer = calloc(1, sizeof(*writer));
    if (!writer) {
        dt_error_set(err, EX_OSERR, "%s: out of memory", root);
        return NULL;
    }
    writer->step = step;
    writer->root = format(err, "%s", root);
    writer->path = format(err, "%s/" STEP_PREFIX "%ld", root, step);
    writer->temp = format(err, "%s/" TEMP_PREFIX STEP_PREFIX "%ld", root, step);
    writer->sums = format(err, "%s", "");
    if (!writer->root || !writer->path || !writer->temp || !writer->sums ||
        make_room(writer, err) < 0) {
        writer_free(writer);
        return NULL;
    }
    return writer;
}

static int add_sum(struct dt_ckpt_writer *writer, const char *file,
                   uint64_t xxh3, struct dt_error *err)
{
    char *sums =
        format(err, "%sXXH3 (%s) = %016" PRIx64 "\n", writer->sums, file, xxh3);
    if (!sums)
        return -1;
    free(writer->sums);
    writer->sums = sums;
    return 0;
}

int dt_ckpt_add_tensors(struct dt_ckpt_writer *writer, const char *file,
                        const struct dt_ckpt_tensor *tensors, size_t count,
                        struct dt_error *err)
{
    uint64_t xxh3;
    assert(!strpbrk(file, "/\n"));
    char *path = format(err, "%s/%s", writer->temp, file);
    int rc = path ? dt_safetensors_write(path, tensors, count, &xxh3, err) : -1;
    free(path);
    return rc < 0 ? -1 : add_sum(writer, file, xxh3, err);
}

static int write_text(const char *dir, const char *file, const char *text,
                      uint64_t *xxh3, struct dt_error *err)
{
    struct dt_ckpt_sink sink;
    char *path = format(err, "%s/%s", dir, file);
    int rc = path ? dt_ckpt_sink_init(&sink, path, err) : -1;
    free(path);
    if (rc < 0)
        return -1;
    if (dt_ckpt_sink_write(&sink, text, strlen(text), err) < 0) {
        dt_ckpt_sink_abandon(&sink);
        return -1;
    }
    return dt_ckpt_sink_finish(&sink, xxh3, err);
}

int dt_ckpt_add_text(struct dt_ckpt_writer *writer, const char *file,
                     const char *text, struct dt_error *err)
{
    uint64_t xxh3;
    assert(!strpbrk(file, "/\n"));
    if (write_text(writer->temp, file, text, &xxh3, err) < 0)
        return -1;
    return add_sum(writer, file, xxh3, err);
}

static int sync_dir(const char *path, struct dt_error *err)
{
    if (dt_fault("ckpt.fsync"))
        return dt_error_set(err, EX_IOERR, "%s: cannot sync directory: %s",
                            path, strerror(EIO));
    return dt_file_sync_dir(path, err);
}

static int rename_path(const char *from, const char *to, struct dt_error *err)
{
    int bad = dt_fault("ckpt.rename") ? EIO : rename(from, to) < 0 ? errno : 0;
    if (bad == EEXIST || bad == ENOTEMPTY) /* swap them in one step */
        bad = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) < 0
                  ? errno
                  : 0;
    if (bad)
        return dt_error_set(err, EX_IOERR, "%s: cannot rename to %s: %s", from,
                            to, strerror(bad));
    return 0;
}

/* Points <root>/latest at the new checkpoint. */
static int replace_latest(const struct dt_ckpt_writer *writer,
                          struct dt_error *err)
{
    char *temp = format(err, "%s/" TEMP_LATEST, writer->root);
    char *latest = format(err, "%s/latest", writer->root);
    int rc = -1;
    if (temp && latest) {
        const char *target = strrchr(writer->path, '/') + 1;
        if (symlink(target, temp) < 0)
            dt_error_set(err, EX_IOERR, "%s: cannot create: %s", temp,
                         strerror(errno));
        else
            rc = rename_path(temp, latest, err);
        if (rc < 0)
            unlink(temp);
    }
    free(latest);
    free(temp);
    return rc < 0 ? -1 : sync_dir(writer->root, err);
}

static int remove_old(const char *root, const char *name, struct dt_error *err)
{
    char *path = format(err, "%s/%s", root, name);
    char *temp = format(err, "%s/" TEMP_PREFIX "%s", root, name);
    int rc = -1;
    if (path && temp && rename_path(path, temp, err) == 0)
        rc = dt_file_remove_tree(temp, err);
    free(temp);
    free(path);
    return rc;
}

static int prune(const struct dt_ckpt_writer *writer, int total_limit,
                 struct dt_error *err)
{
    struct dirent **entries;
    int n = list_entries(writer->root, &entries, is_step, err);
    int rc = n < 0 ? -1 : 0;
    int excess = total_limit > 0 ? n - total_limit : 0;
    for (int i = n - 1; i >= 0 && excess > 0 && rc == 0; i--) {
        if (step_of(entries[i]->d_name) == writer->step)
            continue;
        rc = remove_old(writer->root, entries[i]->d_name, err);
        excess--;
    }
    free_entries(entries, n);
    return rc;
}

int dt_ckpt_commit(struct dt_ckpt_writer *writer, int total_limit,
                   struct dt_error *err)
{
    uint64_t xxh3;
    int rc = -1;
    if (write_text(writer->temp, SUMS_NAME, writer->sums, &xxh3, err) == 0 &&
        sync_dir(writer->temp, err) == 0 &&
        rename_path(writer->temp, writer->path, err) == 0 &&
        sync_dir(writer->root, err) == 0 && replace_latest(writer, err) == 0)
        rc = prune(writer, total_limit, err);
    dt_ckpt_abandon(writer);
    return rc;
}

void dt_ckpt_abandon(struct dt_ckpt_writer *writer)
{
    if (!writer)
        return;
    /* Best effort: what stays is removed by the next dt_ckpt_begin. */
    dt_file_remove_tree(writer->temp, NULL);
    writer_free(writer);
}
