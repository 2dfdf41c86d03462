/* SPDX-License-Identifier: Apache-2.0 */
/* swap_noring.c - in place of swap_ring.c where there is no liburing */
#include "config.h"

#include <errno.h>

#include "parallel/swap_ring.h"

struct dt_swap_ring *dt_swap_ring_create(unsigned depth, struct dt_error *err)
{
    (void)depth;
    dt_error_set(err, EX_CONFIG,
                 "this disttrain was built without liburing, so it cannot "
                 "keep tensors on a drive: configure it --with-uring "
                 "(Debian: liburing-dev)");
    return NULL;
}

void dt_swap_ring_destroy(struct dt_swap_ring *ring)
{
    (void)ring;
}

int dt_swap_ring_register(struct dt_swap_ring *ring, const struct iovec *pieces,
                          unsigned count)
{
    (void)ring;
    (void)pieces;
    (void)count;
    return ENOSYS;
}

int dt_swap_ring_start(struct dt_swap_ring *ring, int fd,
                       const struct dt_swap_request *request, void *tag,
                       struct dt_error *err)
{
    (void)ring;
    (void)fd;
    (void)request;
    (void)tag;
    return dt_error_set(err, EX_CONFIG, "no io_uring");
}

int dt_swap_ring_wait(struct dt_swap_ring *ring, int timeout_ms, void **tag,
                      int *result, struct dt_error *err)
{
    (void)ring;
    (void)timeout_ms;
    (void)tag;
    (void)result;
    return dt_error_set(err, EX_CONFIG, "no io_uring");
}
