/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.c - work that is recorded instead of queued, and replayed
 *
 * A node runs after the nodes it was recorded after; where that leaves a choice
 * the seed makes it, anew in each launch.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct node {
    struct simt_work work;
    struct simt_tail after;
};

struct CUgraph_st {
    int references;
    bool broken;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;           /* that captures */
    struct CUstream_st *origin; /* NULL: the capture is over */
    struct node *nodes;
    size_t count;
};

struct CUgraphExec_st {
    int references;
    struct CUgraph_st *graph;
};

struct launch {
    struct CUgraphExec_st *exec;
    bool *done;
    size_t left;
};

struct CUgraph_st *simt_graph_ref(struct CUgraph_st *graph)
{
    graph->references++;
    return graph;
}

void simt_graph_unref(struct CUgraph_st *graph)
{
    if (--graph->references > 0)
        return;
    for (size_t i = 0; i < graph->count; i++) {
        struct node *node = &graph->nodes[i];
        if (node->work.release)
            node->work.release(node->work.ctx);
        free(node->after.nodes);
    }
    free(graph->nodes);
    free(graph);
}

static void unref_exec(struct CUgraphExec_st *exec)
{
    if (--exec->references > 0)
        return;
    simt_graph_unref(exec->graph);
    free(exec);
}

/* --- recording --- */

void simt_tail_join(struct simt_tail *tail, const struct simt_tail *other)
{
    size_t count = tail->count + other->count;
    tail->nodes =
        simt_checked(realloc(tail->nodes, (count + 1) * sizeof(size_t)));
    for (size_t i = 0; i < other->count; i++)
        tail->nodes[tail->count++] = other->nodes[i];
}

void simt_graph_add(struct CUgraph_st *graph, struct simt_tail *tail,
                    struct simt_work work)
{
    graph->nodes = simt_checked(
        realloc(graph->nodes, (graph->count + 1) * sizeof(*graph->nodes)));
    struct node *node = &graph->nodes[graph->count];
    *node = (struct node){.work = work};
    simt_tail_join(&node->after, tail);
    tail->count = 0;
    simt_tail_join(tail,
                   &(struct simt_tail){.nodes = &graph->count, .count = 1});
    graph->count++;
}

bool simt_stream_captures(const struct CUstream_st *stream)
{
    return stream->capture != NULL;
}

cudaError_t simt_break_capture(struct CUstream_st *stream)
{
    stream->capture->broken = true;
    return cudaErrorStreamCaptureUnsupported;
}

bool simt_capture_broken(const struct CUstream_st *stream)
{
    return stream->capture && stream->capture->broken;
}

/* Whether a capture forbids unsafe calls to this thread. */
static bool forbids(const struct CUgraph_st *capture)
{
    return capture->mode == cudaStreamCaptureModeGlobal ||
           (capture->mode == cudaStreamCaptureModeThreadLocal &&
            pthread_equal(capture->thread, pthread_self()));
}

cudaError_t simt_unsafe_locked(void)
{
    cudaError_t error = cudaSuccess;
    for (struct CUstream_st *s = simt_streams; s; s = s->next)
        if (s->capture && forbids(s->capture)) {
            s->capture->broken = true;
            error = cudaErrorStreamCaptureUnsupported;
        }
    return error;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   enum cudaStreamCaptureMode mode)
{
    simt_lock();
    struct CUstream_st *s = simt_stream_locked(stream);
    cudaError_t error = cudaSuccess;
    if (!s)
        error = cudaErrorInvalidResourceHandle;
    else if (!stream || stream == cudaStreamLegacy)
        error = cudaErrorStreamCaptureUnsupported;
    else if (s->capture)
        error = cudaErrorIllegalState;
    else {
        s->capture = simt_checked(calloc(1, sizeof(*s->capture)));
        s->capture->references = 1;
        s->capture->origin = s;
        s->capture->mode = mode;
        s->capture->thread = pthread_self();
        s->last.count = 0;
    }
    simt_unlock();
    return simt_error(error);
}

/* Marks what comes before the nodes of `tail`, and themselves. */
static size_t mark_before(const struct CUgraph_st *graph,
                          const struct simt_tail *tail, bool *seen)
{
    size_t count = 0;
    for (size_t i = 0; i < tail->count; i++) {
        size_t node = tail->nodes[i];
        if (!seen[node]) {
            seen[node] = true;
            count += 1 + mark_before(graph, &graph->nodes[node].after, seen);
        }
    }
    return count;
}

