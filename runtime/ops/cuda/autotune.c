/* SPDX-License-Identifier: Apache-2.0 */
/* autotune.c - times several ways to do the same and takes the fastest */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ops/cuda/cuda.h"

/* This many candidates are timed, however long it takes. */
enum { MIN_CANDIDATES = 2 };

/* One autotuning starts no further candidate after CALL_SECONDS of timed work,
 * or CALL_LONGEST with the loading of kernels, which comes with their first
 * run; a process spends PROCESS_SECONDS in all: a run starts within seconds.
 */
static const double CALL_SECONDS = 0.02, CALL_LONGEST = 0.15;
static const double PROCESS_SECONDS = 3.0;

static double seconds_spent;

/* --- $DISTTRAIN_AUTOTUNE --- */

/* The words of the variable, as bits. */
static unsigned read_words(const char *text)
{
    static const struct {
        const char *word;
        unsigned bit;
    } WORDS[] = {{"log", DT_AUTOTUNE_LOG},
                 {"apart", DT_AUTOTUNE_APART},
                 {"library", DT_AUTOTUNE_LIBRARY},
                 {"fresh", DT_AUTOTUNE_FRESH}};
    unsigned bits = 0;

    while (text && *text) {
        size_t n = strcspn(text, ","), i = 0;
        while (i < 4 && (strlen(WORDS[i].word) != n ||
                         strncmp(text, WORDS[i].word, n) != 0))
            i++;
        if (i == 4)
            dt_cuda_tell("DISTTRAIN_AUTOTUNE: expected log, apart, library or "
                         "fresh, got \"%.*s\"",
                         (int)n, text);
        else
            bits |= WORDS[i].bit;
        text += n + (text[n] == ',');
    }
    /* a choice that was forced is none for later runs */
    return bits & (DT_AUTOTUNE_APART | DT_AUTOTUNE_LIBRARY)
               ? bits | DT_AUTOTUNE_FRESH
               : bits;
}

bool dt_cuda_autotune_asks(enum dt_cuda_autotune_word word)
{
    static bool known;
    static unsigned bits;

    if (!known)
        bits = read_words(getenv("DISTTRAIN_AUTOTUNE"));
    known = true;
    return bits & word;
}

/* --- timing --- */

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

/* The first run loads kernels, and counts in no time. */
static bool warm_up(const struct timing *t, int i)
{
    return t->attempt(t->ctx, i) &&
           cudaStreamSynchronize(t->stream->cuda) == cudaSuccess;
}

/* Short runs are repeated for 0.2 ms. */
static float time_candidate(const struct timing *t, int i)
{
    float ms = time_runs(t, i, 1);

    if (ms > 0.1f)
        return ms;
    return time_runs(t, i, ms > 0.02f ? (int)(0.2f / ms) : 10);
}

/* The index of the fastest, -1: none worked. */
static int time_candidates(const struct timing *t, int count, float *ms)
{
    const double begin = dt_clock_now();
    double timed = 0.0;
    int fastest = -1;

    for (int i = 0; i < count; i++)
        ms[i] = NAN;
    for (int i = 0; i < count; i++) {
        if (i >= MIN_CANDIDATES &&
            (timed > CALL_SECONDS || dt_clock_now() - begin > CALL_LONGEST))
            break;
        ms[i] = INFINITY;
        if (!warm_up(t, i))
            continue;
        const double start = dt_clock_now();
        ms[i] = time_candidate(t, i);
        timed += dt_clock_now() - start;
        if (ms[i] < (fastest < 0 ? INFINITY : ms[fastest]))
            fastest = i;
    }
    seconds_spent += dt_clock_now() - begin;
    return fastest;
}

int dt_cuda_autotune(struct dt_stream *stream, int count,
                     bool (*attempt)(void *ctx, int i), void *ctx, float *ms)
{
    struct timing t = {stream, attempt, ctx, NULL, NULL};
    int fastest = -1;

    if (cudaEventCreate(&t.started) != cudaSuccess)
        return -1;
    if (cudaEventCreate(&t.ended) == cudaSuccess &&
        cudaStreamSynchronize(stream->cuda) == cudaSuccess)
        fastest = time_candidates(&t, count, ms);
    if (t.ended)
        cudaEventDestroy(t.ended);
    cudaEventDestroy(t.started);
    return fastest;
}
