/* SPDX-License-Identifier: Apache-2.0 */
/* disk.c - see disk.h */
#undef _FORTIFY_SOURCE /* its inline functions have the names of ours */
#include "config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/disk.h"

static struct {
    const char *call, *name;
    int error;
    bool once;
} refused;

static double left_bytes = -1;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t thawed;
    const char *name;
} frozen = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

static void (*watcher)(const char *call, const char *a, const char *b);

static char record[4096];
static bool recording;

void disk_refuse(const char *call, const char *name, int error)
{
    refused.call = call;
    refused.name = name;
    refused.error = error;
    refused.once = error == EINTR;
}

void disk_refuse_once(const char *call, const char *name, int error)
{
    disk_refuse(call, name, error);
    refused.once = true;
}

void disk_leave(double bytes)
{
    left_bytes = bytes;
}

void disk_watch(void (*before)(const char *call, const char *a, const char *b))
{
    watcher = before;
}

static void watch(const char *call, const char *a, const char *b)
{
    void (*before)(const char *, const char *, const char *) = watcher;
    watcher = NULL;
    if (before)
        before(call, a, b);
    watcher = before;
}

void disk_record(void)
{
    record[0] = '\0';
    recording = true;
}

const char *disk_recorded(void)
{
    recording = false;
    return record;
}

int disk_open_count(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        abort();
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Length of a name without the nonce of a temporary directory. */
static int bytes_of(const char *name)
{
    enum { NONCE = 9 }; /* and its dot */
    const size_t n = strlen(name);
    return strncmp(name, ".tmp-checkpoint-", 16) == 0 && n > NONCE &&
                   name[n - NONCE] == '.'
               ? (int)n - NONCE
               : (int)n;
}

static bool is_refused(const char *call, const char *path)
{
    if (!refused.call || strcmp(refused.call, call) != 0 ||
        strlen(refused.name) != (size_t)bytes_of(base(path)) ||
        strncmp(refused.name, base(path), strlen(refused.name)) != 0)
        return false;
    errno = refused.error;
    if (refused.once)
        refused.call = NULL;
    return true;
}

static bool is_fd_refused(const char *call, int fd)
{
    char link[64], path[PATH_MAX];
    if (!refused.call || strcmp(refused.call, call) != 0)
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    return is_refused(call, path);
}

static void note_call(const char *call, const char *a, const char *b)
{
    size_t n = strlen(record);
    watch(call, a, b);
    a = base(a);
    b = b ? base(b) : "";
    if (recording)
        snprintf(record + n, sizeof(record) - n, "%s %.*s%s%.*s\n", call,
                 bytes_of(a), a, *b ? " " : "", bytes_of(b), b);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    if (is_refused("open", path))
        return -1;
    if (flags & O_CREAT)
        watch("create", path, NULL);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t read(int fd, void *data, size_t bytes)
{
    return is_fd_refused("read", fd) ? -1 : syscall(SYS_read, fd, data, bytes);
}

void disk_freeze(const char *name)
{
    pthread_mutex_lock(&frozen.mutex);
    frozen.name = name;
    pthread_cond_broadcast(&frozen.thawed);
    pthread_mutex_unlock(&frozen.mutex);
}

static void before_write(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    watch("write", path, NULL);
    pthread_mutex_lock(&frozen.mutex);
    while (frozen.name && strcmp(base(path), frozen.name) == 0)
        pthread_cond_wait(&frozen.thawed, &frozen.mutex);
    pthread_mutex_unlock(&frozen.mutex);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    if (frozen.name || watcher)
        before_write(fd);
    return is_fd_refused("write", fd) ? -1
                                      : syscall(SYS_write, fd, data, bytes);
}

int fsync(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    note_call("fsync", path, NULL);
    return is_refused("fsync", path) ? -1 : (int)syscall(SYS_fsync, fd);
}

/* The descriptor is gone in any case, as the kernel has it. */
int close(int fd)
{
    bool bad = is_fd_refused("close", fd);
    int rc = (int)syscall(SYS_close, fd);
    if (bad)
        errno = refused.error;
    return bad ? -1 : rc;
}

int rename(const char *from, const char *to)
{
    note_call("rename", from, to);
    return is_refused("rename", to)
               ? -1
               : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int a, const char *from, int b, const char *to,
              unsigned int flags)
{
    note_call("renameat2", from, to);
    return is_refused("renameat2", to)
               ? -1
               : (int)syscall(SYS_renameat2, a, from, b, to, flags);
}

int symlink(const char *target, const char *path)
{
    note_call("symlink", target, path);
    return is_refused("symlink", path)
               ? -1
               : (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

int rmdir(const char *path)
{
    return is_refused("rmdir", path)
               ? -1
               : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int access(const char *path, int mode)
{
    return is_refused("access", path)
               ? -1
               : (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

ssize_t readlink(const char *path, char *target, size_t bytes)
{
    return is_refused("readlink", path)
               ? -1
               : syscall(SYS_readlinkat, AT_FDCWD, path, target, bytes);
}

int statvfs(const char *path, struct statvfs *fs)
{
    int (*real)(const char *, struct statvfs *);
    *(void **)&real = dlsym(RTLD_NEXT, "statvfs");
    int rc = real(path, fs);
    if (rc == 0 && left_bytes >= 0)
        fs->f_bavail = (fsblkcnt_t)(left_bytes / (double)fs->f_frsize);
    return rc;
}
