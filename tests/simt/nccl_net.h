/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_net.h - connections between the ranks of the fake NCCL */
#ifndef DT_SIMT_NCCL_NET_H
#define DT_SIMT_NCCL_NET_H

#include <nccl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The content of an id: where the rank that made it listens. */
struct nccl_door {
    struct sockaddr_in address; /* network order */
    unsigned long long number;  /* unique */
};

/* Listens at the address that NCCL_SOCKET_IFNAME ("=eth0") names, or else at
 * the first address of this host that is not loopback. A thread connects all
 * ranks that arrive. False: there is no network.
 */
bool nccl_net_open(struct nccl_door *door);

/* Connects rank `rank` of `size` to all others, which also connect to `door`:
 * fds[r] becomes a socket that does not block. Waits until all have arrived.
 * False: *stop became true meanwhile, or the network failed.
 */
bool nccl_net_join(const struct nccl_door *door, int rank, int size, int *fds,
                   const atomic_bool *stop);

/* Where a rank goes when a communicator is split. */
struct nccl_side {
    int color, key;
};

/* Tells all others over their sockets where this rank goes; writes to
 * members[size] the ranks with its color, in the order of their keys. How many
 * there are; 0 as false above.
 */
int nccl_net_split(const int *fds, int rank, int size, struct nccl_side own,
                   int *members, const atomic_bool *stop);

#endif /* DT_SIMT_NCCL_NET_H */
