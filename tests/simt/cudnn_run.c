/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudnn_run.c - a graph of cuDNN computed operation by operation, in double
 *
 * Each tensor has memory here, virtual ones too, laid out by its strides: so a
 * reshape is the same memory with other dimensions. What has a 16-bit type is
 * rounded to it. Workspace is filled with rubbish before and after. Of a ragged
 * tensor all beyond the length of a row of the batch is NaN, and never written.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn_impl.h"
#include "internal.h"
#include "tensor/half.h"

enum { MOST_TENSORS = 96, RUBBISH = 0xa5 };

struct tensor {
    int64_t uid, dims[4], strides[4];
    size_t extent; /* elements from the first to the last */
    cudnnDataType_t type;
    bool between, by_value, written;
    const struct tensor *starts; /* ragged: where rows of the batch begin */
    void *data;                  /* in device memory */
    double *values;
};

struct run {
    const struct cudnn_descriptor *graph;
    struct tensor tensors[MOST_TENSORS];
    size_t count;
    const struct tensor *lengths; /* of ragged tensors */
    void *workspace;
};

static size_t bytes_of(cudnnDataType_t type)
{
    if (type == CUDNN_DATA_INT64)
        return 8;
    return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? 2 : 4;
}

/* Element i as it is stored. */
static double fetch(const void *data, cudnnDataType_t type, size_t i)
{
    switch (type) {
    case CUDNN_DATA_HALF:
        return dt_f16_to_f32(((const uint16_t *)data)[i]);
    case CUDNN_DATA_BFLOAT16:
        return dt_bf16_to_f32(((const uint16_t *)data)[i]);
    case CUDNN_DATA_INT32:
        return ((const int32_t *)data)[i];
    case CUDNN_DATA_INT64:
        return (double)((const int64_t *)data)[i];
    default:
        return ((const float *)data)[i];
    }
}

static void put(void *data, cudnnDataType_t type, size_t i, double value)
{
    switch (type) {
    case CUDNN_DATA_HALF:
        ((uint16_t *)data)[i] = dt_f32_to_f16((float)value);
        break;
    case CUDNN_DATA_BFLOAT16:
        ((uint16_t *)data)[i] = dt_f32_to_bf16((float)value);
        break;
    default:
        ((float *)data)[i] = (float)value;
    }
}

static double rounded(cudnnDataType_t type, double value)
{
    float stored;

    if (bytes_of(type) != 2)
        return value;
    put(&stored, type, 0, value);
    return fetch(&stored, type, 0);
}

/* --- tensors --- */

static struct tensor *find(struct run *r, const struct cudnn_descriptor *d)
{
    const int64_t uid =
        *(const int64_t *)simt_cudnn_values(d, CUDNN_ATTR_TENSOR_UNIQUE_ID);

    for (size_t i = 0; i < r->count; i++) {
        if (r->tensors[i].uid == uid)
            return &r->tensors[i];
    }
    return NULL;
}

