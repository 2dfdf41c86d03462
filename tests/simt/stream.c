/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - queues of work that move only while the host waits
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

struct item {
    struct simt_work work;
    unsigned long number; /* in the order of all calls */
    struct item *next;
};

struct CUstream_st *simt_streams;
static struct CUstream_st legacy[SIMT_MAX_DEVICES];
static unsigned long next_number;

void simt_unref(struct ticket *ticket)
{
    if (ticket && --ticket->references == 0)
        free(ticket);
}

/* --- running --- */

static void destroy_if_empty(struct CUstream_st *stream)
{
    if (!stream->destroyed || stream->head)
        return;
    struct CUstream_st **at = &simt_streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream->last.nodes);
    free(stream);
}

/* Makes the head of a stream go on. */
static enum simt_progress run_head(struct CUstream_st *stream)
{
    struct item *item = stream->head;
    if (item->work.blocked && item->work.blocked(item->work.ctx))
        return SIMT_BLOCKED;
    simt_memory_open_locked();
    enum simt_progress result = item->work.progress(item->work.ctx);
    if (result != SIMT_DONE)
        return result;
    stream->head = item->next;
    stream->done++;
    if (item->work.release)
        item->work.release(item->work.ctx);
    free(item);
    destroy_if_empty(stream);
    return SIMT_DONE;
}

/* Seed 0: in the order of the calls. Else any stream, but often the one that
 * ran last, so that one runs far ahead of the others.
 */
static struct CUstream_st *choose(struct CUstream_st *const *ready,
                                  size_t count)
{
    static struct CUstream_st *last;
    struct CUstream_st *chosen = ready[0];
    for (size_t i = 1; i < count; i++)
        if (ready[i]->head->number < chosen->head->number)
            chosen = ready[i];
    if (simt_seed() > 0) {
        chosen = ready[simt_random((uint32_t)count)];
        for (size_t i = 0; i < count; i++)
            if (ready[i] == last && simt_random(4) > 0)
                chosen = last;
    }
    last = chosen;
    return chosen;
}

/* Runs one piece of work; false if none can run now. */
static bool step_locked(void)
{
    enum { MOST = 4096 };
    struct CUstream_st *ready[MOST];
    size_t count = 0;
    for (struct CUstream_st *s = simt_streams; s && count < MOST; s = s->next)
        if (s->head)
            ready[count++] = s;
    while (count > 0) {
        struct CUstream_st *chosen = choose(ready, count);
        if (run_head(chosen) != SIMT_BLOCKED)
            return true;
        size_t i = 0;
        while (ready[i] != chosen)
            i++;
        ready[i] = ready[--count];
    }
    return false;
}

