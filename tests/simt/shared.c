/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared.c - dynamic shared memory, and the asynchronous copies of threads
 *
 * The memory ends where a page begins that nobody may touch. A copy leaves NaN
 * at its target until its thread waits for it.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"
#include "kernel.h"

enum {
    UNASKED = 48 * 1024, /* bytes that each kernel may have */
    MAX_KERNELS = 256,
    ALIGN = 16,
};

struct copy {
    void *to;
    const void *from;
    size_t bytes;
    unsigned group;
};

/* The copies of a thread that it has not waited for, and its groups so far. */
struct thread {
    struct copy *copies;
    size_t count, room;
    unsigned groups;
};

static struct thread threads[SIMT_MAX_BLOCK];

/* What cudaFuncSetAttribute has allowed. */
static struct {
    const void *kernel;
    size_t bytes;
} allowed[MAX_KERNELS];
static size_t allowed_count;

static char *end; /* of the memory; the next page cannot be touched */
static size_t bytes_now;

/* --- memory --- */

size_t simt_shared_of_block(void)
{
    const size_t whole = simt_shared_memory();
    return whole > SIMT_SHARED_RESERVED ? whole - SIMT_SHARED_RESERVED : 0;
}

bool simt_allow_shared_locked(const void *kernel, size_t bytes)
{
    size_t i = 0;
    if (bytes > simt_shared_of_block())
        return false;
    while (i < allowed_count && allowed[i].kernel != kernel)
        i++;
    if (i == MAX_KERNELS)
        simt_fail("cudaFuncSetAttribute: more than %d kernels", MAX_KERNELS);
    if (i == allowed_count)
        allowed_count++;
    allowed[i].kernel = kernel;
    allowed[i].bytes = bytes;
    return true;
}

bool simt_shared_fits_locked(const void *kernel, size_t bytes)
{
    for (size_t i = 0; i < allowed_count; i++)
        if (allowed[i].kernel == kernel && bytes <= allowed[i].bytes)
            return true;
    return bytes <= UNASKED && bytes <= simt_shared_of_block();
}

void simt_shared_begin(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t room = (SIMT_MAX_SHARED + page - 1) / page * page;
    bytes_now = bytes;
    if (bytes % ALIGN != 0)
        simt_fail("%zu bytes of dynamic shared memory: only multiples of %d "
                  "are emulated",
                  bytes, ALIGN);
    if (!end) {
        char *all = mmap(NULL, room + page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED || mprotect(all + room, page, PROT_NONE) < 0)
            simt_fail("no addresses for shared memory");
        end = all + room;
    }
}

void simt_shared_begin_block(void)
{
    memset(end - bytes_now, 0xff, bytes_now); /* NaN */
}

bool simt_is_behind_shared(const void *at)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return end && (const char *)at >= end && (const char *)at < end + page;
}

char *simt_dynamic_shared(void)
{
    if (bytes_now == 0)
        simt_fail("a kernel that was started without dynamic shared memory "
                  "uses it");
    return end - bytes_now;
}

/* --- copies --- */

void simt_copy_async(void *to, const void *from, size_t bytes)
{
    struct thread *t = &threads[simt_thread()];
    char *target = to;
    if ((uintptr_t)to % bytes != 0 || (uintptr_t)from % bytes != 0)
        simt_fail("an asynchronous copy of %zu bytes from %p to %p is not "
                  "aligned",
                  bytes, from, to);
    if (target < end - bytes_now || target + bytes > end)
        simt_fail("an asynchronous copy to %p, which is not in the %zu bytes "
                  "of dynamic shared memory",
                  to, bytes_now);
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 16;
        t->copies =
            simt_checked(realloc(t->copies, t->room * sizeof(*t->copies)));
    }
    t->copies[t->count++] = (struct copy){to, from, bytes, t->groups};
    memset(to, 0xff, bytes);
}

void simt_copy_commit(void)
{
    threads[simt_thread()].groups++;
}

void simt_copy_wait(unsigned left)
{
    struct thread *t = &threads[simt_thread()];
    size_t ready = 0;
    while (ready < t->count && t->copies[ready].group + left < t->groups)
        ready++;
    for (size_t i = ready; i > 0; i--) {
        size_t chosen = simt_random((uint32_t)i);
        struct copy c = t->copies[chosen];
        t->copies[chosen] = t->copies[i - 1];
        memcpy(c.to, c.from, c.bytes);
    }
    t->count -= ready;
    if (t->count > 0)
        memmove(t->copies, t->copies + ready, t->count * sizeof(*t->copies));
}

void simt_copy_end(void)
{
    struct thread *t = &threads[simt_thread()];
    if (t->count > 0)
        simt_fail("a thread returns with %zu asynchronous copies that it has "
                  "not waited for",
                  t->count);
    t->groups = 0;
}
