/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library_types.h - names of element types
 */
#ifndef DT_SIMT_LIBRARY_TYPES_H
#define DT_SIMT_LIBRARY_TYPES_H

typedef enum cudaDataType_t {
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    CUDA_R_16F = 2,
    CUDA_R_16BF = 14,
} cudaDataType;
typedef cudaDataType cudaDataType_t;

#endif /* DT_SIMT_LIBRARY_TYPES_H */
