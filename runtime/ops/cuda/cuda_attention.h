/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_attention.h - the implementations of attention (private to ops/cuda)
 *
 * cuda_attention.c says which of them is used when.
 */
#ifndef DT_OPS_CUDA_CUDA_ATTENTION_H
#define DT_OPS_CUDA_CUDA_ATTENTION_H

#include "ops/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Our own kernels (attention_math.cu): the slots of struct dt_ops, for every
 * struct dt_attention. `workspace` of the backward pass holds the
 * elements that dt_workspace_attention says.
 */
void dt_cuda_attention_math_forward(struct dt_stream *stream,
                                    struct dt_view out, struct dt_view lse,
                                    struct dt_view qkv,
                                    const struct dt_attention *a);
void dt_cuda_attention_math_backward(struct dt_stream *stream,
                                     struct dt_view dqkv, struct dt_view dout,
                                     struct dt_view out, struct dt_view lse,
                                     struct dt_view qkv,
                                     struct dt_view workspace,
                                     const struct dt_attention *a);

enum { DT_MMA_MOST_HEAD = 128 };

/* The same on tensor cores (attention_mma.cu), for bf16 and fp16, heads of a
 * multiple of 8 up to that and addresses that are multiples of 16. false:
 * not supported, nothing was done.
 */
bool dt_cuda_attention_mma_forward(struct dt_stream *stream, struct dt_view out,
                                   struct dt_view lse, struct dt_view qkv,
                                   const struct dt_attention *a);
bool dt_cuda_attention_mma_backward(struct dt_stream *stream,
                                    struct dt_view dqkv, struct dt_view dout,
                                    struct dt_view out, struct dt_view lse,
                                    struct dt_view qkv,
                                    struct dt_view workspace,
                                    const struct dt_attention *a);

/* A run of documents on the device (attention_documents.cu). */
struct dt_document_run {
    int64_t count, length;            /* documents, positions of the longest */
    const struct dt_document *spans;  /* (count) */
    int32_t *lengths;                 /* (count) */
    int64_t *qkv_starts, *out_starts; /* (count + 1) elements of qkv and of out
                                         before a document; all of them, if it
                                         has no positions, and the last one */
};

/* Computes lengths and starts from spans. */
void dt_cuda_document_places(struct dt_stream *stream,
                             const struct dt_document_run *run,
                             const struct dt_attention *a);

/* padded(count, NH, length) = the run's part of rows(B, NH, T), 0 beyond the
 * end of a document; or, if not `gather`, that part of rows = padded.
 */
void dt_cuda_document_rows(struct dt_stream *stream, float *padded,
                           struct dt_view rows,
                           const struct dt_document_run *run,
                           const struct dt_attention *a, bool gather);

/* Both passes of documents of one position, which are in no run. */
void dt_cuda_document_alone(struct dt_stream *stream, struct dt_view out,
                            struct dt_view lse, struct dt_view qkv,
                            const struct dt_attention *a);
void dt_cuda_document_alone_backward(struct dt_stream *stream,
                                     struct dt_view dqkv, struct dt_view dout,
                                     const struct dt_attention *a);

#ifdef HAVE_CUDNN

/* cuDNN (attention_cudnn.c). -1: EX_UNAVAILABLE, with the part that is missing.
 */
int dt_cuda_attention_cudnn_open(struct dt_error *err);

/* Whether it is there and makes a plan for the GPU that is in use; without a
 * `gpu`, whether its compiler is there. -1: EX_UNAVAILABLE, with the part that
 * is missing.
 */
int dt_cuda_attention_cudnn_try(bool gpu, struct dt_error *err);

/* "cuDNN 9.19.0", after one of these. */
const char *dt_cuda_attention_cudnn_version(void);

/* The slots of struct dt_ops; `documents`: computes those of `a`, which has
 * them, one by one. NULL; or why cuDNN cannot do it, valid as long as the
 * process, and nothing was done. The first call for other sizes or another kind
 * of mask takes up to a second; while the stream is recorded it is refused.
 */
const char *dt_cuda_attention_cudnn_forward(
    struct dt_stream *stream, struct dt_view out, struct dt_view lse,
    struct dt_view qkv, const struct dt_attention *a, bool documents);
const char *dt_cuda_attention_cudnn_backward(
    struct dt_stream *stream, struct dt_view dqkv, struct dt_view dout,
    struct dt_view out, struct dt_view lse, struct dt_view qkv,
    struct dt_view workspace, const struct dt_attention *a, bool documents);
/* *count: elements of workspace; 0 if cuDNN cannot do it. */
const char *dt_cuda_attention_cudnn_workspace(enum dt_dtype type,
                                              const struct dt_attention *a,
                                              bool documents, size_t *count);

#else

#define DT_NO_CUDNN "this build is without cuDNN (configure --with-cudnn)"

static inline int dt_cuda_attention_cudnn_open(struct dt_error *err)
{
    return dt_error_set(err, EX_UNAVAILABLE, DT_NO_CUDNN);
}

static inline int dt_cuda_attention_cudnn_try(bool gpu, struct dt_error *err)
{
    (void)gpu;
    return dt_cuda_attention_cudnn_open(err);
}

static inline const char *dt_cuda_attention_cudnn_version(void)
{
    return "";
}

static inline const char *dt_cuda_attention_cudnn_forward(
    struct dt_stream *stream, struct dt_view out, struct dt_view lse,
    struct dt_view qkv, const struct dt_attention *a, bool documents)
{
    (void)stream, (void)out, (void)lse, (void)qkv, (void)a, (void)documents;
    return DT_NO_CUDNN;
}

static inline const char *dt_cuda_attention_cudnn_backward(
    struct dt_stream *stream, struct dt_view dqkv, struct dt_view dout,
    struct dt_view out, struct dt_view lse, struct dt_view qkv,
    struct dt_view workspace, const struct dt_attention *a, bool documents)
{
    (void)stream, (void)dqkv, (void)dout, (void)out, (void)lse, (void)qkv;
    (void)workspace, (void)a, (void)documents;
    return DT_NO_CUDNN;
}

static inline const char *dt_cuda_attention_cudnn_workspace(
    enum dt_dtype type, const struct dt_attention *a, bool documents,
    size_t *count)
{
    (void)type, (void)a, (void)documents;
    *count = 0;
    return DT_NO_CUDNN;
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* DT_OPS_CUDA_CUDA_ATTENTION_H */
