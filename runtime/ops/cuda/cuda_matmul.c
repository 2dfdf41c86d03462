/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_matmul.c - matrix multiplication by cuBLASLt
 *
 * cuBLASLt is column-major: a row-major (M,N) matrix is a column-major (N,M)
 * one, and d = a b is d^T = b^T a^T. So `b` comes first, M and N are swapped,
 * and everything else stays, transposition included.
 *
 * A plan holds the library's description of a shape, and the algorithm
 * (matmul_tune.c); it is made once.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cuda.h"
#include "ops/cuda/matmul_impl.h"

enum {
    ALIGNMENT = 16, /* bytes; no algorithm needs more */
    BUCKETS = 1024,
};

cublasLtHandle_t dt_cuda_blas;
static struct dt_matmul_plan *plans[BUCKETS];

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
        dt_cuda_blas ? CUBLAS_STATUS_SUCCESS : cublasLtCreate(&dt_cuda_blas);

    if (status != CUBLAS_STATUS_SUCCESS)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "cublasLtCreate: %s; expected a GPU and a driver "
                            "that %s supports",
                            cublasLtGetStatusString(status), dt_cuda_library());
    return 0;
}

/* --- plans --- */

const char *dt_cuda_matmul_words(const struct dt_matmul_key *key)
{
    static char text[160];

    snprintf(text, sizeof(text),
             "(%zu, %zu)%s x (%zu, %zu)%s%s, %s to %s, epilogue %d", key->M,
             key->K, key->ta ? "^T" : "", key->K, key->N, key->tb ? "^T" : "",
             key->adds ? " + c" : "", dt_dtype_name((enum dt_dtype)key->type),
             dt_dtype_name((enum dt_dtype)key->out), key->epilogue);
    return text;
}

bool dt_cuda_matmul_check(cublasStatus_t status, const char *function,
                          const struct dt_matmul_key *key)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        dt_cuda_fail("%s(%s): %s", function, dt_cuda_matmul_words(key),
                     cublasLtGetStatusString(status));
    return status == CUBLAS_STATUS_SUCCESS;
}

