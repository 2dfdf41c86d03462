/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - messages between ranks, over gloo; for comm/ only
 *
 * A message goes from a range of one rank's buffer to a range of another
 * rank's buffer under a number (slot) on which both agree; it flows once both
 * sides have posted it. Messages between two ranks arrive in the order in which
 * they were posted. Nothing here blocks but connect, wait and close.
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

enum {
    DT_TRANSPORT_ADDRESS_BYTES = 40,
};

struct dt_transport_times {
    int connect_ms; /* longest wait for a connection */
    int outage_ms;  /* longest silence of a peer's host */
};

/* Prepares to listen at the local address `address` (numeric). NULL:
 * EX_UNAVAILABLE.
 */
struct dt_transport *dt_transport_create(int rank, int size,
                                         const char *address,
                                         const struct dt_transport_times *times,
                                         struct dt_error *err);

/* Listens, once for each of peers[count], the ranks that are to connect.
 * Returns the addresses, of DT_TRANSPORT_ADDRESS_BYTES each, owned by the
 * transport and valid until the next call. NULL: EX_UNAVAILABLE, or EX_OSERR if
 * so many files may not be open.
 */
const void *dt_transport_listen(struct dt_transport *transport,
                                const int *peers, int count,
                                struct dt_error *err);

/* Connects to `peer`, which listens at `addresses` and does the same; within
 * connect_ms. From then on a peer whose host stays silent is given up after
 * outage_ms, even if nothing is sent; one whose host answers never is, however
 * late its process.
 */
int dt_transport_connect(struct dt_transport *transport, int peer,
                         const void *addresses, size_t bytes,
                         struct dt_error *err);

/* Closes the connections; what was sent still arrives. After that no buffer is
 * read or written any more.
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
