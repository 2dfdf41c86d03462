/* SPDX-License-Identifier: Apache-2.0 */
/* disk.c - see disk.h */
#undef _FORTIFY_SOURCE /* its inline functions have the names of ours */
#include "config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static int (*watcher)(const char *call, const char *a, const char *b);
static _Thread_local bool watched; /* the watcher's own calls are not */

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

void disk_watch(int (*before)(const char *call, const char *a, const char *b))
{
    watcher = before;
}

/* Whether the watcher lets the call fail. */
static bool is_failed(const char *call, const char *a, const char *b)
{
    if (!watcher || watched)
        return false;
    watched = true;
    const int error = watcher(call, a, b);
    watched = false;
    if (error != 0)
        errno = error;
    return error != 0;
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

/* The path that a descriptor was opened with. */
static const char *path_of(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    return path;
}

static bool is_fd_refused(const char *call, int fd)
{
    char path[PATH_MAX];
    return refused.call && strcmp(refused.call, call) == 0 &&
           is_refused(call, path_of(fd, path));
}

/* Whether a call that is recorded fails. */
static bool is_noted_failed(const char *call, const char *a, const char *b)
{
    const size_t n = strlen(record);
    const char *from = base(a), *to = b ? base(b) : "";
    if (recording)
        snprintf(record + n, sizeof(record) - n, "%s %.*s%s%.*s\n", call,
                 bytes_of(from), from, *to ? " " : "", bytes_of(to), to);
    return is_failed(call, a, b) || is_refused(call, b ? b : a);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    if (is_refused("open", path) ||
        (flags & O_CREAT && is_failed("create", path, NULL)))
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t read(int fd, void *data, size_t bytes)
{
    return is_fd_refused("read", fd) ? -1 : syscall(SYS_read, fd, data, bytes);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    char path[PATH_MAX];
    if (watcher && is_failed("write", path_of(fd, path), NULL))
        return -1;
    return is_fd_refused("write", fd) ? -1
                                      : syscall(SYS_write, fd, data, bytes);
}

int fsync(int fd)
{
    char path[PATH_MAX];
    return is_noted_failed("fsync", path_of(fd, path), NULL)
               ? -1
               : (int)syscall(SYS_fsync, fd);
}

/* The descriptor is gone in any case, as the kernel has it. */
int close(int fd)
{
    char path[PATH_MAX];
    const bool writes = watcher && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY;
    const bool bad = (writes && is_failed("close", path_of(fd, path), NULL)) ||
                     is_fd_refused("close", fd);
    const int error = errno, rc = (int)syscall(SYS_close, fd);
    if (bad)
        errno = error;
    return bad ? -1 : rc;
}

int rename(const char *from, const char *to)
{
    return is_noted_failed("rename", from, to)
               ? -1
               : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int a, const char *from, int b, const char *to,
              unsigned int flags)
{
    return is_noted_failed("renameat2", from, to)
               ? -1
               : (int)syscall(SYS_renameat2, a, from, b, to, flags);
}

int link(const char *from, const char *to)
{
    return is_noted_failed("link", from, to)
               ? -1
               : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int symlink(const char *target, const char *path)
{
    return is_noted_failed("symlink", target, path)
               ? -1
               : (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

int mkdir(const char *path, mode_t mode)
{
    return is_failed("mkdir", path, NULL) || is_refused("mkdir", path)
               ? -1
               : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
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
