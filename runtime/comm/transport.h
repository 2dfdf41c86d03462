/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - messages between ranks, over gloo; for comm/ only
 *
 * It neither listens nor connects: it gets connections whose other ends are
 * known.
 *
 * A message goes from a range of one rank's buffer to a range of another
 * rank's buffer under a number (slot) on which both agree; it flows once both
 * sides have posted it. Messages between two ranks arrive in the order in which
 * they were posted. Nothing here blocks but wait and close.
 *
 * Errors are the bare words of gloo or of the kernel, without context.
 */
#ifndef DT_COMM_TRANSPORT_H
#define DT_COMM_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/error.h"

struct dt_transport;        /* connections to other ranks */
struct dt_transport_buffer; /* memory that messages come from or go to */

enum dt_direction {
    DT_SEND,
    DT_RECV,
};

/* For rank `rank` of `size`. A peer whose host stays silent is given up after
 * outage_ms, even if nothing is sent; one whose host answers never is, however
 * late its process. NULL: EX_UNAVAILABLE.
 */
struct dt_transport *dt_transport_create(int rank, int size, int outage_ms,
                                         struct dt_error *err);

/* Messages to and from `peer` go over this connected socket, which belongs to
 * the transport from now on, also on failure. -1: EX_UNAVAILABLE.
 */
int dt_transport_add(struct dt_transport *transport, int peer, int fd,
                     struct dt_error *err);

/* Closes the connections; messages that were sent still arrive. After that no
 * buffer is read or written any more.
 */
void dt_transport_close(struct dt_transport *transport);

/* After its buffers are destroyed; NULL is fine. */
void dt_transport_destroy(struct dt_transport *transport);

/* `data` is not owned. NULL and err: EX_OSERR. */
struct dt_transport_buffer *dt_transport_buffer_create(
    struct dt_transport *transport, void *data, size_t bytes,
    struct dt_error *err);
void dt_transport_buffer_destroy(
    struct dt_transport_buffer *buffer); /* NULL is fine */

/* Posts one message. -1: the connection is broken, or there is none. */
int dt_transport_buffer_post(struct dt_transport_buffer *buffer,
                             enum dt_direction direction, int peer,
                             uint64_t slot, size_t offset, size_t bytes,
                             struct dt_error *err);

/* Waits up to `timeout_ms` for the end of one posted message in this direction:
 * the oldest one, if all have the same peer. 1 done, 0 not yet, -1: the
 * connection is broken.
 */
int dt_transport_buffer_wait(struct dt_transport_buffer *buffer,
                             enum dt_direction direction, int timeout_ms,
                             struct dt_error *err);

#ifdef __cplusplus
}
#endif

#endif /* DT_COMM_TRANSPORT_H */
