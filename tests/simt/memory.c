/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - device memory that only work of the device can touch
 *
 * Allocations lie apart in a large reserved range, each at the end of its
 * pages: [guard page] [front: known bytes] [the allocation] [rest of the page:
 * known bytes] [guard page]. Addresses are never used twice, so that memory
 * that was freed stays forbidden.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

enum { PAGE = 4096, ALIGN = 256, ZONE = 0xa5 };

static const size_t RESERVED = (size_t)1 << 40;

struct allocation {
    char *pages, *data;
    size_t page_bytes, bytes;
    int device;
    bool open;
};

static struct {
    char *base;
    size_t used; /* of the reserved range */
    size_t device_bytes[SIMT_MAX_DEVICES];
    struct allocation *live; /* by address */
    size_t count, capacity;
    struct allocation *pinned; /* in no order */
    size_t pinned_count, pinned_capacity;
    bool working;
    struct sigaction before;
} arena;

/* The last allocation at or below an address, or NULL. */
static struct allocation *below(const char *data)
{
    size_t low = 0, high = arena.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (arena.live[middle].data <= data)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? &arena.live[low - 1] : NULL;
}

static struct allocation *find(const void *data, size_t bytes)
{
    struct allocation *a = below(data);
    size_t offset = a ? (size_t)((const char *)data - a->data) : 0;
    return a && offset <= a->bytes && bytes <= a->bytes - offset ? a : NULL;
}

static void protect(const struct allocation *a, int how)
{
    if (mprotect(a->pages, a->page_bytes, how) != 0)
        simt_fail("cannot protect %zu bytes", a->page_bytes);
}

/* The allocation whose pages have this address, or NULL. */
static struct allocation *owner_of(const char *at)
{
    struct allocation *a = below(at), *end = arena.live + arena.count;
    if (!a)
        a = arena.live;
    else if (at >= a->pages + a->page_bytes)
        a++;
    return a < end && at >= a->pages && at < a->pages + a->page_bytes ? a
                                                                      : NULL;
}

/* Opens an allocation to work that touches it for the first time. */
static bool open_at(const char *at)
{
    struct allocation *a = owner_of(at);
    if (!arena.working || !a || a->open)
        return false;
    protect(a, PROT_READ | PROT_WRITE);
    a->open = true;
    return true;
}

/* Says what was touched and by whom; then the one who was asked before decides
 * what becomes of the process.
 */
static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    const char *at = info->si_addr;
    if (open_at(at))
        return;
    if (at >= arena.base && at < arena.base + RESERVED) {
        const struct allocation *a = below(at);
        char what[128] = "of no allocation";
        if (a && find(at, 1))
            snprintf(what, sizeof(what), "of the host to device memory");
        else if (a && (size_t)(at - a->data) < a->bytes + 4 * PAGE)
            snprintf(what, sizeof(what),
                     "to byte %zu of an allocation of %zu bytes",
                     (size_t)(at - a->data), a->bytes);
        fprintf(stderr, "simt: access %s, at %p%s\n", what, (const void *)at,
                simt_where());
    } else if (simt_is_behind_shared(at)) {
        fprintf(stderr, "simt: access behind dynamic shared memory%s\n",
                simt_where());
    }
    sigaction(number, &arena.before, NULL);
}

/* Makes us the first to hear of faults, also where a test framework wants to
 * be.
 */
static void watch(void)
{
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_fault)
        sigaction(SIGSEGV, &action, &arena.before);
}

static void reserve(void)
{
    arena.base = mmap(NULL, RESERVED, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena.base == MAP_FAILED)
        simt_fail("cannot reserve addresses");
}

void simt_memory_open_locked(void)
{
    if (!arena.working)
        watch();
    arena.working = true;
}

void simt_memory_open_at_locked(const void *data)
{
    open_at(data);
}

void simt_memory_close_locked(void)
{
    watch();
    for (size_t i = 0; i < arena.count && arena.working; i++) {
        if (arena.live[i].open)
            protect(&arena.live[i], PROT_NONE);
        arena.live[i].open = false;
    }
    arena.working = false;
}

static bool zone_is_whole(const char *begin, const char *end)
{
    for (; begin < end; begin++)
        if (*begin != (char)ZONE)
            return false;
    return true;
}

static void check_zones(const struct allocation *a, const char *who)
{
    char *front = a->data - a->pages > ALIGN ? a->data - ALIGN : a->pages;
    char *end = a->pages + a->page_bytes;
    if (!zone_is_whole(front, a->data))
        simt_fail("%s: bytes before an allocation of %zu bytes were written",
                  who, a->bytes);
    if (!zone_is_whole(a->data + a->bytes, end))
        simt_fail("%s: bytes after an allocation of %zu bytes were written",
                  who, a->bytes);
}

