/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul.c - matrix multiplication by cuBLASLt
 *
 * cuBLASLt is column-major: a row-major (M,N) matrix is a column-major (N,M)
 * one, and d = a b is d^T = b^T a^T. So `b` comes first, M and N are swapped,
 * and everything else stays, transposition included.
 *
 * A plan holds what the library needs to know about a shape, and the algorithm;
 * it is made once. When a shape is seen first, candidates are timed on the
 * operands themselves. If the epilogue is more than a bias, one candidate is
 * the same with the epilogue unfused, in a kernel of its own. Nothing is timed
 * while the stream is recorded (the heuristic's first choice serves until the
 * shape comes again), nor in deterministic mode, where every run has to choose
 * the same.
 */
#include "config.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cuda.h"

enum {
    /* The first half of a stream's workspace is for cuBLASLt, the second for
     * what is ours.
     */
    HALF = DT_CUDA_WORKSPACE / 2,
    ALIGNMENT = 16, /* bytes; no algorithm needs more */
    BUCKETS = 1024,
    CANDIDATES = 16,
};

/* Everything that a choice of algorithm depends on. Compared as bytes. */
struct key {
    size_t M, N, K, lda, ldb, ldd;
    uint8_t ta, tb, type, out, epilogue, bias, accumulate, adds;
    uint8_t gelu, sum; /* kind of the epilogue, if it can be unfused */
    uint8_t fits;      /* the library takes the epilogue's operands */
    uint8_t align_a, align_b, align_c, align_d;
};

enum state {
    UNKNOWN,
    GUESSED, /* the heuristic's first choice, until there is time */
    CHOSEN,
    IMPOSSIBLE,
};

struct plan {
    struct key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d; /* of our a, b, d */
    cublasLtMatmulAlgo_t algo;
    enum state state;
    bool unfused; /* the epilogue in a kernel of its own */
    struct plan *next;
};

static cublasLtHandle_t handle;
static struct plan *plans[BUCKETS];

const char *dt_cuda_library(void)
{
    static char text[40];
    size_t version = cublasLtGetVersion();

    snprintf(text, sizeof(text), "cuBLASLt %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    return text;
}

int dt_cuda_matmul_open(struct dt_error *err)
{
    cublasStatus_t status =
        handle ? CUBLAS_STATUS_SUCCESS : cublasLtCreate(&handle);

    if (status != CUBLAS_STATUS_SUCCESS)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "cublasLtCreate: %s; expected a GPU and a driver "
                            "that %s supports",
                            cublasLtGetStatusString(status), dt_cuda_library());
    return 0;
}

/* --- plans --- */

