/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swap.h - tiles of optimizer state or weights in a file on a local drive
 *
 * A swap has a file of tiles and a few tile buffers in memory. Reads and
 * writes go between a tile and a buffer, past the page cache (O_DIRECT), over
 * io_uring on a thread of the swap. The file has no name from the moment it is
 * made, so that it vanishes however the process ends.
 *
 * Transfers of the same tile or of the same buffer happen in the order in
 * which they were started, as if each ended before the next began; others
 * overlap, reads with writes too. From the start of a transfer to the end of
 * its wait the buffer belongs to the swap: of a read it must not be touched,
 * of a write not be changed. Any thread may call anything except
 * dt_swap_destroy.
 *
 * The XXH3-64 of each block that is written is kept, and compared when the
 * block is read. A tile that was never written reads as zeros, without the
 * drive. One thread computes all checksums, at the speed of memory: a swap
 * reads and writes 5 to 10 GB a second at most, together.
 *
 * The first failure is final, and every later call returns it. A wait in which
 * the drive completes nothing for timeout_ms is one.
 */
#ifndef DT_PARALLEL_SWAP_H
#define DT_PARALLEL_SWAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_swap;

/* A transfer that was started: 1, 2, ... */
typedef uint64_t dt_swap_ticket_t;

struct dt_swap_options {
    size_t tile_bytes;    /* of a tile and of a buffer */
    size_t tile_count;    /* the file has tile_bytes * tile_count, rounded up */
    size_t buffer_count;  /* in memory; 3: one each to read, update, write */
    size_t block_bytes;   /* of one request, up to 1 GiB; 0: 1 MiB */
    unsigned queue_depth; /* requests at a time, up to 4096; 0: 32 */
    int timeout_ms;       /* without any progress; 0: 30 s */
};

/* Bytes of the buffers, and of the file. */
struct dt_swap_bytes {
    size_t memory, file;
};

/* The bytes that dt_swap_create takes, where the file system wants no other
 * alignment than 4096 bytes.
 */
struct dt_swap_bytes dt_swap_plan(const struct dt_swap_options *options);

/* Makes the file, with its space reserved, in an existing directory, and the
 * buffers. Warns, once in a process, if the directory is on a network, and if
 * RLIMIT_MEMLOCK does not let the kernel keep the buffers mapped, which then
 * costs CPU time. NULL and err:
 * EX_CONFIG: built without liburing, io_uring is forbidden here, the file
 *     system is in memory or has no direct I/O or cannot reserve space, or it
 *     wants blocks to be multiples of something else;
 * EX_CANTCREAT: no file can be made, or the space is not there: how much is
 *     needed and how much is free;
 * EX_OSERR: no memory, no thread, no ring.
 */
struct dt_swap *dt_swap_create(const char *directory,
                               const struct dt_swap_options *options,
                               struct dt_error *err);

/* Waits for the requests that the drive has, and drops the rest. If it does not
 * answer within timeout_ms, warns and leaves memory and file to the end of the
 * process. NULL is fine.
 */
void dt_swap_destroy(struct dt_swap *swap);

/* Buffer i of tile_bytes bytes at a multiple of 2 MiB; zero at first. */
void *dt_swap_buffer(const struct dt_swap *swap, size_t i);

/* Starts to read `tile` into `buffer`, or to write it from there, and returns
 * at once. -1: EX_OSERR, or the failure.
 */
int dt_swap_start_read(struct dt_swap *swap, size_t tile, size_t buffer,
                       dt_swap_ticket_t *ticket, struct dt_error *err);
int dt_swap_start_write(struct dt_swap *swap, size_t tile, size_t buffer,
                        dt_swap_ticket_t *ticket, struct dt_error *err);

/* Returns when the transfer of `ticket` is done; 0 is none. -1: EX_IOERR, the
 * failure, with file, offset and cause, or the oldest transfer at the
 * deadline.
 */
int dt_swap_wait(struct dt_swap *swap, dt_swap_ticket_t ticket,
                 struct dt_error *err);

/* Bytes that the drive has transferred so far, and the seconds in which at
 * least one request to read, or to write, was with it.
 */
struct dt_swap_stats {
    uint64_t bytes_read, bytes_written;
    double read_seconds, write_seconds;
};

/* The numbers so far. */
struct dt_swap_stats dt_swap_get_stats(struct dt_swap *swap);

#ifdef __cplusplus
}
#endif

#endif /* DT_PARALLEL_SWAP_H */
