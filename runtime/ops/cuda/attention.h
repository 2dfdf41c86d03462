/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.h - the implementations of attention (private to ops/cuda)
 *
 * attention.c says which of them is used when.
 */
#ifndef DT_OPS_CUDA_ATTENTION_H
#define DT_OPS_CUDA_ATTENTION_H

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

/* The same on tensor cores (attention_mma.cu), for bf16 and fp16, heads of a
 * multiple of 8 up to 128 and addresses that are multiples of 16. false:
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

#ifdef HAVE_CUDNN

/* cuDNN (attention_cudnn.c). open: -1: EX_UNAVAILABLE, what is missing. The
 * name of the library, or why there is none, without open.
 */
int dt_cuda_attention_cudnn_open(struct dt_error *err);
const char *dt_cuda_attention_cudnn_library(void);

/* The slots of struct dt_ops; false: cuDNN cannot do it, nothing was done. The
 * first call for other sizes or another kind of mask takes up to a second;
 * while the stream is recorded it returns false.
 */
bool dt_cuda_attention_cudnn_forward(struct dt_stream *stream,
                                     struct dt_view out, struct dt_view lse,
                                     struct dt_view qkv,
                                     const struct dt_attention *a);
bool dt_cuda_attention_cudnn_backward(struct dt_stream *stream,
                                      struct dt_view dqkv, struct dt_view dout,
                                      struct dt_view out, struct dt_view lse,
                                      struct dt_view qkv,
                                      struct dt_view workspace,
                                      const struct dt_attention *a);
/* Elements of workspace, 0: cuDNN cannot do it. */
size_t dt_cuda_attention_cudnn_workspace(enum dt_dtype type,
                                         const struct dt_attention *a);

#else

static inline int dt_cuda_attention_cudnn_open(struct dt_error *err)
{
    return dt_error_set(err, EX_UNAVAILABLE,
                        "this build is without cuDNN (configure "
                        "--with-cudnn)");
}

static inline const char *dt_cuda_attention_cudnn_library(void)
{
    return "no cuDNN: built without it";
}

static inline bool dt_cuda_attention_cudnn_forward(struct dt_stream *stream,
                                                   struct dt_view out,
                                                   struct dt_view lse,
                                                   struct dt_view qkv,
                                                   const struct dt_attention *a)
{
    (void)stream, (void)out, (void)lse, (void)qkv, (void)a;
    return false;
}

static inline bool dt_cuda_attention_cudnn_backward(
    struct dt_stream *stream, struct dt_view dqkv, struct dt_view dout,
    struct dt_view out, struct dt_view lse, struct dt_view qkv,
    struct dt_view workspace, const struct dt_attention *a)
{
    (void)stream, (void)dqkv, (void)dout, (void)out, (void)lse, (void)qkv;
    (void)workspace, (void)a;
    return false;
}

static inline size_t dt_cuda_attention_cudnn_workspace(
    enum dt_dtype type, const struct dt_attention *a)
{
    (void)type;
    (void)a;
    return 0;
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* DT_OPS_CUDA_ATTENTION_H */