static void meet(struct run *r, const struct cudnn_descriptor *d)
{
    const struct cudnn_descriptor *starts;
    struct tensor *t;

    if (!d || find(r, d))
        return;
    starts = simt_cudnn_child(d, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
    meet(r, starts);
    t = &r->tensors[r->count];
    if (r->count++ == MOST_TENSORS)
        simt_fail("cuDNN: a graph of more than %d tensors", MOST_TENSORS);
    t->uid =
        *(const int64_t *)simt_cudnn_values(d, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    t->type = *(const cudnnDataType_t *)simt_cudnn_values(
        d, CUDNN_ATTR_TENSOR_DATA_TYPE);
    memcpy(t->dims, simt_cudnn_values(d, CUDNN_ATTR_TENSOR_DIMENSIONS),
           sizeof(t->dims));
    memcpy(t->strides, simt_cudnn_values(d, CUDNN_ATTR_TENSOR_STRIDES),
           sizeof(t->strides));
    t->starts = starts ? find(r, starts) : NULL;
    t->between = simt_cudnn_values(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL) != NULL;
    t->by_value = simt_cudnn_values(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE) != NULL;
    t->extent = 1;
    for (size_t i = 0; i < 4; i++)
        t->extent += (size_t)((t->dims[i] - 1) * t->strides[i]);
    t->values = simt_checked(calloc(t->extent, sizeof(*t->values)));
}

static size_t place(const struct tensor *t, const int64_t at[4])
{
    int64_t i = 0;

    for (size_t d = 0; d < 4; d++)
        i += at[d] * t->strides[d];
    return (size_t)i;
}

/* Which element of the memory of a tensor `at` is; -1: of none, since it is
 * beyond the end of a row of the batch.
 */
static int64_t in_memory(const struct run *r, const struct tensor *t,
                         const int64_t at[4])
{
    const size_t positions = t->strides[3] == 1 ? 2 : 3;

    if (!t->starts)
        return (int64_t)place(t, at);
    if ((double)at[positions] >= r->lengths->values[at[0]])
        return -1;
    return (int64_t)t->starts->values[at[0]] + (int64_t)place(t, at) -
           at[0] * t->strides[0];
}

/* The element of x that belongs to element `at` of a tensor of `dims`: one for
 * all, or one for each group of neighbors (heads that share).
 */
static double element(const struct tensor *x, const int64_t dims[4],
                      const int64_t at[4])
{
    int64_t own[4];

    for (size_t d = 0; d < 4; d++)
        own[d] = at[d] * x->dims[d] / dims[d];
    return x->values[place(x, own)];
}

/* The next element of a tensor; false after the last. */
static bool next(const struct tensor *t, int64_t at[4])
{
    for (size_t d = 4; d-- > 0;) {
        if (++at[d] < t->dims[d])
            return true;
        at[d] = 0;
    }
    return false;
}

/* --- operations --- */

/* How many of `most` rows or columns count in row b of the batch. */
static int64_t size_in(struct run *r, const struct cudnn_descriptor *op,
                       cudnnBackendAttributeName_t name, int64_t b,
                       int64_t most)
{
    const struct cudnn_descriptor *sizes = simt_cudnn_child(op, name);

    return sizes ? (int64_t)find(r, sizes)->values[b] : most;
}

static void matmul(struct run *r, const struct cudnn_descriptor *op,
                   struct tensor *c, const struct tensor *a,
                   const struct tensor *b)
{
    int64_t at[4] = {0}, rows = 0, columns = 0, inner = 0;

    c->written = true;
    do {
        if (at[1] + at[2] + at[3] == 0) {
            rows =
                size_in(r, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
                        at[0], c->dims[2]);
            columns =
                size_in(r, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
                        at[0], c->dims[3]);
            inner =
                size_in(r, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
                        at[0], a->dims[3]);
        }
        const int64_t a_dims[4] = {c->dims[0], c->dims[1], c->dims[2],
                                   a->dims[3]};
        const int64_t b_dims[4] = {c->dims[0], c->dims[1], b->dims[2],
                                   c->dims[3]};
        double sum = 0.0;
        for (int64_t k = 0; k < inner; k++) {
            const int64_t left[4] = {at[0], at[1], at[2], k};
            const int64_t right[4] = {at[0], at[1], k, at[3]};
            sum += element(a, a_dims, left) * element(b, b_dims, right);
        }
        c->values[place(c, at)] =
            at[2] < rows && at[3] < columns ? rounded(c->type, sum) : NAN;
    } while (next(c, at));
}

static void reduce(struct tensor *y, const struct tensor *x,
                   cudnnReduceTensorOp_t op)
{
    int64_t at[4] = {0};
    const bool max = op == CUDNN_REDUCE_TENSOR_MAX;

    y->written = true;
    for (size_t i = 0; i < y->extent; i++)
        y->values[i] = max ? -INFINITY : 0.0;
    do {
        int64_t own[4];
        for (size_t d = 0; d < 4; d++)
            own[d] = at[d] * y->dims[d] / x->dims[d];
        double value = x->values[place(x, at)];
        double *sum = &y->values[place(y, own)];
        *sum = max ? fmax(*sum, value) : *sum + value;
    } while (next(x, at));
    for (size_t i = 0; i < y->extent; i++)
        y->values[i] = rounded(y->type, y->values[i]);
}

static double pointwise(cudnnPointwiseMode_t mode, double x, double b, double t)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_LOG:
        return log(x);
    case CUDNN_POINTWISE_CMP_GT:
        return x > b;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    case CUDNN_POINTWISE_CMP_LE:
        return x <= b;
    case CUDNN_POINTWISE_CMP_LT:
        return x < b;
    case CUDNN_POINTWISE_LOGICAL_AND:
        return x != 0.0 && b != 0.0;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return t != 0.0 ? x : b;
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    default:
        simt_fail("cuDNN: pointwise mode %d is not emulated", (int)mode);
    }
}

