/* SPDX-License-Identifier: Apache-2.0 */
/* swap_file.c - the file of a swap: no name, reserved, direct I/O */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/log.h"
#include "parallel/swap_impl.h"

/* File systems by the type that statfs(2) gives: linux/magic.h, and the
 * sources of those that are not part of Linux.
 */
static const struct {
    unsigned long type;
    const char *name;
    bool memory;
} file_systems[] = {
    {0x01021994, "tmpfs", true},     {0x858458f6, "ramfs", true},
    {0x6969, "NFS", false},          {0xff534d42, "CIFS", false},
    {0xfe534d42, "SMB", false},      {0x00c36400, "Ceph", false},
    {0x01021997, "9P", false},       {0x5346414f, "AFS", false},
    {0x0bd00bd0, "Lustre", false},   {0x47504653, "GPFS", false},
    {0x19830326, "BeeGFS", false},   {0xaad7aaea, "PanFS", false},
    {0x20030528, "OrangeFS", false}, {0x7461636f, "OCFS2", false},
    {0x01161970, "GFS2", false},
};

static int check_file_system(const struct dt_swap_file *file,
                             struct dt_error *err)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const size_t count = sizeof(file_systems) / sizeof(*file_systems);
    struct statfs fs;
    size_t i = 0;
    if (fstatfs(file->fd, &fs) < 0)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot examine: %s",
                            file->path, strerror(errno));
    while (i < count && file_systems[i].type != (unsigned long)fs.f_type)
        i++;
    if (i == count)
        return 0;
    if (file_systems[i].memory)
        return dt_error_set(err, EX_CONFIG,
                            "%s: %s keeps files in memory, which offloading is "
                            "to save: name a directory on a local drive",
                            file->path, file_systems[i].name);
    if (!atomic_flag_test_and_set(&warned))
        dt_log(DT_LOG_WARN, "parallel",
               "%s is on a network (%s): all state goes over it in each step; "
               "a directory on a local drive is faster",
               file->path, file_systems[i].name);
    return 0;
}

/* Opening with O_DIRECT would leave the file behind where that is refused. */
static int set_direct(const struct dt_swap_file *file, struct dt_error *err)
{
    int flags = fcntl(file->fd, F_GETFL);
    if (flags >= 0 && fcntl(file->fd, F_SETFL, flags | O_DIRECT) == 0)
        return 0;
    return dt_error_set(err, EX_CONFIG,
                        "%s: the file system refuses direct I/O (O_DIRECT: "
                        "%s): name a directory on a local drive with ext4 or "
                        "XFS",
                        file->path, strerror(errno));
}

/* Linux 6.1 tells what direct I/O has to be aligned to, and 0 where it would
 * silently go through the page cache: ext4 that journals data, or encrypts.
 */
static int find_alignment(struct dt_swap_file *file, struct dt_error *err)
{
    file->align = DT_SWAP_PAGE;
#ifdef STATX_DIOALIGN
    struct statx stx;
    if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) < 0 ||
        !(stx.stx_mask & STATX_DIOALIGN))
        return 0;
    if (stx.stx_dio_mem_align == 0 || stx.stx_dio_offset_align == 0)
        return dt_error_set(err, EX_CONFIG,
                            "%s: the file system has no direct I/O for this "
                            "file (data journalling, encryption or "
                            "compression?): name a directory on a local drive "
                            "with ext4 or XFS",
                            file->path);
    if (stx.stx_dio_mem_align > file->align)
        file->align = stx.stx_dio_mem_align;
    if (stx.stx_dio_offset_align > file->align)
        file->align = stx.stx_dio_offset_align;
#endif
    return 0;
}

int dt_swap_file_init(struct dt_swap_file *file, const char *directory,
                      struct dt_error *err)
{
    if (asprintf(&file->path, "%s/disttrain-swap-XXXXXX", directory) < 0)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", directory);
    file->fd = mkostemp(file->path, O_CLOEXEC); /* with mode 0600 */
    if (file->fd < 0)
        dt_error_set(err, EX_CANTCREAT, "%s: cannot create a file in it: %s",
                     directory, strerror(errno));
    else if (unlink(file->path) < 0)
        dt_error_set(err, EX_CANTCREAT, "%s: cannot unlink: %s", file->path,
                     strerror(errno));
    else if (check_file_system(file, err) == 0 && set_direct(file, err) == 0 &&
             find_alignment(file, err) == 0)
        return 0;
    dt_swap_file_fini(file);
    return -1;
}

/* fallocate(2), without its interruptions. Returns 0 or an errno. */
static int allocate(int fd, size_t bytes)
{
    int rc;
    while ((rc = fallocate(fd, 0, 0, (off_t)bytes)) < 0 && errno == EINTR)
        continue;
    return rc < 0 ? errno : 0;
}

int dt_swap_file_reserve(const struct dt_swap_file *file, size_t bytes,
                         struct dt_error *err)
{
    struct statvfs fs;
    double left = INFINITY; /* unknown */
    int error = ENOSPC;
    /* Asked first: fallocate would fill the drive up before it fails. */
    if (fstatvfs(file->fd, &fs) == 0 && fs.f_blocks > 0)
        left = (double)fs.f_bavail * (double)fs.f_frsize;
    if (left >= (double)bytes)
        error = allocate(file->fd, bytes);
    if (error == 0)
        return 0;
    if (error == EOPNOTSUPP)
        return dt_error_set(err, EX_CONFIG,
                            "%s: the file system cannot reserve space "
                            "(fallocate): name a directory on a local drive "
                            "with ext4 or XFS",
                            file->path);
    return dt_error_set(err, EX_CANTCREAT,
                        "%s: cannot reserve %.1f MB where %.1f MB are free: "
                        "%s",
                        file->path, (double)bytes / 1e6, left / 1e6,
                        strerror(error));
}

void dt_swap_file_fini(struct dt_swap_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    file->path = NULL;
}
