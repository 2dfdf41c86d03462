/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.c - points of streams, and of captures
 */
#include "config.h"

#include <stdlib.h>

#include "internal.h"

struct CUevent_st {
    unsigned flags;
    int device;
    struct ticket *ticket; /* NULL: never recorded, or in a capture */
    struct CUgraph_st *capture;
    struct simt_tail point; /* in the capture */
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = simt_checked(calloc(1, sizeof(**event)));
    (*event)->flags = flags;
    (*event)->device = simt_device();
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

static void forget(struct CUevent_st *event)
{
    simt_unref(event->ticket);
    event->ticket = NULL;
    if (event->capture)
        simt_graph_unref(event->capture);
    event->capture = NULL;
    event->point.count = 0;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!event)
        return simt_error(cudaErrorInvalidResourceHandle);
    simt_lock();
    forget(event);
    free(event->point.nodes);
    free(event);
    simt_unlock();
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    simt_lock();
    struct CUstream_st *s = simt_stream_locked(stream);
    cudaError_t error = cudaSuccess;
    if (!s || !event || s->device != event->device)
        error = cudaErrorInvalidResourceHandle;
    else if (simt_capture_broken(s))
        error = cudaErrorStreamCaptureInvalidated;
    else if (s->capture) {
        forget(event);
        event->capture = simt_graph_ref(s->capture);
        simt_tail_join(&event->point, &s->last);
    } else {
        forget(event);
        simt_order_with_legacy_locked(s);
        event->ticket = simt_mark_locked(s);
    }
    simt_unlock();
    return simt_error(error);
}

/* The stream's next node comes after a point of a capture, which it joins. */
static cudaError_t wait_captured(struct CUstream_st *s,
                                 const struct CUevent_st *event)
{
    if (s->capture && s->capture != event->capture)
        return cudaErrorStreamCaptureMerge;
    s->capture = event->capture;
    simt_tail_join(&s->last, &event->point);
    return cudaSuccess;
}

static bool is_captured_now(const struct CUgraph_st *graph)
{
    for (struct CUstream_st *s = simt_streams; s; s = s->next)
        if (s->capture == graph)
            return true;
    return false;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags)
{
    (void)flags;
    simt_lock();
    struct CUstream_st *s = simt_stream_locked(stream);
    cudaError_t error = cudaSuccess;
    if (!s || !event)
        error = cudaErrorInvalidResourceHandle;
    else if (simt_capture_broken(s))
        error = cudaErrorStreamCaptureInvalidated;
    else if (event->capture && is_captured_now(event->capture))
        error = wait_captured(s, event);
    else if (event->capture)
        error = cudaErrorInvalidValue;
    else if (s->capture && event->ticket) {
        simt_break_capture(s);
        error = cudaErrorStreamCaptureIsolation;
    } else if (event->ticket && !s->capture)
        simt_push_wait_locked(s, event->ticket);
    simt_unlock();
    return simt_error(error);
}

/* Not allowed to a thread that captures, unless relaxed. The GPU breaks before
 * query $SIMT_FAIL_QUERY.
 */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    static unsigned long long queries;
    simt_lock();
    cudaError_t error = cudaSuccess;
    if (simt_counts_to("SIMT_FAIL_QUERY", &queries))
        error = cudaErrorECCUncorrectable;
    else if (!event)
        error = cudaErrorInvalidResourceHandle;
    else if (event->capture)
        error = cudaErrorCapturedEvent;
    else
        error = simt_unsafe_locked();
    if (error == cudaSuccess && event->ticket && !event->ticket->passed) {
        error = cudaErrorNotReady;
        simt_poll_locked();
    }
    simt_unlock();
    return simt_error(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    simt_lock();
    cudaError_t error = cudaSuccess;
    if (!event)
        error = cudaErrorInvalidResourceHandle;
    else if (event->capture)
        error = cudaErrorCapturedEvent;
    else
        error = simt_unsafe_locked();
    if (error == cudaSuccess && event->ticket) {
        struct ticket *ticket = event->ticket;
        ticket->references++; /* it may be recorded anew meanwhile */
        simt_wait_locked(ticket);
        simt_unref(ticket);
    }
    simt_unlock();
    return simt_error(error);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    if (!begin || !end || !begin->ticket || !end->ticket ||
        (begin->flags | end->flags) & cudaEventDisableTiming)
        return simt_error(cudaErrorInvalidResourceHandle);
    if (!begin->ticket->passed || !end->ticket->passed)
        return cudaErrorNotReady;
    *ms = (float)(end->ticket->when.tv_sec - begin->ticket->when.tv_sec) * 1e3f;
    *ms += (float)(end->ticket->when.tv_nsec - begin->ticket->when.tv_nsec) *
           1e-6f;
    return cudaSuccess;
}
