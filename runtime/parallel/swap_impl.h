/* SPDX-License-Identifier: Apache-2.0 */
/* swap_impl.h - the state that callers of a swap and its thread share, and the
 * ring that the thread uses
 */
#ifndef DT_PARALLEL_SWAP_IMPL_H
#define DT_PARALLEL_SWAP_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"
#include "parallel/swap.h"

struct dt_swap_ring;

/* One request. */
struct dt_swap_request {
    bool write;
    char *data;
    size_t bytes, offset;
    unsigned piece; /* of the registered memory that holds data */
};

/* For up to `depth` requests at a time. NULL: EX_CONFIG if io_uring is not
 * built in or not allowed here, EX_OSERR.
 */
struct dt_swap_ring *dt_swap_ring_create(unsigned depth, struct dt_error *err);

/* No request is under way. NULL is fine. */
void dt_swap_ring_destroy(struct dt_swap_ring *ring);

/* Keeps memory mapped in the kernel, so that a request need not map its pages;
 * every request is then of one of the pieces, each of at most 1 GiB. Returns 0
 * or an errno; requests work in any case.
 */
int dt_swap_ring_register(struct dt_swap_ring *ring, const struct iovec *pieces,
                          unsigned count);

/* Hands a request to the kernel; `tag` comes back when it is done. -1:
 * EX_OSERR.
 */
int dt_swap_ring_start(struct dt_swap_ring *ring, int fd,
                       const struct dt_swap_request *request, void *tag,
                       struct dt_error *err);

/* Waits until some request is done: 1, with its tag and in *result the bytes
 * that were transferred or a negative errno. 0: nothing within timeout_ms. -1:
 * EX_OSERR.
 */
int dt_swap_ring_wait(struct dt_swap_ring *ring, int timeout_ms, void **tag,
                      int *result, struct dt_error *err);

enum { DT_SWAP_PAGE = 4096 }; /* the least alignment of direct I/O */

/* The file of a swap: no name, reserved, direct I/O. */
struct dt_swap_file {
    int fd;
    char *path;   /* the name that it had, for messages; NULL: no file */
    size_t align; /* of memory, offsets and lengths: a power of two,
                     DT_SWAP_PAGE or more */
};

/* A tile on its way to or from a buffer. The thread starts its blocks in order;
 * they end in any.
 */
struct dt_swap_transfer {
    struct dt_swap_transfer *next;
    dt_swap_ticket_t ticket;
    bool write;
    size_t tile, buffer;
    size_t started; /* bytes; the thread's */
    size_t done;    /* bytes */
};

/* A block that the drive is busy with. */
struct dt_swap_slot {
    struct dt_swap_slot *next; /* free slots are a list */
    struct dt_swap_transfer *transfer;
    size_t first, bytes; /* in the tile */
    size_t done;         /* bytes of them */
};

/* Requests of one direction: how many are under way, since when there are any,
 * and the seconds and bytes so far.
 */
struct dt_swap_busy {
    size_t requests;
    double since, seconds;
    uint64_t bytes;
};

struct dt_swap {
    struct dt_swap_options options;
    struct dt_swap_file file;
    struct dt_swap_ring *ring;
    char *memory; /* buffers, each buffer_stride bytes */
    size_t memory_bytes, buffer_stride;
    size_t tile_stride; /* tile_bytes, aligned: the bytes of a transfer */
    size_t tile_blocks; /* blocks of a tile; the last may be shorter */
    size_t piece_bytes; /* of a buffer, registered together */
    size_t piece_count; /* of a buffer */
    pthread_t thread;
    bool running; /* there is a thread */

    /* Only the thread uses these. */
    struct dt_swap_slot *slots, *free_slot; /* slots(queue_depth) */
    struct dt_swap_busy reads, writes;
    bool last_was_write; /* the block started last */
    uint64_t *sums;      /* (tile_count, tile_blocks) XXH3-64 */
    bool *written;       /* (tile_count): its sums hold */

    pthread_mutex_t mutex; /* guards all below, and lists and `done` above */
    pthread_cond_t work;   /* for the thread: a transfer, or stop */
    pthread_cond_t change; /* for callers: a transfer ended, a failure, gone */
    struct dt_swap_transfer *first, **last; /* in the order of their start */
    dt_swap_ticket_t ticket;                /* the newest */
    uint64_t progress;                      /* blocks that are done */
    struct dt_swap_stats stats;
    bool stop; /* the thread is to end */
    bool gone; /* it ends now, and nothing is under way */
    bool failed;
    struct dt_error failure;
};

/* The thread: moves blocks until `stop`, and until the last request is done. */
void *dt_swap_worker(void *swap);

/* Makes why the failure of all that follows, unless there is one. The mutex is
 * held.
 */
void dt_swap_fail(struct dt_swap *swap, const struct dt_error *why);

#endif /* DT_PARALLEL_SWAP_IMPL_H */