/* Returns whether `function` succeeded; waiting for the stream tells if not. */
static bool check_status(cublasStatus_t status, const char *function,
                         const struct key *key)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        dt_cuda_fail("%s((%zu, %zu)%s x (%zu, %zu)%s, %s to %s, "
                     "epilogue %d): %s",
                     function, key->M, key->K, key->ta ? "^T" : "", key->K,
                     key->N, key->tb ? "^T" : "",
                     dt_dtype_name((enum dt_dtype)key->type),
                     dt_dtype_name((enum dt_dtype)key->out), key->epilogue,
                     cublasLtGetStatusString(status));
    return status == CUBLAS_STATUS_SUCCESS;
}
#define TRY(key, function, ...)                                                \
    check_status(function(__VA_ARGS__), #function, key)

#define DESCRIBE(plan, name, value)                                            \
    TRY(&(plan)->key, cublasLtMatmulDescSetAttribute, (plan)->desc,            \
        CUBLASLT_MATMUL_DESC_##name, &(value), sizeof(value))

static cudaDataType_t cuda_type(enum dt_dtype type)
{
    return type == DT_BF16  ? CUDA_R_16BF
           : type == DT_F16 ? CUDA_R_16F
                            : CUDA_R_32F;
}

static uint8_t alignment_of(struct dt_view v)
{
    uintptr_t address = (uintptr_t)dt_view_data(v) | ALIGNMENT;
    return (uint8_t)(address & -address);
}

static bool is_gelu(enum dt_cuda_epilogue epilogue)
{
    return epilogue == DT_EPILOGUE_GELU_AUX || epilogue == DT_EPILOGUE_DGELU;
}

static bool is_sum(enum dt_cuda_epilogue epilogue)
{
    return epilogue == DT_EPILOGUE_SUM_A || epilogue == DT_EPILOGUE_SUM_B;
}

/* The library applies GELU only to rows that it can read 16 bytes at a time
 * (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD is a multiple of 8), does not promise
 * that aux may be d, nor that its tanh is exact to more than 16 bits. Its sums
 * over k have the type of d, and need operands in this order.
 */
static bool epilogue_fits(const struct dt_cuda_matmul *mm)
{
    switch (mm->epilogue) {
    case DT_EPILOGUE_GELU_AUX:
    case DT_EPILOGUE_DGELU:
        return mm->d.dtype != DT_F32 && mm->N % 8 == 0 &&
               alignment_of(mm->aux) == ALIGNMENT &&
               alignment_of(mm->d) == ALIGNMENT &&
               dt_view_data(mm->d) != dt_view_data(mm->aux);
    case DT_EPILOGUE_SUM_A:
    case DT_EPILOGUE_SUM_B:
        return mm->d.dtype == DT_F32 && alignment_of(mm->bias) == ALIGNMENT &&
               (mm->epilogue == DT_EPILOGUE_SUM_A ? mm->ta : !mm->tb);
    default:
        return true;
    }
}

static struct key key_of(const struct dt_cuda_matmul *mm)
{
    struct key key;

    memset(&key, 0, sizeof(key));
    key.M = mm->M;
    key.N = mm->N;
    key.K = mm->K;
    key.lda = mm->lda ? mm->lda : mm->ta ? mm->M : mm->K;
    key.ldb = mm->ldb ? mm->ldb : mm->tb ? mm->K : mm->N;
    key.ldd = mm->ldd ? mm->ldd : mm->N;
    key.ta = mm->ta;
    key.tb = mm->tb;
    key.type = (uint8_t)mm->a.dtype;
    key.out = (uint8_t)mm->d.dtype;
    key.epilogue = (uint8_t)mm->epilogue;
    key.bias = mm->bias.count > 0;
    key.accumulate = mm->accumulate;
    key.adds = mm->c.count > 0;
    key.gelu = is_gelu(mm->epilogue);
    key.sum = is_sum(mm->epilogue);
    key.fits = epilogue_fits(mm);
    key.align_a = alignment_of(mm->a);
    key.align_b = alignment_of(mm->b);
    key.align_d = alignment_of(mm->d);
    key.align_c = key.adds ? alignment_of(mm->c) : key.align_d;
    return key;
}

static cublasLtEpilogue_t epilogue_of(const struct key *key)
{
    switch ((enum dt_cuda_epilogue)key->epilogue) {
    case DT_EPILOGUE_GELU_AUX:
        return key->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                         : CUBLASLT_EPILOGUE_GELU_AUX;
    case DT_EPILOGUE_DGELU:
        return CUBLASLT_EPILOGUE_DGELU;
    case DT_EPILOGUE_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case DT_EPILOGUE_SUM_A: /* a is the library's second operand */
        return CUBLASLT_EPILOGUE_BGRADB;
    case DT_EPILOGUE_SUM_B:
        return CUBLASLT_EPILOGUE_BGRADA;
    default:
        return CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/* The layout of a row-major matrix, in column-major terms. */
static bool create_layout(cublasLtMatrixLayout_t *layout, const struct key *key,
                          uint8_t type, size_t rows, size_t cols, size_t stride)
{
    return TRY(key, cublasLtMatrixLayoutCreate, layout,
               cuda_type((enum dt_dtype)type), cols, rows, (int64_t)stride);
}

static bool describe_plan(struct plan *plan)
{
    const struct key *k = &plan->key;
    cublasOperation_t a = k->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = k->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(k);
    int64_t aux_stride = (int64_t)k->N;
    bool tf32 = k->type == DT_F32 && dt_cuda_facts.tf32;

    return TRY(k, cublasLtMatmulDescCreate, &plan->desc,
               tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
               CUDA_R_32F) &&
           DESCRIBE(plan, TRANSA, b) && DESCRIBE(plan, TRANSB, a) &&
           DESCRIBE(plan, EPILOGUE, epilogue) &&
           (!k->gelu || DESCRIBE(plan, EPILOGUE_AUX_LD, aux_stride)) &&
           create_layout(&plan->a, k, k->type, k->ta ? k->K : k->M,
                         k->ta ? k->M : k->K, k->lda) &&
           create_layout(&plan->b, k, k->type, k->tb ? k->N : k->K,
                         k->tb ? k->K : k->N, k->ldb) &&
           create_layout(&plan->d, k, k->out, k->M, k->N, k->ldd);
}

static struct plan *plan_of(const struct dt_cuda_matmul *mm)
{
    const struct key key = key_of(mm);
    const unsigned char *bytes = (const unsigned char *)&key;
    uint32_t hash = 2166136261u; /* FNV-1a */
    struct plan **bucket, *plan;

    for (size_t i = 0; i < sizeof(key); i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    bucket = &plans[hash % BUCKETS];
    for (plan = *bucket; plan; plan = plan->next)
        if (memcmp(&plan->key, &key, sizeof(key)) == 0)
            return plan;

    plan = calloc(1, sizeof(*plan));
    if (!plan) {
        dt_cuda_fail("calloc(%zu): out of memory", sizeof(*plan));
        return NULL;
    }
    plan->key = key;
    plan->unfused = !key.fits;
    if (plan->unfused)
        plan->state = CHOSEN;
    else if (!describe_plan(plan))
        plan->state = IMPOSSIBLE;
    plan->next = *bucket;
    *bucket = plan;
    return plan;
}

/* --- one multiplication --- */

/* Tells the plan where bias and aux are now. */
static bool set_pointers(struct plan *plan, const struct dt_cuda_matmul *mm)
{
    const void *bias = mm->bias.count > 0 ? dt_view_data(mm->bias) : NULL;
    const void *aux = plan->key.gelu ? dt_view_data(mm->aux) : NULL;

    return (!bias || DESCRIBE(plan, BIAS_POINTER, bias)) &&
           (!aux || DESCRIBE(plan, EPILOGUE_AUX_POINTER, aux));
}

static cublasStatus_t run_plan(struct dt_stream *stream,
                               const struct plan *plan,
                               const struct dt_cuda_matmul *mm,
                               const cublasLtMatmulAlgo_t *algo)
{
    const float alpha = 1.0f, beta = plan->key.accumulate || plan->key.adds;
    void *d = dt_view_data(mm->d), *c = mm->c.count ? dt_view_data(mm->c) : d;

    return cublasLtMatmul(handle, plan->desc, &alpha, dt_view_data(mm->b),
                          plan->b, dt_view_data(mm->a), plan->a, &beta, c,
                          plan->d, d, plan->d, algo, stream->workspace, HALF,
                          stream->cuda);
}

/* --- the choice of an algorithm --- */

/* Candidates that add in fp32, each sum in one order, the best guess first. A
 * long sum may be split into parts ("split k") if these are kept in fp32 and
 * added in a fixed order at the end. The scheme that adds them to d in any
 * order is used for fp32 results only, where the bits need not be the same
 * every time. Returns how many there are.
 */
static int find_candidates(const struct plan *plan,
                           cublasLtMatmulHeuristicResult_t found[CANDIDATES])
{
    const struct key *key = &plan->key;
    uint64_t workspace = HALF;
    uint32_t a = key->align_a, b = key->align_b;
    uint32_t c = key->align_c, d = key->align_d;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulPreference_t preference;
    cublasStatus_t status;
    int count = 0, usable = 0;

    if (key->out == DT_F32 && key->epilogue == DT_EPILOGUE_NONE &&
        !dt_cuda_facts.deterministic)
        schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    if (!TRY(key, cublasLtMatmulPreferenceCreate, &preference))
        return 0;
#define PREFER(name, value)                                                    \
    TRY(key, cublasLtMatmulPreferenceSetAttribute, preference,                 \
        CUBLASLT_MATMUL_PREF_##name, &(value), sizeof(value))
    if (PREFER(MAX_WORKSPACE_BYTES, workspace) &&
        PREFER(REDUCTION_SCHEME_MASK, schemes) &&
        PREFER(MIN_ALIGNMENT_A_BYTES, b) && PREFER(MIN_ALIGNMENT_B_BYTES, a) &&
        PREFER(MIN_ALIGNMENT_C_BYTES, c) && PREFER(MIN_ALIGNMENT_D_BYTES, d)) {
        status = cublasLtMatmulAlgoGetHeuristic(
            handle, plan->desc, plan->b, plan->a, plan->d, plan->d, preference,
            CANDIDATES, found, &count);
        for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; i++)
            if (found[i].state == CUBLAS_STATUS_SUCCESS)
                found[usable++] = found[i];
        if (status == CUBLAS_STATUS_SUCCESS && usable == 0)
            status = CUBLAS_STATUS_NOT_SUPPORTED;
        if (!key->gelu && !key->sum)
            check_status(status, "cublasLtMatmulAlgoGetHeuristic", key);
    }
#undef PREFER
    cublasLtMatmulPreferenceDestroy(preference);
    return usable;
}

/* What is timed for a plan. */
struct tuning {
    struct dt_stream *stream;
    struct plan *plan;
    const struct dt_cuda_matmul *mm;
    const cublasLtMatmulHeuristicResult_t *found;
    int unfused; /* 1: candidate 0 is the unfused one, others follow it */
};

static bool run_candidate(void *ctx, int i)
{
    const struct tuning *tuning = ctx;

    if (i >= tuning->unfused)
        return run_plan(tuning->stream, tuning->plan, tuning->mm,
                        &tuning->found[i - tuning->unfused].algo) ==
               CUBLAS_STATUS_SUCCESS;
    dt_cuda_matmul_unfused(tuning->stream, tuning->mm);
    return true;
}

/* Times the candidates and keeps the fastest. If d is an operand it must not
 * change: the candidates then write to other memory. Sums that are accumulated
 * go to the workspace first in any case.
 */
static void tune_plan(struct dt_stream *stream, struct plan *plan,
                      const struct dt_cuda_matmul *mm,
                      const cublasLtMatmulHeuristicResult_t *found, int count)
{
    const struct key *key = &plan->key;
    struct dt_buffer own = {NULL, 0, NULL};
    struct dt_cuda_matmul trial = *mm;
    struct tuning tuning = {stream, plan, &trial, found, key->gelu || key->sum};
    int fastest;

    /* The library's sums are used only once they were measured to be faster. */
    plan->unfused = key->sum;
    if (key->accumulate ||
        (key->adds && dt_view_data(mm->c) == dt_view_data(mm->d))) {
        trial.d = (struct dt_view){&own, 0, key->M * key->ldd, mm->d.dtype};
        own.bytes = trial.d.count * dt_dtype_bytes(mm->d.dtype);
        if (cudaMalloc(&own.data, own.bytes) != cudaSuccess) {
            cudaGetLastError(); /* too little memory is not an error here */
            return;
        }
        dt_cuda_check(cudaMemsetAsync(own.data, 0, own.bytes, stream->cuda),
                      "cudaMemsetAsync of a trial's result");
    }
    if (tuning.unfused) /* its matmul is tuned on its own */
        dt_cuda_matmul_unfused(stream, &trial);
    fastest = dt_cuda_autotune(stream, tuning.unfused + count, run_candidate,
                               &tuning);
    if (fastest >= 0)
        plan->unfused = fastest < tuning.unfused;
    if (fastest >= tuning.unfused)
        plan->algo = found[fastest - tuning.unfused].algo;
    cudaFree(own.data);
}

static void choose_algo(struct dt_stream *stream, struct plan *plan,
                        const struct dt_cuda_matmul *mm)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    enum dt_cuda_autotune when = dt_cuda_autotune_when(stream);
    int count;

    if (plan->state == GUESSED && when == DT_AUTOTUNE_LATER)
        return;
    plan->state = when == DT_AUTOTUNE_LATER ? GUESSED : CHOSEN;
    plan->unfused = plan->key.sum && when != DT_AUTOTUNE_NOW;
    if (plan->unfused)
        return;
    count = find_candidates(plan, found);
    if (count == 0) {
        plan->unfused = plan->key.gelu || plan->key.sum;
        plan->state = plan->unfused ? CHOSEN : IMPOSSIBLE;
        return;
    }
    plan->algo = found[0].algo;
    if (when == DT_AUTOTUNE_NOW)
        tune_plan(stream, plan, mm, found, count);
}

/* The bias that the library is given, aligned and of the type of d (X or F32);
 * or where it puts sums that are then added to mm->bias. Both are in `half`,
 * the second half of the workspace, unless mm->bias itself can be used.
 */
static struct dt_view prepare_bias(struct dt_stream *stream,
                                   const struct dt_cuda_matmul *mm,
                                   struct dt_buffer *half)
{
    struct dt_view bias = {half, 0, mm->bias.count, mm->d.dtype};

    assert(mm->bias.count * dt_dtype_bytes(bias.dtype) <= half->bytes);
    if (mm->bias.count == 0 || (is_sum(mm->epilogue) && !mm->accumulate))
        return mm->bias;
    if (is_sum(mm->epilogue))
        return bias;
    if (mm->bias.dtype != mm->d.dtype)
        dt_cuda_convert(stream, bias, mm->bias);
    else if (alignment_of(mm->bias) < ALIGNMENT)
        dt_cuda_check(cudaMemcpyAsync(half->data, dt_view_data(mm->bias),
                                      bias.count * dt_dtype_bytes(bias.dtype),
                                      cudaMemcpyDeviceToDevice, stream->cuda),
                      "cudaMemcpyAsync of a bias");
    else
        return mm->bias;
    return bias;
}

static void check_operands(const struct dt_stream *stream,
                           const struct dt_cuda_matmul *mm)
{
    (void)stream;
    (void)mm;
    assert(stream->workspace_bytes >= DT_CUDA_WORKSPACE);
    assert(mm->K > 0 && mm->a.dtype == mm->b.dtype);
    assert(mm->d.dtype == mm->a.dtype || mm->d.dtype == DT_F32);
    assert(mm->c.count == 0 ||
           (mm->c.dtype == mm->d.dtype && !mm->accumulate && mm->ldd == 0 &&
            (mm->epilogue == DT_EPILOGUE_NONE ||
             mm->epilogue == DT_EPILOGUE_BIAS)));
    assert(mm->bias.count == 0 ||
           mm->bias.count ==
               (mm->epilogue == DT_EPILOGUE_SUM_A ? mm->M : mm->N));
    assert(!is_gelu(mm->epilogue) ||
           (mm->d.dtype == mm->a.dtype && !mm->accumulate &&
            (mm->ldd == 0 || mm->ldd == mm->N)));
}

void dt_cuda_matmul(struct dt_stream *stream, const struct dt_cuda_matmul *mm)
{
    struct dt_buffer half = {(char *)stream->workspace + HALF, HALF, NULL};
    struct dt_cuda_matmul prepared = *mm;
    cublasStatus_t status;
    struct plan *plan;

    check_operands(stream, mm);
    if (mm->M == 0 || mm->N == 0)
        return;
    prepared.bias = prepare_bias(stream, mm, &half);
    plan = plan_of(&prepared);
    if (!plan || plan->state == IMPOSSIBLE)
        return;
    if (plan->key.fits && !set_pointers(plan, &prepared))
        return;
    if (plan->state != CHOSEN)
        choose_algo(stream, plan, &prepared);
    if (plan->state == IMPOSSIBLE)
        return;
    if (!plan->unfused) {
        status = run_plan(stream, plan, &prepared, &plan->algo);
        plan->unfused = status != CUBLAS_STATUS_SUCCESS &&
                        (plan->key.gelu || plan->key.sum);
        if (!plan->unfused)
            check_status(status, "cublasLtMatmul", &plan->key);
    }
    if (plan->unfused)
        dt_cuda_matmul_unfused(stream, mm);
    else if (is_sum(mm->epilogue) && mm->accumulate)
        dt_cuda_bias_backward(stream, mm->bias, prepared.bias, 1,
                              mm->bias.count, true);
}
