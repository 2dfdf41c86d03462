/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudnn.c - cuDNN's backend API: descriptors, and plans for graphs
 *
 * Descriptors are checked for what they need. A plan is the graph itself, which
 * cudnn_run.c computes operation by operation; like the fused engines of cuDNN
 * it is refused for heads of more than 256 elements or not a multiple of 8, for
 * backward passes of ragged tensors in one order of sums, and always if it was
 * built for another CUDA ($SIMT_CUDNN_TOOLKIT), whose compiler is not here.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn_impl.h"
#include "internal.h"

struct cudnnContext {
    cudaStream_t stream;
};

static char last_error[256];

static cudnnStatus_t refuse(const char *why)
{
    snprintf(last_error, sizeof(last_error), "simt: %s", why);
    return CUDNN_STATUS_BAD_PARAM;
}

size_t cudnnGetVersion(void)
{
    return (size_t)simt_setting("SIMT_CUDNN_VERSION", CUDNN_VERSION);
}

size_t cudnnGetCudartVersion(void)
{
    return (size_t)simt_setting("SIMT_CUDNN_TOOLKIT", CUDART_VERSION);
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS     ? "CUDNN_STATUS_SUCCESS"
           : status == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM"
                                              : "CUDNN_STATUS_NOT_SUPPORTED";
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
    snprintf(message, max_size, "%s", last_error);
    last_error[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = simt_checked(calloc(1, sizeof(**handle)));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* --- descriptors --- */

static size_t bytes_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return sizeof(void *);
    case CUDNN_TYPE_INT64:
        return sizeof(int64_t);
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_CHAR:
        return 1;
    default:
        return sizeof(int);
    }
}

const struct cudnn_attribute *simt_cudnn_attribute(
    const struct cudnn_descriptor *d, cudnnBackendAttributeName_t name)
{
    for (size_t i = 0; i < d->count; i++) {
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    }
    return NULL;
}

const void *simt_cudnn_values(const struct cudnn_descriptor *d,
                              cudnnBackendAttributeName_t name)
{
    const struct cudnn_attribute *a = simt_cudnn_attribute(d, name);

    return a ? a->values : NULL;
}

struct cudnn_descriptor *simt_cudnn_child(const struct cudnn_descriptor *d,
                                          cudnnBackendAttributeName_t name)
{
    void *const *child = simt_cudnn_values(d, name);

    return child ? *child : NULL;
}

cudnnStatus_t cudnnBackendCreateDescriptor(
    cudnnBackendDescriptorType_t descriptorType,
    cudnnBackendDescriptor_t *descriptor)
{
    struct cudnn_descriptor *d = simt_checked(calloc(1, sizeof(*d)));

    d->kind = descriptorType;
    *descriptor = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    struct cudnn_descriptor *d = descriptor;

    while (d->count > 0)
        free(d->attributes[--d->count].values);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t keep(struct cudnn_descriptor *d,
                          cudnnBackendAttributeName_t name, size_t bytes,
                          int64_t count, const void *values)
{
    struct cudnn_attribute *a = &d->attributes[d->count];

    if (d->count == MOST_ATTRIBUTES || simt_cudnn_values(d, name))
        return refuse("an attribute is set twice, or there are too many");
    *a = (struct cudnn_attribute){name, count,
                                  simt_checked(malloc((size_t)count * bytes))};
    memcpy(a->values, values, (size_t)count * bytes);
    d->count++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(
    cudnnBackendDescriptor_t descriptor,
    cudnnBackendAttributeName_t attributeName,
    cudnnBackendAttributeType_t attributeType, int64_t elementCount,
    const void *arrayOfElements)
{
    struct cudnn_descriptor *d = descriptor;
    struct cudnn_descriptor *const *children = arrayOfElements;

    if (!d || d->final || elementCount < 1)
        return refuse("a descriptor that is not there or finalized is set");
    for (int64_t i = 0;
         attributeType == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < elementCount;
         i++) {
        if (!children[i] || !children[i]->final)
            return refuse("a descriptor of a descriptor is not finalized");
    }
    return keep(d, attributeName, bytes_of(attributeType), elementCount,
                arrayOfElements);
}

/* What a descriptor cannot do without; -1 ends it. */
static bool has(const struct cudnn_descriptor *d, const int *names)
{
    for (; *names >= 0; names++) {
        if (!simt_cudnn_values(d, (cudnnBackendAttributeName_t)*names))
            return false;
    }
    return true;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    static const struct {
        cudnnBackendDescriptorType_t kind;
        int names[6];
    } NEEDS[] = {
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
         {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS,
          CUDNN_ATTR_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_UNIQUE_ID,
          CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, -1}},
        {CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
         {CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC, -1}},
        {CUDNN_BACKEND_MATMUL_DESCRIPTOR, {CUDNN_ATTR_MATMUL_COMP_TYPE, -1}},
        {CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
         {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_ATTR_REDUCTION_OPERATOR, -1}},
        {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
          CUDNN_ATTR_OPERATION_POINTWISE_YDESC, -1}},
        {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
          CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_ATTR_OPERATION_MATMUL_DESC,
          -1}},
        {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
          CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
          CUDNN_ATTR_OPERATION_REDUCTION_DESC, -1}},
        {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
          CUDNN_ATTR_OPERATION_RESHAPE_YDESC, -1}},
        {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
         {CUDNN_ATTR_OPERATIONGRAPH_OPS, -1}},
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
         {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE,
          -1}},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
         {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, -1}},
        {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
         {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
          CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
          CUDNN_ATTR_VARIANT_PACK_WORKSPACE, -1}},
    };
    struct cudnn_descriptor *d = descriptor;

    for (size_t i = 0; i < sizeof(NEEDS) / sizeof(NEEDS[0]); i++) {
        if (NEEDS[i].kind == d->kind && !has(d, NEEDS[i].names))
            return refuse("an attribute is missing");
    }
    d->final = true;
    return CUDNN_STATUS_SUCCESS;
}

