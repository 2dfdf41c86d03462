/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.c - NCCL between processes whose GPUs are emulated
 *
 * Made to find mistakes, like the rest of tests/simt. Every call but one is
 * through only when ncclCommGetAsyncError has been asked for it twice; another
 * call meanwhile ends the process. Buffers have to be device memory. A rank
 * that is gone, or that does something else than the others, lets operations
 * hang, as the real library does.
 *
 * SIMT_NCCL_VERSION=22703   another version
 * SIMT_NCCL_FAIL=N          the N-th call of a collective fails later on
 * SIMT_NCCL_ABSENT=1        this rank never comes to ncclCommInitRank
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "nccl_operation.h"

static _Thread_local int group_depth;
static _Thread_local struct nccl_operation *group;

static long number_of(const char *variable)
{
    const char *value = getenv(variable);
    return value ? atol(value) : 0;
}

static void check(const char *name, const void *data, size_t bytes)
{
    if (bytes > 0 && !simt_is_device(data, bytes))
        simt_fail("%s: %zu bytes at %p are no device memory", name, bytes,
                  data);
}

static void check_idle(const struct ncclComm *comm, const char *name)
{
    if (comm->calling)
        simt_fail("%s: the call before it is not through", name);
}

/* The call is made; it goes to the stream a little later. */
static ncclResult_t call(struct ncclComm *comm, struct nccl_operation *o)
{
    static long calls;
    struct nccl_operation **last = &comm->waiting;
    while (*last)
        last = &(*last)->next;
    *last = o;
    o->what.number = ++comm->issued;
    comm->calling = true;
    comm->asked = 0;
    if (++calls == number_of("SIMT_NCCL_FAIL"))
        comm->failed = true;
    return ncclInProgress;
}

static ncclResult_t collective(enum nccl_kind kind, const void *from, void *to,
                               size_t count, int type, int op, int root,
                               ncclComm_t comm, cudaStream_t stream)
{
    static const char *const names[] = {"ncclAllReduce", "ncclReduceScatter",
                                        "ncclAllGather", "ncclBroadcast"};
    size_t n = (size_t)comm->size, bytes = count * nccl_width(type);
    struct nccl_operation *o;
    if (group_depth > 0)
        simt_fail("%s: no collectives in groups here", names[kind]);
    check_idle(comm, names[kind]);
    check(names[kind], from, kind == REDUCE_SCATTER ? bytes * n : bytes);
    check(names[kind], to, kind == ALL_GATHER ? bytes * n : bytes);
    o = nccl_operation(comm, kind, stream);
    o->from = from;
    o->to = to;
    o->count = count;
    o->what.type = type;
    o->what.op = op;
    o->what.root = root;
    if (kind == ALL_REDUCE || kind == REDUCE_SCATTER)
        o->room = malloc(bytes * n + 1);
    for (int r = 0; r < comm->size; r++) {
        char *mine = (char *)from, *theirs = o->room;
        if (kind == REDUCE_SCATTER)
            mine += bytes * (size_t)r;
        if (kind == ALL_GATHER || kind == BROADCAST)
            theirs = to;
        if (kind != BROADCAST)
            theirs += bytes * (size_t)r;
        if (kind != BROADCAST || root == comm->rank)
            o->out[r] = (struct nccl_transfer){.data = mine, .bytes = bytes};
        if (kind != BROADCAST || root == r)
            o->in[r] = (struct nccl_transfer){.data = theirs, .bytes = bytes};
    }
    return call(comm, o);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective(ALL_REDUCE, from, to, count, (int)type, (int)op, 0, comm,
                      stream);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return collective(REDUCE_SCATTER, from, to, count, (int)type, (int)op, 0,
                      comm, stream);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective(ALL_GATHER, from, to, count, (int)type, 0, 0, comm,
                      stream);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective(BROADCAST, from, to, count, (int)type, 0, root, comm,
                      stream);
}

/* --- messages between two, in one group --- */

