/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_attention.c - the choice between implementations of attention
 *
 * From fast to slow; each pass takes the first that supports it:
 *   1. cuDNN's fused kernels (attention_cudnn.c): bf16 and fp16, no dropout, no
 *      softcap, heads of a multiple of 8 up to the limit of its engines on this
 *      GPU (sm_90: 256), windows, documents and bounds, sizes that were seen
 *      before the stream was recorded.
 *   2. Our own on tensor cores (attention_mma.cu): bf16 and fp16 with heads of
 * a multiple of 8 up to 128, all masks, dropout.
 *   3. Our own in plain fp32 (attention_math.cu): everything; the reference.
 * DT_ATTENTION_FLASH: anything except 1 is an error. DT_ATTENTION_MATH: 3. All
 * keep the same lse, so that forward and backward need not be by the same.
 *
 * cuDNN takes documents one by one. Where it has no engine for that, and for
 * bounds on both sides, it computes the products that it then masks; the others
 * skip them by tiles. So where positions attend to few neighbors, as in the
 * windows of a tower, 2 comes before its masks.
 *
 * A shape that falls from 1 to 2 or 3 costs a step a fifth of its speed and
 * more, so the user hears of each one once, and why.
 */
#include "config.h"

#include <stdio.h>

#include "ops/cuda/cuda_attention.h"
#include "ops/workspace.h"

enum { MOST_FALLBACKS = 16 }; /* that the user hears of */

/* How a shape was computed that cuDNN does not compute as fast as others. */
enum way {
    OWN,    /* by our own kernels */
    MASKED, /* by cuDNN, but with documents as a mask */
};

struct fallback {
    enum way way;
    enum dt_dtype type;
    size_t B, T, NH, NKV, HS; /* 0: any */
};

/* A pass; dqkv, dout and workspace of a backward one. */
struct call {
    struct dt_stream *stream;
    struct dt_view out, lse, qkv, dqkv, dout, workspace;
    const struct dt_attention *a;
    bool backward;
};

static struct {
    bool open;
    struct dt_error closed; /* if not: why */
    const char *why;        /* the first time that it is not taken, */
    const char *masks;      /* and that it masks the documents of a row */
    bool used;              /* can do something */
    struct fallback fallbacks[MOST_FALLBACKS];
    size_t count;
} cudnn;

/* --- messages to the user --- */

/* "who: why", valid until the next call */
static const char *because(const char *who, const char *why)
{
    static char text[sizeof(cudnn.closed.text) + 120];

    snprintf(text, sizeof(text), "%s: %s", who, why);
    return text;
}

static const char OWN_KERNELS[] = "kernels of disttrain";

const char *dt_cuda_attention_library(void)
{
    const char *version = dt_cuda_attention_cudnn_version();
    const bool in_part = cudnn.why != NULL;
    char who[100];

    if (dt_cuda_facts.attention == DT_ATTENTION_MATH)
        return because(OWN_KERNELS, "model.attention: math");
    if (!cudnn.open)
        return because(OWN_KERNELS, cudnn.closed.text);
    if (!cudnn.used && cudnn.why)
        return because(OWN_KERNELS, cudnn.why);
    if (!in_part && !cudnn.masks)
        return version;
    snprintf(who, sizeof(who), "%s, %s%s", version,
             in_part ? "in part " : "which masks the documents of a row",
             in_part ? OWN_KERNELS : "");
    return because(who, in_part ? cudnn.why : cudnn.masks);
}

const char *dt_cuda_attention_try(bool gpu)
{
    struct dt_error err;

    return dt_cuda_attention_cudnn_try(gpu, &err) == 0
               ? dt_cuda_attention_cudnn_version()
               : because(OWN_KERNELS, err.text);
}

static bool same_fallback(const struct fallback *a, const struct fallback *b)
{
    return a->way == b->way && a->type == b->type && a->B == b->B &&
           a->T == b->T && a->NH == b->NH && a->NKV == b->NKV && a->HS == b->HS;
}

static void tell(const struct fallback *f, const char *why)
{
    char shape[120] = "";

    if (f->B > 0)
        snprintf(shape, sizeof(shape),
                 " for %zu x %zu positions, %zu heads (%zu of keys) of %zu, %s",
                 f->B, f->T, f->NH, f->NKV, f->HS, dt_dtype_name(f->type));
    dt_cuda_tell("%s%s: %s%s",
                 f->way == OWN ? "attention is slower than with cuDNN"
                               : "attention masks the documents of a row, so "
                                 "it costs what the whole row costs,",
                 shape, why,
                 cudnn.count < MOST_FALLBACKS ? "" : "; no more is said of it");
}

static void note_first(const char **first, const char *why)
{
    if (!*first)
        *first = why;
}

/* This is computed in a slower way. In fp32, and with `math`, the user has
 * asked for that.
 */
static void note_fallback(enum dt_dtype type, const struct dt_attention *a,
                          enum way way, const char *why)
{
    struct fallback new = {.way = way};

    note_first(way == OWN ? &cudnn.why : &cudnn.masks, why);
    if (type == DT_F32 || dt_cuda_facts.attention == DT_ATTENTION_MATH)
        return;
    if (cudnn.open)
        new = (struct fallback){way, type, a->B, a->T, a->NH, a->NKV, a->HS};
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
        note_fallback(type, a, OWN, why);
        return true;
    }
    dt_cuda_fail("model.attention: flash does not support %s, %zu heads of %zu "
                 "for %zu, %zu positions, dropout %g, softcap %g: %s; choose "
                 "auto or math",
                 dt_dtype_name(type), a->NKV, a->HS, a->NH, a->T,
                 a->dropout.rate, (double)a->softcap, why);
    return false;
}

