/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blas_matmul.c - cuBLASLt: products, and what it says to wrong ones
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "internal.h"

/* What cublasLtMatmulAlgo_t holds. */
struct algorithm {
    uint64_t magic, workspace;
    uint32_t id, parts, scheme, alignment[4];
};

static const uint64_t MAGIC = 0x746d697347454d4d;

/* --- checks --- */

static bool is_float(cudaDataType type)
{
    return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
}

static bool layout_is_good(const struct simt_layout *l)
{
    return l && l->rows > 0 && l->cols > 0 && l->ld > 0 &&
           (uint64_t)l->ld >= l->rows;
}

/* Types that are together in the table of cublasLtMatmul. */
static bool types_fit(const struct simt_matmul_desc *desc,
                      const struct simt_gemm *g)
{
    cudaDataType in = g->a_layout.type, out = g->d_layout.type;
    bool tf32 = desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    return is_float(in) && g->b_layout.type == in &&
           (out == in || out == CUDA_R_32F) && g->c_layout.type == out &&
           desc->scale == CUDA_R_32F &&
           (desc->compute == CUBLAS_COMPUTE_32F ||
            desc->compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
            (tf32 && in == CUDA_R_32F)) &&
           g->bias_type == out && g->aux_type == out;
}

static bool is_aligned(const void *data, size_t bytes)
{
    return (uintptr_t)data % bytes == 0;
}

static bool needs_bias(cublasLtEpilogue_t e)
{
    return e & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA |
                CUBLASLT_EPILOGUE_BGRADB | 16);
}