static struct nccl_operation *in_group(ncclComm_t comm, cudaStream_t stream,
                                       const char *name, int peer)
{
    if (group_depth == 0 || peer == comm->rank)
        simt_fail("%s: only in groups, and to others, here", name);
    check_idle(comm, name);
    if (!group)
        group = nccl_operation(comm, SEND_RECEIVE, stream);
    if (group->comm != comm || group->stream != stream)
        simt_fail("%s: one communicator and stream in a group here", name);
    return group;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream)
{
    struct nccl_operation *o = in_group(comm, stream, "ncclSend", peer);
    size_t bytes = count * nccl_width((int)type);
    check("ncclSend", from, bytes);
    if (o->out[peer].data)
        simt_fail("ncclSend: one message to rank %d in a group here", peer);
    o->out[peer] = (struct nccl_transfer){.data = (char *)from, .bytes = bytes};
    return ncclSuccess;
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    struct nccl_operation *o = in_group(comm, stream, "ncclRecv", peer);
    size_t bytes = count * nccl_width((int)type);
    check("ncclRecv", to, bytes);
    if (o->in[peer].data)
        simt_fail("ncclRecv: one message of rank %d in a group here", peer);
    o->in[peer] = (struct nccl_transfer){.data = to, .bytes = bytes};
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    struct nccl_operation *o = group;
    if (--group_depth < 0)
        simt_fail("ncclGroupEnd: there is no group");
    if (group_depth > 0 || !o)
        return ncclSuccess;
    group = NULL;
    return call(o->comm, o);
}

/* --- communicators --- */

static void *join_main(void *arg)
{
    struct ncclComm *comm = arg;
    bool ok = nccl_net_join(&comm->door, comm->rank, comm->size, comm->fds,
                            &comm->stop);
    atomic_store(&comm->joined, ok ? 1 : -1);
    return NULL;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    struct nccl_door door;
    memset(&door, 0, sizeof(door));
    memset(id, 0, sizeof(*id));
    if (!nccl_net_open(&door))
        return ncclSystemError;
    memcpy(id, &door, sizeof(door));
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id,
                                    int rank, ncclConfig_t *config)
{
    struct ncclComm *c = calloc(1, sizeof(*c));
    sigset_t all, before;
    if (config->blocking != 0)
        simt_fail("ncclCommInitRankConfig: only with blocking = 0 here");
    c->rank = rank;
    c->size = size;
    c->fds = malloc((size_t)size * sizeof(int));
    for (int r = 0; r < size; r++)
        c->fds[r] = -1;
    memcpy(&c->door, &id, sizeof(c->door));
    c->references = 1;
    c->calling = true;
    *comm = c;
    if (number_of("SIMT_NCCL_ABSENT"))
        return ncclInProgress;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&c->thread, NULL, join_main, c) != 0)
        simt_fail("ncclCommInitRankConfig: no thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ncclInProgress;
}

/* The handle comes late, also if there is none: who has freed its place by then
 * has other bytes there.
 */
static void hand_over(struct ncclComm *part, bool made)
{
    if (__atomic_load_n(part->place, __ATOMIC_ACQUIRE))
        simt_fail("ncclCommSplit: the place of the new communicator was freed "
                  "before the one that is split");
    __atomic_store_n(part->place, made ? part : NULL, __ATOMIC_RELEASE);
}

/* A part has the sockets of the whole: operations of both are in one stream. */
static void *split_main(void *arg)
{
    struct ncclComm *part = arg, *comm = part->parent;
    int *members = malloc((size_t)comm->size * sizeof(int));
    int count = nccl_net_split(comm->fds, comm->rank, comm->size, part->side,
                               members, &part->stop);
    part->fds = malloc((size_t)comm->size * sizeof(int));
    part->size = count;
    for (int i = 0; i < count; i++) {
        if (members[i] == comm->rank)
            part->rank = i;
        part->fds[i] =
            comm->fds[members[i]] < 0 ? -1 : dup(comm->fds[members[i]]);
    }
    free(members);
    hand_over(part, count > 0);
    atomic_store(&part->joined, count > 0 ? 1 : -1);
    atomic_store(&comm->joined, count > 0 ? 1 : -1);
    return NULL;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                           ncclComm_t *part, ncclConfig_t *config)
{
    struct ncclComm *c = calloc(1, sizeof(*c));
    sigset_t all, before;
    check_idle(comm, "ncclCommSplit");
    if (comm->finished != comm->issued || config->blocking != 0 ||
        config->splitShare != 1)
        simt_fail("ncclCommSplit: only when nothing is under way, and with "
                  "blocking = 0 and splitShare = 1 here");
    c->parent = comm;
    comm->split = c;
    c->place = part;
    c->side = (struct nccl_side){color, key};
    c->references = 1;
    c->calling = comm->calling = true;
    comm->asked = 0;
    atomic_store(&comm->joined, 0);
    *part = NULL;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&c->thread, NULL, split_main, c) != 0)
        simt_fail("ncclCommSplit: no thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ncclInProgress;
}

