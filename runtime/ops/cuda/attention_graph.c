/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_graph.c - attention as graphs that cuDNN recognizes
 *
 * With S = scale Q K^T, hidden scores -infinity, and D = sum(dO O):
 *   P = exp(S - max) / sum;  O = P V;  lse = max + log(sum)
 *   P = exp(S - lse);  dV = P^T dO;  dS = P (dO V^T - D) scale;
 *   dQ = dS K;  dK = dS^T Q
 * A ragged graph is of documents, each of which begins anywhere in a tensor and
 * has a length of its own. Which nodes, in which order, with which types: the
 * patterns that the fused engines of cuDNN take ("Graph Patterns", fused flash
 * attention; NVIDIA's cudnn-frontend,
 * node/scaled_dot_product_flash_attention.h).
 */
#include "config.h"

#ifdef HAVE_CUDNN

#include "ops/cuda/dnn.h"

typedef struct dt_cuda_dnn_tensor tensor;
typedef struct dt_cuda_dnn_graph graph;

/* The graph that is made, and the tensors that say where its documents are. */
struct pass {
    graph *g;
    struct dt_attention_shape s;
    tensor lengths, qkv_starts, out_starts; /* without desc: there are none */
};

/* --- tensors of attention --- */

static cudnnDataType_t type_of(enum dt_dtype type)
{
    return type == DT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* (B, heads, T, HS) whose rows are `stride` elements apart; transposed: (B,
 * heads, HS, T)
 */
static tensor rows_of(const struct pass *p, int64_t uid, int64_t heads,
                      int64_t stride, bool transposed, const tensor *starts)
{
    const int64_t dims[4] = {p->s.B, heads, transposed ? p->s.HS : p->s.T,
                             transposed ? p->s.T : p->s.HS};
    const int64_t strides[4] = {p->s.T * stride, p->s.HS,
                                transposed ? 1 : stride,
                                transposed ? stride : 1};

    return dt_cuda_dnn_ragged(p->g, uid, type_of(p->s.type), dims, strides,
                              *starts);
}

/* Heads of the packed qkv, or of its gradient. */
static tensor packed_heads(const struct pass *p, int64_t uid, int64_t heads,
                           bool transposed)
{
    return rows_of(p, uid, heads, (p->s.NH + 2 * p->s.NKV) * p->s.HS,
                   transposed, &p->qkv_starts);
}

static tensor unpacked_heads(const struct pass *p, int64_t uid)
{
    return rows_of(p, uid, p->s.NH, p->s.NH * p->s.HS, false, &p->out_starts);
}

/* A number for each query: (B, NH, T, 1) */
static tensor per_query(const struct pass *p, int64_t uid)
{
    const int64_t dims[4] = {p->s.B, p->s.NH, p->s.T, 1};
    const int64_t strides[4] = {p->s.NH * p->s.T, p->s.T, 1, 1};

    if (uid == NONE)
        return dt_cuda_dnn_between(p->g, CUDNN_DATA_FLOAT, dims, NULL);
    return dt_cuda_dnn_tensor(p->g, uid, CUDNN_DATA_FLOAT, dims, strides);
}

/* c(T, T) = a(T, HS) b(HS, T) */
static void matmul_to_scores(const struct pass *p, tensor c, tensor a, tensor b)
{
    dt_cuda_dnn_matmul(
        p->g, c, a, b,
        (struct dt_cuda_dnn_sizes){.rows = p->lengths, .columns = p->lengths});
}

/* c(T, HS) = a(T, T) b(T, HS) */
static void matmul_of_scores(const struct pass *p, tensor c, tensor a, tensor b)
{
    dt_cuda_dnn_matmul(
        p->g, c, a, b,
        (struct dt_cuda_dnn_sizes){.rows = p->lengths, .inner = p->lengths});
}

/* Like scores, (B, NH, T, T) */
static tensor like_scores(const struct pass *p, cudnnDataType_t type)
{
    const int64_t dims[4] = {p->s.B, p->s.NH, p->s.T, p->s.T};

    return dt_cuda_dnn_between(p->g, type, dims, NULL);
}

static tensor scalar_tensor(const struct pass *p, int64_t uid)
{
    return dt_cuda_dnn_scalar(p->g, uid, CUDNN_DATA_FLOAT);
}

/* mode(x, b) in fp32; b may be NULL */
static tensor pointwise(const struct pass *p, cudnnPointwiseMode_t mode,
                        tensor x, const tensor *b)
{
    tensor y = like_scores(p, CUDNN_DATA_FLOAT);

    dt_cuda_dnn_map(p->g, y, mode, CUDNN_DATA_FLOAT, x, b, NULL);
    return y;
}

/* x where a mode b, else -infinity */
static tensor mask_unless(const struct pass *p, tensor x, tensor hidden,
                          cudnnPointwiseMode_t mode, tensor a, tensor b)
{
    tensor seen = like_scores(p, CUDNN_DATA_BOOLEAN);
    tensor y = like_scores(p, CUDNN_DATA_FLOAT);

    dt_cuda_dnn_map(p->g, seen, mode, CUDNN_DATA_BOOLEAN, a, &b, NULL);
    dt_cuda_dnn_map(p->g, y, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x,
                    &hidden, &seen);
    return y;
}

static tensor position_index(const struct pass *p, tensor x, int64_t axis)
{
    tensor y = like_scores(p, CUDNN_DATA_INT32);

    dt_cuda_dnn_index(p->g, y, x, axis);
    return y;
}

/* Masks the scores beyond the end of a document. */
static tensor mask_padding(const struct pass *p, tensor x, tensor hidden)
{
    tensor t = position_index(p, x, 2), k = position_index(p, x, 3);
    tensor rows = like_scores(p, CUDNN_DATA_BOOLEAN);
    tensor columns = like_scores(p, CUDNN_DATA_BOOLEAN);
    tensor both = like_scores(p, CUDNN_DATA_BOOLEAN);
    tensor y = like_scores(p, CUDNN_DATA_FLOAT);

    dt_cuda_dnn_map(p->g, rows, CUDNN_POINTWISE_CMP_LT, CUDNN_DATA_BOOLEAN, t,
                    &p->lengths, NULL);
    dt_cuda_dnn_map(p->g, columns, CUDNN_POINTWISE_CMP_LT, CUDNN_DATA_BOOLEAN,
                    k, &p->lengths, NULL);
    dt_cuda_dnn_map(p->g, both, CUDNN_POINTWISE_LOGICAL_AND, CUDNN_DATA_BOOLEAN,
                    rows, &columns, NULL);
    dt_cuda_dnn_map(p->g, y, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x,
                    &hidden, &both);
    return y;
}

/* Masks the scores of keys before the first position and behind the last one
 * that a query attends to.
 */
static tensor mask_bounds(const struct pass *p, tensor x, tensor hidden)
{
    const int64_t dims[4] = {p->s.B, 1, p->s.T, 1};
    const int64_t strides[4] = {p->s.T, p->s.T, 1, 1};

    if (p->s.ragged)
        x = mask_padding(p, x, hidden);
    if (p->s.first)
        x = mask_unless(
            p, x, hidden, CUDNN_POINTWISE_CMP_GE, position_index(p, x, 3),
            dt_cuda_dnn_tensor(p->g, FIRST, CUDNN_DATA_INT32, dims, strides));
    if (p->s.last)
        x = mask_unless(
            p, x, hidden, CUDNN_POINTWISE_CMP_LE, position_index(p, x, 3),
            dt_cuda_dnn_tensor(p->g, LAST, CUDNN_DATA_INT32, dims, strides));
    return x;
}

/* Masks the future and all beyond the window, in the form that engines know. */
static tensor mask_band(const struct pass *p, tensor x, tensor hidden)
{
    tensor t, k;

    if (!p->s.last) {
        t = position_index(p, x, 2);
        k = position_index(p, x, 3);
        x = mask_unless(p, x, hidden, CUDNN_POINTWISE_CMP_GE, t, k);
    }
    if (p->s.window > 0) {
        const tensor window = scalar_tensor(p, WINDOW);
        t = position_index(p, x, 2);
        k = pointwise(p, CUDNN_POINTWISE_ADD, position_index(p, x, 3), &window);
        x = mask_unless(p, x, hidden, CUDNN_POINTWISE_CMP_GT, k, t);
    }
    return x;
}

/* --- the graphs --- */

static void forward_graph(const struct pass *p)
{
    const tensor scale = scalar_tensor(p, SCALE),
                 hidden = scalar_tensor(p, HIDDEN);
    tensor x = like_scores(p, CUDNN_DATA_FLOAT), weights, log_sum;
    tensor most = per_query(p, NONE), sum = per_query(p, NONE);
    const tensor lse = per_query(p, LSE);

    matmul_to_scores(p, x, packed_heads(p, Q, p->s.NH, false),
                     packed_heads(p, K, p->s.NKV, true));
    x = pointwise(p, CUDNN_POINTWISE_MUL, x, &scale);
    x = mask_bounds(p, x, hidden);
    x = mask_band(p, x, hidden);
    dt_cuda_dnn_reduce(p->g, most, CUDNN_REDUCE_TENSOR_MAX, x);
    x = pointwise(p, CUDNN_POINTWISE_SUB, x, &most);
    x = pointwise(p, CUDNN_POINTWISE_EXP, x, NULL);
    dt_cuda_dnn_reduce(p->g, sum, CUDNN_REDUCE_TENSOR_ADD, x);
    log_sum = per_query(p, NONE);
    dt_cuda_dnn_map(p->g, log_sum, CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, sum,
                    NULL, NULL);
    dt_cuda_dnn_map(p->g, lse, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, most,
                    &log_sum, NULL);
    weights = like_scores(p, type_of(p->s.type));
    dt_cuda_dnn_map(p->g, weights, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, x,
                    &sum, NULL);
    matmul_of_scores(p, unpacked_heads(p, O), weights,
                     packed_heads(p, V, p->s.NKV, false));
}

/* D = sum(dO O) * 1: engines expect the multiplication. */
static tensor delta_of(const struct pass *p, tensor dout)
{
    const int64_t dims[4] = {p->s.B, p->s.NH, p->s.T, p->s.HS};
    const tensor out = unpacked_heads(p, O), one = scalar_tensor(p, ONE);
    tensor product = dt_cuda_dnn_between(p->g, CUDNN_DATA_FLOAT, dims, NULL);
    tensor sum = per_query(p, NONE), delta = per_query(p, DELTA);

    dt_cuda_dnn_map(p->g, product, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, dout,
                    &out, NULL);
    dt_cuda_dnn_reduce(p->g, sum, CUDNN_REDUCE_TENSOR_ADD, product);
    dt_cuda_dnn_map(p->g, delta, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, sum,
                    &one, NULL);
    return delta;
}

/* Gradient `uid` of keys or values: x^T y, summed over heads that share. */
static void matmul_transposed(const struct pass *p, int64_t uid, tensor x,
                              tensor y)
{
    const int64_t dims[4] = {p->s.B, p->s.NH, p->s.T, p->s.HS};
    const int64_t scores[4] = {p->s.B, p->s.NH, p->s.T, p->s.T};
    const int64_t strides[4] = {p->s.NH * p->s.T * p->s.T, p->s.T * p->s.T, 1,
                                p->s.T};
    const tensor sum = packed_heads(p, uid, p->s.NKV, false);
    tensor transposed =
        dt_cuda_dnn_between(p->g, type_of(p->s.type), scores, strides);
    tensor each;

    dt_cuda_dnn_reshape(p->g, transposed, x);
    if (p->s.NH == p->s.NKV) {
        matmul_of_scores(p, sum, transposed, y);
        return;
    }
    each = dt_cuda_dnn_between(p->g, type_of(p->s.type), dims, NULL);
    matmul_of_scores(p, each, transposed, y);
    dt_cuda_dnn_reduce(p->g, sum, CUDNN_REDUCE_TENSOR_ADD, each);
}

/* dQ = dS K. Engines are faster with a sum in fp32 to which blocks add in any
 * order; without it they keep dS in the workspace.
 */
static void query_gradient(const struct pass *p, tensor ds,
                           tensor keys_transposed, bool deterministic)
{
    const int64_t stride = (p->s.NH + 2 * p->s.NKV) * p->s.HS;
    const int64_t key_dims[4] = {p->s.B, p->s.NKV, p->s.T, p->s.HS};
    const int64_t key_strides[4] = {p->s.T * stride, p->s.HS, stride, 1};
    const int64_t dims[4] = {p->s.B, p->s.NH, p->s.T, p->s.HS};
    const int64_t strides[4] = {p->s.NH * p->s.T * p->s.HS, p->s.T * p->s.HS,
                                p->s.HS, 1};
    tensor dq = packed_heads(p, DQ, p->s.NH, false), sum;
    const tensor keys = dt_cuda_dnn_between_ragged(
        p->g, type_of(p->s.type), key_dims, key_strides, p->qkv_starts);

    dt_cuda_dnn_reshape(p->g, keys, keys_transposed);
    if (deterministic) {
        matmul_of_scores(p, dq, ds, keys);
        return;
    }
    sum = dt_cuda_dnn_tensor(p->g, DQ_SUM, CUDNN_DATA_FLOAT, dims, strides);
    matmul_of_scores(p, sum, ds, keys);
    dt_cuda_dnn_map(p->g, dq, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, sum,
                    NULL, NULL);
}

static void backward_graph(const struct pass *p, bool deterministic)
{
    const tensor scale = scalar_tensor(p, SCALE),
                 hidden = scalar_tensor(p, HIDDEN);
    const tensor lse = per_query(p, LSE);
    tensor q = packed_heads(p, Q, p->s.NH, false),
           k = packed_heads(p, K, p->s.NKV, true);
    tensor dout = unpacked_heads(p, DO), delta = delta_of(p, dout);
    tensor x = like_scores(p, CUDNN_DATA_FLOAT), weights, ds;

    matmul_to_scores(p, x, q, k);
    x = pointwise(p, CUDNN_POINTWISE_MUL, x, &scale);
    x = mask_bounds(p, x, hidden);
    x = pointwise(p, CUDNN_POINTWISE_SUB, x, &lse);
    x = mask_band(p, x, hidden);
    weights = pointwise(p, CUDNN_POINTWISE_EXP, x, NULL);
    matmul_transposed(p, DV, weights, dout);
    x = like_scores(p, CUDNN_DATA_FLOAT);
    matmul_to_scores(p, x, dout, packed_heads(p, V, p->s.NKV, true));
    x = pointwise(p, CUDNN_POINTWISE_SUB, x, &delta);
    x = pointwise(p, CUDNN_POINTWISE_MUL, x, &weights);
    ds = pointwise(p, CUDNN_POINTWISE_MUL, x, &scale);
    matmul_transposed(p, DK, ds, q);
    query_gradient(p, ds, k, deterministic);
}

/* A number for each of `count` documents. */
static tensor per_document(graph *g, int64_t uid, cudnnDataType_t type,
                           int64_t count)
{
    const int64_t dims[4] = {count, 1, 1, 1}, strides[4] = {1, 1, 1, 1};

    return dt_cuda_dnn_tensor(g, uid, type, dims, strides);
}

void dt_cuda_attention_graph(struct dt_cuda_dnn_graph *g,
                             const struct dt_attention_shape *s,
                             bool deterministic)
{
    struct pass p = {.g = g, .s = *s};

    if (s->ragged) {
        p.lengths = per_document(g, LENGTHS, CUDNN_DATA_INT32, s->B);
        p.qkv_starts = per_document(g, QKV_STARTS, CUDNN_DATA_INT64, s->B + 1);
        p.out_starts = per_document(g, OUT_STARTS, CUDNN_DATA_INT64, s->B + 1);
    }
    if (s->backward)
        backward_graph(&p, deterministic);
    else
        forward_graph(&p);
}

#endif /* HAVE_CUDNN */
