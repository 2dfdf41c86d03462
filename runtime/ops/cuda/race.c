/* SPDX-License-Identifier: Apache-2.0 */
/* race.c - which of several ways to do the same is the fastest */
#include "config.h"

#include <math.h>

#include "base/clock.h"
#include "ops/cuda/cuda.h"

/* How many are timed whatever it costs. */
enum { TIMED = 2 };

/* After so many seconds no more candidates join a race, and after so many in
 * all there are no more races in this process: a run starts within seconds.
 */
static const double RACE_SECONDS = 0.02, PROCESS_SECONDS = 1.0;

static double seconds_spent;

enum dt_cuda_race dt_cuda_race_when(struct dt_stream *stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    if (dt_cuda_facts.deterministic || seconds_spent > PROCESS_SECONDS)
        return DT_RACE_NEVER;
    cudaStreamIsCapturing(stream->cuda, &status);
    return status == cudaStreamCaptureStatusNone ? DT_RACE_NOW : DT_RACE_LATER;
}

struct lap {
    struct dt_stream *stream;
    bool (*attempt)(void *ctx, int i);
    void *ctx;
    cudaEvent_t started, ended;
};

/* Milliseconds of one of `count` runs; INFINITY if it cannot be done. */
static float time_of(const struct lap *lap, int i, int count)
{
    float ms = 0.0f;
    bool good = cudaEventRecord(lap->started, lap->stream->cuda) == cudaSuccess;

    for (int run = 0; good && run < count; run++)
        good = lap->attempt(lap->ctx, i);
    if (!good ||
        cudaEventRecord(lap->ended, lap->stream->cuda) != cudaSuccess ||
        cudaEventSynchronize(lap->ended) != cudaSuccess ||
        cudaEventElapsedTime(&ms, lap->started, lap->ended) != cudaSuccess)
        return INFINITY;
    return ms / (float)count;
}

/* The first run loads kernels; short ones are repeated for 0.2 ms. */
static float measure(const struct lap *lap, int i)
{
    float ms = lap->attempt(lap->ctx, i) ? time_of(lap, i, 1) : INFINITY;

    if (ms > 0.1f)
        return ms;
    return time_of(lap, i, ms > 0.02f ? (int)(0.2f / ms) : 10);
}

int dt_cuda_race(struct dt_stream *stream, int count,
                 bool (*attempt)(void *ctx, int i), void *ctx)
{
    struct lap lap = {stream, attempt, ctx, NULL, NULL};
    float best = INFINITY;
    int winner = -1;
    double begin;

    if (cudaEventCreate(&lap.started) != cudaSuccess)
        return -1;
    if (cudaEventCreate(&lap.ended) == cudaSuccess &&
        cudaStreamSynchronize(stream->cuda) == cudaSuccess) {
        begin = dt_clock_now();
        for (int i = 0; i < count; i++) {
            if (i >= TIMED && dt_clock_now() - begin > RACE_SECONDS)
                break;
            float ms = measure(&lap, i);
            if (ms < best) {
                best = ms;
                winner = i;
            }
        }
        seconds_spent += dt_clock_now() - begin;
    }
    if (lap.ended)
        cudaEventDestroy(lap.ended);
    cudaEventDestroy(lap.started);
    return winner;
}