static void pause_unlocked(unsigned attempt)
{
    long ns = 1000l << (attempt < 10 ? attempt : 10);
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* Runs work until the point is passed. */
void simt_wait_locked(const struct ticket *ticket)
{
    unsigned attempt = 0;
    simt_read_seed_locked();
    while (!ticket->passed) {
        bool moved = true;
        while (!ticket->passed && moved) {
            moved = step_locked();
            attempt = moved ? 0 : attempt + 1;
        }
        simt_memory_close_locked();
        if (!ticket->passed) {
            simt_unlock();
            pause_unlocked(attempt);
            simt_lock();
        }
    }
}

/* Some work that a query lets run. */
void simt_poll_locked(void)
{
    simt_read_seed_locked();
    for (uint32_t steps = 1 + simt_random(3); steps > 0; steps--)
        if (!step_locked())
            break;
    simt_memory_close_locked();
}

/* --- queueing --- */

static enum simt_progress pass_ticket(void *ctx)
{
    struct ticket *ticket = ctx;
    ticket->passed = true;
    clock_gettime(CLOCK_MONOTONIC, &ticket->when);
    return SIMT_DONE;
}

static bool awaits_ticket(void *ctx)
{
    return !((struct ticket *)ctx)->passed;
}

static enum simt_progress leave_ticket(void *ctx)
{
    return awaits_ticket(ctx) ? SIMT_BLOCKED : SIMT_DONE;
}

static void release_ticket(void *ctx)
{
    simt_unref(ctx);
}

static void push(struct CUstream_st *stream, struct simt_work work)
{
    struct item *item = simt_checked(calloc(1, sizeof(*item)));
    item->work = work;
    item->number = next_number++;
    if (stream->head)
        stream->tail->next = item;
    else
        stream->head = item;
    stream->tail = item;
    stream->queued++;
}

void simt_push_wait_locked(struct CUstream_st *stream, struct ticket *ticket)
{
    ticket->references++;
    push(stream, (struct simt_work){leave_ticket, release_ticket, ticket,
                                    awaits_ticket});
}

/* A point that is passed when all that `stream` has now is done. */
struct ticket *simt_mark_locked(struct CUstream_st *stream)
{
    struct ticket *ticket = simt_checked(calloc(1, sizeof(*ticket)));
    ticket->references = 2;
    push(stream, (struct simt_work){pass_ticket, release_ticket, ticket, NULL});
    return ticket;
}

/* Stream 0 and the streams that are made to block it wait for each other. */
void simt_order_with_legacy_locked(struct CUstream_st *stream)
{
    bool is_legacy = stream == &legacy[stream->device];
    if (!is_legacy && !stream->blocking)
        return;
    for (struct CUstream_st *s = simt_streams; s; s = s->next) {
        bool other = is_legacy ? s->blocking : s == &legacy[stream->device];
        if (s == stream || !other || !s->head || s->device != stream->device)
            continue;
        struct ticket *ticket = simt_mark_locked(s);
        simt_push_wait_locked(stream, ticket);
        simt_unref(ticket);
    }
}

cudaError_t simt_enqueue_locked(struct CUstream_st *stream,
                                struct simt_work work)
{
    if (simt_capture_broken(stream)) {
        if (work.release)
            work.release(work.ctx);
        return cudaErrorStreamCaptureInvalidated;
    }
    if (stream->capture) {
        simt_graph_add(stream->capture, &stream->last, work);
        return cudaSuccess;
    }
    simt_order_with_legacy_locked(stream);
    push(stream, work);
    return cudaSuccess;
}

static struct CUstream_st *legacy_stream(int device)
{
    struct CUstream_st *stream = &legacy[device], *s = simt_streams;
    while (s && s != stream)
        s = s->next;
    if (!s) {
        stream->device = device;
        stream->next = simt_streams;
        simt_streams = stream;
    }
    return stream;
}

struct CUstream_st *simt_stream_locked(cudaStream_t stream)
{
    if (!stream || stream == cudaStreamLegacy)
        return legacy_stream(simt_device());
    for (struct CUstream_st *s = simt_streams; s; s = s->next)
        if (s == stream && !s->destroyed)
            return s;
    return NULL;
}

cudaError_t simt_enqueue_work(cudaStream_t stream, struct simt_work work)
{
    simt_lock();
    struct CUstream_st *s = simt_stream_locked(stream);
    cudaError_t error = cudaErrorInvalidResourceHandle;
    if (s)
        error = simt_enqueue_locked(s, work);
    else if (work.release)
        work.release(work.ctx);
    simt_unlock();
    return simt_error(error);
}

cudaError_t simt_enqueue(cudaStream_t stream,
                         enum simt_progress (*progress)(void *ctx),
                         void (*release)(void *ctx), void *ctx)
{
    return simt_enqueue_work(stream,
                             (struct simt_work){progress, release, ctx, NULL});
}

/* --- waiting --- */

cudaError_t simt_wait_stream(cudaStream_t stream)
{
    simt_lock();
    cudaError_t error = cudaSuccess;
    struct CUstream_st *s = simt_stream_locked(stream);
    if (!s)
        error = cudaErrorInvalidResourceHandle;
    else if (simt_stream_captures(s))
        error = simt_break_capture(s);
    else if (s->head) {
        struct ticket *ticket = simt_mark_locked(s);
        simt_wait_locked(ticket);
        simt_unref(ticket);
    }
    simt_unlock();
    return error;
}

cudaError_t simt_wait_device(void)
{
    simt_lock();
    cudaError_t error = simt_unsafe_locked();
    struct CUstream_st *s = error == cudaSuccess ? simt_streams : NULL;
    while (s) {
        if (s->device == simt_device() && s->head && !s->capture) {
            struct ticket *ticket = simt_mark_locked(s);
            simt_wait_locked(ticket);
            simt_unref(ticket);
            s = simt_streams; /* it may be gone */
        } else {
            s = s->next;
        }
    }
    simt_unlock();
    return error;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return simt_error(simt_wait_device());
}

cudaError_t cudaDeviceReset(void)
{
    return cudaDeviceSynchronize();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return simt_error(simt_wait_stream(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    simt_lock();
    cudaError_t error = cudaSuccess;
    struct CUstream_st *s = simt_stream_locked(stream);
    if (!s)
        error = cudaErrorInvalidResourceHandle;
    else if (simt_stream_captures(s))
        error = simt_break_capture(s);
    else if (s->head) {
        error = cudaErrorNotReady;
        simt_poll_locked();
    }
    simt_unlock();
    return simt_error(error);
}

/* --- streams --- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority)
{
    (void)priority;
    simt_lock();
    struct CUstream_st *s = simt_checked(calloc(1, sizeof(*s)));
    s->device = simt_device();
    s->blocking = !(flags & cudaStreamNonBlocking);
    s->next = simt_streams;
    simt_streams = s;
    *stream = s;
    simt_unlock();
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    simt_lock();
    struct CUstream_st *s = stream ? simt_stream_locked(stream) : NULL;
    cudaError_t error = s ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (s && simt_stream_captures(s))
        error = simt_break_capture(s);
    else if (s) {
        s->destroyed = true;
        destroy_if_empty(s);
    }
    simt_unlock();
    return simt_error(error);
}
