/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_net.h - connections between the ranks of the fake NCCL */
#ifndef DT_SIMT_NCCL_NET_H
#define DT_SIMT_NCCL_NET_H

#include <nccl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What an id says: the door of the rank that made it. */
struct nccl_door {
    struct sockaddr_in address; /* network order */
    unsigned long long number;  /* no two are the same */
};

/* Opens a door at the address that NCCL_SOCKET_IFNAME ("=eth0") names, or else
 * the first one of this host that is not its loopback; a thread brings together
 * all who come. False if there is no network.
 */
bool nccl_net_open(struct nccl_door *door);

/* Connects rank `rank` of `size` to all the others, which it meets at `door`:
 * fds[r] becomes a socket that does not block. Waits until all are there; false
 * if *stop became true meanwhile, or the network failed.
 */
bool nccl_net_join(const struct nccl_door *door, int rank, int size, int *fds,
                   const atomic_bool *stop);

#endif /* DT_SIMT_NCCL_NET_H */
