/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_tune.c - which of cuBLASLt's algorithms multiplies matrices
 *
 * When a shape is seen first, candidates are timed on the operands themselves.
 * If the epilogue is more than a bias, one candidate is the same with the
 * epilogue unfused, in a kernel of its own. The choice is kept in a file
 * (matmul_cache.c), so that later runs time nothing. Where d is an operand, as
 * with `accumulate` or if it is c, nothing is timed: the choice is that for the
 * product alone. Nor is anything timed while the stream is recorded, or in
 * deterministic mode, where every run has to choose the same.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ops/cuda/cuda.h"
#include "ops/cuda/matmul_impl.h"

/* This many candidates are timed, however long it takes. */
enum { MIN_CANDIDATES = 2 };

/* One autotuning starts no further candidate after CALL_SECONDS of timed work,
 * or CALL_LONGEST with the loading of kernels, which comes with their first
 * run; a process spends PROCESS_SECONDS in all, and as much on decoding: a run
 * starts within seconds.
 */
static const double CALL_SECONDS = 0.02, CALL_LONGEST = 0.15;
static const double PROCESS_SECONDS = 3.0;

static enum { TRAINING, DECODING, BUDGETS } budget;
static double seconds_spent[BUDGETS];

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

/* --- candidates --- */

enum { CANDIDATES = 16 };

/* Candidates that add in fp32, each sum in one order, the best guess first. A
 * long sum may be split into parts ("split k") if these are kept in fp32 and
 * added in a fixed order at the end. The scheme that adds them to d in any
 * order is used for fp32 results only, where the bits need not be the same
 * every time. Returns how many there are.
 */
static int find_candidates(const struct dt_matmul_plan *plan,
                           cublasLtMatmulHeuristicResult_t found[CANDIDATES])
{
    const struct dt_matmul_key *key = &plan->key;
    uint64_t workspace = DT_MATMUL_WORKSPACE;
    uint32_t a = key->align_a, b = key->align_b;
    uint32_t c = key->align_c, d = key->align_d;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t preference;
    cublasStatus_t status;
    int count = 0, usable = 0;

    if (key->out == DT_F32 && key->epilogue == DT_EPILOGUE_NONE &&
        !dt_cuda_facts.deterministic)
        schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    if (!DT_MATMUL_TRY(key, cublasLtMatmulPreferenceCreate, &preference))
        return 0;
#define PREFER(name, value)                                                    \
    DT_MATMUL_TRY(key, cublasLtMatmulPreferenceSetAttribute, preference,       \
                  CUBLASLT_MATMUL_PREF_##name, &(value), sizeof(value))
    if (PREFER(MAX_WORKSPACE_BYTES, workspace) &&
        PREFER(REDUCTION_SCHEME_MASK, schemes) &&
        PREFER(MIN_ALIGNMENT_A_BYTES, b) && PREFER(MIN_ALIGNMENT_B_BYTES, a) &&
        PREFER(MIN_ALIGNMENT_C_BYTES, c) && PREFER(MIN_ALIGNMENT_D_BYTES, d)) {
        status = cublasLtMatmulAlgoGetHeuristic(
            dt_cuda_blas, plan->desc, plan->b, plan->a, plan->d, plan->d,
            preference, CANDIDATES, found, &count);
        for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; i++)
            if (found[i].state == CUBLAS_STATUS_SUCCESS)
                found[usable++] = found[i];
        if (status == CUBLAS_STATUS_SUCCESS && usable == 0)
            status = CUBLAS_STATUS_NOT_SUPPORTED;
        if (!key->activation && !key->sum)
            dt_cuda_matmul_check(status, "cublasLtMatmulAlgoGetHeuristic", key);
    }
#undef PREFER
    cublasLtMatmulPreferenceDestroy(preference);
    return usable;
}

/* --- timing --- */

enum when { NEVER, LATER, NOW };

void dt_cuda_search_apart(bool apart)
{
    budget = apart ? DECODING : TRAINING;
}

/* May candidates be timed? Never in deterministic mode, nor once the process
 * has spent its time on it; later if the stream is being recorded.
 */
