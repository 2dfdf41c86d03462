/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudnn_impl.h - descriptors of the emulated cuDNN, for cudnn*.c
 */
#ifndef DT_SIMT_CUDNN_IMPL_H
#define DT_SIMT_CUDNN_IMPL_H

#include <cudnn.h>
#include <stdbool.h>

#include "simt.h"

enum { MOST_ATTRIBUTES = 8 };

struct cudnn_attribute {
    cudnnBackendAttributeName_t name;
    int64_t count;
    void *values;
};

struct cudnn_descriptor {
    cudnnBackendDescriptorType_t kind;
    bool final;
    struct cudnn_attribute attributes[MOST_ATTRIBUTES];
    size_t count;
};

/* An attribute, NULL if it is not set; its values; the descriptor that it is.
 */
const struct cudnn_attribute *simt_cudnn_attribute(
    const struct cudnn_descriptor *d, cudnnBackendAttributeName_t name);
const void *simt_cudnn_values(const struct cudnn_descriptor *d,
                              cudnnBackendAttributeName_t name);
struct cudnn_descriptor *simt_cudnn_child(const struct cudnn_descriptor *d,
                                          cudnnBackendAttributeName_t name);
/* Operation i of a graph, NULL after the last. */
struct cudnn_descriptor *simt_cudnn_operation(
    const struct cudnn_descriptor *graph, size_t i);

/* Bytes of workspace that every plan asks for. */
enum { SIMT_CUDNN_WORKSPACE = 5000 };

/* Queues the operations of `graph` on what the pack names (cudnn_run.c). */
cudnnStatus_t simt_cudnn_execute(cudaStream_t stream,
                                 const struct cudnn_descriptor *graph,
                                 const struct cudnn_descriptor *pack);

#endif /* DT_SIMT_CUDNN_IMPL_H */
