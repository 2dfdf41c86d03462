/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_cuda_laps.c - how long the GPU computes in a step, and how long it
 * waits
 *
 * The host is steps ahead of the GPU. So a lap is an event in the stream, and
 * the time from it to the next one is asked for when both were passed.
 */
#include "config.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "device/device_cuda.h"

/* Events that the stream may not have passed yet; some are kept for the begin
 * and the end of steps, so that steps are counted even where laps are too many.
 */
enum { EVENTS = 8192, FOR_STEPS = 64 };

static struct {
    cudaEvent_t event[EVENTS]; /* NULL: not used yet; a ring */
    enum dt_lap lap[EVENTS];   /* that begins there */
    size_t first, count;
    enum dt_lap now;                 /* of the last one */
    double seconds[DT_LAPS];         /* of the step that has begun */
    struct dt_lap_times whole_steps; /* that have ended */
} laps;

static void end_step(void)
{
    for (int i = 0; i < DT_LAPS; i++) {
        laps.whole_steps.seconds[i] += laps.seconds[i];
        laps.seconds[i] = 0;
    }
    laps.whole_steps.steps++;
}

/* Takes the times of laps that the stream has passed. */
static void take_passed(void)
{
    while (laps.count > 1) {
        const size_t next = (laps.first + 1) % EVENTS;
        const enum dt_lap lap = laps.lap[laps.first];
        float ms = 0;
        if (cudaEventQuery(laps.event[next]) != cudaSuccess)
            return;
        if (lap != DT_LAP_OTHER &&
            cudaEventElapsedTime(&ms, laps.event[laps.first],
                                 laps.event[next]) == cudaSuccess)
            laps.seconds[lap] += ms / 1e3;
        if (lap != DT_LAP_OTHER && laps.lap[next] == DT_LAP_OTHER)
            end_step();
        laps.first = next;
        laps.count--;
    }
}

static bool has_room(enum dt_lap lap)
{
    const bool bound = lap == DT_LAP_OTHER || laps.now == DT_LAP_OTHER;
    const size_t most = bound ? EVENTS : EVENTS - FOR_STEPS;
    if (laps.count >= most)
        take_passed();
    return laps.count < most;
}

/* Whether the event of the next lap is in the stream. A refusal of CUDA makes
 * times wrong here and nothing else; the next call for work reports it.
 */
static bool record(struct dt_stream *stream, enum dt_lap lap)
{
    const size_t i = (laps.first + laps.count) % EVENTS;
    laps.lap[i] = lap;
    return (laps.event[i] || cudaEventCreate(&laps.event[i]) == cudaSuccess) &&
           cudaEventRecord(laps.event[i], stream->cuda) == cudaSuccess;
}

enum dt_lap dt_cuda_lap(struct dt_stream *stream, enum dt_lap lap)
{
    const enum dt_lap before = laps.now;
    if (lap != before && (lap != DT_LAP_WAIT || before != DT_LAP_OTHER) &&
        has_room(lap) && record(stream, lap)) {
        laps.now = lap;
        laps.count++;
    }
    return before;
}

void dt_cuda_lap_times(struct dt_lap_times *times)
{
    take_passed();
    *times = laps.whole_steps;
}