static enum when when_to_tune(struct dt_stream *stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    if (dt_cuda_facts.deterministic || seconds_spent[budget] > PROCESS_SECONDS)
        return NEVER;
    cudaStreamIsCapturing(stream->cuda, &status);
    return status == cudaStreamCaptureStatusNone ? NOW : LATER;
}

/* The operands of a timed product, and the events that time it. */
struct tuning {
    struct dt_stream *stream;
    struct dt_matmul_plan *plan;
    const struct dt_cuda_matmul *mm;
    const cublasLtMatmulHeuristicResult_t *found;
    int unfused; /* 1: candidate 0 is the unfused one, others follow it */
    cudaEvent_t started, ended;
};

/* Queues candidate i; false if it cannot run. */
static bool run_candidate(const struct tuning *t, int i)
{
    if (i >= t->unfused)
        return dt_cuda_matmul_run(t->stream, t->plan, t->mm,
                                  &t->found[i - t->unfused].algo) ==
               CUBLAS_STATUS_SUCCESS;
    dt_cuda_matmul_unfused(t->stream, t->mm);
    return true;
}

/* Mean milliseconds of `count` runs; INFINITY if the candidate cannot run. */
static float time_runs(const struct tuning *t, int i, int count)
{
    float ms = 0.0f;
    bool good = cudaEventRecord(t->started, t->stream->cuda) == cudaSuccess;

    for (int run = 0; good && run < count; run++)
        good = run_candidate(t, i);
    if (!good || cudaEventRecord(t->ended, t->stream->cuda) != cudaSuccess ||
        cudaEventSynchronize(t->ended) != cudaSuccess ||
        cudaEventElapsedTime(&ms, t->started, t->ended) != cudaSuccess)
        return INFINITY;
    return ms / (float)count;
}

/* The first run loads kernels, and counts in no time. */
static bool warm_up(const struct tuning *t, int i)
{
    struct dt_error why;

    return run_candidate(t, i) && dt_cuda_stream_wait(t->stream, &why) == 0;
}

/* Short runs are repeated for 0.2 ms. */
static float time_candidate(const struct tuning *t, int i)
{
    float ms = time_runs(t, i, 1);

    if (ms > 0.1f)
        return ms;
    return time_runs(t, i, ms > 0.02f ? (int)(0.2f / ms) : 10);
}

/* Times `count` candidates, at least the first two and then as many as fit into
 * some milliseconds. Returns the index of the fastest; -1: none worked. ms: the
 * time of each, INFINITY if it does not work, NAN if it was not tried.
 */
static int time_candidates(const struct tuning *t, int count, float *ms)
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
    seconds_spent[budget] += dt_clock_now() - begin;
    return fastest;
}

/* The same with events; waits for the stream. */
static int autotune(struct tuning *t, int count, float *ms)
{
    struct dt_error why; /* who waits for the step will hear of it */
    int fastest = -1;

    if (cudaEventCreate(&t->started) != cudaSuccess)
        return -1;
    if (cudaEventCreate(&t->ended) == cudaSuccess &&
        dt_cuda_stream_wait(t->stream, &why) == 0)
        fastest = time_candidates(t, count, ms);
    if (t->ended)
        cudaEventDestroy(t->ended);
    cudaEventDestroy(t->started);
    return fastest;
}

/* One line on stderr for DISTTRAIN_AUTOTUNE=log, of every rank: it is for those
 * who look for a slow product, also in programs that fetch no notices.
 */
static void log_times(const struct tuning *tuning, const float *ms, int count,
                      int choice)
{
    char text[32 * CANDIDATES] = "";
    size_t n = 0;

    if (!dt_cuda_autotune_asks(DT_AUTOTUNE_LOG))
        return;
    for (int i = 0; i < count; i++) {
        if (i < tuning->unfused)
            n += (size_t)snprintf(text + n, sizeof(text) - n, " apart %.4f",
                                  (double)ms[i]);
        else if (!isnan(ms[i]))
            n += (size_t)snprintf(text + n, sizeof(text) - n, " %d %.4f",
                                  i - tuning->unfused, (double)ms[i]);
    }
    fprintf(stderr, "autotune: %s: ms:%s: %d\n",
            dt_cuda_matmul_words(&tuning->plan->key), text, choice);
}