#define DESCRIBE(plan, name, value)                                            \
    DT_MATMUL_TRY(&(plan)->key, cublasLtMatmulDescSetAttribute, (plan)->desc,  \
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

static bool is_activation(enum dt_cuda_epilogue epilogue)
{
    return epilogue == DT_EPILOGUE_ACTIVATION || epilogue == DT_EPILOGUE_SLOPE;
}

static bool is_sum(enum dt_cuda_epilogue epilogue)
{
    return epilogue == DT_EPILOGUE_SUM_A || epilogue == DT_EPILOGUE_SUM_B;
}

/* The library has no activation but GELU by tanh. It applies that only to rows
 * that it can read 16 bytes at a time (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD is
 * a multiple of 8), does not promise that aux may be d, nor that its tanh is
 * exact to more than 16 bits. Its sums over k have the type of d, and need
 * operands in this order.
 */
static bool epilogue_fits(const struct dt_cuda_matmul *mm)
{
    switch (mm->epilogue) {
    case DT_EPILOGUE_ACTIVATION:
    case DT_EPILOGUE_SLOPE:
        return mm->activation == DT_GELU_TANH && mm->d.dtype != DT_F32 &&
               mm->N % 8 == 0 && alignment_of(mm->aux) == ALIGNMENT &&
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

static struct dt_matmul_key key_of(const struct dt_cuda_matmul *mm)
{
    struct dt_matmul_key key;

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
    key.activation = is_activation(mm->epilogue);
    key.sum = is_sum(mm->epilogue);
    key.fits = epilogue_fits(mm);
    key.align_a = alignment_of(mm->a);
    key.align_b = alignment_of(mm->b);
    key.align_d = alignment_of(mm->d);
    key.align_c = key.adds ? alignment_of(mm->c) : key.align_d;
    return key;
}

static cublasLtEpilogue_t epilogue_of(const struct dt_matmul_key *key)
{
    switch ((enum dt_cuda_epilogue)key->epilogue) {
    case DT_EPILOGUE_ACTIVATION:
        return key->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                         : CUBLASLT_EPILOGUE_GELU_AUX;
    case DT_EPILOGUE_SLOPE:
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
static bool create_layout(cublasLtMatrixLayout_t *layout,
                          const struct dt_matmul_key *key, uint8_t type,
                          size_t rows, size_t cols, size_t stride)
{
    return DT_MATMUL_TRY(key, cublasLtMatrixLayoutCreate, layout,
                         cuda_type((enum dt_dtype)type), cols, rows,
                         (int64_t)stride);
}

static bool describe_plan(struct dt_matmul_plan *plan)
{
    const struct dt_matmul_key *k = &plan->key;
    cublasOperation_t a = k->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = k->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(k);
    int64_t aux_stride = (int64_t)k->N;
    bool tf32 = k->type == DT_F32 && dt_cuda_facts.tf32;

    return DT_MATMUL_TRY(k, cublasLtMatmulDescCreate, &plan->desc,
                         tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                              : CUBLAS_COMPUTE_32F,
                         CUDA_R_32F) &&
           DESCRIBE(plan, TRANSA, b) && DESCRIBE(plan, TRANSB, a) &&
           DESCRIBE(plan, EPILOGUE, epilogue) &&
           (!k->activation || DESCRIBE(plan, EPILOGUE_AUX_LD, aux_stride)) &&
           create_layout(&plan->a, k, k->type, k->ta ? k->K : k->M,
                         k->ta ? k->M : k->K, k->lda) &&
           create_layout(&plan->b, k, k->type, k->tb ? k->N : k->K,
                         k->tb ? k->K : k->N, k->ldb) &&
           create_layout(&plan->d, k, k->out, k->M, k->N, k->ldd);
}

static struct dt_matmul_plan **bucket_of(const struct dt_matmul_key *key)
{
    const unsigned char *bytes = (const unsigned char *)key;
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < sizeof(*key); i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return &plans[hash % BUCKETS];
}

struct dt_matmul_plan *dt_cuda_matmul_find(const struct dt_matmul_key *key)
{
    struct dt_matmul_plan *plan = *bucket_of(key);

    while (plan && memcmp(&plan->key, key, sizeof(*key)) != 0)
        plan = plan->next;
    return plan;
}

static struct dt_matmul_plan *plan_of(const struct dt_cuda_matmul *mm)
{
    const struct dt_matmul_key key = key_of(mm);
    struct dt_matmul_plan **bucket = bucket_of(&key);
    struct dt_matmul_plan *plan = dt_cuda_matmul_find(&key);

    if (plan)
        return plan;
    plan = calloc(1, sizeof(*plan));
    if (!plan) {
        dt_cuda_fail("calloc(%zu): out of memory", sizeof(*plan));
        return NULL;
    }
    plan->key = key;
    plan->unfused = !key.fits;
    if (plan->unfused)
        plan->state = DT_MATMUL_CHOSEN;
    else if (!describe_plan(plan))
        plan->state = DT_MATMUL_IMPOSSIBLE;
    plan->next = *bucket;
    *bucket = plan;
    return plan;
}

/* --- one multiplication --- */

/* Tells the plan where bias and aux are now. */
static bool set_pointers(struct dt_matmul_plan *plan,
                         const struct dt_cuda_matmul *mm)
{
    const void *bias = mm->bias.count > 0 ? dt_view_data(mm->bias) : NULL;
    const void *aux = plan->key.activation ? dt_view_data(mm->aux) : NULL;

    return (!bias || DESCRIBE(plan, BIAS_POINTER, bias)) &&
           (!aux || DESCRIBE(plan, EPILOGUE_AUX_POINTER, aux));
}

cublasStatus_t dt_cuda_matmul_run(struct dt_stream *stream,
                                  const struct dt_matmul_plan *plan,
                                  const struct dt_cuda_matmul *mm,
                                  const cublasLtMatmulAlgo_t *algo)
{
    const float alpha = mm->scale != 0.0f ? mm->scale : 1.0f;
    const float beta = plan->key.accumulate || plan->key.adds;
    void *d = dt_view_data(mm->d), *c = mm->c.count ? dt_view_data(mm->c) : d;

    return cublasLtMatmul(dt_cuda_blas, plan->desc, &alpha, dt_view_data(mm->b),
                          plan->b, dt_view_data(mm->a), plan->a, &beta, c,
                          plan->d, d, plan->d, algo, stream->workspace,
                          DT_MATMUL_WORKSPACE, stream->cuda);
}

/* --- operands --- */

/* The bias that the library is given, aligned and of the type of d (X or F32);
 * or where it puts sums that are then added to mm->bias. Both are in `half`,
 * the second half of the workspace, unless mm->bias itself can be used.
 */
static struct dt_view prepare_bias(struct dt_stream *stream,
                                   const struct dt_cuda_matmul *mm,
                                   struct dt_buffer *half)
{
    struct dt_view bias = {half, 0, mm->bias.count, mm->d.dtype};

    assert(dt_view_bytes(bias) <= half->bytes);
    if (mm->bias.count == 0 || (is_sum(mm->epilogue) && !mm->accumulate))
        return mm->bias;
    if (is_sum(mm->epilogue))
        return bias;
    if (mm->bias.dtype != mm->d.dtype)
        dt_cuda_convert(stream, bias, mm->bias);
    else if (alignment_of(mm->bias) < ALIGNMENT)
        dt_cuda_check(cudaMemcpyAsync(half->data, dt_view_data(mm->bias),
                                      dt_view_bytes(bias),
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
    assert(mm->a.dtype == mm->b.dtype);
    assert(mm->d.dtype == mm->a.dtype || mm->d.dtype == DT_F32);
    assert(mm->c.count == 0 ||
           (mm->c.dtype == mm->d.dtype && !mm->accumulate && mm->ldd == 0 &&
            (mm->epilogue == DT_EPILOGUE_NONE ||
             mm->epilogue == DT_EPILOGUE_BIAS)));
    assert(mm->bias.count == 0 ||
           mm->bias.count ==
               (mm->epilogue == DT_EPILOGUE_SUM_A ? mm->M : mm->N));
    assert(!is_activation(mm->epilogue) ||
           (mm->d.dtype == mm->a.dtype && !mm->accumulate &&
            (mm->ldd == 0 || mm->ldd == mm->N)));
}

/* Products of no terms: gradients of a layer that has no rows, and the sums
 * beside them.
 */
static void multiply_nothing(struct dt_stream *stream,
                             const struct dt_cuda_matmul *mm)
{
    assert(mm->c.count == 0 && mm->ldd == 0);
    assert(mm->epilogue == DT_EPILOGUE_NONE || is_sum(mm->epilogue));
    if (mm->accumulate)
        return;
    dt_cuda_zero(stream, mm->d);
    dt_cuda_zero(stream, mm->bias);
}

void dt_cuda_matmul(struct dt_stream *stream, const struct dt_cuda_matmul *mm)
{
    struct dt_buffer half = {(char *)stream->workspace + DT_MATMUL_WORKSPACE,
                             DT_CUDA_WORKSPACE - DT_MATMUL_WORKSPACE, NULL};
    struct dt_cuda_matmul prepared = *mm;
    cublasStatus_t status;
    struct dt_matmul_plan *plan;

    check_operands(stream, mm);
    if (mm->M == 0 || mm->N == 0)
        return;
    if (mm->K == 0) {
        multiply_nothing(stream, mm);
        return;
    }
    prepared.bias = prepare_bias(stream, mm, &half);
    plan = plan_of(&prepared);
    if (!plan || plan->state == DT_MATMUL_IMPOSSIBLE)
        return;
    if (plan->key.fits && !set_pointers(plan, &prepared))
        return;
    if (plan->state != DT_MATMUL_CHOSEN)
        dt_cuda_matmul_choose(stream, plan, &prepared);
    if (plan->state == DT_MATMUL_IMPOSSIBLE)
        return;
    if (!plan->unfused) {
        status = dt_cuda_matmul_run(stream, plan, &prepared, &plan->algo);
        plan->unfused = status != CUBLAS_STATUS_SUCCESS &&
                        (plan->key.activation || plan->key.sum);
        if (!plan->unfused)
            dt_cuda_matmul_check(status, "cublasLtMatmul", &plan->key);
    }
    if (plan->unfused)
        dt_cuda_matmul_unfused(stream, mm);
    else if (is_sum(mm->epilogue) && mm->accumulate)
        dt_cuda_bias_backward(stream, mm->bias, prepared.bias, 1,
                              mm->bias.count, true);
}

/* d = a b * act'(aux) where d is aux: a b goes to the second half of the
 * workspace first, some rows at a time.
 */
static void slope_in_place(struct dt_stream *stream,
                           const struct dt_cuda_matmul *mm)
{
    const size_t half = stream->workspace_bytes / 2;
    struct dt_buffer rows_buf = {(char *)stream->workspace + half, half, NULL};
    size_t rows = half / (mm->N * dt_dtype_bytes(mm->d.dtype));
    size_t stride = mm->lda > 0 ? mm->lda : mm->K;
    struct dt_cuda_matmul part = *mm;

    assert(!mm->ta && rows > 0);
    if (rows > 128)
        rows = rows / 128 * 128; /* whole tiles */
    part.epilogue = DT_EPILOGUE_NONE;
    for (size_t first = 0; first < mm->M; first += rows) {
        size_t count = mm->M - first < rows ? mm->M - first : rows;
        struct dt_view at = dt_view_slice(mm->d, first * mm->N, count * mm->N);

        part.M = count;
        part.a =
            dt_view_slice(mm->a, first * stride, (count - 1) * stride + mm->K);
        part.d = (struct dt_view){&rows_buf, 0, count * mm->N, mm->d.dtype};
        dt_cuda_matmul(stream, &part);
        dt_cuda_activation_backward(stream, at, part.d, at, mm->activation);
    }
}

void dt_cuda_matmul_unfused(struct dt_stream *stream,
                            const struct dt_cuda_matmul *mm)
{
    struct dt_cuda_matmul plain = *mm;

    plain.epilogue = DT_EPILOGUE_NONE;
    plain.bias.count = plain.aux.count = 0;
    switch (mm->epilogue) {
    case DT_EPILOGUE_ACTIVATION:
        plain.bias = mm->bias;
        if (mm->bias.count > 0)
            plain.epilogue = DT_EPILOGUE_BIAS;
        plain.d = mm->aux;
        dt_cuda_matmul(stream, &plain);
        dt_cuda_activation_forward(stream, mm->d, mm->aux, mm->activation);
        break;
    case DT_EPILOGUE_SLOPE:
        if (dt_view_data(mm->d) == dt_view_data(mm->aux)) {
            slope_in_place(stream, &plain);
            break;
        }
        dt_cuda_matmul(stream, &plain);
        dt_cuda_activation_backward(stream, mm->d, mm->d, mm->aux,
                                    mm->activation);
        break;
    case DT_EPILOGUE_SUM_A:
        assert(mm->ta && (mm->lda == 0 || mm->lda == mm->M));
        dt_cuda_bias_backward(stream, mm->bias, mm->a, mm->K, mm->M,
                              mm->accumulate);
        dt_cuda_matmul(stream, &plain);
        break;
    case DT_EPILOGUE_SUM_B:
        assert(!mm->tb && (mm->ldb == 0 || mm->ldb == mm->N));
        dt_cuda_bias_backward(stream, mm->bias, mm->b, mm->K, mm->N,
                              mm->accumulate);
        dt_cuda_matmul(stream, &plain);
        break;
    default:
        dt_cuda_matmul(stream, mm);
    }
}
