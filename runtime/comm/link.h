/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h - messages between each two ranks, over gloo; for comm/ only
 *
 * A message goes from a range of one rank's port to a range of another rank's
 * port under a number (slot) on which both agree; it flows once both sides have
 * posted it. Messages between two ranks arrive in the order in which they were
 * posted. Nothing here blocks but connect, wait and close.
 *
 * Errors are the bare words of gloo or of the kernel, without context.
 */
#ifndef DT_COMM_LINK_H
#define DT_COMM_LINK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/error.h"

struct dt_link; /* connections to all other ranks */
struct dt_port; /* memory that messages come from or go to */

enum dt_way {
    DT_SEND,
    DT_RECV,
};

enum {
    DT_LINK_SILENCE_MS = 3000,
};

/* Opens `size` - 1 doors at the local address `address` (numeric). */
struct dt_link *dt_link_create(int rank, int size, const char *address,
                               int timeout_ms, struct dt_error *err);

/* What all the other ranks need to connect, owned by the link. */
const void *dt_link_doors(const struct dt_link *link, size_t *bytes);

/* Connects to `peer`, which has the doors `doors`, and which does the same;
 * within the time-out given to create. From then on a peer whose host stays
 * silent is given up after about DT_LINK_SILENCE_MS, also if nothing is sent; a
 * host that answers never is, however late its process.
 */
int dt_link_connect(struct dt_link *link, int peer, const void *doors,
                    size_t bytes, struct dt_error *err);

/* Closes the connections; what was sent still arrives. After that no port is
 * read or written any more.
 */
void dt_link_close(struct dt_link *link);
void dt_link_destroy(struct dt_link *link); /* after its ports; NULL is fine */

/* `data` is not owned. NULL and err: EX_OSERR. */
struct dt_port *dt_port_create(struct dt_link *link, void *data, size_t bytes,
                               struct dt_error *err);
void dt_port_destroy(struct dt_port *port); /* NULL is fine */

/* Posts one message. -1: the connection is broken. */
int dt_port_post(struct dt_port *port, enum dt_way way, int peer, uint64_t slot,
                 size_t offset, size_t bytes, struct dt_error *err);

/* Waits up to `timeout_ms` for the end of one posted message of this way: the
 * oldest one, if all have the same peer. 1 done, 0 not yet, -1: the connection
 * is broken.
 */
int dt_port_wait(struct dt_port *port, enum dt_way way, int timeout_ms,
                 struct dt_error *err);

#ifdef __cplusplus
}
#endif

#endif /* DT_COMM_LINK_H */