/* `choice` as in dt_cuda_matmul_recall */
static void apply(struct dt_matmul_plan *plan,
                  const cublasLtMatmulHeuristicResult_t *found, int choice)
{
    plan->unfused = choice < 0;
    if (choice >= 0)
        plan->algo = found[choice].algo;
}

/* Times the candidates and keeps the fastest. */
static void tune_plan(struct dt_stream *stream, struct dt_matmul_plan *plan,
                      const struct dt_cuda_matmul *mm,
                      const cublasLtMatmulHeuristicResult_t *found, int count)
{
    const struct dt_matmul_key *key = &plan->key;
    bool fused = dt_cuda_autotune_asks(DT_AUTOTUNE_LIBRARY);
    struct tuning tuning = {
        .stream = stream,
        .plan = plan,
        .mm = mm,
        .found = found,
        .unfused = (key->activation || key->sum) && !fused,
    };
    float ms[CANDIDATES + 1];
    int all = tuning.unfused + count;
    int fastest;

    if (tuning.unfused) /* its matmul is tuned on its own */
        dt_cuda_matmul_unfused(stream, mm);
    fastest = autotune(&tuning, all, ms);
    if (fastest < 0)
        return;
    apply(plan, found, fastest - tuning.unfused);
    log_times(&tuning, ms, all, fastest - tuning.unfused);
    if (!fused)
        dt_cuda_matmul_remember(key, count, fastest - tuning.unfused);
}

/* --- the choice --- */

/* d is an operand, which must not change. */
static bool reads_d(const struct dt_cuda_matmul *mm)
{
    return mm->accumulate ||
           (mm->c.count > 0 && dt_view_data(mm->c) == dt_view_data(mm->d));
}

/* The choice for the product alone, if it was made. */
static bool follow_twin(struct dt_matmul_plan *plan)
{
    struct dt_matmul_key key = plan->key;
    const struct dt_matmul_plan *twin;

    key.accumulate = key.adds = 0;
    twin = dt_cuda_matmul_find(&key);
    if (!twin || twin->state != DT_MATMUL_CHOSEN)
        return false;
    plan->algo = twin->algo;
    plan->unfused = twin->unfused;
    plan->state = DT_MATMUL_CHOSEN;
    return true;
}

/* The first candidate, whose sums are used only once they were measured to be
 * faster; or none.
 */
static void guess(struct dt_matmul_plan *plan,
                  const cublasLtMatmulHeuristicResult_t *found, int count)
{
    bool optional = plan->key.activation || plan->key.sum;

    plan->state =
        count > 0 || optional ? DT_MATMUL_CHOSEN : DT_MATMUL_IMPOSSIBLE;
    plan->unfused =
        optional &&
        (count == 0 ||
         (plan->key.sum && !dt_cuda_autotune_asks(DT_AUTOTUNE_LIBRARY)));
    if (count > 0)
        plan->algo = found[0].algo;
}

void dt_cuda_matmul_choose(struct dt_stream *stream,
                           struct dt_matmul_plan *plan,
                           const struct dt_cuda_matmul *mm)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    enum when when = when_to_tune(stream);
    int count, choice;

    if ((plan->key.activation || plan->key.sum) &&
        dt_cuda_autotune_asks(DT_AUTOTUNE_APART)) {
        plan->state = DT_MATMUL_CHOSEN;
        plan->unfused = true;
        return;
    }
    if (reads_d(mm) && follow_twin(plan))
        return;
    if (plan->state == DT_MATMUL_GUESSED && (when == LATER || reads_d(mm)))
        return;
    count = find_candidates(plan, found);
    guess(plan, found, count);
    if (count == 0 || dt_cuda_facts.deterministic)
        return;
    if (dt_cuda_matmul_recall(&plan->key, count, &choice))
        apply(plan, found, choice);
    else if (reads_d(mm) || when == LATER)
        plan->state = DT_MATMUL_GUESSED;
    else if (when == NOW)
        tune_plan(stream, plan, mm, found, count);
}