static cublasStatus_t check_epilogue(const struct simt_gemm *g)
{
    size_t bytes = simt_type_bytes(g->d_layout.type);
    switch (g->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
        break;
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (needs_bias(g->epilogue) && (!g->bias || !is_aligned(g->bias, bytes)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (g->epilogue & 128 && /* aux */
        (!g->aux || !is_aligned(g->aux, 16) || g->aux_ld % 8 != 0 ||
         g->aux_ld < (int64_t)g->m))
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

/* Puts a product together from its descriptions. */
static cublasStatus_t describe(struct simt_gemm *g,
                               const struct simt_matmul_desc *desc,
                               const struct simt_layout *a,
                               const struct simt_layout *b,
                               const struct simt_layout *c,
                               const struct simt_layout *d)
{
    if (!desc || !layout_is_good(a) || !layout_is_good(b) ||
        !layout_is_good(c) || !layout_is_good(d) || desc->pointer_mode != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    *g = (struct simt_gemm){
        .m = d->rows,
        .n = d->cols,
        .k = desc->ta == CUBLAS_OP_N ? a->cols : a->rows,
        .ta = desc->ta != CUBLAS_OP_N,
        .tb = desc->tb != CUBLAS_OP_N,
        .tf32 = desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32,
        .a_layout = *a,
        .b_layout = *b,
        .c_layout = *c,
        .d_layout = *d,
        .epilogue = desc->epilogue,
        .bias = desc->bias,
        .aux = desc->aux,
        .aux_ld = desc->aux_ld,
        .bias_type =
            desc->bias_type < 0 ? d->type : (cudaDataType)desc->bias_type,
        .aux_type = desc->aux_type < 0 ? d->type : (cudaDataType)desc->aux_type,
        .parts = 1,
    };
    if ((g->ta ? a->cols : a->rows) != g->m ||
        (g->tb ? b->rows : b->cols) != g->n ||
        (g->tb ? b->cols : b->rows) != g->k || c->rows != g->m ||
        c->cols != g->n)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_fit(desc, g))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return check_epilogue(g);
}

/* --- algorithms --- */

/* Three: one that needs nothing, one that wants all operands aligned, one that
 * splits k and adds the parts in its workspace.
 */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int most,
    cublasLtMatmulHeuristicResult_t results[], int *count)
{
    struct simt_gemm g;
    *count = 0;
    if (!handle || !preference || most <= 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = describe(&g, desc, a, b, c, d);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    uint32_t smallest = 256;
    for (int i = 0; i < 4; i++)
        if (preference->alignment[i] < smallest)
            smallest = preference->alignment[i];
    for (uint32_t id = 0; id < 3 && *count < most; id++) {
        struct algorithm algo = {.magic = MAGIC, .id = id, .parts = 1};
        if (id == 1 && smallest < 16)
            continue;
        if (id == 2) {
            algo.parts = 2;
            algo.workspace = g.m * g.n * sizeof(float) * 2;
            algo.scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
            if (!(preference->schemes & algo.scheme) || g.k < 32 ||
                algo.workspace > preference->workspace)
                continue;
        }
        for (int i = 0; i < 4; i++)
            algo.alignment[i] = id == 1 ? 16 : 1;
        cublasLtMatmulHeuristicResult_t *result = &results[(*count)++];
        *result = (cublasLtMatmulHeuristicResult_t){
            .workspaceSize = algo.workspace, .wavesCount = 1.0f};
        _Static_assert(sizeof(algo) <= sizeof(result->algo), "it fits");
        memcpy(&result->algo, &algo, sizeof(algo));
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t attr,
    void *value, size_t bytes, size_t *written)
{
    struct algorithm a;
    memcpy(&a, algo, sizeof(a));
    int32_t result = 0;
    if (attr == CUBLASLT_ALGO_CONFIG_ID)
        result = (int32_t)a.id;
    else if (attr == CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
        result = (int32_t)a.parts;
    else if (attr == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
        result = (int32_t)a.scheme;
    if (bytes != sizeof(result))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &result, bytes);
    if (written)
        *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

static size_t extent(const struct simt_layout *l)
{
    return ((l->cols - 1) * (size_t)l->ld + l->rows) * simt_type_bytes(l->type);
}

static bool overlap(const void *x, size_t x_bytes, const void *y,
                    size_t y_bytes)
{
    uintptr_t a = (uintptr_t)x, b = (uintptr_t)y;
    return a < b + y_bytes && b < a + x_bytes;
}

/* All of it is memory of a device, and nothing is written that is read. */
static void check_memory(const struct simt_gemm *g)
{
    size_t a = extent(&g->a_layout), b = extent(&g->b_layout);
    size_t d = extent(&g->d_layout);
    simt_expect_device(g->a, a, "matrix A");
    simt_expect_device(g->b, b, "matrix B");
    simt_expect_device(g->d, d, "matrix D");
    if (g->beta != 0.0f)
        simt_expect_device(g->c, extent(&g->c_layout), "matrix C");
    if (overlap(g->a, a, g->d, d) || overlap(g->b, b, g->d, d))
        simt_fail("cublasLtMatmul: D overlaps A or B");
    if (g->c != g->d && g->beta != 0.0f &&
        overlap(g->c, extent(&g->c_layout), g->d, d))
        simt_fail("cublasLtMatmul: D overlaps C, and is not C");
    if (needs_bias(g->epilogue))
        simt_expect_device(
            g->bias,
            simt_type_bytes(g->bias_type) *
                (g->epilogue == CUBLASLT_EPILOGUE_BGRADB ? g->n : g->m),
            "bias");
    if (g->epilogue & 128) {
        size_t aux = ((g->n - 1) * (size_t)g->aux_ld + g->m) *
                     simt_type_bytes(g->aux_type);
        simt_expect_device(g->aux, aux, "the epilogue's matrix");
        if (overlap(g->aux, aux, g->d, d))
            simt_fail("cublasLtMatmul: D overlaps the epilogue's matrix");
    }
    if (g->workspace_bytes > 0)
        simt_expect_device(g->workspace, g->workspace_bytes, "workspace");
}

static cublasStatus_t apply(struct simt_gemm *g,
                            const cublasLtMatmulAlgo_t *chosen,
                            size_t workspace_bytes)
{
    struct algorithm algo = {.magic = MAGIC, .parts = 1};
    const void *operands[] = {g->a, g->b, g->c, g->d};
    const struct simt_layout *layouts[] = {&g->a_layout, &g->b_layout,
                                           &g->c_layout, &g->d_layout};
    if (chosen)
        memcpy(&algo, chosen, sizeof(algo));
    if (algo.magic != MAGIC || algo.workspace > workspace_bytes ||
        (algo.workspace > 0 && !is_aligned(g->workspace, 16)))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++) {
        size_t needed = simt_type_bytes(layouts[i]->type);
        if (i != 2 || g->beta != 0.0f)
            needed = algo.alignment[i] > needed ? algo.alignment[i] : needed;
        if (!is_aligned(operands[i], needed))
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    g->parts = algo.parts;
    g->workspace_bytes = algo.workspace;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle,
                              cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    struct simt_gemm g;
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta || !a || !b || !d)
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status =
        describe(&g, desc, a_layout, b_layout, c_layout, d_layout);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    memcpy(&g.alpha, alpha, sizeof(g.alpha));
    memcpy(&g.beta, beta, sizeof(g.beta));
    g.a = a;
    g.b = b;
    g.c = c;
    g.d = d;
    g.workspace = workspace;
    status = apply(&g, algo, workspace_bytes);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    check_memory(&g);
    struct simt_gemm *queued = simt_checked(malloc(sizeof(*queued)));
    *queued = g;
    return simt_enqueue_call(stream, simt_gemm_run, free, queued) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
