/* SPDX-License-Identifier: Apache-2.0 */
/* swap.c - tiles of optimizer state or weights in a file on a local drive */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "parallel/swap_impl.h"

/* File systems by the type that statfs(2) gives: from linux/magic.h, and from
 * the sources of file systems outside of Linux.
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

/* If O_DIRECT were a flag of open(2), a refusal would leave the file there. */
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

/* Linux 6.1 tells the alignment of direct I/O, and 0 where it would silently
 * go through the page cache: on an ext4 that journals data, or encrypts.
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

/* Gives its space back. */
static void file_fini(struct dt_swap_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    file->path = NULL;
}

/* Makes the file in `directory` and opens it for direct I/O. -1: as
 * dt_swap_create, EX_CONFIG or EX_CANTCREAT.
 */
static int file_init(struct dt_swap_file *file, const char *directory,
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
    file_fini(file);
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

/* Reserves `bytes` bytes. -1: EX_CANTCREAT, EX_CONFIG as dt_swap_create. */
static int file_reserve(const struct dt_swap_file *file, size_t bytes,
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

static const size_t huge_page = (size_t)2 << 20;
static const size_t max_piece = (size_t)1 << 30; /* io_uring's limit */

static size_t round_up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

struct dt_swap_bytes dt_swap_plan(const struct dt_swap_options *options)
{
    const size_t stride = round_up(options->tile_bytes, DT_SWAP_PAGE);
    return (struct dt_swap_bytes){
        .memory = round_up(stride, huge_page) * options->buffer_count,
        .file = stride * options->tile_count,
    };
}

/* --- memory --- */

/* Address space for the buffers at a multiple of 2 MiB. A child must not share
 * their pages: the drive writes to them.
 */
static int map_buffers(struct dt_swap *swap, struct dt_error *err)
{
    size_t bytes = swap->buffer_stride * swap->options.buffer_count;
    char *all = mmap(NULL, bytes + huge_page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return dt_error_set(err, EX_OSERR,
                            "%s: no memory for %zu buffers of %zu bytes: %s",
                            swap->file.path, swap->options.buffer_count,
                            swap->options.tile_bytes, strerror(errno));
    size_t before = round_up((uintptr_t)all, huge_page) - (uintptr_t)all;
    if (before > 0)
        munmap(all, before);
    munmap(all + before + bytes, huge_page - before);
    swap->memory = all + before;
    swap->memory_bytes = bytes;
    madvise(swap->memory, bytes, MADV_HUGEPAGE); /* only speed */
    madvise(swap->memory, bytes, MADV_DONTFORK);
    return 0;
}

/* A refusal costs CPU time and is no reason to stop. */
static int register_buffers(struct dt_swap *swap, struct dt_error *err)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const size_t per = swap->piece_count;
    const size_t count = per * swap->options.buffer_count;
    struct iovec *pieces = calloc(count, sizeof(*pieces));
    if (!pieces)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < count; i++) {
        size_t first = i % per * swap->piece_bytes;
        size_t left = swap->tile_stride - first;
        pieces[i].iov_base =
            swap->memory + i / per * swap->buffer_stride + first;
        pieces[i].iov_len = left < swap->piece_bytes ? left : swap->piece_bytes;
    }
    int rc = dt_swap_ring_register(swap->ring, pieces, (unsigned)count);
    free(pieces);
    if (rc != 0 && !atomic_flag_test_and_set(&warned))
        dt_log(DT_LOG_WARN, "parallel",
               "%s: the kernel does not register %.1f MB of buffers with "
               "io_uring (%s), so each request costs more CPU time: raise "
               "`ulimit -l`; under Slurm, LimitMEMLOCK=infinity of slurmd and "
               "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
               swap->file.path, (double)swap->memory_bytes / 1e6, strerror(rc));
    return 0;
}

static int allocate_tables(struct dt_swap *swap, struct dt_error *err)
{
    const struct dt_swap_options *o = &swap->options;
    swap->slots = calloc(o->queue_depth, sizeof(*swap->slots));
    swap->written = calloc(o->tile_count, sizeof(*swap->written));
    swap->sums = calloc(o->tile_count, swap->tile_blocks * sizeof(*swap->sums));
    if (!swap->slots || !swap->written || !swap->sums)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (unsigned i = 0; i < o->queue_depth; i++) {
        swap->slots[i].next = swap->free_slot;
        swap->free_slot = &swap->slots[i];
    }
    return 0;
}

/* --- create and destroy --- */

static int choose_sizes(struct dt_swap *swap, struct dt_error *err)
{
    const struct dt_swap_options *o = &swap->options;
    const size_t align = swap->file.align;
    if (o->block_bytes % align != 0)
        return dt_error_set(err, EX_CONFIG,
                            "%s: expected blocks of a multiple of %zu bytes, "
                            "as its file system wants them, and not of %zu",
                            swap->file.path, align, o->block_bytes);
    swap->tile_stride = round_up(o->tile_bytes, align);
    swap->buffer_stride = round_up(swap->tile_stride, huge_page);
    swap->tile_blocks =
        round_up(swap->tile_stride, o->block_bytes) / o->block_bytes;
    /* no block is in two pieces */
    swap->piece_bytes = max_piece / o->block_bytes * o->block_bytes;
    swap->piece_count =
        round_up(swap->tile_stride, swap->piece_bytes) / swap->piece_bytes;
    return 0;
}

static void init_locks(struct dt_swap *swap)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&swap->mutex, NULL);
    pthread_cond_init(&swap->work, &attr);
    pthread_cond_init(&swap->change, &attr);
    pthread_condattr_destroy(&attr);
}

