/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_operation.c - moving bytes between ranks, and adding them up */
#include "config.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "nccl_operation.h"

/* --- moving --- */

size_t nccl_width(int type)
{
    static const size_t widths[] = {[ncclInt8] = 1,
                                    [ncclFloat32] = 4,
                                    [ncclFloat64] = 8,
                                    [ncclBfloat16] = 2};
    return widths[type];
}

/* Moves what can be moved of `bytes` from `*done` on; true if all is there. */
static bool move(struct nccl_operation *o, int fd, void *data, size_t bytes,
                 size_t *done, bool sends)
{
    if (*done < bytes)
        simt_memory_open_at_locked(data);
    while (*done < bytes) {
        char *at = (char *)data + *done;
        ssize_t n = sends ? send(fd, at, bytes - *done, MSG_NOSIGNAL)
                          : recv(fd, at, bytes - *done, 0);
        if (n <= 0)
            return false; /* not now, or never again */
        *done += (size_t)n;
        o->moved = true;
    }
    return true;
}

static bool send_on(struct nccl_operation *o, int peer)
{
    struct nccl_transfer *t = &o->out[peer];
    int fd = o->comm->fds[peer];
    if (!t->data)
        return true;
    t->header = o->what;
    t->header.bytes = t->bytes;
    return move(o, fd, &t->header, sizeof(t->header), &t->header_done, true) &&
           move(o, fd, t->data, t->bytes, &t->done, true);
}

static bool receive_on(struct nccl_operation *o, int peer)
{
    struct nccl_transfer *t = &o->in[peer];
    struct nccl_header want = o->what;
    int fd = o->comm->fds[peer];
    if (!t->data)
        return true;
    if (!move(o, fd, &t->header, sizeof(t->header), &t->header_done, false))
        return false;
    want.bytes = t->bytes;
    if (memcmp(&want, &t->header, sizeof(want)) != 0) {
        if (!o->said)
            fprintf(stderr,
                    "simt: nccl: rank %d and rank %d do not agree on "
                    "operation %u\n",
                    o->comm->rank, peer, want.number);
        o->said = true;
        return false;
    }
    return move(o, fd, t->data, t->bytes, &t->done, false);
}

/* --- adding --- */

static double element(const char *data, int type, size_t i)
{
    uint32_t bits;
    uint16_t half;
    float f;
    double d;
    if (type == ncclFloat64) {
        memcpy(&d, data + i * 8, 8);
        return d;
    }
    if (type == ncclBfloat16) {
        memcpy(&half, data + i * 2, 2);
        bits = (uint32_t)half << 16;
        memcpy(&f, &bits, 4);
        return (double)f;
    }
    memcpy(&f, data + i * 4, 4);
    return (double)f;
}

static void set_element(char *data, int type, size_t i, double x)
{
    float f = (float)x;
    uint32_t bits;
    uint16_t half;
    if (type == ncclFloat64) {
        memcpy(data + i * 8, &x, 8);
    } else if (type == ncclBfloat16) {
        memcpy(&bits, &f, 4);
        half = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        memcpy(data + i * 2, &half, 2);
    } else {
        memcpy(data + i * 4, &f, 4);
    }
}

enum { RING_ELEMENTS = 16 }; /* that one rank ends, before those of the next */

/* The rank where the sum of element i ends, and that after which it begins. A
 * reduce-scatter ends a part where it belongs, an all-reduce cuts the elements
 * in its own way: so both add the same numbers in different orders.
 */
static int ring_end(const struct nccl_operation *o, size_t i)
{
    if (o->what.kind == REDUCE_SCATTER)
        return o->comm->rank;
    return (int)(i / RING_ELEMENTS % (size_t)o->comm->size);
}

