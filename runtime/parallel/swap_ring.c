/* SPDX-License-Identifier: Apache-2.0 */
/* swap_ring.c - many reads and writes of a file at a time, by io_uring */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_URING
#include <liburing.h>
#endif

#include "parallel/swap_impl.h"

#ifdef HAVE_URING

struct dt_swap_ring {
    struct io_uring ring;
    bool registered;
};

static int cannot_create(int error, struct dt_error *err)
{
    if (error == EPERM || error == EACCES || error == ENOSYS)
        return dt_error_set(
            err, EX_CONFIG,
            "io_uring is not allowed here (%s): the sysctl "
            "kernel.io_uring_disabled must be 0, or 1 with this user in the "
            "group of kernel.io_uring_group; a container needs a seccomp "
            "profile that allows io_uring_setup, io_uring_enter and "
            "io_uring_register",
            strerror(error));
    return dt_error_set(err, EX_OSERR, "cannot set up io_uring: %s",
                        strerror(error));
}

struct dt_swap_ring *dt_swap_ring_create(unsigned depth, struct dt_error *err)
{
    struct dt_swap_ring *ring = calloc(1, sizeof(*ring));
    if (!ring) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    int rc = io_uring_queue_init(depth, &ring->ring, 0);
    if (rc == 0)
        return ring;
    cannot_create(-rc, err);
    free(ring);
    return NULL;
}

void dt_swap_ring_destroy(struct dt_swap_ring *ring)
{
    if (!ring)
        return;
    io_uring_queue_exit(&ring->ring);
    free(ring);
}

int dt_swap_ring_register(struct dt_swap_ring *ring, const struct iovec *pieces,
                          unsigned count)
{
    int rc = io_uring_register_buffers(&ring->ring, pieces, count);
    ring->registered = rc == 0;
    return -rc;
}

static void prepare(const struct dt_swap_ring *ring, struct io_uring_sqe *sqe,
                    int fd, const struct dt_swap_request *r)
{
    const unsigned bytes = (unsigned)r->bytes;
    const int piece = (int)r->piece;
    if (r->write && ring->registered)
        io_uring_prep_write_fixed(sqe, fd, r->data, bytes, r->offset, piece);
    else if (r->write)
        io_uring_prep_write(sqe, fd, r->data, bytes, r->offset);
    else if (ring->registered)
        io_uring_prep_read_fixed(sqe, fd, r->data, bytes, r->offset, piece);
    else
        io_uring_prep_read(sqe, fd, r->data, bytes, r->offset);
}

int dt_swap_ring_start(struct dt_swap_ring *ring, int fd,
                       const struct dt_swap_request *request, void *tag,
                       struct dt_error *err)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);
    int rc;
    if (!sqe)
        return dt_error_set(err, EX_OSERR,
                            "io_uring: more requests than the "
                            "ring was made for");
    prepare(ring, sqe, fd, request);
    io_uring_sqe_set_data(sqe, tag);
    while ((rc = io_uring_submit(&ring->ring)) == -EINTR)
        continue;
    if (rc < 0)
        return dt_error_set(err, EX_OSERR, "io_uring: cannot submit: %s",
                            strerror(-rc));
    return 0;
}

int dt_swap_ring_wait(struct dt_swap_ring *ring, int timeout_ms, void **tag,
                      int *result, struct dt_error *err)
{
    struct __kernel_timespec limit = {
        .tv_sec = timeout_ms / 1000,
        .tv_nsec = (long long)(timeout_ms % 1000) * 1000000,
    };
    struct io_uring_cqe *cqe = NULL;
    int rc;
    while ((rc = io_uring_wait_cqe_timeout(&ring->ring, &cqe, &limit)) ==
           -EINTR)
        continue;
    if (rc == -ETIME)
        return 0;
    if (rc < 0)
        return dt_error_set(err, EX_OSERR, "io_uring: cannot wait: %s",
                            strerror(-rc));
    *tag = io_uring_cqe_get_data(cqe);
    *result = cqe->res;
    io_uring_cqe_seen(&ring->ring, cqe);
    return 1;
}

#else

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

#endif
