/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_sink.c - writes a file of a checkpoint and checksums it on the way */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "ckpt/ckpt_sink.h"

enum {
    CHUNK_BYTES = 4 << 20, /* small enough to hash and write from the cache */
};

static void release_sink(struct dt_ckpt_sink *sink)
{
    XXH3_freeState(sink->state);
    free(sink->path);
}

int dt_ckpt_sink_init(struct dt_ckpt_sink *sink, const char *path,
                      struct dt_error *err)
{
    sink->path = strdup(path);
    sink->state = XXH3_createState();
    if (!sink->path || !sink->state) {
        release_sink(sink);
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    }
    XXH3_64bits_reset(sink->state);
    sink->written = sink->flushed = 0;
    sink->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (sink->fd < 0) {
        release_sink(sink);
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot create: %s", path,
                            strerror(errno));
    }
    return 0;
}

/* write(2), or the failure that a test injects. */
static ssize_t write_some(int fd, const void *data, size_t bytes)
{
    if (dt_fault("ckpt.write")) {
        errno = ENOSPC;
        return -1;
    }
    return write(fd, data, bytes);
}

static int write_chunk(struct dt_ckpt_sink *sink, const char *data,
                       size_t bytes, struct dt_error *err)
{
    while (bytes) {
        ssize_t n = write_some(sink->fd, data, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_error_set(err, EX_IOERR, "%s: cannot write: %s",
                                sink->path, strerror(errno));
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Starts to write dirty pages now instead of all at once in fsync, which is
 * more than twice as fast. It is only a hint, so its result does not matter.
 */
static void flush_early(struct dt_ckpt_sink *sink)
{
    off_t bytes = sink->written - sink->flushed;
    if (bytes < CHUNK_BYTES)
        return;
    sync_file_range(sink->fd, sink->flushed, bytes, SYNC_FILE_RANGE_WRITE);
    sink->flushed = sink->written;
}

int dt_ckpt_sink_write(struct dt_ckpt_sink *sink, const void *data,
                       size_t bytes, struct dt_error *err)
{
    const char *p = data;
    while (bytes) {
        size_t n = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
        XXH3_64bits_update(sink->state, p, n);
        if (write_chunk(sink, p, n, err) < 0)
            return -1;
        sink->written += (off_t)n;
        flush_early(sink);
        p += n;
        bytes -= n;
    }
    return 0;
}

/* fsync(2), or the failure that a test injects. Returns 0 or an errno. */
static int sync_file(int fd)
{
    int rc;
    if (dt_fault("ckpt.fsync"))
        return EIO;
    while ((rc = fsync(fd)) < 0 && errno == EINTR)
        ;
    return rc < 0 ? errno : 0;
}

int dt_ckpt_sink_finish(struct dt_ckpt_sink *sink, uint64_t *xxh3,
                        struct dt_error *err)
{
    int bad = sync_file(sink->fd);
    /* NFS and quotas may report a full disk only here. After EINTR, Linux has
     * closed the file.
     */
    if (close(sink->fd) < 0 && errno != EINTR && !bad)
        bad = errno;
    if (bad) {
        dt_error_set(err, EX_IOERR, "%s: cannot sync: %s", sink->path,
                     strerror(bad));
        unlink(sink->path);
    }
    *xxh3 = XXH3_64bits_digest(sink->state);
    release_sink(sink);
    return bad ? -1 : 0;
}

void dt_ckpt_sink_abandon(struct dt_ckpt_sink *sink)
{
    close(sink->fd);
    unlink(sink->path);
    release_sink(sink);
}
