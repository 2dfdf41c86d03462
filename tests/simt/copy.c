/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c - copies and fills
 *
 * Memory of the host that CUDA allocated is read when the copy runs, other
 * memory during the call; a copy to the latter waits. An upload from the first
 * byte of page-locked memory to the first one of as much device memory replaces
 * all of it: what a shorter one leaves is from then on as if it had never been
 * written.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct copy {
    char *to;
    const char *from; /* NULL: fill with `value` */
    int value;
    size_t bytes, rows, to_pitch, from_pitch;
    size_t rest; /* bytes after them that are no longer valid */
    char *owned; /* what `from` points to, if it was taken during the call */
};

static enum simt_progress run_copy(void *ctx)
{
    const struct copy *copy = ctx;
    for (size_t row = 0; row < copy->rows; row++) {
        char *to = copy->to + row * copy->to_pitch;
        if (copy->from)
            memmove(to, copy->from + row * copy->from_pitch, copy->bytes);
        else
            memset(to, copy->value, copy->bytes);
    }
    memset(copy->to + copy->bytes, 0xff, copy->rest);
    return SIMT_DONE;
}

static void release_copy(void *ctx)
{
    struct copy *copy = ctx;
    free(copy->owned);
    free(copy);
}

enum kind { HOST, PINNED, DEVICE };

static enum kind kind_of(const void *data, size_t bytes)
{
    if (simt_is_device(data, bytes))
        return DEVICE;
    if (simt_is_device(data, 0))
        simt_fail("a copy or fill of %zu bytes leaves an allocation", bytes);
    return simt_is_pinned(data, bytes) ? PINNED : HOST;
}

static bool kind_fits(enum cudaMemcpyKind kind, bool to_device,
                      bool from_device)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
        return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
        return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
        return to_device && from_device;
    default:
        return true;
    }
}

static void take_source(struct copy *copy)
{
    size_t total = (copy->rows - 1) * copy->from_pitch + copy->bytes;
    copy->owned = simt_checked(malloc(total));
    memcpy(copy->owned, copy->from, total);
    copy->from = copy->owned;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                              size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (width == 0 || height == 0)
        return cudaSuccess;
    if (width > to_pitch || width > from_pitch || !to || !from)
        return simt_error(cudaErrorInvalidValue);
    enum kind source = kind_of(from, (height - 1) * from_pitch + width);
    enum kind target = kind_of(to, (height - 1) * to_pitch + width);
    if (!kind_fits(kind, target == DEVICE, source == DEVICE))
        return simt_error(cudaErrorInvalidMemcpyDirection);
    simt_lock();
    struct CUstream_st *s = simt_stream_locked(stream);
    bool captures = s && simt_stream_captures(s);
    simt_unlock();
    struct copy *copy = simt_checked(malloc(sizeof(*copy)));
    *copy = (struct copy){.to = to,
                          .from = from,
                          .bytes = width,
                          .rows = height,
                          .to_pitch = to_pitch,
                          .from_pitch = from_pitch};
    if (source == PINNED && target == DEVICE && height == 1) {
        size_t whole = simt_twin_bytes(to, from);
        copy->rest = whole > width ? whole - width : 0;
    }
    if (source == HOST && !captures)
        take_source(copy);
    cudaError_t error = simt_enqueue(stream, run_copy, release_copy, copy);
    if (error == cudaSuccess && target == HOST && !captures)
        error = simt_wait_stream(stream);
    return simt_error(error);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
                       enum cudaMemcpyKind kind)
{
    simt_lock();
    cudaError_t error = simt_unsafe_locked();
    simt_unlock();
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(to, from, bytes, kind, 0);
    if (error == cudaSuccess)
        error = simt_wait_stream(0);
    return simt_error(error);
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes,
                            cudaStream_t stream)
{
    if (bytes == 0)
        return cudaSuccess;
    if (kind_of(data, bytes) == HOST)
        return simt_error(cudaErrorInvalidValue);
    struct copy *copy = simt_checked(malloc(sizeof(*copy)));
    *copy =
        (struct copy){.to = data, .value = value, .bytes = bytes, .rows = 1};
    return simt_enqueue(stream, run_copy, release_copy, copy);
}

/* The host does not wait for it. */
cudaError_t cudaMemset(void *data, int value, size_t bytes)
{
    simt_lock();
    cudaError_t error = simt_unsafe_locked();
    simt_unlock();
    if (error != cudaSuccess)
        return simt_error(error);
    return cudaMemsetAsync(data, value, bytes, 0);
}

/* --- calls of functions --- */

struct call {
    void (*function)(void *data);
    void (*release)(void *data);
    void *data;
};

static enum simt_progress run_call(void *ctx)
{
    const struct call *call = ctx;
    call->function(call->data);
    return SIMT_DONE;
}

static void release_call(void *ctx)
{
    struct call *call = ctx;
    if (call->release)
        call->release(call->data);
    free(call);
}

cudaError_t simt_enqueue_call(cudaStream_t stream, void (*function)(void *data),
                              void (*release)(void *data), void *data)
{
    struct call *call = simt_checked(malloc(sizeof(*call)));
    *call = (struct call){function, release, data};
    return simt_enqueue(stream, run_call, release_call, call);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void *data)
{
    return simt_enqueue_call(stream, function, NULL, data);
}