/* to = op over ranks of their parts, around the ring, rounded after each. */
static void add_up(struct nccl_operation *o)
{
    int type = o->what.type, size = o->comm->size;
    size_t bytes = o->count * nccl_width(type);
    const char *own = o->from;
    if (o->what.kind == REDUCE_SCATTER)
        own += bytes * (size_t)o->comm->rank;
    memmove(o->room + bytes * (size_t)o->comm->rank, own, bytes);
    for (size_t i = 0; i < o->count; i++)
        for (int step = 1; step <= size; step++) {
            int r = (ring_end(o, i) + step) % size;
            double b = element(o->room + bytes * (size_t)r, type, i);
            double a = step > 1 ? element(o->to, type, i) : b;
            double greater = a > b || a != a ? a : b;
            double sum = step > 1 ? a + b : b;
            set_element(o->to, type, i, o->what.op == ncclMax ? greater : sum);
        }
}

static void finish(struct nccl_operation *o)
{
    size_t bytes = o->count * nccl_width(o->what.type);
    if (o->what.kind == ALL_REDUCE || o->what.kind == REDUCE_SCATTER)
        add_up(o);
    else if (o->what.kind == ALL_GATHER)
        memmove(o->to + bytes * (size_t)o->comm->rank, o->from, bytes);
    else if (o->what.kind == BROADCAST && o->comm->rank == o->what.root)
        memmove(o->to, o->from, bytes);
}

static bool is_open(const struct nccl_transfer *t)
{
    return t->data &&
           (t->header_done < sizeof(t->header) || t->done < t->bytes);
}

bool nccl_operation_blocked(void *ctx)
{
    const struct nccl_operation *o = ctx;
    bool all = true;
    if (atomic_load(&o->comm->stop))
        return false;
    if (o->comm->finished + 1 != o->what.number)
        return true;
    for (int r = 0; r < o->comm->size; r++) {
        struct pollfd fd = {.fd = o->comm->fds[r]};
        fd.events = (is_open(&o->out[r]) ? POLLOUT : 0) |
                    (is_open(&o->in[r]) ? POLLIN : 0);
        if (fd.events != 0 && poll(&fd, 1, 0) > 0)
            return false;
        all &= fd.events == 0;
    }
    return !all;
}

enum simt_progress nccl_operation_progress(void *ctx)
{
    struct nccl_operation *o = ctx;
    bool all = true;
    if (atomic_load(&o->comm->stop))
        return SIMT_DONE;
    if (o->comm->finished + 1 != o->what.number)
        return SIMT_BLOCKED;
    o->moved = false;
    for (int r = 0; r < o->comm->size; r++)
        if (r != o->comm->rank) {
            all &= send_on(o, r);
            all &= receive_on(o, r);
        }
    if (!all)
        return o->moved ? SIMT_MOVED : SIMT_BLOCKED;
    finish(o);
    o->comm->finished++;
    return SIMT_DONE;
}

/* --- coming and going --- */

void nccl_comm_unref(struct ncclComm *comm)
{
    if (atomic_fetch_sub(&comm->references, 1) > 1)
        return;
    for (int r = 0; r < comm->size; r++)
        if (comm->fds[r] >= 0)
            close(comm->fds[r]);
    free(comm->fds);
    free(comm);
}

void nccl_operation_release(void *ctx)
{
    struct nccl_operation *o = ctx;
    nccl_comm_unref(o->comm);
    free(o->out);
    free(o->in);
    free(o->room);
    free(o);
}

struct nccl_operation *nccl_operation(struct ncclComm *comm,
                                      enum nccl_kind kind, cudaStream_t stream)
{
    size_t n = (size_t)comm->size;
    struct nccl_operation *o = calloc(1, sizeof(*o));
    *o = (struct nccl_operation){
        .comm = comm,
        .stream = stream,
        .out = calloc(n, sizeof(struct nccl_transfer)),
        .in = calloc(n, sizeof(struct nccl_transfer)),
    };
    o->what.kind = (int)kind;
    comm->references++;
    return o;
}
