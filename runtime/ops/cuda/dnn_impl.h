/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dnn_impl.h - the library and its descriptors (private to dnn*.c)
 *
 * Every object of the backend API is a descriptor: created by kind, filled by
 * attributes, finalized. A graph owns all of its descriptors, in the order in
 * which they were made; they live as long as its plan.
 */
#ifndef DT_OPS_CUDA_DNN_IMPL_H
#define DT_OPS_CUDA_DNN_IMPL_H

#include <stdbool.h>

#include "ops/cuda/dnn.h"

#define DT_CUDNN_CALLS(X)                                                      \
    X(cudnnGetVersion)                                                         \
    X(cudnnGetCudartVersion)                                                   \
    X(cudnnGetErrorString)                                                     \
    X(cudnnGetLastErrorString)                                                 \
    X(cudnnCreate)                                                             \
    X(cudnnSetStream)                                                          \
    X(cudnnBackendCreateDescriptor)                                            \
    X(cudnnBackendDestroyDescriptor)                                           \
    X(cudnnBackendSetAttribute)                                                \
    X(cudnnBackendGetAttribute)                                                \
    X(cudnnBackendFinalize)                                                    \
    X(cudnnBackendExecute)

/* The library; `handle` once it is open. */
struct dt_cuda_dnn {
    bool loaded, any_length;
#define DT_CUDNN_MEMBER(name) __typeof__(name) *name;
    DT_CUDNN_CALLS(DT_CUDNN_MEMBER)
#undef DT_CUDNN_MEMBER
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t absent; /* in place of `handle`: a GPU that is
                                        not here, of which tests make plans */
    char version[32];
};
extern struct dt_cuda_dnn dt_cuda_dnn;

enum { MOST_OWNED = 256, MOST_OPERATIONS = 48 };

struct dt_cuda_dnn_graph {
    cudnnBackendDescriptor_t owned[MOST_OWNED];
    cudnnBackendDescriptor_t operations[MOST_OPERATIONS];
    size_t owned_count, operation_count;
    int64_t next_uid;
    char failure[400]; /* of the first call that failed */
    cudnnBackendDescriptor_t plan;
    size_t workspace;
};

/* A descriptor that the graph owns, or NULL. */
cudnnBackendDescriptor_t dt_cuda_dnn_create(struct dt_cuda_dnn_graph *g,
                                            cudnnBackendDescriptorType_t kind);
/* Sets `count` values of an attribute; or a descriptor. */
void dt_cuda_dnn_set(struct dt_cuda_dnn_graph *g, cudnnBackendDescriptor_t d,
                     cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count,
                     const void *value);
void dt_cuda_dnn_set_desc(struct dt_cuda_dnn_graph *g,
                          cudnnBackendDescriptor_t d,
                          cudnnBackendAttributeName_t name,
                          cudnnBackendDescriptor_t value);
/* `kind` is for the text of a failure. */
void dt_cuda_dnn_finalize(struct dt_cuda_dnn_graph *g,
                          cudnnBackendDescriptor_t d, const char *kind);
/* Keeps the first failure, of the call `what`. Returns whether it is one. */
bool dt_cuda_dnn_failed(struct dt_cuda_dnn_graph *g, const char *what,
                        cudnnStatus_t status);

#endif /* DT_OPS_CUDA_DNN_IMPL_H */
