/* SPDX-License-Identifier: Apache-2.0 */
/* dnn_graph.c - cuDNN: tensors and operations of a graph */
#include "config.h"

#ifdef HAVE_CUDNN

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cuda/dnn_impl.h"

enum { FIRST_BETWEEN = 100 };

struct dt_cuda_dnn_graph *dt_cuda_dnn_graph_create(void)
{
    struct dt_cuda_dnn_graph *g = calloc(1, sizeof(*g));

    if (g)
        g->next_uid = FIRST_BETWEEN;
    return g;
}

void dt_cuda_dnn_graph_destroy(struct dt_cuda_dnn_graph *g)
{
    if (!g)
        return;
    while (g->owned_count > 0)
        dt_cuda_dnn.cudnnBackendDestroyDescriptor(g->owned[--g->owned_count]);
    free(g);
}

/* --- tensors --- */

static struct dt_cuda_dnn_tensor make_tensor(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type,
                                             const int64_t dims[4],
                                             const int64_t strides[4],
                                             cudnnBackendAttributeName_t trait)
{
    struct dt_cuda_dnn_tensor t = {
        .desc = dt_cuda_dnn_create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR)};
    const int64_t alignment = 16;
    const bool yes = true;

    memcpy(t.dims, dims, sizeof(t.dims));
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_DATA_TYPE,
                    CUDNN_TYPE_DATA_TYPE, 1, &type);
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
                    4, dims);
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4,
                    strides);
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
                    &uid);
    dt_cuda_dnn_set(g, t.desc, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
                    CUDNN_TYPE_INT64, 1, &alignment);
    if (trait != CUDNN_ATTR_TENSOR_UNIQUE_ID)
        dt_cuda_dnn_set(g, t.desc, trait, CUDNN_TYPE_BOOLEAN, 1, &yes);
    dt_cuda_dnn_finalize(g, t.desc, "TENSOR");
    return t;
}

struct dt_cuda_dnn_tensor dt_cuda_dnn_tensor(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type,
                                             const int64_t dims[4],
                                             const int64_t strides[4])
{
    return make_tensor(g, uid, type, dims, strides,
                       CUDNN_ATTR_TENSOR_UNIQUE_ID);
}

struct dt_cuda_dnn_tensor dt_cuda_dnn_scalar(struct dt_cuda_dnn_graph *g,
                                             int64_t uid, cudnnDataType_t type)
{
    const int64_t one[4] = {1, 1, 1, 1};

    return make_tensor(g, uid, type, one, one, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}

struct dt_cuda_dnn_tensor dt_cuda_dnn_between(struct dt_cuda_dnn_graph *g,
                                              cudnnDataType_t type,
                                              const int64_t dims[4],
                                              const int64_t strides[4])
{
    const int64_t row_major[4] = {dims[1] * dims[2] * dims[3],
                                  dims[2] * dims[3], dims[3], 1};

    return make_tensor(g, g->next_uid++, type, dims,
                       strides ? strides : row_major,
                       CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

/* --- operations --- */

static void add_operation(struct dt_cuda_dnn_graph *g,
                          cudnnBackendDescriptor_t operation, const char *kind)
{
    dt_cuda_dnn_finalize(g, operation, kind);
    if (!g->failure[0] && g->operation_count == MOST_OPERATIONS)
        snprintf(g->failure, sizeof(g->failure), "more than %d operations",
                 MOST_OPERATIONS);
    if (!g->failure[0])
        g->operations[g->operation_count++] = operation;
}

void dt_cuda_dnn_matmul(struct dt_cuda_dnn_graph *g,
                        struct dt_cuda_dnn_tensor c,
                        struct dt_cuda_dnn_tensor a,
                        struct dt_cuda_dnn_tensor b)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cudnnBackendDescriptor_t op;

    dt_cuda_dnn_set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                    1, &type);
    dt_cuda_dnn_finalize(g, how, "MATMUL");
    op = dt_cuda_dnn_create(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.desc);
    dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.desc);
    dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.desc);
    dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add_operation(g, op, "OPERATION_MATMUL");
}

void dt_cuda_dnn_reduce(struct dt_cuda_dnn_graph *g,
                        struct dt_cuda_dnn_tensor y, cudnnReduceTensorOp_t op,
                        struct dt_cuda_dnn_tensor x)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    cudnnBackendDescriptor_t node;

    dt_cuda_dnn_set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE,
                    CUDNN_TYPE_DATA_TYPE, 1, &type);
    dt_cuda_dnn_set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR,
                    CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
    dt_cuda_dnn_finalize(g, how, "REDUCTION");
    node = dt_cuda_dnn_create(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    dt_cuda_dnn_set_desc(g, node, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.desc);
    dt_cuda_dnn_set_desc(g, node, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.desc);
    dt_cuda_dnn_set_desc(g, node, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    add_operation(g, node, "OPERATION_REDUCTION");
}

void dt_cuda_dnn_reshape(struct dt_cuda_dnn_graph *g,
                         struct dt_cuda_dnn_tensor y,
                         struct dt_cuda_dnn_tensor x)
{
    cudnnBackendDescriptor_t op =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.desc);
    dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.desc);
    add_operation(g, op, "OPERATION_RESHAPE");
}

/* axis < 0: none */
static void add_pointwise(struct dt_cuda_dnn_graph *g,
                          struct dt_cuda_dnn_tensor y,
                          cudnnPointwiseMode_t mode, cudnnDataType_t type,
                          struct dt_cuda_dnn_tensor x,
                          const struct dt_cuda_dnn_tensor *b,
                          const struct dt_cuda_dnn_tensor *t, int64_t axis)
{
    cudnnBackendDescriptor_t how =
        dt_cuda_dnn_create(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t op;

    dt_cuda_dnn_set(g, how, CUDNN_ATTR_POINTWISE_MODE,
                    CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    dt_cuda_dnn_set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC,
                    CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (axis >= 0)
        dt_cuda_dnn_set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1,
                        &axis);
    dt_cuda_dnn_finalize(g, how, "POINTWISE");
    op = dt_cuda_dnn_create(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                         how);
    dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.desc);
    dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.desc);
    if (b)
        dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                             b->desc);
    if (t)
        dt_cuda_dnn_set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
                             t->desc);
    add_operation(g, op, "OPERATION_POINTWISE");
}

void dt_cuda_dnn_map(struct dt_cuda_dnn_graph *g, struct dt_cuda_dnn_tensor y,
                     cudnnPointwiseMode_t mode, cudnnDataType_t type,
                     struct dt_cuda_dnn_tensor x,
                     const struct dt_cuda_dnn_tensor *b,
                     const struct dt_cuda_dnn_tensor *t)
{
    add_pointwise(g, y, mode, type, x, b, t, -1);
}

void dt_cuda_dnn_index(struct dt_cuda_dnn_graph *g, struct dt_cuda_dnn_tensor y,
                       struct dt_cuda_dnn_tensor x, int64_t axis)
{
    add_pointwise(g, y, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, x, NULL,
                  NULL, axis);
}

#endif /* HAVE_CUDNN */
