/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - which implementation of attention is used
 *
 * From fast to slow; each pass takes the first that supports it:
 * 1. cuDNN's fused kernels (attention_cudnn.c): bf16 and fp16, no dropout, no
 *    softcap, heads of a multiple of 8 up to what its engines support on the
 * GPU (sm_90: 256), windows and documents, sizes that were seen before the
 * stream was recorded.
 * 2. Our own on tensor cores (attention_mma.cu): bf16 and fp16 with heads of a
 *    multiple of 8 up to 128, all masks, dropout.
 * 3. Our own in plain fp32 (attention_math.cu): everything; the reference.
 * DT_ATTENTION_FLASH: anything except 1 is an error. DT_ATTENTION_MATH: 3. All
 * keep the same lse, so that forward and backward need not be by the same.
 */
#include "config.h"

#include "ops/cuda/attention.h"
#include "ops/workspace.h"

static bool cudnn; /* is open */

const char *dt_cuda_attention_library(void)
{
    return dt_cuda_attention_cudnn_library();
}

int dt_cuda_attention_open(struct dt_error *err)
{
    struct dt_error why;

    cudnn = dt_cuda_facts.attention != DT_ATTENTION_MATH &&
            dt_cuda_attention_cudnn_open(&why) == 0;
    if (!cudnn && dt_cuda_facts.attention == DT_ATTENTION_FLASH)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "model.attention: flash needs cuDNN: %s; choose "
                            "auto or math to run without it",
                            why.text);
    return 0;
}

/* cuDNN could not do it: may our own kernels run? */
static bool own_allowed(enum dt_dtype type, const struct dt_attention *a)
{
    if (dt_cuda_facts.attention != DT_ATTENTION_FLASH)
        return true;
    dt_cuda_fail("model.attention: flash does not support %s, %zu heads of %zu "
                 "for %zu, %zu positions, dropout %g, softcap %g; choose auto "
                 "or math",
                 dt_dtype_name(type), a->NKV, a->HS, a->NH, a->T,
                 a->dropout.rate, (double)a->softcap);
    return false;
}

void dt_cuda_attention_forward(struct dt_stream *stream, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv,
                               const struct dt_attention *attention)
{
    if (cudnn &&
        dt_cuda_attention_cudnn_forward(stream, out, lse, qkv, attention))
        return;
    if (!own_allowed(qkv.dtype, attention))
        return;
    if (dt_cuda_facts.attention == DT_ATTENTION_MATH ||
        !dt_cuda_attention_mma_forward(stream, out, lse, qkv, attention))
        dt_cuda_attention_math_forward(stream, out, lse, qkv, attention);
}

void dt_cuda_attention_backward(struct dt_stream *stream, struct dt_view dqkv,
                                struct dt_view dout, struct dt_view out,
                                struct dt_view lse, struct dt_view qkv,
                                struct dt_view workspace,
                                const struct dt_attention *attention)
{
    if (cudnn && dt_cuda_attention_cudnn_backward(stream, dqkv, dout, out, lse,
                                                  qkv, workspace, attention))
        return;
    if (!own_allowed(qkv.dtype, attention))
        return;
    if (dt_cuda_facts.attention == DT_ATTENTION_MATH ||
        !dt_cuda_attention_mma_backward(stream, dqkv, dout, out, lse, qkv,
                                        workspace, attention))
        dt_cuda_attention_math_backward(stream, dqkv, dout, out, lse, qkv,
                                        workspace, attention);
}

size_t dt_cuda_attention_workspace(enum dt_dtype type,
                                   const struct dt_attention *attention)
{
    size_t math = dt_workspace_attention(attention);
    size_t fused =
        cudnn ? dt_cuda_attention_cudnn_workspace(type, attention) : 0;

    return fused > math ? fused : math;
}
