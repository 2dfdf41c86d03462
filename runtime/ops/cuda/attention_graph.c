/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_graph.c - attention as graphs that cuDNN recognizes
 *
 * With S = scale Q K^T, hidden scores -infinity, and D = sum(dO O):
 *   P = exp(S - max) / sum;  O = P V;  lse = max + log(sum)
 *   P = exp(S - lse);  dV = P^T dO;  dS = P (dO V^T - D) scale;
 *   dQ = dS K;  dK = dS^T Q
 * Which nodes, in which order, with which types: the patterns that the fused
 * engines of cuDNN take ("Graph Patterns", fused flash attention; NVIDIA's
 * cudnn-frontend, node/scaled_dot_product_flash_attention.h).
 */
#include "config.h"

#ifdef HAVE_CUDNN

#include "ops/cuda/dnn.h"

typedef struct dt_cuda_dnn_tensor tensor;
typedef struct dt_cuda_dnn_graph graph;

/* --- tensors of attention --- */

static cudnnDataType_t type_of(enum dt_dtype type)
{
    return type == DT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* (B, heads, T, HS) whose rows are `stride` elements apart; transposed: (B,
 * heads, HS, T)
 */
static tensor rows_of(graph *g, const struct dt_attention_shape *s, int64_t uid,
                      int64_t heads, int64_t stride, bool transposed)
{
    const int64_t dims[4] = {s->B, heads, transposed ? s->HS : s->T,
                             transposed ? s->T : s->HS};
    const int64_t strides[4] = {s->T * stride, s->HS, transposed ? 1 : stride,
                                transposed ? stride : 1};

    return dt_cuda_dnn_tensor(g, uid, type_of(s->type), dims, strides);
}

/* Heads of the packed qkv, or of its gradient. */
static tensor packed_heads(graph *g, const struct dt_attention_shape *s,
                           int64_t uid, int64_t heads, bool transposed)
{
    return rows_of(g, s, uid, heads, (s->NH + 2 * s->NKV) * s->HS, transposed);
}

static tensor unpacked_heads(graph *g, const struct dt_attention_shape *s,
                             int64_t uid)
{
    return rows_of(g, s, uid, s->NH, s->NH * s->HS, false);
}

/* A number for each query: (B, NH, T, 1) */
static tensor per_query(graph *g, const struct dt_attention_shape *s,
                        int64_t uid)
{
    const int64_t dims[4] = {s->B, s->NH, s->T, 1};
    const int64_t strides[4] = {s->NH * s->T, s->T, 1, 1};

    if (uid == NONE)
        return dt_cuda_dnn_between(g, CUDNN_DATA_FLOAT, dims, NULL);
    return dt_cuda_dnn_tensor(g, uid, CUDNN_DATA_FLOAT, dims, strides);
}

/* Like scores, (B, NH, T, T) */
static tensor like_scores(graph *g, const struct dt_attention_shape *s,
                          cudnnDataType_t type)
{
    const int64_t dims[4] = {s->B, s->NH, s->T, s->T};

    return dt_cuda_dnn_between(g, type, dims, NULL);
}

static tensor scalar_tensor(graph *g, int64_t uid)
{
    return dt_cuda_dnn_scalar(g, uid, CUDNN_DATA_FLOAT);
}

/* mode(x, b) in fp32; b may be NULL */
static tensor pointwise(graph *g, const struct dt_attention_shape *s,
                        cudnnPointwiseMode_t mode, tensor x, const tensor *b)
{
    tensor y = like_scores(g, s, CUDNN_DATA_FLOAT);

    dt_cuda_dnn_map(g, y, mode, CUDNN_DATA_FLOAT, x, b, NULL);
    return y;
}

/* x where a mode b, else -infinity */
static tensor mask_unless(graph *g, const struct dt_attention_shape *s,
                          tensor x, tensor hidden, cudnnPointwiseMode_t mode,
                          tensor a, tensor b)
{
    tensor seen = like_scores(g, s, CUDNN_DATA_BOOLEAN);
    tensor y = like_scores(g, s, CUDNN_DATA_FLOAT);

    dt_cuda_dnn_map(g, seen, mode, CUDNN_DATA_BOOLEAN, a, &b, NULL);
    dt_cuda_dnn_map(g, y, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x,
                    &hidden, &seen);
    return y;
}

static tensor position_index(graph *g, const struct dt_attention_shape *s,
                             tensor x, int64_t axis)
{
    tensor y = like_scores(g, s, CUDNN_DATA_INT32);

    dt_cuda_dnn_index(g, y, x, axis);
    return y;
}

/* Masks the scores of keys before the first position and behind the last one
 * that a query attends to.
 */
static tensor mask_bounds(graph *g, const struct dt_attention_shape *s,
                          tensor x, tensor hidden)
{
    const int64_t dims[4] = {s->B, 1, s->T, 1};
    const int64_t strides[4] = {s->T, s->T, 1, 1};

    if (s->first)
        x = mask_unless(
            g, s, x, hidden, CUDNN_POINTWISE_CMP_GE, position_index(g, s, x, 3),
            dt_cuda_dnn_tensor(g, FIRST, CUDNN_DATA_INT32, dims, strides));
    if (s->last)
        x = mask_unless(
            g, s, x, hidden, CUDNN_POINTWISE_CMP_LE, position_index(g, s, x, 3),
            dt_cuda_dnn_tensor(g, LAST, CUDNN_DATA_INT32, dims, strides));
    return x;
}

/* Masks the future and all beyond the window, in the form that engines know. */
static tensor mask_band(graph *g, const struct dt_attention_shape *s, tensor x,
                        tensor hidden)
{
    tensor t, k;

    if (!s->last) {
        t = position_index(g, s, x, 2);
        k = position_index(g, s, x, 3);
        x = mask_unless(g, s, x, hidden, CUDNN_POINTWISE_CMP_GE, t, k);
    }
    if (s->window > 0) {
        const tensor window = scalar_tensor(g, WINDOW);
        t = position_index(g, s, x, 2);
        k = pointwise(g, s, CUDNN_POINTWISE_ADD, position_index(g, s, x, 3),
                      &window);
        x = mask_unless(g, s, x, hidden, CUDNN_POINTWISE_CMP_GT, k, t);
    }
    return x;
}

/* --- the graphs --- */

static void forward_graph(graph *g, const struct dt_attention_shape *s)
{
    const tensor scale = scalar_tensor(g, SCALE),
                 hidden = scalar_tensor(g, HIDDEN);
    tensor x = like_scores(g, s, CUDNN_DATA_FLOAT), p, log_sum;
    tensor most = per_query(g, s, NONE), sum = per_query(g, s, NONE);
    const tensor lse = per_query(g, s, LSE);

    dt_cuda_dnn_matmul(g, x, packed_heads(g, s, Q, s->NH, false),
                       packed_heads(g, s, K, s->NKV, true));
    x = pointwise(g, s, CUDNN_POINTWISE_MUL, x, &scale);
    x = mask_bounds(g, s, x, hidden);
    x = mask_band(g, s, x, hidden);
    dt_cuda_dnn_reduce(g, most, CUDNN_REDUCE_TENSOR_MAX, x);
    x = pointwise(g, s, CUDNN_POINTWISE_SUB, x, &most);
    x = pointwise(g, s, CUDNN_POINTWISE_EXP, x, NULL);
    dt_cuda_dnn_reduce(g, sum, CUDNN_REDUCE_TENSOR_ADD, x);
    log_sum = per_query(g, s, NONE);
    dt_cuda_dnn_map(g, log_sum, CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, sum,
                    NULL, NULL);
    dt_cuda_dnn_map(g, lse, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, most,
                    &log_sum, NULL);
    p = like_scores(g, s, type_of(s->type));
    dt_cuda_dnn_map(g, p, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, x, &sum, NULL);
    dt_cuda_dnn_matmul(g, unpacked_heads(g, s, O), p,
                       packed_heads(g, s, V, s->NKV, false));
}

/* D = sum(dO O) * 1: engines expect the multiplication. */
static tensor delta_of(graph *g, const struct dt_attention_shape *s,
                       tensor dout)
{
    const int64_t dims[4] = {s->B, s->NH, s->T, s->HS};
    const tensor out = unpacked_heads(g, s, O), one = scalar_tensor(g, ONE);
    tensor product = dt_cuda_dnn_between(g, CUDNN_DATA_FLOAT, dims, NULL);
    tensor sum = per_query(g, s, NONE), delta = per_query(g, s, DELTA);

    dt_cuda_dnn_map(g, product, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, dout,
                    &out, NULL);
    dt_cuda_dnn_reduce(g, sum, CUDNN_REDUCE_TENSOR_ADD, product);
    dt_cuda_dnn_map(g, delta, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, sum, &one,
                    NULL);
    return delta;
}

/* Gradient `uid` of keys or values: x^T y, summed over heads that share. */
static void matmul_transposed(graph *g, const struct dt_attention_shape *s,
                              int64_t uid, tensor x, tensor y)
{
    const int64_t dims[4] = {s->B, s->NH, s->T, s->HS};
    const int64_t scores[4] = {s->B, s->NH, s->T, s->T};
    const int64_t strides[4] = {s->NH * s->T * s->T, s->T * s->T, 1, s->T};
    const tensor sum = packed_heads(g, s, uid, s->NKV, false);
    tensor transposed =
        dt_cuda_dnn_between(g, type_of(s->type), scores, strides);
    tensor each;

    dt_cuda_dnn_reshape(g, transposed, x);
    if (s->NH == s->NKV) {
        dt_cuda_dnn_matmul(g, sum, transposed, y);
        return;
    }
    each = dt_cuda_dnn_between(g, type_of(s->type), dims, NULL);
    dt_cuda_dnn_matmul(g, each, transposed, y);
    dt_cuda_dnn_reduce(g, sum, CUDNN_REDUCE_TENSOR_ADD, each);
}

/* dQ = dS K. Engines are faster with a sum in fp32 to which blocks add in any
 * order; without it they keep dS in the workspace.
 */
static void query_gradient(graph *g, const struct dt_attention_shape *s,
                           tensor ds, tensor keys_transposed,
                           bool deterministic)
{
    const int64_t stride = (s->NH + 2 * s->NKV) * s->HS;
    const int64_t key_dims[4] = {s->B, s->NKV, s->T, s->HS};
    const int64_t key_strides[4] = {s->T * stride, s->HS, stride, 1};
    const int64_t dims[4] = {s->B, s->NH, s->T, s->HS};
    const int64_t strides[4] = {s->NH * s->T * s->HS, s->T * s->HS, s->HS, 1};
    tensor dq = packed_heads(g, s, DQ, s->NH, false), sum;
    tensor keys =
        dt_cuda_dnn_between(g, type_of(s->type), key_dims, key_strides);

    dt_cuda_dnn_reshape(g, keys, keys_transposed);
    if (deterministic) {
        dt_cuda_dnn_matmul(g, dq, ds, keys);
        return;
    }
    sum = dt_cuda_dnn_tensor(g, DQ_SUM, CUDNN_DATA_FLOAT, dims, strides);
    dt_cuda_dnn_matmul(g, sum, ds, keys);
    dt_cuda_dnn_map(g, dq, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, sum,
                    NULL, NULL);
}

static void backward_graph(graph *g, const struct dt_attention_shape *s,
                           bool deterministic)
{
    const tensor scale = scalar_tensor(g, SCALE),
                 hidden = scalar_tensor(g, HIDDEN);
    const tensor lse = per_query(g, s, LSE);
    tensor q = packed_heads(g, s, Q, s->NH, false),
           k = packed_heads(g, s, K, s->NKV, true);
    tensor dout = unpacked_heads(g, s, DO), delta = delta_of(g, s, dout);
    tensor x = like_scores(g, s, CUDNN_DATA_FLOAT), p, ds;

    dt_cuda_dnn_matmul(g, x, q, k);
    x = pointwise(g, s, CUDNN_POINTWISE_MUL, x, &scale);
    x = mask_bounds(g, s, x, hidden);
    x = pointwise(g, s, CUDNN_POINTWISE_SUB, x, &lse);
    x = mask_band(g, s, x, hidden);
    p = pointwise(g, s, CUDNN_POINTWISE_EXP, x, NULL);
    matmul_transposed(g, s, DV, p, dout);
    x = like_scores(g, s, CUDNN_DATA_FLOAT);
    dt_cuda_dnn_matmul(g, x, dout, packed_heads(g, s, V, s->NKV, true));
    x = pointwise(g, s, CUDNN_POINTWISE_SUB, x, &delta);
    x = pointwise(g, s, CUDNN_POINTWISE_MUL, x, &p);
    ds = pointwise(g, s, CUDNN_POINTWISE_MUL, x, &scale);
    matmul_transposed(g, s, DK, ds, q);
    query_gradient(g, s, ds, k, deterministic);
}

void dt_cuda_attention_graph(struct dt_cuda_dnn_graph *g,
                             const struct dt_attention_shape *s,
                             bool deterministic)
{
    if (s->backward)
        backward_graph(g, s, deterministic);
    else
        forward_graph(g, s);
}

#endif /* HAVE_CUDNN */
