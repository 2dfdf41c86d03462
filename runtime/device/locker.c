/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locker.c - host memory that a device copies to by itself, got ready in a
 * thread
 *
 * Fault point: locker.buffer, before each.
 */
#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/thread.h"
#include "device/huge.h"
#include "device/locker.h"

enum { CHUNK = 64 << 20 }; /* bytes between two looks whether to end */

struct dt_locker {
    const struct dt_device *device;
    struct dt_buffer **buffers;
    size_t count;
    pthread_t thread;
    bool runs;          /* the thread is to be joined */
    atomic_bool ending; /* asked to */
    atomic_int result;  /* as dt_locker_done returns it */
    size_t locked;      /* buffers; the thread's, until it is joined */
    struct dt_error why;
};

/* Gets the pages of a piece, huge ones where there can be, unless the kernel is
 * older than the call for it (Linux 5.14): then they come as they are locked,
 * or written.
 */
static int get_pages(struct dt_locker *l, void *data, size_t bytes)
{
    dt_huge_combine(data, bytes);
#ifdef MADV_POPULATE_WRITE
    if (madvise(data, bytes, MADV_POPULATE_WRITE) < 0 && errno != EINVAL)
        return dt_error_set(&l->why, EX_OSERR, "madvise: %s", strerror(errno));
#endif
    return 0;
}

static int populate(struct dt_locker *l, struct dt_buffer *buf)
{
    for (size_t at = 0; at < buf->bytes && !l->ending; at += CHUNK) {
        const size_t left = buf->bytes - at;
        if (get_pages(l, (char *)buf->data + at, left < CHUNK ? left : CHUNK) <
            0)
            return -1;
    }
    return 0;
}

/* 1: it is locked; 0: asked to end before that; -1: l->why. */
static int lock(struct dt_locker *l, struct dt_buffer *buf)
{
    if (dt_fault("locker.buffer"))
        return dt_error_set(&l->why, EX_OSERR, "fault locker.buffer");
    if (populate(l, buf) < 0)
        return -1;
    if (l->ending)
        return 0;
    const bool locks = l->device->lock && buf->bytes > 0;
    return locks && l->device->lock(buf->data, buf->bytes, &l->why) < 0 ? -1
                                                                        : 1;
}

static void *lock_all(void *arg)
{
    struct dt_locker *l = arg;
    int done = 1;
    while (done > 0 && l->locked < l->count)
        if ((done = lock(l, l->buffers[l->locked])) > 0)
            l->locked++;
    l->result = done;
    return NULL;
}

struct dt_locker *dt_locker_open(const struct dt_device *device,
                                 struct dt_buffer *const *buffers, size_t count,
                                 struct dt_error *err)
{
    struct dt_locker *l = calloc(1, sizeof(*l));
    int bad;
    if (!l || !(l->buffers = calloc(count + 1, sizeof(struct dt_buffer *)))) {
        dt_error_set(err, EX_OSERR, "out of memory");
        free(l);
        return NULL;
    }
    memcpy(l->buffers, buffers, count * sizeof(struct dt_buffer *));
    l->device = device;
    l->count = count;
    if ((bad = dt_thread_start(&l->thread, "locker", lock_all, l)) != 0) {
        dt_error_set(err, EX_OSERR, "cannot start a thread: %s", strerror(bad));
        dt_locker_close(l);
        return NULL;
    }
    l->runs = true;
    return l;
}

static void join(struct dt_locker *l)
{
    if (l->runs)
        pthread_join(l->thread, NULL);
    l->runs = false;
}

int dt_locker_done(struct dt_locker *l, bool wait, struct dt_error *err)
{
    if (wait)
        join(l);
    const int result = l->result;
    if (result < 0)
        *err = l->why;
    return result;
}

void dt_locker_close(struct dt_locker *l)
{
    if (!l)
        return;
    l->ending = true;
    join(l);
    for (size_t i = 0; l->device->unlock && i < l->locked; i++)
        if (l->buffers[i]->bytes > 0)
            l->device->unlock(l->buffers[i]->data);
    free(l->buffers);
    free(l);
}
