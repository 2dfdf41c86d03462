/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swap_ring.h - many reads and writes of a file at a time, by io_uring; for
 * parallel/swap only
 *
 * After its creation only one thread may use a ring.
 */
#ifndef DT_PARALLEL_SWAP_RING_H
#define DT_PARALLEL_SWAP_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/error.h"

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

#endif /* DT_PARALLEL_SWAP_RING_H */
