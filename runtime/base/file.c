/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - mapping, reading, replacing and removing files */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* --- reading a mapped file that may shrink or fail --- */

static _Thread_local sigjmp_buf *volatile escape; /* of a guarded read */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int readers;             /* threads in dt_guard_run */
static struct sigaction before; /* the action of SIGBUS without them */

static void on_sigbus(int signal)
{
    if (escape)
        siglongjmp(*escape, 1);
    sigaction(SIGBUS, &before, NULL);
    raise(signal);
}

static void enter(void)
{
    struct sigaction action = {.sa_handler = on_sigbus};
    pthread_mutex_lock(&lock);
    if (readers++ == 0)
        sigaction(SIGBUS, &action, &before);
    pthread_mutex_unlock(&lock);
}

static void leave(void)
{
    pthread_mutex_lock(&lock);
    if (--readers == 0)
        sigaction(SIGBUS, &before, NULL);
    pthread_mutex_unlock(&lock);
}

int dt_guard_run(void (*read)(void *ctx), void *ctx)
{
    sigjmp_buf here;
    volatile int rc = -1;
    enter();
    if (sigsetjmp(here, 1) == 0) {
        escape = &here;
        read(ctx);
        rc = 0;
    }
    escape = NULL;
    leave();
    return rc;
}

/* --- files --- */

bool dt_file_is_missing(int bad)
{
    return bad == ENOENT || bad == ENOTDIR || bad == ELOOP;
}

int dt_file_exists(const char *path, struct dt_error *err)
{
    if (access(path, F_OK) == 0)
        return 1;
    if (dt_file_is_missing(errno))
        return 0;
    return dt_error_set(err, EX_IOERR,
                        "%s: cannot tell whether it is there: %s", path,
                        strerror(errno));
}

bool dt_file_is_same(const char *left, const char *right)
{
    struct stat a, b;
    return stat(left, &a) == 0 && stat(right, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* O_NONBLOCK: a FIFO must not hang us; it is refused below. */
static int open_regular(const char *path, struct stat *st, struct dt_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int bad = fd < 0 || fstat(fd, st) < 0 ? errno : 0;
    if (!bad && S_ISREG(st->st_mode))
        return fd;
    if (fd >= 0)
        close(fd);
    if (!bad)
        return dt_error_set(err, EX_NOINPUT, "%s: not a regular file", path);
    return dt_error_set(err, dt_file_is_missing(bad) ? EX_NOINPUT : EX_IOERR,
                        "%s: cannot open: %s", path, strerror(bad));
}

int dt_file_open(const char *path, struct dt_error *err)
{
    struct stat st;
    return open_regular(path, &st, err);
}

int dt_map_init(struct dt_map *map, const char *path, struct dt_error *err)
{
    struct stat st;
    int fd = open_regular(path, &st, err);
    if (fd < 0)
        return -1;
    map->bytes = (size_t)st.st_size;
    map->data = NULL;
    if (map->bytes > 0) {
        void *data = mmap(NULL, map->bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            dt_error_set(err, EX_IOERR, "%s: cannot map %zu bytes: %s", path,
                         map->bytes, strerror(errno));
            close(fd);
            return -1;
        }
        map->data = data;
    }
    close(fd);
    return 0;
}

int dt_file_fill(int fd, void *into, size_t bytes, size_t *count)
{
    for (*count = 0; *count < bytes;) {
        const ssize_t n = read(fd, (char *)into + *count, bytes - *count);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n == 0)
            break;
        *count += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int dt_file_peek(const char *path, void *head, size_t bytes, size_t *count,
                 struct dt_error *err)
{
    struct stat st;
    int fd = open_regular(path, &st, err);
    if (fd < 0)
        return -1;
    int bad = dt_file_fill(fd, head, bytes, count);
    close(fd);
    if (bad)
        return dt_error_set(err, EX_IOERR, "%s: cannot read: %s", path,
                            strerror(bad));
    return 0;
}

void dt_map_fini(struct dt_map *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->bytes);
    map->data = NULL;
    map->bytes = 0;
}

struct text_copy {
    const struct dt_map *map;
    char *to;
    bool zero;
};

static void copy_text(void *ctx)
{
    struct text_copy *copy = ctx;
    memcpy(copy->to, copy->map->data, copy->map->bytes);
    copy->zero = memchr(copy->to, '\0', copy->map->bytes) != NULL;
}

char *dt_file_read(const char *path, size_t max_bytes, struct dt_error *err)
{
    struct dt_map map;
    if (dt_map_init(&map, path, err) < 0)
        return NULL;
    struct text_copy copy = {.map = &map};
    bool good = false;
    if (map.bytes > max_bytes)
        dt_error_set(err, EX_DATAERR, "%s: %zu bytes; at most %zu are read",
                     path, map.bytes, max_bytes);
    else if (!(copy.to = calloc(map.bytes + 1, 1)))
        dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    else if (map.bytes > 0 && dt_guard_run(copy_text, &copy) < 0)
        dt_error_set(err, EX_IOERR,
                     "%s: cut short while it is read, or its disk fails", path);
    else if (copy.zero)
        dt_error_set(err, EX_DATAERR,
                     "%s: not a text file: it holds a zero byte", path);
    else
        good = true;
    dt_map_fini(&map);
    if (good)
        return copy.to;
    free(copy.to);
    return NULL;
}

int dt_file_append(int fd, const char *path, const void *data, size_t bytes,
                   struct dt_error *err)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_nlink == 0)
        return dt_error_set(err, EX_IOERR, "%s: was removed", path);
    errno = 0;
    ssize_t written = write(fd, data, bytes);
    if (written >= 0 && (size_t)written == bytes)
        return 0;
    return dt_error_set(err, EX_IOERR, "%s: cannot write: %s", path,
                        strerror(written < 0 ? errno : ENOSPC));
}

