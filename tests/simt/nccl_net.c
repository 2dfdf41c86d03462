/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_net.c - how the ranks of the fake NCCL find each other
 *
 * Each rank opens a door of its own and tells the root where it is; the root
 * tells all ranks all doors once everybody has come. Then each two connect.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nccl_net.h"

enum {
    SLICE_MS = 20,
    MOST_RANKS = 64,
};

struct hello {
    int rank, size;
    struct sockaddr_in address;
};

static atomic_bool never;

/* --- sockets that can be stopped --- */

static bool ready(int fd, short events, const atomic_bool *stop)
{
    struct pollfd p = {.fd = fd, .events = events};
    while (!atomic_load(stop))
        if (poll(&p, 1, SLICE_MS) > 0)
            return true;
    return false;
}

static bool move_all(int fd, void *data, size_t bytes, bool sends,
                     const atomic_bool *stop)
{
    char *at = data;
    while (bytes > 0) {
        if (!ready(fd, sends ? POLLOUT : POLLIN, stop))
            return false;
        ssize_t n = sends ? send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                          : recv(fd, at, bytes, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool own_address(struct sockaddr_in *address)
{
    const char *name = getenv("NCCL_SOCKET_IFNAME");
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all) < 0)
        return false;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        bool fits = name && name[0] == '=' ? !strcmp(i->ifa_name, name + 1)
                                           : !(i->ifa_flags & IFF_LOOPBACK);
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && fits &&
            !found) {
            memcpy(address, i->ifa_addr, sizeof(*address));
            found = true;
        }
    }
    freeifaddrs(all);
    return found;
}

static int open_door(struct sockaddr_in *address)
{
    socklen_t bytes = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(address, 0, sizeof(*address));
    if (fd >= 0 && own_address(address)) {
        address->sin_port = 0;
        if (bind(fd, (void *)address, bytes) == 0 &&
            listen(fd, MOST_RANKS) == 0 &&
            getsockname(fd, (void *)address, &bytes) == 0)
            return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static int enter(int door, const atomic_bool *stop)
{
    return ready(door, POLLIN, stop) ? accept4(door, NULL, NULL, SOCK_CLOEXEC)
                                     : -1;
}

static int knock(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const void *)address, sizeof(*address)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* --- the root --- */

static void *root_main(void *arg)
{
    int door = (int)(long)arg, size = 1, fds[MOST_RANKS], came = 0;
    struct sockaddr_in doors[MOST_RANKS];
    struct hello hello;
    memset(doors, 0, sizeof(doors));
    for (; came < size; came++) {
        fds[came] = enter(door, &never);
        if (!move_all(fds[came], &hello, sizeof(hello), false, &never) ||
            hello.size > MOST_RANKS)
            return NULL;
        size = hello.size;
        doors[hello.rank] = hello.address;
    }
    for (int i = 0; i < size; i++) {
        move_all(fds[i], doors, sizeof(doors), true, &never);
        close(fds[i]);
    }
    close(door);
    return NULL;
}

bool nccl_net_open(struct nccl_door *door)
{
    static unsigned long long opened;
    int fd = open_door(&door->address);
    sigset_t all, before;
    pthread_t thread;
    int rc;
    door->number = (unsigned long long)getpid() << 32 | ++opened;
    if (fd < 0)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, NULL, root_main, (void *)(long)fd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_detach(thread);
    return rc == 0;
}

/* --- each rank --- */

static bool meet(const struct nccl_door *door, struct hello *hello,
                 struct sockaddr_in *doors, const atomic_bool *stop)
{
    int root = knock(&door->address);
    bool ok = root >= 0 && move_all(root, hello, sizeof(*hello), true, stop) &&
              move_all(root, doors, MOST_RANKS * sizeof(*doors), false, stop);
    if (root >= 0)
        close(root);
    return ok;
}

bool nccl_net_join(const struct nccl_door *door, int rank, int size, int *fds,
                   const atomic_bool *stop)
{
    struct hello hello = {.rank = rank, .size = size};
    struct sockaddr_in doors[MOST_RANKS];
    int own = open_door(&hello.address), yes = 1;
    bool ok = own >= 0 && meet(door, &hello, doors, stop);
    for (int i = 0; ok && i < size - 1; i++) {
        int peer = i, fd;
        if (i < rank) {
            fd = knock(&doors[i]);
            ok = fd >= 0 && move_all(fd, &rank, sizeof(rank), true, stop);
        } else {
            fd = enter(own, stop);
            ok = fd >= 0 && move_all(fd, &peer, sizeof(peer), false, stop);
        }
        if (!ok)
            break;
        fds[peer] = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    if (own >= 0)
        close(own);
    return ok;
}

int nccl_net_split(const int *fds, int rank, int size, struct nccl_side own,
                   int *members, const atomic_bool *stop)
{
    struct nccl_side sides[MOST_RANKS];
    int count = 0;
    for (int r = 0; r < size; r++)
        if (r != rank && !move_all(fds[r], &own, sizeof(own), true, stop))
            return 0;
    for (int r = 0; r < size; r++) {
        sides[r] = own;
        if (r != rank && !move_all(fds[r], &sides[r], sizeof(own), false, stop))
            return 0;
    }
    for (int r = 0; r < size; r++) {
        int i = count;
        if (sides[r].color != own.color)
            continue;
        for (; i > 0 && sides[members[i - 1]].key > sides[r].key; i--)
            members[i] = members[i - 1];
        members[i] = r;
        count++;
    }
    return count;
}