static void map(struct run *r, const struct cudnn_descriptor *op,
                const struct cudnn_descriptor *how)
{
    const cudnnPointwiseMode_t mode =
        *(const cudnnPointwiseMode_t *)simt_cudnn_values(
            how, CUDNN_ATTR_POINTWISE_MODE);
    const int64_t *axis = simt_cudnn_values(how, CUDNN_ATTR_POINTWISE_AXIS);
    static const cudnnBackendAttributeName_t OPERANDS[] = {
        CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    struct tensor *y =
        find(r, simt_cudnn_child(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    const struct tensor *operands[3] = {NULL, NULL, NULL};
    int64_t at[4] = {0};

    for (size_t i = 0; i < 3; i++) {
        if (simt_cudnn_child(op, OPERANDS[i]))
            operands[i] = find(r, simt_cudnn_child(op, OPERANDS[i]));
    }
    y->written = true;
    do {
        double x[3] = {0.0, 0.0, 0.0};
        for (size_t i = 0; i < 3; i++) {
            if (operands[i])
                x[i] = element(operands[i], y->dims, at);
        }
        y->values[place(y, at)] =
            rounded(y->type, mode == CUDNN_POINTWISE_GEN_INDEX
                                 ? (double)at[*axis]
                                 : pointwise(mode, x[0], x[1], x[2]));
    } while (next(y, at));
}

static void operate(struct run *r, const struct cudnn_descriptor *op)
{
    const struct cudnn_descriptor *how;

    if ((how = simt_cudnn_child(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC))) {
        matmul(
            r, op, find(r, how),
            find(r, simt_cudnn_child(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
            find(r, simt_cudnn_child(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC)));
    } else if ((how = simt_cudnn_child(op,
                                       CUDNN_ATTR_OPERATION_REDUCTION_DESC))) {
        reduce(
            find(r, simt_cudnn_child(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC)),
            find(r, simt_cudnn_child(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC)),
            *(const cudnnReduceTensorOp_t *)simt_cudnn_values(
                how, CUDNN_ATTR_REDUCTION_OPERATOR));
    } else if ((how = simt_cudnn_child(
                    op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR))) {
        map(r, op, how);
    } else {
        struct tensor *y =
            find(r, simt_cudnn_child(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
        const struct tensor *x =
            find(r, simt_cudnn_child(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
        if (x->extent != y->extent)
            simt_fail("cuDNN: a reshape of %zu elements to %zu", x->extent,
                      y->extent);
        for (size_t i = 0; i < y->extent; i++)
            y->values[i] = rounded(y->type, x->values[i]);
    }
}

/* --- runs --- */

/* Ends the program if a tensor would reach beyond its memory. */
static void check_memory(const struct tensor *t, int64_t element)
{
    if (!simt_is_device(t->data, (size_t)(element + 1) * bytes_of(t->type)))
        simt_fail("cuDNN: tensor %lld is not device memory of %lld elements",
                  (long long)t->uid, (long long)element + 1);
}

static void read_tensor(const struct run *r, struct tensor *t)
{
    int64_t at[4] = {0}, last = -1;

    do {
        const int64_t i = in_memory(r, t, at);
        if (i > last)
            check_memory(t, last = i);
        t->values[place(t, at)] =
            i < 0 ? NAN : fetch(t->data, t->type, (size_t)i);
    } while (next(t, at));
}

static void write_tensor(const struct run *r, const struct tensor *t)
{
    int64_t at[4] = {0};

    do {
        const int64_t i = in_memory(r, t, at);
        if (i >= 0)
            put(t->data, t->type, (size_t)i, t->values[place(t, at)]);
    } while (next(t, at));
}

/* Rows of the batch must follow each other in memory. */
static void check_starts(const struct run *r, const struct tensor *t)
{
    const int64_t row = t->strides[t->strides[3] == 1 ? 2 : 3];

    for (int64_t b = 0; t->starts && b < t->dims[0]; b++)
        if (t->starts->values[b] + r->lengths->values[b] * (double)row >
            t->starts->values[b + 1])
            simt_fail("cuDNN: row %lld of ragged tensor %lld ends behind the "
                      "start of the next one",
                      (long long)b, (long long)t->uid);
}

/* Before 9.25 cuDNN is only known to be right if empty rows of the batch stand
 * behind all others.
 */
static void check_lengths(const struct tensor *t)
{
    for (int64_t b = 0; t && b < t->dims[0]; b++)
        if (t->values[b] > 0 ? b > 0 && t->values[b - 1] <= 0 : b == 0)
            simt_fail("cuDNN: an empty row of a ragged batch stands before "
                      "row %lld, or there are no others",
                      (long long)b);
}

static enum simt_progress progress(void *ctx)
{
    struct run *r = ctx;

    memset(r->workspace, RUBBISH, SIMT_CUDNN_WORKSPACE);
    for (int ragged = 0; ragged < 2; ragged++) {
        for (size_t i = 0; i < r->count; i++) {
            struct tensor *t = &r->tensors[i];
            if (t->data && (t->starts != NULL) == ragged)
                read_tensor(r, t);
        }
    }
    check_lengths(r->lengths);
    for (size_t i = 0; i < r->count; i++)
        check_starts(r, &r->tensors[i]);
    for (size_t i = 0; simt_cudnn_operation(r->graph, i); i++)
        operate(r, simt_cudnn_operation(r->graph, i));
    for (size_t i = 0; i < r->count; i++) {
        const struct tensor *t = &r->tensors[i];
        if (t->data && t->written)
            write_tensor(r, t);
    }
    memset(r->workspace, RUBBISH, SIMT_CUDNN_WORKSPACE);
    return SIMT_DONE;
}

static void release(void *ctx)
{
    struct run *r = ctx;

    for (size_t i = 0; i < r->count; i++)
        free(r->tensors[i].values);
    free(r);
}

/* Gives a tensor its memory, or its value. */
static void give(struct tensor *t, void *data)
{
    if (t->by_value) {
        t->values[0] = *(const float *)data;
        return;
    }
    if ((uintptr_t)data % 16 != 0 ||
        !simt_is_device(data, t->starts ? bytes_of(t->type)
                                        : t->extent * bytes_of(t->type)))
        simt_fail("cuDNN: tensor %lld is not 16-byte aligned device memory of "
                  "%zu elements",
                  (long long)t->uid, t->extent);
    t->data = data;
}

cudnnStatus_t simt_cudnn_execute(cudaStream_t stream,
                                 const struct cudnn_descriptor *graph,
                                 const struct cudnn_descriptor *pack)
{
    static const int TENSORS[] = {
        CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
        CUDNN_ATTR_OPERATION_MATMUL_ADESC,
        CUDNN_ATTR_OPERATION_MATMUL_BDESC,
        CUDNN_ATTR_OPERATION_MATMUL_CDESC,
        CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
        CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
        CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
        CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
        CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
    };
    struct run *r = simt_checked(calloc(1, sizeof(*r)));
    const struct cudnn_attribute *named =
        simt_cudnn_attribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const int64_t *uids = named->values;
    void *const *data =
        simt_cudnn_values(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);

    r->graph = graph;
    r->workspace = *(void *const *)simt_cudnn_values(
        pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (!simt_is_device(r->workspace, SIMT_CUDNN_WORKSPACE))
        simt_fail("cuDNN: the workspace is not device memory");
    for (size_t i = 0; simt_cudnn_operation(graph, i); i++) {
        for (size_t j = 0; j < sizeof(TENSORS) / sizeof(TENSORS[0]); j++)
            meet(r, simt_cudnn_child(simt_cudnn_operation(graph, i),
                                     (cudnnBackendAttributeName_t)TENSORS[j]));
    }
    for (size_t i = 0; simt_cudnn_operation(graph, i) && !r->lengths; i++) {
        const struct cudnn_descriptor *lengths =
            simt_cudnn_child(simt_cudnn_operation(graph, i),
                             CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
        r->lengths = lengths ? find(r, lengths) : NULL;
    }
    for (size_t i = 0; i < r->count; i++) {
        struct tensor *t = &r->tensors[i];
        size_t given = 0;
        for (size_t j = 0; j < (size_t)named->count; j++) {
            if (uids[j] == t->uid) {
                give(t, data[j]);
                given++;
            }
        }
        if (given != (t->between ? 0 : 1))
            simt_fail("cuDNN: tensor %lld is given %zu times",
                      (long long)t->uid, given);
    }
    return simt_enqueue(stream, progress, release, r) == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_NOT_SUPPORTED;
}