void simt_check_zones_locked(const char *who)
{
    for (size_t i = 0; i < arena.count; i++)
        if (arena.live[i].open)
            check_zones(&arena.live[i], who);
}

static cudaError_t allocate_locked(void **data, size_t bytes)
{
    int device = simt_device();
    *data = NULL;
    if (bytes == 0)
        return cudaSuccess;
    if (!arena.base)
        reserve();
    watch();
    if (bytes > simt_memory() - arena.device_bytes[device])
        return cudaErrorMemoryAllocation;
    /* at least ALIGN bytes in front */
    size_t pages = (bytes + 2 * ALIGN - 2 + PAGE) / PAGE * PAGE;
    if (pages + PAGE > RESERVED - arena.used)
        simt_fail("all addresses are used up");
    struct allocation a = {.pages = arena.base + arena.used + PAGE,
                           .page_bytes = pages,
                           .bytes = bytes,
                           .device = device};
    a.data = a.pages + (pages - bytes) / ALIGN * ALIGN;
    arena.used += pages + PAGE;
    protect(&a, PROT_READ | PROT_WRITE);
    madvise(a.pages, pages, MADV_HUGEPAGE); /* sooner protected */
    memset(a.pages, ZONE, (size_t)(a.data - a.pages));
    memset(a.data, 0xff, bytes);
    memset(a.data + bytes, ZONE, pages - (size_t)(a.data - a.pages) - bytes);
    protect(&a, PROT_NONE);
    if (arena.count == arena.capacity) {
        arena.capacity = 2 * arena.capacity + 64;
        arena.live = simt_checked(
            realloc(arena.live, arena.capacity * sizeof(*arena.live)));
    }
    arena.live[arena.count++] = a;
    arena.device_bytes[device] += bytes;
    *data = a.data;
    return cudaSuccess;
}

static void free_locked(void *data)
{
    struct allocation *a = below(data);
    if (!a || a->data != data)
        simt_fail("cudaFree(%p): nothing was allocated there", data);
    if (simt_is_registered_locked(data, a->bytes))
        simt_fail("cudaFree: %zu bytes are registered with NCCL", a->bytes);
    protect(a, PROT_READ);
    check_zones(a, "cudaFree");
    protect(a, PROT_NONE);
    madvise(a->pages, a->page_bytes, MADV_DONTNEED);
    arena.device_bytes[a->device] -= a->bytes;
    size_t i = (size_t)(a - arena.live);
    memmove(a, a + 1, (--arena.count - i) * sizeof(*a));
}

int simt_device_of_locked(const void *data)
{
    const struct allocation *a = find(data, 0);
    return a ? a->device : -1;
}

const void *simt_allocation_locked(const void *data, size_t *bytes)
{
    size_t offset;
    const struct allocation *a = NULL;
    if (simt_arena_offset(data, &offset))
        a = below(data);
    for (size_t i = 0; !a && i < arena.pinned_count; i++)
        if ((uintptr_t)data - (uintptr_t)arena.pinned[i].data <
            arena.pinned[i].bytes)
            a = &arena.pinned[i];
    if (a)
        *bytes = a->bytes;
    return a ? a->data : NULL;
}

bool simt_arena_offset(const void *data, size_t *offset)
{
    *offset = (size_t)((uintptr_t)data - (uintptr_t)arena.base);
    return arena.base && *offset < RESERVED;
}

bool simt_is_device(const void *data, size_t bytes)
{
    simt_lock();
    bool is = find(data, bytes) != NULL;
    simt_unlock();
    return is;
}

void simt_expect_device(const void *data, size_t bytes, const char *what)
{
    if (!simt_is_device(data, bytes))
        simt_fail("%s: %zu bytes at %p are not in an allocation of a device",
                  what, bytes, data);
}

bool simt_is_pinned(const void *data, size_t bytes)
{
    bool is = false;
    simt_lock();
    for (size_t i = 0; i < arena.pinned_count && !is; i++) {
        const struct allocation *a = &arena.pinned[i];
        uintptr_t offset = (uintptr_t)data - (uintptr_t)a->data;
        is = offset <= a->bytes && bytes <= a->bytes - offset;
    }
    simt_unlock();
    return is;
}

/* The bytes of the page-locked memory that begins here, or 0. */
static size_t pinned_bytes_locked(const void *data)
{
    for (size_t i = 0; i < arena.pinned_count; i++)
        if (arena.pinned[i].data == data)
            return arena.pinned[i].bytes;
    return 0;
}

size_t simt_twin_bytes(const void *to, const void *from)
{
    simt_lock();
    const struct allocation *a = below(to);
    size_t bytes = pinned_bytes_locked(from);
    bool twins = a && a->data == to && a->bytes == bytes;
    simt_unlock();
    return twins ? bytes : 0;
}

/* --- calls of the runtime --- */

