/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_api.c - the calls of NCCL, and its errors in words */
#include "config.h"

#include <assert.h>
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "comm/comm_impl.h"
#include "comm/comm_nccl.h"

enum {
    REGISTRATIONS = 8,
};

static const char *const library_name = "libnccl.so.2";

/* Functions that NCCL must have, named without "nccl". */
#define NEEDED(F)                                                              \
    F(GetVersion)                                                              \
    F(GetErrorString)                                                          \
    F(GetUniqueId)                                                             \
    F(CommInitRankConfig)                                                      \
    F(CommGetAsyncError)                                                       \
    F(CommFinalize)                                                            \
    F(CommDestroy)                                                             \
    F(CommAbort)                                                               \
    F(GetLastError)                                                            \
    F(AllReduce)                                                               \
    F(ReduceScatter)                                                           \
    F(AllGather)                                                               \
    F(Broadcast)                                                               \
    F(Send)                                                                    \
    F(Recv)                                                                    \
    F(GroupStart)                                                              \
    F(GroupEnd)

/* Functions that it may have; NULL if it has not. */
#define WANTED(F)                                                              \
    F(CommInitRankScalable)                                                    \
    F(CommSplit)                                                               \
    F(CommRegister)                                                            \
    F(CommDeregister)

static struct {
#define MEMBER(name) __typeof__(nccl##name) *name;
    NEEDED(MEMBER)
    WANTED(MEMBER)
#undef MEMBER
} lib;

struct registration {
    const void *data;
    size_t bytes;
    void *handle; /* NULL: it was not to be had */
};

/* Freed by the last of those who use it: the owner, and the thread of destroy.
 */
struct dt_nccl {
    ncclComm_t comm;
    int rank, size, device;
    const char *call; /* the last one, for messages */
    struct registration registrations[REGISTRATIONS];
    int registration_count;

    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool in_order, over, left_behind; /* of destroy */
};

static int failed(struct dt_nccl *nccl, const char *call, ncclResult_t rc,
                  struct dt_error *err)
{
    const char *more =
        lib.GetLastError ? lib.GetLastError(nccl ? nccl->comm : NULL) : NULL;
    int length = more ? (int)strcspn(more, "\n") : 0;
    return dt_error_set(err, EX_OSERR, "%s: %s%s%.*s", call,
                        lib.GetErrorString(rc), length > 0 ? ": " : "", length,
                        length > 0 ? more : "");
}

/* The call may still be going on: see dt_nccl_state. */
static int called(struct dt_nccl *nccl, const char *call, ncclResult_t rc,
                  struct dt_error *err)
{
    nccl->call = call;
    if (rc == ncclSuccess || rc == ncclInProgress)
        return 0;
    return failed(nccl, call, rc, err);
}

/* One function of the library; `into` is the address of its pointer. */
static bool find(void *library, const char *name, void *into)
{
    void *function = dlsym(library, name);
    memcpy(into, &function, sizeof(function));
    return function;
}

static int find_all(void *library, struct dt_error *err)
{
    const char *missing = NULL;
#define FIND(name)                                                             \
    if (!find(library, "nccl" #name, &lib.name))                               \
        missing = "nccl" #name;
    NEEDED(FIND)
#undef FIND
#define FIND(name) find(library, "nccl" #name, &lib.name);
    WANTED(FIND)
#undef FIND
    if (missing)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "%s has no %s: NCCL 2.14 or newer is needed",
                            library_name, missing);
    return 0;
}

static int load(struct dt_error *err)
{
    /* an NCCL that somebody has preloaded goes before the installed one */
    void *library = RTLD_DEFAULT;
    if (!dlsym(library, "ncclGetVersion")) {
        library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return dt_error_set(err, EX_UNAVAILABLE,
                                "%s: more than one GPU needs NCCL: install "
                                "libnccl2 of NVIDIA, or add its folder to "
                                "LD_LIBRARY_PATH",
                                dlerror());
    }
    return find_all(library, err);
}

int dt_nccl_open(int *version, struct dt_error *err)
{
    static bool loaded;
    ncclResult_t rc;
    if (!loaded && load(err) < 0)
        return -1;
    loaded = true;
    rc = lib.GetVersion(version);
    return rc == ncclSuccess ? 0 : failed(NULL, "ncclGetVersion", rc, err);
}

const char *dt_comm_nccl_library(void)
{
    static char text[256];
    struct dt_error why;
    int version;
    if (dt_nccl_open(&version, &why) < 0)
        snprintf(text, sizeof(text), "none: %.240s", why.text);
    else
        snprintf(text, sizeof(text), "NCCL %d.%d.%d", version / 10000,
                 version / 100 % 100, version % 100);
    return text;
}

bool dt_nccl_many_ids(void)
{
    return lib.CommInitRankScalable;
}

int dt_nccl_listen(struct dt_nccl_id *id, struct dt_error *err)
{
    ncclUniqueId unique;
    ncclResult_t rc = lib.GetUniqueId(&unique);
    _Static_assert(sizeof(unique) == sizeof(*id), "of NCCL");
    if (rc != ncclSuccess)
        return failed(NULL, "ncclGetUniqueId", rc, err);
    memcpy(id, &unique, sizeof(unique));
    return 0;
}

/* A part has the buffers of the whole: all operations are in one stream. */
static ncclConfig_t config_of(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0)
    config.splitShare = 1;
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    config.commName = "disttrain";
#endif
    return config;
}

