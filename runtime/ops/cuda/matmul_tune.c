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

#include "ops/cuda/matmul_impl.h"

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
        if (!key->gelu && !key->sum)
            dt_cuda_matmul_check(status, "cublasLtMatmulAlgoGetHeuristic", key);
    }
#undef PREFER
    cublasLtMatmulPreferenceDestroy(preference);
    return usable;
}

/* --- timing --- */

/* What is timed for a plan. */
struct tuning {
    struct dt_stream *stream;
    struct dt_matmul_plan *plan;
    const struct dt_cuda_matmul *mm;
    const cublasLtMatmulHeuristicResult_t *found;
    int unfused; /* 1: candidate 0 is the unfused one, others follow it */
};

static bool run_candidate(void *ctx, int i)
{
    const struct tuning *tuning = ctx;

    if (i >= tuning->unfused)
        return dt_cuda_matmul_run(tuning->stream, tuning->plan, tuning->mm,
                                  &tuning->found[i - tuning->unfused].algo) ==
               CUBLAS_STATUS_SUCCESS;
    dt_cuda_matmul_unfused(tuning->stream, tuning->mm);
    return true;
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
    struct tuning tuning = {stream, plan, mm, found,
                            (key->gelu || key->sum) && !fused};
    float ms[CANDIDATES + 1];
    int all = tuning.unfused + count;
    int fastest;

    if (tuning.unfused) /* its matmul is tuned on its own */
        dt_cuda_matmul_unfused(stream, mm);
    fastest = dt_cuda_autotune(stream, all, run_candidate, &tuning, ms);
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
    bool optional = plan->key.gelu || plan->key.sum;

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
    enum dt_cuda_autotune when = dt_cuda_autotune_when(stream);
    int count, choice;

    if ((plan->key.gelu || plan->key.sum) &&
        dt_cuda_autotune_asks(DT_AUTOTUNE_APART)) {
        plan->state = DT_MATMUL_CHOSEN;
        plan->unfused = true;
        return;
    }
    if (reads_d(mm) && follow_twin(plan))
        return;
    if (plan->state == DT_MATMUL_GUESSED &&
        (when == DT_AUTOTUNE_LATER || reads_d(mm)))
        return;
    count = find_candidates(plan, found);
    guess(plan, found, count);
    if (count == 0 || dt_cuda_facts.deterministic)
        return;
    if (dt_cuda_matmul_recall(&plan->key, count, &choice))
        apply(plan, found, choice);
    else if (reads_d(mm) || when == DT_AUTOTUNE_LATER)
        plan->state = DT_MATMUL_GUESSED;
    else if (when == DT_AUTOTUNE_NOW)
        tune_plan(stream, plan, mm, found, count);
}
