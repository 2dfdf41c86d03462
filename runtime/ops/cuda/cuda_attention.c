/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_attention.c - the choice between implementations of attention
 *
 * From fast to slow; each pass takes the first that supports it:
 *   1. cuDNN's fused kernels (attention_cudnn.c): bf16 and fp16, no dropout, no
 *      softcap, heads of a multiple of 8 up to the limit of its engines on this
 *      GPU (sm_90: 256), windows and bounds, sizes that were seen before the
 *      stream was recorded.
 *   2. Our own on tensor cores (attention_mma.cu): bf16 and fp16 with heads of
 * a multiple of 8 up to 128, all masks, dropout.
 *   3. Our own in plain fp32 (attention_math.cu): everything; the reference.
 * DT_ATTENTION_FLASH: anything except 1 is an error. DT_ATTENTION_MATH: 3. All
 * keep the same lse, so that forward and backward need not be by the same.
 *
 * cuDNN computes the products that it then masks; the others skip them by
 * tiles. So where positions attend to few neighbors on both sides, as in the
 * windows of a tower, 2 comes first.
 *
 * A shape that falls from 1 to 2 or 3 costs a step a fifth of its speed and
 * more, so the user hears of each one once, and why.
 */
#include "config.h"

#include <stdio.h>

#include "ops/cuda/cuda_attention.h"
#include "ops/workspace.h"

enum { MOST_FALLBACKS = 16 }; /* that the user hears of */

/* A shape that our own kernels have computed. */
struct fallback {
    enum dt_dtype type;
    size_t B, T, NH, NKV, HS; /* 0: any */
};

static struct {
    bool open;
    struct dt_error closed; /* if not: why */
    const char *why;        /* the first time that it cannot do something */
    bool used;              /* can do something */
    struct fallback fallbacks[MOST_FALLBACKS];
    size_t count;
} cudnn;

/* --- messages to the user --- */

static const char *own_kernels(const char *why)
{
    static char text[sizeof(cudnn.closed.text) + 80];

    snprintf(text, sizeof(text), "kernels of disttrain: %s", why);
    return text;
}

const char *dt_cuda_attention_library(void)
{
    const char *why = dt_cuda_facts.attention == DT_ATTENTION_MATH
                          ? "model.attention: math"
                      : cudnn.open ? cudnn.why
                                   : cudnn.closed.text;

    if (cudnn.open && (cudnn.used || !why))
        return dt_cuda_attention_cudnn_version();
    return own_kernels(why);
}

const char *dt_cuda_attention_try(bool gpu)
{
    struct dt_error err;

    return dt_cuda_attention_cudnn_try(gpu, &err) == 0
               ? dt_cuda_attention_cudnn_version()
               : own_kernels(err.text);
}

static bool same_fallback(const struct fallback *a, const struct fallback *b)
{
    return a->type == b->type && a->B == b->B && a->T == b->T &&
           a->NH == b->NH && a->NKV == b->NKV && a->HS == b->HS;
}

static void tell(const struct fallback *f, const char *why)
{
    char shape[120] = "";

    if (f->B > 0)
        snprintf(shape, sizeof(shape),
                 " for %zu x %zu positions, %zu heads (%zu of keys) of %zu, %s",
                 f->B, f->T, f->NH, f->NKV, f->HS, dt_dtype_name(f->type));
    dt_cuda_tell("attention is slower than with cuDNN%s: %s%s", shape, why,
                 cudnn.count < MOST_FALLBACKS ? "" : "; no more is said of it");
}

/* Our own kernels compute this. In fp32, and with `math`, the user has asked
 * for that.
 */
static void note_fallback(enum dt_dtype type, const struct dt_attention *a,
                          const char *why)
{
    struct fallback new = {0};

    if (!cudnn.why)
        cudnn.why = why;
    if (type == DT_F32 || dt_cuda_facts.attention == DT_ATTENTION_MATH)
        return;
    if (cudnn.open)
        new = (struct fallback){type, a->B, a->T, a->NH, a->NKV, a->HS};
    for (size_t i = 0; i < cudnn.count; i++)
        if (same_fallback(&cudnn.fallbacks[i], &new))
            return;
    if (cudnn.count == MOST_FALLBACKS)
        return;
    cudnn.fallbacks[cudnn.count++] = new;
    tell(&new, why);
}

/* --- the choice --- */

int dt_cuda_attention_open(struct dt_error *err)
{
    cudnn.open = dt_cuda_facts.attention != DT_ATTENTION_MATH &&
                 dt_cuda_attention_cudnn_open(&cudnn.closed) == 0;
    if (!cudnn.open && dt_cuda_facts.attention == DT_ATTENTION_FLASH)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "model.attention: flash needs cuDNN: %s; choose "
                            "auto or math to run without it",
                            cudnn.closed.text);
    return 0;
}

/* cuDNN could not do it, for the reason `why`: may our own kernels run? */
static bool own_allowed(enum dt_dtype type, const struct dt_attention *a,
                        const char *why)
{
    if (dt_cuda_facts.attention != DT_ATTENTION_FLASH) {
        note_fallback(type, a, why);
        return true;
    }
    dt_cuda_fail("model.attention: flash does not support %s, %zu heads of %zu "
                 "for %zu, %zu positions, dropout %g, softcap %g: %s; choose "
                 "auto or math",
                 dt_dtype_name(type), a->NKV, a->HS, a->NH, a->T,
                 a->dropout.rate, (double)a->softcap, why);
    return false;
}

/* Would cuDNN, which multiplies all T x T, take longer than our own kernels on
 * tensor cores? They have some fraction of its speed, so there must be much
 * that they skip.
 */
static bool mostly_masked(const struct dt_attention *a)
{
    enum { TILES = 2 * 64, LEAST = 8 };

    return dt_cuda_facts.attention == DT_ATTENTION_AUTO && a->last.count > 0 &&
           a->window > 0 && (a->window + TILES) * LEAST <= a->T;
}

void dt_cuda_attention_forward(struct dt_stream *stream, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv,
                               const struct dt_attention *attention)
{
    const char *why;

    if (qkv.count == 0)
        return;
    if (mostly_masked(attention) &&
        dt_cuda_attention_mma_forward(stream, out, lse, qkv, attention))
        return;
    why = cudnn.open ? dt_cuda_attention_cudnn_forward(stream, out, lse, qkv,
                                                       attention)
                     : cudnn.closed.text;
    cudnn.used |= !why;
    if (!why || !own_allowed(qkv.dtype, attention, why))
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
    const char *why;

    if (qkv.count == 0)
        return;
    if (mostly_masked(attention) &&
        dt_cuda_attention_mma_backward(stream, dqkv, dout, out, lse, qkv,
                                       workspace, attention))
        return;
    why = cudnn.open
              ? dt_cuda_attention_cudnn_backward(stream, dqkv, dout, out, lse,
                                                 qkv, workspace, attention)
              : cudnn.closed.text;
    if (!why || !own_allowed(qkv.dtype, attention, why))
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
    size_t math = dt_workspace_attention(attention), fused = 0;
    const char *why;

    if (mostly_masked(attention) || attention->B * attention->T == 0)
        return math;
    why = cudnn.open
              ? dt_cuda_attention_cudnn_workspace(type, attention, &fused)
              : cudnn.closed.text;
    cudnn.used |= !why;
    if (!cudnn.why)
        cudnn.why = why;
    return fused > math ? fused : math;
}