static int begin(struct dt_nccl *nccl, const struct dt_nccl_id *ids,
                 int id_count, struct dt_error *err)
{
    ncclConfig_t config = config_of();
    ncclUniqueId first;
    if (id_count > 1)
        return called(nccl, "ncclCommInitRankScalable",
                      lib.CommInitRankScalable(&nccl->comm, nccl->size,
                                               nccl->rank, id_count,
                                               (ncclUniqueId *)ids, &config),
                      err);
    memcpy(&first, ids, sizeof(first));
    return called(nccl, "ncclCommInitRankConfig",
                  lib.CommInitRankConfig(&nccl->comm, nccl->size, first,
                                         nccl->rank, &config),
                  err);
}

static struct dt_nccl *allocate(int rank, int size, struct dt_error *err)
{
    struct dt_nccl *nccl = calloc(1, sizeof(*nccl));
    pthread_condattr_t attr;
    if (!nccl) {
        dt_error_set(err, EX_OSERR, "no memory");
        return NULL;
    }
    nccl->rank = rank;
    nccl->size = size;
    cudaGetDevice(&nccl->device);
    pthread_mutex_init(&nccl->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&nccl->cond, &attr);
    pthread_condattr_destroy(&attr);
    return nccl;
}

struct dt_nccl *dt_nccl_create(int rank, int size, const struct dt_nccl_id *ids,
                               int id_count, struct dt_error *err)
{
    struct dt_nccl *nccl = allocate(rank, size, err);
    if (!nccl || begin(nccl, ids, id_count, err) == 0)
        return nccl;
    dt_nccl_destroy(nccl, false, 0);
    return NULL;
}

struct dt_nccl *dt_nccl_split(struct dt_nccl *nccl, int color, int key,
                              int rank, int size, struct dt_error *err)
{
    ncclConfig_t config = config_of();
    if (!lib.CommSplit) {
        dt_error_set(err, EX_UNAVAILABLE,
                     "%s has no ncclCommSplit: sums within nodes need NCCL "
                     "2.18 or newer; distributed.reduction: flat does without",
                     library_name);
        return NULL;
    }
    struct dt_nccl *part = allocate(rank, size, err);
    if (!part ||
        called(nccl, "ncclCommSplit",
               lib.CommSplit(nccl->comm, color, key, &part->comm, &config),
               err) == 0)
        return part;
    dt_nccl_destroy(part, false, 0);
    return NULL;
}

bool dt_nccl_is_made(const struct dt_nccl *nccl)
{
    return nccl && nccl->comm;
}

int dt_nccl_state(struct dt_nccl *nccl, struct dt_error *err)
{
    ncclResult_t state, rc;
    if (!nccl->comm) /* a split is not that far yet */
        return 0;
    rc = lib.CommGetAsyncError(nccl->comm, &state);
    if (rc != ncclSuccess)
        return failed(nccl, "ncclCommGetAsyncError", rc, err);
    if (state == ncclInProgress)
        return 0;
    return state == ncclSuccess ? 1 : failed(nccl, nccl->call, state, err);
}

/* --- the end --- */

static void free_all(struct dt_nccl *nccl)
{
    pthread_cond_destroy(&nccl->cond);
    pthread_mutex_destroy(&nccl->mutex);
    free(nccl);
}

void dt_nccl_deregister(struct dt_nccl *nccl)
{
    for (int i = 0; i < nccl->registration_count; i++)
        if (nccl->registrations[i].handle)
            lib.CommDeregister(nccl->comm, nccl->registrations[i].handle);
    nccl->registration_count = 0;
}

static void leave_in_order(struct dt_nccl *nccl)
{
    ncclResult_t state = ncclSuccess;
    dt_nccl_deregister(nccl);
    lib.CommFinalize(nccl->comm);
    while (lib.CommGetAsyncError(nccl->comm, &state) == ncclSuccess &&
           state == ncclInProgress)
        dt_clock_sleep(1e-3);
    if (state == ncclSuccess)
        lib.CommDestroy(nccl->comm);
    else
        lib.CommAbort(nccl->comm);
}

static void *end_main(void *arg)
{
    struct dt_nccl *nccl = arg;
    bool left_behind;
    cudaSetDevice(nccl->device); /* a new thread has GPU 0 */
    if (nccl->in_order)
        leave_in_order(nccl);
    else
        lib.CommAbort(nccl->comm);
    pthread_mutex_lock(&nccl->mutex);
    nccl->over = true;
    left_behind = nccl->left_behind;
    pthread_cond_signal(&nccl->cond);
    pthread_mutex_unlock(&nccl->mutex);
    if (left_behind)
        free_all(nccl);
    return NULL;
}