/* All ranks meet at the first id here. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int size, int rank,
                                      int id_count, ncclUniqueId *ids,
                                      ncclConfig_t *config)
{
    if (id_count < 1 || id_count > size)
        return ncclInvalidArgument;
    return ncclCommInitRankConfig(comm, size, ids[0], rank, config);
}

/* What the last call has left for later. */
static void queue_waiting(struct ncclComm *comm)
{
    struct nccl_operation *next;
    for (struct nccl_operation *o = comm->waiting; o; o = next) {
        next = o->next;
        simt_enqueue_work(o->stream,
                          (struct simt_work){nccl_operation_progress,
                                             nccl_operation_release, o,
                                             nccl_operation_blocked});
    }
    comm->waiting = NULL;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    int joined = atomic_load(&comm->joined);
    *state = ncclInProgress;
    if (joined < 0)
        *state = ncclRemoteError;
    else if (comm->failed && comm->asked > 0)
        *state = ncclSystemError;
    else if (joined > 0 && comm->asked > 0) {
        queue_waiting(comm);
        comm->calling = false;
        comm->split = NULL;
        *state = ncclSuccess;
    }
    comm->asked++;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    check_idle(comm, "ncclCommFinalize");
    if (comm->finished != comm->issued)
        simt_fail("ncclCommFinalize: operations are under way");
    comm->calling = true;
    comm->asked = 0;
    return ncclInProgress;
}

/* --- registered memory --- */

enum { MOST_REGISTERED = 64 };

struct registered {
    const struct ncclComm *comm; /* NULL: free */
    const char *data;
    size_t bytes;
};

static struct registered registered[MOST_REGISTERED];

bool simt_is_registered_locked(const void *data, size_t bytes)
{
    const char *at = data;
    for (int i = 0; i < MOST_REGISTERED; i++)
        if (registered[i].comm &&
            at < registered[i].data + registered[i].bytes &&
            registered[i].data < at + bytes)
            return true;
    return false;
}

/* The end of a communicator is that of its registrations. */
static void forget_registered(const struct ncclComm *comm)
{
    simt_lock();
    for (int i = 0; i < MOST_REGISTERED; i++)
        if (registered[i].comm == comm)
            registered[i].comm = NULL;
    simt_unlock();
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *data, size_t bytes,
                              void **handle)
{
    int i = 0;
    check_idle(comm, "ncclCommRegister");
    check("ncclCommRegister", data, bytes);
    simt_lock();
    while (i < MOST_REGISTERED && registered[i].comm)
        i++;
    if (i < MOST_REGISTERED)
        registered[i] = (struct registered){comm, data, bytes};
    simt_unlock();
    *handle = i < MOST_REGISTERED ? &registered[i] : NULL;
    return *handle ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    struct registered *r = handle;
    check_idle(comm, "ncclCommDeregister");
    if (!r || r->comm != comm)
        return ncclInvalidArgument;
    simt_lock();
    r->comm = NULL;
    simt_unlock();
    return ncclSuccess;
}

/* --- the end --- */

static void end_thread(struct ncclComm *comm)
{
    atomic_store(&comm->stop, true);
    if (comm->thread)
        pthread_join(comm->thread, NULL);
    comm->thread = 0;
}

/* A split that is under way ends with the communicator that is split. */
static void end_split(struct ncclComm *comm)
{
    struct ncclComm *part = comm->split;
    if (!part)
        return;
    end_thread(part);
    if (atomic_load(&part->joined) < 0) /* nobody has its handle */
        nccl_comm_unref(part);
    comm->split = NULL;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    check_idle(comm, "ncclCommDestroy");
    end_thread(comm);
    end_split(comm);
    forget_registered(comm);
    nccl_comm_unref(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    struct nccl_operation *next;
    end_thread(comm);
    end_split(comm);
    forget_registered(comm);
    for (struct nccl_operation *o = comm->waiting; o; o = next) {
        next = o->next;
        nccl_operation_release(o);
    }
    nccl_comm_unref(comm);
    return ncclSuccess;
}

ncclResult_t ncclGetVersion(int *version)
{
    long other = number_of("SIMT_NCCL_VERSION");
    *version = other ? (int)other : NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error",
        "unhandled system error",
        "internal error",
        "invalid argument",
        "invalid usage",
        "remote process exited or there was a network error",
        "NCCL operation in progress"};
    return texts[result];
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm && comm->failed ? "SIMT_NCCL_FAIL\n" : "";
}
