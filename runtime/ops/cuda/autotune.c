/* SPDX-License-Identifier: Apache-2.0 */
/* autotune.c - times several ways to do the same and takes the fastest */
#include "config.h"

#include <math.h>

#include "base/clock.h"
#include "ops/cuda/cuda.h"

/* This many candidates are timed, however long it takes. */
enum { MIN_CANDIDATES = 2 };

/* One autotuning starts no further candidate after CALL_SECONDS, and a process
 * spends PROCESS_SECONDS in all: a run starts within seconds.
 */
static const double CALL_SECONDS = 0.02, PROCESS_SECONDS = 1.0;

static double seconds_spent;

enum dt_cuda_autotune dt_cuda_autotune_when(struct dt_stream *stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    if (dt_cuda_facts.deterministic || seconds_spent > PROCESS_SECONDS)
        return DT_AUTOTUNE_NEVER;
    cudaStreamIsCapturing(stream->cuda, &status);
    return status == cudaStreamCaptureStatusNone ? DT_AUTOTUNE_NOW
                                                 : DT_AUTOTUNE_LATER;
}

/* Candidates, and the events that time them. */
struct timing {
    struct dt_stream *stream;
    bool (*attempt)(void *ctx, int i);
    void *ctx;
    cudaEvent_t started, ended;
};

/* Mean milliseconds of `count` runs; INFINITY if the candidate cannot run. */
static float time_runs(const struct timing *t, int i, int count)
{
    float ms = 0.0f;
    bool good = cudaEventRecord(t->started, t->stream->cuda) == cudaSuccess;

    for (int run = 0; good && run < count; run++)
        good = t->attempt(t->ctx, i);
    if (!good || cudaEventRecord(t->ended, t->stream->cuda) != cudaSuccess ||
        cudaEventSynchronize(t->ended) != cudaSuccess ||
        cudaEventElapsedTime(&ms, t->started, t->ended) != cudaSuccess)
        return INFINITY;
    return ms / (float)count;
}

/* The first run loads kernels; short runs are repeated for 0.2 ms. */
static float time_candidate(const struct timing *t, int i)
{
    float ms = t->attempt(t->ctx, i) ? time_runs(t, i, 1) : INFINITY;

    if (ms > 0.1f)
        return ms;
    return time_runs(t, i, ms > 0.02f ? (int)(0.2f / ms) : 10);
}

int dt_cuda_autotune(struct dt_stream *stream, int count,
                     bool (*attempt)(void *ctx, int i), void *ctx)
{
    struct timing t = {stream, attempt, ctx, NULL, NULL};
    float best = INFINITY;
    int fastest = -1;
    double begin;

    if (cudaEventCreate(&t.started) != cudaSuccess)
        return -1;
    if (cudaEventCreate(&t.ended) == cudaSuccess &&
        cudaStreamSynchronize(stream->cuda) == cudaSuccess) {
        begin = dt_clock_now();
        for (int i = 0; i < count; i++) {
            if (i >= MIN_CANDIDATES && dt_clock_now() - begin > CALL_SECONDS)
                break;
            float ms = time_candidate(&t, i);
            if (ms < best) {
                best = ms;
                fastest = i;
            }
        }
        seconds_spent += dt_clock_now() - begin;
    }
    if (t.ended)
        cudaEventDestroy(t.ended);
    cudaEventDestroy(t.started);
    return fastest;
}