/* --- plans --- */

struct cudnn_descriptor *simt_cudnn_operation(
    const struct cudnn_descriptor *graph, size_t i)
{
    const struct cudnn_attribute *a =
        simt_cudnn_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);

    return i < (size_t)a->count
               ? ((struct cudnn_descriptor *const *)a->values)[i]
               : NULL;
}

/* Sums in fp32 that are then rounded are those of any order. */
static bool any_order(const struct cudnn_descriptor *graph)
{
    const struct cudnn_descriptor *op, *how;

    for (size_t i = 0; (op = simt_cudnn_operation(graph, i)); i++) {
        how =
            simt_cudnn_child(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        if (how &&
            *(const cudnnPointwiseMode_t *)simt_cudnn_values(
                how, CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_IDENTITY)
            return true;
    }
    return false;
}

/* Only backward passes reshape. */
static bool goes_back(const struct cudnn_descriptor *graph)
{
    const struct cudnn_descriptor *op;

    for (size_t i = 0; (op = simt_cudnn_operation(graph, i)); i++) {
        if (simt_cudnn_child(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC))
            return true;
    }
    return false;
}

static bool takes(const struct cudnn_descriptor *graph)
{
    const struct cudnn_descriptor *op, *a;

    if (cudnnGetCudartVersion() != CUDART_VERSION)
        return false;
    for (size_t i = 0; (op = simt_cudnn_operation(graph, i)); i++) {
        a = simt_cudnn_child(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
        if (a) {
            const int64_t *dims =
                simt_cudnn_values(a, CUDNN_ATTR_TENSOR_DIMENSIONS);
            const bool ragged =
                simt_cudnn_values(a, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
            return dims[3] <= 256 && dims[3] % 8 == 0 &&
                   !(ragged && goes_back(graph) && !any_order(graph));
        }
    }
    return false;
}

/* Puts the graph that `from` is about into `to`. */
static cudnnStatus_t pass_on(struct cudnn_descriptor *to,
                             const struct cudnn_descriptor *from)
{
    struct cudnn_descriptor *graph =
        simt_cudnn_child(from, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);

    to->final = true;
    return keep(to, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, sizeof(graph), 1,
                &graph);
}

cudnnStatus_t cudnnBackendGetAttribute(
    const cudnnBackendDescriptor_t descriptor,
    cudnnBackendAttributeName_t attributeName,
    cudnnBackendAttributeType_t attributeType, int64_t requestedElementCount,
    int64_t *elementCount, void *arrayOfElements)
{
    const struct cudnn_descriptor *d = descriptor;
    const struct cudnn_descriptor *graph =
        simt_cudnn_child(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    (void)attributeType;

    if (!d->final || requestedElementCount < 1)
        return refuse("an attribute is asked for too early");
    *elementCount = 1;
    switch (attributeName) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        if (takes(graph))
            return pass_on(*(void **)arrayOfElements, d);
        *elementCount = 0;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        return pass_on(*(void **)arrayOfElements, d);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        *(int64_t *)arrayOfElements = 7;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        *elementCount = any_order(graph);
        *(cudnnBackendNumericalNote_t *)arrayOfElements =
            CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *(int64_t *)arrayOfElements = SIMT_CUDNN_WORKSPACE;
        return CUDNN_STATUS_SUCCESS;
    default:
        return refuse("an attribute that is not emulated");
    }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t executionPlan,
                                  cudnnBackendDescriptor_t variantPack)
{
    const struct cudnn_descriptor *config = simt_cudnn_child(
        executionPlan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);

    return simt_cudnn_execute(
        handle->stream,
        simt_cudnn_child(config, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH),
        variantPack);
}
