/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blas.c - cuBLASLt: handles and descriptions
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "internal.h"

struct cublasLtContext {
    int device;
};

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDART_VERSION;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "the functionality requested is not supported";
    default:
        return "an internal operation failed";
    }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (simt_device_count() == 0)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = simt_checked(malloc(sizeof(**handle)));
    (*handle)->device = simt_device();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

/* --- descriptions --- */

/* Where an attribute lies, and how large it is. */
struct field {
    int attr;
    size_t offset, bytes;
};

static cublasStatus_t set(void *object, const struct field *fields,
                          size_t count, int attr, const void *value,
                          size_t bytes)
{
    if (!object || !value)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (fields[i].attr == attr) {
            if (bytes != fields[i].bytes)
                return CUBLAS_STATUS_INVALID_VALUE;
            memcpy((char *)object + fields[i].offset, value, bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

#define FIELD(attr, type, member)                                              \
    {                                                                          \
        attr, offsetof(type, member), sizeof(((type *)0)->member)              \
    }
#define SET(fields, object, attr, value, bytes)                                \
    set(object, fields, sizeof(fields) / sizeof(*(fields)), (int)(attr),       \
        value, bytes)

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    *layout = simt_checked(malloc(sizeof(**layout)));
    **layout = (struct simt_layout){type, rows, cols, ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attr,
    const void *value, size_t bytes)
{
    static const struct field fields[] = {
        FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, struct simt_layout, type),
        FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, struct simt_layout, rows),
        FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, struct simt_layout, cols),
        FIELD(CUBLASLT_MATRIX_LAYOUT_LD, struct simt_layout, ld),
    };
    return SET(fields, layout, attr, value, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *desc = simt_checked(malloc(sizeof(**desc)));
    **desc = (struct simt_matmul_desc){.compute = (int32_t)compute,
                                       .scale = (int32_t)scale,
                                       .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                       .aux_type = -1,
                                       .bias_type = -1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
    const void *value, size_t bytes)
{
#define DESC(name, member)                                                     \
    FIELD(CUBLASLT_MATMUL_DESC_##name, struct simt_matmul_desc, member)
    static const struct field fields[] = {
        DESC(COMPUTE_TYPE, compute),
        DESC(SCALE_TYPE, scale),
        DESC(POINTER_MODE, pointer_mode),
        DESC(TRANSA, ta),
        DESC(TRANSB, tb),
        DESC(EPILOGUE, epilogue),
        DESC(BIAS_POINTER, bias),
        DESC(BIAS_DATA_TYPE, bias_type),
        DESC(EPILOGUE_AUX_POINTER, aux),
        DESC(EPILOGUE_AUX_LD, aux_ld),
        DESC(EPILOGUE_AUX_DATA_TYPE, aux_type),
        DESC(SM_COUNT_TARGET, multiprocessors),
    };
#undef DESC
    return SET(fields, desc, attr, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(
    cublasLtMatmulPreference_t *preference)
{
    *preference = simt_checked(malloc(sizeof(**preference)));
    **preference =
        (struct simt_preference){.schemes = CUBLASLT_REDUCTION_SCHEME_MASK,
                                 .alignment = {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(
    cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attr, const void *value, size_t bytes)
{
#define PREF(name, member)                                                     \
    FIELD(CUBLASLT_MATMUL_PREF_##name, struct simt_preference, member)
    static const struct field fields[] = {
        PREF(MAX_WORKSPACE_BYTES, workspace),
        PREF(REDUCTION_SCHEME_MASK, schemes),
        PREF(MIN_ALIGNMENT_A_BYTES, alignment[0]),
        PREF(MIN_ALIGNMENT_B_BYTES, alignment[1]),
        PREF(MIN_ALIGNMENT_C_BYTES, alignment[2]),
        PREF(MIN_ALIGNMENT_D_BYTES, alignment[3]),
    };
#undef PREF
    return SET(fields, preference, attr, value, bytes);
}