static int start_thread(struct dt_swap *swap, struct dt_error *err)
{
    int rc = dt_thread_start(&swap->thread, "dt-swap", dt_swap_worker, swap);
    if (rc != 0)
        return dt_error_set(err, EX_OSERR, "cannot start a thread: %s",
                            strerror(rc));
    swap->running = true;
    return 0;
}

/* Everything that can be refused, the cheapest first. */
static int open_swap(struct dt_swap *swap, const char *directory,
                     struct dt_error *err)
{
    swap->ring = dt_swap_ring_create(swap->options.queue_depth, err);
    if (!swap->ring)
        return dt_error_prefix(err, "%s", directory);
    if (file_init(&swap->file, directory, err) < 0)
        return -1;
    if (choose_sizes(swap, err) < 0 ||
        file_reserve(&swap->file, swap->tile_stride * swap->options.tile_count,
                     err) < 0 ||
        map_buffers(swap, err) < 0 || register_buffers(swap, err) < 0 ||
        allocate_tables(swap, err) < 0 || start_thread(swap, err) < 0)
        return -1;
    return 0;
}

static void set_defaults(struct dt_swap_options *options)
{
    if (options->block_bytes == 0)
        options->block_bytes = 1 << 20;
    if (options->queue_depth == 0)
        options->queue_depth = 32;
    if (options->timeout_ms == 0)
        options->timeout_ms = 30000;
}

struct dt_swap *dt_swap_create(const char *directory,
                               const struct dt_swap_options *options,
                               struct dt_error *err)
{
    struct dt_swap *swap = calloc(1, sizeof(*swap));
    assert(options->tile_bytes > 0 && options->tile_count > 0);
    assert(options->buffer_count > 0 && options->timeout_ms >= 0);
    assert(options->queue_depth <= 4096 && options->block_bytes <= max_piece);
    if (!swap) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    swap->options = *options;
    set_defaults(&swap->options);
    swap->last = &swap->first;
    init_locks(swap);
    if (open_swap(swap, directory, err) == 0)
        return swap;
    dt_swap_destroy(swap);
    return NULL;
}

/* False: the drive does not answer. Linux ends no thread before its requests
 * are done, so that this one cannot be joined.
 */
static bool stop_thread(struct dt_swap *swap)
{
    const struct timespec end =
        dt_clock_in(CLOCK_MONOTONIC, swap->options.timeout_ms);
    pthread_mutex_lock(&swap->mutex);
    swap->stop = true;
    pthread_cond_signal(&swap->work);
    while (!swap->gone && pthread_cond_timedwait(&swap->change, &swap->mutex,
                                                 &end) != ETIMEDOUT)
        continue;
    bool gone = swap->gone;
    pthread_mutex_unlock(&swap->mutex);
    if (gone)
        pthread_join(swap->thread, NULL);
    else
        pthread_detach(swap->thread);
    return gone;
}

static void free_transfers(struct dt_swap *swap)
{
    struct dt_swap_transfer *next;
    for (struct dt_swap_transfer *t = swap->first; t; t = next) {
        next = t->next;
        free(t);
    }
}