static bool is_joined(const struct CUgraph_st *graph,
                      const struct simt_tail *tail)
{
    bool *seen = simt_checked(calloc(graph->count + 1, sizeof(*seen)));
    bool all = mark_before(graph, tail, seen) == graph->count;
    free(seen);
    return all;
}

static unsigned long long captures;

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = NULL;
    simt_lock();
    struct CUstream_st *s = simt_stream_locked(stream);
    struct CUgraph_st *capture = s ? s->capture : NULL;
    cudaError_t error = cudaSuccess;
    if (!s)
        error = cudaErrorInvalidResourceHandle;
    else if (!capture)
        error = cudaErrorIllegalState;
    else if (capture->origin != s)
        error = cudaErrorStreamCaptureUnmatched;
    else if (capture->broken || simt_counts_to("SIMT_FAIL_CAPTURE", &captures))
        error = cudaErrorStreamCaptureInvalidated;
    else if (!is_joined(capture, &s->last))
        error = cudaErrorStreamCaptureUnjoined;
    if (capture && capture->origin == s) {
        capture->origin = NULL;
        for (struct CUstream_st *t = simt_streams; t; t = t->next)
            if (t->capture == capture)
                t->capture = NULL;
        if (error == cudaSuccess)
            *graph = capture;
        else
            simt_graph_unref(capture);
    }
    simt_unlock();
    return simt_error(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *status)
{
    simt_lock();
    struct CUstream_st *s = simt_stream_locked(stream);
    *status = cudaStreamCaptureStatusNone;
    if (s && s->capture)
        *status = s->capture->broken ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
    simt_unlock();
    return simt_error(s ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

/* --- replaying --- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    (void)flags;
    *exec = NULL;
    if (!graph)
        return simt_error(cudaErrorInvalidValue);
    simt_lock();
    *exec = simt_checked(calloc(1, sizeof(**exec)));
    (*exec)->references = 1;
    (*exec)->graph = simt_graph_ref(graph);
    simt_unlock();
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)stream;
    return simt_error(exec ? cudaSuccess : cudaErrorInvalidValue);
}

static bool is_ready(const struct launch *launch, const struct node *node)
{
    for (size_t i = 0; i < node->after.count; i++)
        if (!launch->done[node->after.nodes[i]])
            return false;
    return true;
}

/* Starts anywhere and runs the first node that can go on. */
static enum simt_progress run_launch(void *ctx)
{
    struct launch *launch = ctx;
    struct CUgraph_st *graph = launch->exec->graph;
    size_t start = simt_random((uint32_t)graph->count);
    for (size_t i = 0; i < graph->count; i++) {
        size_t n = (start + i) % graph->count;
        struct node *node = &graph->nodes[n];
        if (launch->done[n] || !is_ready(launch, node))
            continue;
        enum simt_progress result = node->work.progress(node->work.ctx);
        if (result == SIMT_BLOCKED)
            continue;
        launch->done[n] = result == SIMT_DONE;
        launch->left -= result == SIMT_DONE;
        return launch->left > 0 ? SIMT_MOVED : SIMT_DONE;
    }
    return launch->left > 0 ? SIMT_BLOCKED : SIMT_DONE;
}

static void release_launch(void *ctx)
{
    struct launch *launch = ctx;
    unref_exec(launch->exec);
    free(launch->done);
    free(launch);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    if (!exec)
        return simt_error(cudaErrorInvalidValue);
    struct launch *launch = simt_checked(calloc(1, sizeof(*launch)));
    simt_lock();
    exec->references++;
    launch->exec = exec;
    launch->left = exec->graph->count;
    launch->done = simt_checked(calloc(launch->left + 1, sizeof(bool)));
    cudaError_t error =
        simt_enqueue(stream, run_launch, release_launch, launch);
    simt_unlock();
    return error;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                              size_t *count)
{
    if (!graph || nodes)
        return simt_error(cudaErrorNotSupported);
    *count = graph->count;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    if (!graph)
        return simt_error(cudaErrorInvalidValue);
    simt_lock();
    simt_graph_unref(graph);
    simt_unlock();
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    if (!exec)
        return simt_error(cudaErrorInvalidValue);
    simt_lock();
    unref_exec(exec);
    simt_unlock();
    return cudaSuccess;
}