/* Runs end_main. True if it is over in time; then nobody but us has nccl. */
static bool end_in_thread(struct dt_nccl *nccl, int timeout_ms)
{
    struct timespec deadline = dt_clock_in(CLOCK_MONOTONIC, timeout_ms);
    pthread_t thread;
    bool over;
    int rc = 0;
    if (dt_thread_start(&thread, NULL, end_main, nccl) != 0)
        return false;
    pthread_mutex_lock(&nccl->mutex);
    while (!nccl->over && rc == 0)
        rc = pthread_cond_timedwait(&nccl->cond, &nccl->mutex, &deadline);
    over = nccl->over;
    nccl->left_behind = !over;
    pthread_mutex_unlock(&nccl->mutex);
    if (over)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    return over;
}

bool dt_nccl_destroy(struct dt_nccl *nccl, bool in_order, int timeout_ms)
{
    if (!nccl)
        return true;
    nccl->in_order = in_order;
    if (nccl->comm && !end_in_thread(nccl, timeout_ms))
        return false;
    free_all(nccl);
    return true;
}

/* --- work --- */

void dt_nccl_register(struct dt_nccl *nccl, void *data, size_t bytes)
{
    struct registration *r;
    if (!lib.CommRegister || !lib.CommDeregister)
        return;
    for (int i = 0; i < nccl->registration_count; i++)
        if (nccl->registrations[i].data == data &&
            nccl->registrations[i].bytes == bytes)
            return;
    if (nccl->registration_count == REGISTRATIONS)
        return;
    r = &nccl->registrations[nccl->registration_count++];
    *r = (struct registration){data, bytes, NULL};
    if (lib.CommRegister(nccl->comm, data, bytes, &r->handle) != ncclSuccess)
        r->handle = NULL;
}

static ncclDataType_t type_of(enum dt_dtype dtype)
{
    switch (dtype) {
    case DT_F64:
        return ncclFloat64;
    case DT_BF16:
        return ncclBfloat16;
    default:
        assert(dtype == DT_F32);
        return ncclFloat32;
    }
}

int dt_nccl_all_reduce(struct dt_nccl *nccl, void *data, size_t count,
                       enum dt_dtype dtype, enum dt_reduce op,
                       cudaStream_t stream, struct dt_error *err)
{
    return called(nccl, "ncclAllReduce",
                  lib.AllReduce(data, data, count, type_of(dtype),
                                op == DT_SUM ? ncclSum : ncclMax, nccl->comm,
                                stream),
                  err);
}

static char *part(const struct dt_nccl *nccl, void *data, size_t part_bytes)
{
    return (char *)data + part_bytes * (size_t)nccl->rank;
}

int dt_nccl_reduce_scatter(struct dt_nccl *nccl, void *data, size_t count,
                           enum dt_dtype dtype, enum dt_reduce op,
                           cudaStream_t stream, struct dt_error *err)
{
    size_t n = count / (size_t)nccl->size;
    return called(
        nccl, "ncclReduceScatter",
        lib.ReduceScatter(data, part(nccl, data, n * dt_dtype_bytes(dtype)), n,
                          type_of(dtype), op == DT_SUM ? ncclSum : ncclMax,
                          nccl->comm, stream),
        err);
}

int dt_nccl_all_gather(struct dt_nccl *nccl, void *data, size_t bytes,
                       cudaStream_t stream, struct dt_error *err)
{
    size_t n = bytes / (size_t)nccl->size;
    return called(nccl, "ncclAllGather",
                  lib.AllGather(part(nccl, data, n), data, n, ncclInt8,
                                nccl->comm, stream),
                  err);
}

int dt_nccl_broadcast(struct dt_nccl *nccl, void *data, size_t bytes, int root,
                      cudaStream_t stream, struct dt_error *err)
{
    return called(
        nccl, "ncclBroadcast",
        lib.Broadcast(data, data, bytes, ncclInt8, root, nccl->comm, stream),
        err);
}

int dt_nccl_swap(struct dt_nccl *nccl, void *to, const void *from,
                 size_t part_bytes, cudaStream_t stream, struct dt_error *err)
{
    int rc = called(nccl, "ncclGroupStart", lib.GroupStart(), err);
    for (int i = 1; i < nccl->size && rc == 0; i++) {
        int next = (nccl->rank + i) % nccl->size;
        int last = (nccl->rank - i + nccl->size) % nccl->size;
        rc = called(nccl, "ncclSend",
                    lib.Send((const char *)from + part_bytes * (size_t)next,
                             part_bytes, ncclInt8, next, nccl->comm, stream),
                    err);
        if (rc == 0)
            rc =
                called(nccl, "ncclRecv",
                       lib.Recv((char *)to + part_bytes * (size_t)last,
                                part_bytes, ncclInt8, last, nccl->comm, stream),
                       err);
    }
    if (rc < 0) {
        lib.GroupEnd(); /* the first error is the one to tell */
        return -1;
    }
    return called(nccl, "ncclGroupEnd", lib.GroupEnd(), err);
}