int dt_file_mkdirs(const char *path, struct dt_error *err)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof(part))
        return dt_error_set(err, EX_CANTCREAT, "%s: path too long", path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        struct stat st;
        if (mkdir(part, 0777) < 0 && errno != EEXIST)
            return dt_error_set(err, EX_CANTCREAT,
                                "%s: cannot create directory: %s", part,
                                strerror(errno));
        if (stat(part, &st) < 0 || !S_ISDIR(st.st_mode))
            return dt_error_set(err, EX_CANTCREAT, "%s: not a directory", part);
    }
    return 0;
}

int dt_file_sync_dir(const char *path, struct dt_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd;
    while (fd >= 0 && (rc = fsync(fd)) < 0 && errno == EINTR)
        ;
    int bad = rc < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (bad)
        return dt_error_set(err, EX_IOERR, "%s: cannot sync directory: %s",
                            path, strerror(bad));
    return 0;
}

/* Empties the directory fd and closes it. 0 or an errno. */
static int remove_entries(int fd)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int bad = errno;
        close(fd);
        return bad;
    }
    int bad = 0;
    struct dirent *entry;
    while (!bad && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (!strcmp(name, ".") || !strcmp(name, ".."))
            continue;
        int here = dirfd(dir);
        if (unlinkat(here, name, 0) == 0)
            continue;
        if (errno != EISDIR && errno != EPERM) {
            bad = errno;
            break;
        }
        int sub =
            openat(here, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        bad = sub < 0 ? errno : remove_entries(sub);
        if (!bad && unlinkat(here, name, AT_REMOVEDIR) < 0)
            bad = errno;
    }
    closedir(dir);
    return bad;
}

int dt_file_remove_tree(const char *path, struct dt_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int bad = fd < 0 ? errno : remove_entries(fd);
    if (!bad && rmdir(path) < 0)
        bad = errno;
    if (bad && bad != ENOENT)
        return dt_error_set(err, EX_IOERR, "%s: cannot remove: %s", path,
                            strerror(bad));
    return 0;
}

int dt_file_write(int fd, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        const ssize_t n = write(fd, from, bytes);
        if (n < 0 && errno != EINTR)
            return errno;
        from += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int dt_file_unnamed(const char *dir)
{
    char path[PATH_MAX];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    /* for file systems without O_TMPFILE */
    snprintf(path, sizeof(path), "%s/unnamed-XXXXXX", dir);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

int dt_file_replace(const char *path, const char *text, size_t bytes,
                    struct dt_error *err)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof(temporary), "%s.new", path) >=
        (int)sizeof(temporary))
        return dt_error_set(err, EX_CANTCREAT, "%s: the path is too long",
                            path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s",
                            temporary, strerror(errno));
    int bad = dt_file_write(fd, text, bytes);
    if (close(fd) < 0 && !bad)
        bad = errno;
    if (bad)
        dt_error_set(err, EX_IOERR, "%s: cannot write: %s", temporary,
                     strerror(bad));
    else if (rename(temporary, path) < 0)
        bad = dt_error_set(err, EX_CANTCREAT, "%s: cannot replace: %s", path,
                           strerror(errno));
    if (bad)
        unlink(temporary);
    return bad ? -1 : 0;
}

int dt_file_remove(const char *path, struct dt_error *err)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return 0;
    if (errno == EISDIR || errno == EPERM)
        return dt_file_remove_tree(path, err);
    return dt_error_set(err, EX_IOERR, "%s: cannot remove: %s", path,
                        strerror(errno));
}

static bool resolve_dir(const char *path, char found[PATH_MAX])
{
    struct stat st;
    return realpath(path, found) && stat(found, &st) == 0 &&
           S_ISDIR(st.st_mode);
}

bool dt_file_find_dir(const char *dir, const char *name, char found[PATH_MAX])
{
    char path[PATH_MAX];
    return resolve_dir(name, found) ||
           (name[0] != '/' &&
            snprintf(path, sizeof(path), "%s/%s", dir, name) <
                (int)sizeof(path) &&
            resolve_dir(path, found));
}