cudaError_t cudaMalloc(void **data, size_t bytes)
{
    simt_lock();
    cudaError_t error = simt_unsafe_locked();
    if (error == cudaSuccess)
        error = allocate_locked(data, bytes);
    simt_unlock();
    return simt_error(error);
}

cudaError_t cudaFree(void *data)
{
    if (!data)
        return cudaSuccess;
    cudaError_t error = simt_wait_device();
    if (error != cudaSuccess)
        return simt_error(error);
    simt_lock();
    free_locked(data);
    simt_unlock();
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **data, size_t bytes, cudaStream_t stream)
{
    simt_lock();
    struct CUstream_st *s = simt_stream_locked(stream);
    cudaError_t error = s ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (s && simt_stream_captures(s))
        error = cudaErrorNotSupported;
    if (error == cudaSuccess)
        error = allocate_locked(data, bytes);
    simt_unlock();
    return simt_error(error);
}

static enum simt_progress run_free(void *data)
{
    free_locked(data);
    return SIMT_DONE;
}

cudaError_t cudaFreeAsync(void *data, cudaStream_t stream)
{
    return simt_enqueue(stream, run_free, NULL, data);
}

static void add_pinned_locked(void *data, size_t bytes)
{
    if (arena.pinned_count == arena.pinned_capacity) {
        arena.pinned_capacity = 2 * arena.pinned_capacity + 16;
        arena.pinned = simt_checked(realloc(
            arena.pinned, arena.pinned_capacity * sizeof(*arena.pinned)));
    }
    arena.pinned[arena.pinned_count++] =
        (struct allocation){.data = data, .bytes = bytes};
}

static bool remove_pinned_locked(const void *data)
{
    for (size_t i = 0; i < arena.pinned_count; i++)
        if (arena.pinned[i].data == data) {
            arena.pinned[i] = arena.pinned[--arena.pinned_count];
            return true;
        }
    return false;
}

cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned flags)
{
    (void)flags;
    simt_lock();
    cudaError_t error = simt_unsafe_locked();
    *data = NULL;
    if (error == cudaSuccess && bytes > 0) {
        if (posix_memalign(data, PAGE, bytes) == 0) {
            memset(*data, 0xff, bytes);
            add_pinned_locked(*data, bytes);
        } else {
            error = cudaErrorMemoryAllocation;
        }
    }
    simt_unlock();
    return simt_error(error);
}

cudaError_t cudaMallocHost(void **data, size_t bytes)
{
    return cudaHostAlloc(data, bytes, 0);
}

cudaError_t cudaFreeHost(void *data)
{
    if (!data)
        return cudaSuccess;
    simt_lock();
    size_t bytes = pinned_bytes_locked(data);
    simt_unlock();
    cudaError_t error = cudaHostUnregister(data);
    if (error == cudaSuccess) {
        memset(data, 0xff, bytes); /* for those who still read it */
        free(data);
    }
    return error;
}

cudaError_t cudaHostRegister(void *data, size_t bytes, unsigned flags)
{
    (void)flags;
    simt_lock();
    cudaError_t error = simt_unsafe_locked();
    if (error == cudaSuccess)
        add_pinned_locked(data, bytes);
    simt_unlock();
    return simt_error(error);
}

cudaError_t cudaHostUnregister(void *data)
{
    cudaError_t error = simt_wait_device();
    if (error != cudaSuccess)
        return simt_error(error);
    simt_lock();
    bool found = remove_pinned_locked(data);
    simt_unlock();
    return simt_error(found ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    simt_lock();
    *total = simt_memory();
    *available = *total - arena.device_bytes[simt_device()];
    simt_unlock();
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                     const void *data)
{
    simt_lock();
    int device = simt_device_of_locked(data);
    *attributes = (struct cudaPointerAttributes){.device = device};
    if (device >= 0) {
        attributes->type = cudaMemoryTypeDevice;
        attributes->devicePointer = (void *)(uintptr_t)data;
    } else if (simt_is_pinned(data, 1)) {
        attributes->type = cudaMemoryTypeHost;
        attributes->hostPointer = (void *)(uintptr_t)data;
        attributes->devicePointer = attributes->hostPointer;
    }
    simt_unlock();
    return cudaSuccess;
}

/* There is one pool, and it keeps nothing. */
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    *pool = (cudaMemPool_t)(uintptr_t)(device + 1);
    return simt_error(device >= 0 && device < simt_device_count()
                          ? cudaSuccess
                          : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                    enum cudaMemPoolAttr attr, void *value)
{
    (void)attr;
    return simt_error(pool && value ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                    enum cudaMemPoolAttr attr, void *value)
{
    size_t device = (uintptr_t)pool - 1;
    if (!pool || attr < cudaMemPoolAttrReservedMemCurrent)
        return simt_error(cudaErrorInvalidValue);
    *(uint64_t *)value = arena.device_bytes[device];
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    (void)keep;
    return simt_error(pool ? cudaSuccess : cudaErrorInvalidValue);
}