void dt_swap_destroy(struct dt_swap *swap)
{
    if (!swap)
        return;
    if (swap->running && !stop_thread(swap)) {
        dt_log(DT_LOG_WARN, "parallel",
               "%s: the drive does not answer, so its buffers stay in use",
               swap->file.path);
        return;
    }
    dt_swap_ring_destroy(swap->ring);
    if (swap->memory)
        munmap(swap->memory, swap->memory_bytes);
    if (swap->file.path)
        file_fini(&swap->file);
    free_transfers(swap);
    free(swap->slots);
    free(swap->sums);
    free(swap->written);
    pthread_cond_destroy(&swap->change);
    pthread_cond_destroy(&swap->work);
    pthread_mutex_destroy(&swap->mutex);
    free(swap);
}

/* --- transfers --- */

void *dt_swap_buffer(const struct dt_swap *swap, size_t i)
{
    assert(i < swap->options.buffer_count);
    return swap->memory + i * swap->buffer_stride;
}

/* The mutex is held. */
static int give_failure(const struct dt_swap *swap, struct dt_error *err)
{
    if (err)
        *err = swap->failure;
    return -1;
}

static int start(struct dt_swap *swap, bool write, size_t tile, size_t buffer,
                 dt_swap_ticket_t *ticket, struct dt_error *err)
{
    struct dt_swap_transfer *transfer = calloc(1, sizeof(*transfer));
    int rc = 0;
    assert(tile < swap->options.tile_count);
    assert(buffer < swap->options.buffer_count);
    if (!transfer)
        return dt_error_set(err, EX_OSERR, "out of memory");
    transfer->write = write;
    transfer->tile = tile;
    transfer->buffer = buffer;
    pthread_mutex_lock(&swap->mutex);
    if (swap->failed) {
        rc = give_failure(swap, err);
        free(transfer);
    } else {
        transfer->ticket = *ticket = ++swap->ticket;
        *swap->last = transfer;
        swap->last = &transfer->next;
        pthread_cond_signal(&swap->work);
    }
    pthread_mutex_unlock(&swap->mutex);
    return rc;
}

int dt_swap_start_read(struct dt_swap *swap, size_t tile, size_t buffer,
                       dt_swap_ticket_t *ticket, struct dt_error *err)
{
    return start(swap, false, tile, buffer, ticket, err);
}

int dt_swap_start_write(struct dt_swap *swap, size_t tile, size_t buffer,
                        dt_swap_ticket_t *ticket, struct dt_error *err)
{
    return start(swap, true, tile, buffer, ticket, err);
}

static const struct dt_swap_transfer *find_transfer(const struct dt_swap *swap,
                                                    dt_swap_ticket_t ticket)
{
    const struct dt_swap_transfer *t = swap->first;
    while (t && t->ticket != ticket)
        t = t->next;
    return t;
}

/* The mutex is held. */
static void fail_late(struct dt_swap *swap)
{
    const struct dt_swap_transfer *oldest = swap->first;
    struct dt_error err;
    size_t behind = 0;
    for (const struct dt_swap_transfer *t = oldest->next; t; t = t->next)
        behind++;
    dt_error_set(&err, EX_IOERR,
                 "%s: the drive has completed nothing for %g s: %s of tile "
                 "%zu, %zu of %zu bytes done, and %zu more transfers behind "
                 "it; the kernel log of this node (dmesg) may say why",
                 swap->file.path, swap->options.timeout_ms / 1e3,
                 oldest->write ? "write" : "read", oldest->tile, oldest->done,
                 swap->tile_stride, behind);
    dt_swap_fail(swap, &err);
}

int dt_swap_wait(struct dt_swap *swap, dt_swap_ticket_t ticket,
                 struct dt_error *err)
{
    const int ms = swap->options.timeout_ms;
    int rc = 0;
    pthread_mutex_lock(&swap->mutex);
    uint64_t progress = swap->progress;
    struct timespec end = dt_clock_in(CLOCK_MONOTONIC, ms);
    while (!swap->failed && find_transfer(swap, ticket)) {
        if (pthread_cond_timedwait(&swap->change, &swap->mutex, &end) !=
            ETIMEDOUT)
            continue;
        if (swap->progress == progress && find_transfer(swap, ticket))
            fail_late(swap);
        progress = swap->progress;
        end = dt_clock_in(CLOCK_MONOTONIC, ms);
    }
    if (swap->failed)
        rc = give_failure(swap, err);
    pthread_mutex_unlock(&swap->mutex);
    return rc;
}

struct dt_swap_stats dt_swap_get_stats(struct dt_swap *swap)
{
    pthread_mutex_lock(&swap->mutex);
    struct dt_swap_stats stats = swap->stats;
    pthread_mutex_unlock(&swap->mutex);
    return stats;
}