/* Are there documents, and nothing that looks ahead in them? */
static bool documents_of(const struct dt_attention *a)
{
    return a->documents.spans.count > 0 && a->last.count == 0;
}

/* At most so many positions before and behind a query are seen; 0: all may be.
 */
static size_t reach_of(const struct dt_attention *a)
{
    const struct dt_documents *d = &a->documents;
    size_t reach = a->last.count > 0 || documents_of(a) ? a->window : 0;

    for (size_t c = 0; c < DT_DOCUMENT_CLASSES && documents_of(a); c++)
        if (d->runs[c] > 0 && a->window == 0)
            reach = dt_document_length(d, c);
    return reach;
}

/* Would the masks of cuDNN, which multiplies all T x T, take longer than our
 * own kernels on tensor cores? They have some fraction of its speed, so there
 * must be much that they skip.
 */
static bool mostly_masked(enum dt_dtype type, const struct dt_attention *a)
{
    enum { TILES = 2 * 64, LEAST = 8 };
    const size_t reach = reach_of(a);

    return dt_cuda_facts.attention == DT_ATTENTION_AUTO && type != DT_F32 &&
           a->HS % 8 == 0 && a->HS <= DT_MMA_MOST_HEAD && reach > 0 &&
           (reach + TILES) * LEAST <= a->T;
}

static const char *by_cudnn(const struct call *c, bool documents)
{
    const char *why;

    if (!cudnn.open)
        return cudnn.closed.text;
    why = c->backward
              ? dt_cuda_attention_cudnn_backward(c->stream, c->dqkv, c->dout,
                                                 c->out, c->lse, c->qkv,
                                                 c->workspace, c->a, documents)
              : dt_cuda_attention_cudnn_forward(c->stream, c->out, c->lse,
                                                c->qkv, c->a, documents);
    cudnn.used |= !why;
    return why;
}

static bool by_tensor_cores(const struct call *c)
{
    return c->backward
               ? dt_cuda_attention_mma_backward(c->stream, c->dqkv, c->dout,
                                                c->out, c->lse, c->qkv,
                                                c->workspace, c->a)
               : dt_cuda_attention_mma_forward(c->stream, c->out, c->lse,
                                               c->qkv, c->a);
}

static void by_own_kernels(const struct call *c)
{
    if (dt_cuda_facts.attention != DT_ATTENTION_MATH && by_tensor_cores(c))
        return;
    if (c->backward)
        dt_cuda_attention_math_backward(c->stream, c->dqkv, c->dout, c->out,
                                        c->lse, c->qkv, c->workspace, c->a);
    else
        dt_cuda_attention_math_forward(c->stream, c->out, c->lse, c->qkv, c->a);
}

static void compute(const struct call *c)
{
    const enum dt_dtype type = c->qkv.dtype;
    const char *no_documents = NULL, *why;

    if (c->qkv.count == 0)
        return;
    if (documents_of(c->a) && !(no_documents = by_cudnn(c, true)))
        return;
    if (mostly_masked(type, c->a) && by_tensor_cores(c)) {
        if (no_documents)
            note_fallback(type, c->a, OWN, no_documents);
        return;
    }
    why = by_cudnn(c, false);
    if (!why && no_documents)
        note_fallback(type, c->a, MASKED, no_documents);
    if (why && own_allowed(type, c->a, why))
        by_own_kernels(c);
}

void dt_cuda_attention_forward(struct dt_stream *stream, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv,
                               const struct dt_attention *attention)
{
    compute(&(struct call){
        .stream = stream, .out = out, .lse = lse, .qkv = qkv, .a = attention});
}

void dt_cuda_attention_backward(struct dt_stream *stream, struct dt_view dqkv,
                                struct dt_view dout, struct dt_view out,
                                struct dt_view lse, struct dt_view qkv,
                                struct dt_view workspace,
                                const struct dt_attention *attention)
{
    compute(&(struct call){.stream = stream,
                           .out = out,
                           .lse = lse,
                           .qkv = qkv,
                           .dout = dout,
                           .dqkv = dqkv,
                           .workspace = workspace,
                           .a = attention,
                           .backward = true});
}

/* What a pass by cuDNN needs; NULL, or why it cannot. */
static const char *planned(enum dt_dtype type, const struct dt_attention *a,
                           bool documents, size_t *count)
{
    const char *why = cudnn.closed.text;

    if (cudnn.open)
        why = dt_cuda_attention_cudnn_workspace(type, a, documents, count);
    cudnn.used |= !why;
    return why;
}

static const char SKIPS[] = "they skip what is masked, which is most of a row";

/* In the order of compute() */
size_t dt_cuda_attention_workspace(enum dt_dtype type,
                                   const struct dt_attention *attention)
{
    size_t math = dt_workspace_attention(attention), fused = 0;
    const char *no_documents = NULL, *why;

    if (attention->B * attention->T == 0)
        return math;
    if (!documents_of(attention) ||
        (no_documents = planned(type, attention, true, &fused))) {
        if (mostly_masked(type, attention)) {
            note_first(&cudnn.why, no_documents ? no_documents : SKIPS);
            return math;
        }
        why = planned(type, attention, false, &fused);
        if (why)
            note_first(&cudnn.why, why);
        else if (no_documents)
            note_first(&cudnn.masks, no_documents);
    }
    return fused > math ? fused : math;
}
