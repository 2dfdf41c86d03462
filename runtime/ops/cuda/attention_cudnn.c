/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_cudnn.c - attention by cuDNN's fused kernels
 *
 * cuDNN recognizes attention in a graph of matrix multiplications, maps and
 * reductions (attention_graph.c), and runs all of it as one kernel (backward:
 * three) that stores no matrix of scores. A plan is for one set of sizes, takes
 * much of a second to find, and is kept as long as the process: CUDA graphs may
 * have recorded its kernels.
 */
#include "config.h"

#ifdef HAVE_CUDNN

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "ops/cuda/cuda_attention.h"
#include "ops/cuda/dnn.h"
#include "ops/workspace.h"

struct plan {
    struct dt_attention_shape shape;
    struct dt_cuda_dnn_graph *graph; /* NULL: cuDNN has no engine for it */
    struct dt_error why;
};

enum { MOST_PLANS = 256 };

static struct {
    struct plan *plans[MOST_PLANS];
    size_t count;
} cache;

/* --- plans --- */

static bool same_shape(const struct dt_attention_shape *a,
                       const struct dt_attention_shape *b)
{
    return a->B == b->B && a->T == b->T && a->NH == b->NH && a->NKV == b->NKV &&
           a->HS == b->HS && a->window == b->window && a->first == b->first &&
           a->last == b->last && a->backward == b->backward &&
           a->type == b->type;
}

/* The feature of the call that cuDNN never supports, in words; NULL: none. */
static const char *refusal(const struct dt_attention *a, enum dt_dtype type)
{
    if (type == DT_F32)
        return "cuDNN computes attention in bf16 and fp16, not in fp32";
    if (a->dropout.rate > 0.0)
        return "dropout of scores needs random numbers of disttrain's own";
    if (a->softcap > 0.0f)
        return "the scores have a softcap";
    if (a->HS % 8 != 0)
        return "the size of heads is no multiple of 8";
    if (a->T % 128 != 0 && !dt_cuda_dnn_any_length())
        return "before cuDNN 9.16 only multiples of 128 positions are right";
    return NULL;
}

/* NULL, or why cuDNN has nothing for it. */
static const char *shape_of(struct dt_attention_shape *s,
                            const struct dt_attention *a, enum dt_dtype type,
                            bool backward)
{
    *s = (struct dt_attention_shape){
        .B = (int64_t)a->B,
        .T = (int64_t)a->T,
        .NH = (int64_t)a->NH,
        .NKV = (int64_t)a->NKV,
        .HS = (int64_t)a->HS,
        .window = a->window < a->T ? (int64_t)a->window : 0,
        .first = a->first.count > 0,
        .last = a->last.count > 0,
        .backward = backward,
        .type = type};
    return refusal(a, type);
}

static struct plan *plan_create(const struct dt_attention_shape *s)
{
    struct plan *plan = calloc(1, sizeof(*plan));

    if (!plan)
        return NULL;
    plan->shape = *s;
    plan->graph = dt_cuda_dnn_graph_create();
    if (!plan->graph)
        return plan;
    dt_cuda_attention_graph(plan->graph, s, dt_cuda_facts.deterministic);
    if (dt_cuda_dnn_plan(plan->graph, dt_cuda_facts.deterministic, &plan->why) <
        0) {
        dt_cuda_dnn_graph_destroy(plan->graph);
        plan->graph = NULL;
    }
    return plan;
}

static struct plan *find_plan(const struct dt_attention_shape *s)
{
    for (size_t i = 0; i < cache.count; i++)
        if (same_shape(&cache.plans[i]->shape, s))
            return cache.plans[i];
    return NULL;
}

/* Finds or makes the plan for a shape: NULL, or why there is none. While
 * `stream` (may be NULL) is recorded none is made: that loads kernels.
 */
static const char *plan_for(struct plan **plan,
                            const struct dt_attention_shape *s,
                            struct dt_stream *stream)
{
    enum cudaStreamCaptureStatus recorded = cudaStreamCaptureStatusNone;

    *plan = find_plan(s);
    if (!*plan) {
        if (stream)
            cudaStreamIsCapturing(stream->cuda, &recorded);
        if (recorded != cudaStreamCaptureStatusNone)
            return "the shape is new while a graph is recorded";
        if (cache.count == MOST_PLANS)
            return "there are plans for 256 other shapes: fewer lengths of "
                   "rows would do (data.pad_to_multiple_of)";
        *plan = plan_create(s);
        if (!*plan)
            return "out of memory";
        cache.plans[cache.count++] = *plan;
    }
    return (*plan)->graph ? NULL : (*plan)->why.text;
}

/* --- the operands of a run --- */

struct run {
    int64_t uids[UID_COUNT];
    void *data[UID_COUNT];
    size_t count;
    bool aligned;
    float scale, hidden, window, one;
};

static void add_tensor(struct run *r, int64_t uid, void *data)
{
    r->uids[r->count] = uid;
    r->data[r->count++] = data;
    r->aligned &= (uintptr_t)data % 16 == 0;
}

/* Element `first` of a view */
static void add_view(struct run *r, int64_t uid, struct dt_view v, size_t first)
{
    add_tensor(r, uid,
               (char *)dt_view_data(v) + first * dt_dtype_bytes(v.dtype));
}

/* Numbers are read when the run is queued. */
static void add_number(struct run *r, int64_t uid, float *where, float number)
{
    *where = number;
    r->uids[r->count] = uid;
    r->data[r->count++] = where;
}

/* Heads of q, k and v of qkv, or of their gradients */
static void add_qkv(struct run *r, const int64_t uids[3], struct dt_view qkv,
                    const struct dt_attention *a)
{
    add_view(r, uids[0], qkv, 0);
    add_view(r, uids[1], qkv, a->NH * a->HS);
    add_view(r, uids[2], qkv, (a->NH + a->NKV) * a->HS);
}

static void add_mask(struct run *r, const struct dt_attention_shape *s,
                     const struct dt_attention *a)
{
    add_number(r, SCALE, &r->scale, a->scale);
    add_number(r, HIDDEN, &r->hidden, -INFINITY);
    if (s->window > 0)
        add_number(r, WINDOW, &r->window, (float)s->window);
    if (s->first)
        add_view(r, FIRST, a->first, 0);
    if (s->last)
        add_view(r, LAST, a->last, 0);
}

static size_t sum_bytes(const struct dt_attention *a)
{
    return dt_cuda_facts.deterministic ? 0 : dt_workspace_attention_sums(a);
}

/* All parts, and padding to a multiple of 256. */
static size_t attention_workspace_bytes(const struct dt_attention *a,
                                        const struct plan *plan)
{
    return 256 + dt_workspace_attention_rows(a) + sum_bytes(a) +
           dt_cuda_dnn_workspace(plan->graph);
}

/* --- the interface --- */

int dt_cuda_attention_cudnn_open(struct dt_error *err)
{
    if (dt_cuda_dnn_load(err) < 0)
        return -1;
    return dt_cuda_dnn_open(err);
}

const char *dt_cuda_attention_cudnn_version(void)
{
    return dt_cuda_dnn_version();
}

int dt_cuda_attention_cudnn_try(bool gpu, struct dt_error *err)
{
    const struct dt_attention_shape small = {
        .B = 1, .T = 128, .NH = 1, .NKV = 1, .HS = 64, .type = DT_BF16};
    struct plan *plan;
    int rc;

    if (!gpu)
        return dt_cuda_dnn_load(err) < 0 ? -1 : dt_cuda_dnn_compiler(err);
    if (dt_cuda_attention_cudnn_open(err) < 0)
        return -1;
    plan = plan_create(&small);
    if (!plan)
        return dt_error_set(err, EX_OSERR, "out of memory");
    rc = plan->graph ? 0 : -1;
    *err = plan->why;
    dt_cuda_dnn_graph_destroy(plan->graph);
    free(plan);
    return rc;
}

const char *dt_cuda_attention_cudnn_workspace(enum dt_dtype type,
                                              const struct dt_attention *a,
                                              size_t *count)
{
    struct dt_attention_shape s;
    struct plan *plan;
    const char *why = shape_of(&s, a, type, true);

    if (!why)
        why = plan_for(&plan, &s, NULL);
    *count = why ? 0 : attention_workspace_bytes(a, plan) / sizeof(float);
    return why;
}

static const char UNALIGNED[] = "a tensor is not at a multiple of 16 bytes";
static const char NO_ROOM[] = "it wants more scratch memory than there is";

const char *dt_cuda_attention_cudnn_forward(struct dt_stream *stream,
                                            struct dt_view out,
                                            struct dt_view lse,
                                            struct dt_view qkv,
                                            const struct dt_attention *a)
{
    struct dt_attention_shape s;
    struct run r = {.aligned = true};
    struct plan *plan;
    const char *why = shape_of(&s, a, qkv.dtype, false);

    if (!why)
        why = plan_for(&plan, &s, stream);
    if (why)
        return why;
    if (dt_cuda_dnn_workspace(plan->graph) > stream->workspace_bytes)
        return NO_ROOM;
    add_qkv(&r, (int64_t[]){Q, K, V}, qkv, a);
    add_view(&r, O, out, 0);
    add_view(&r, LSE, lse, 0);
    add_mask(&r, &s, a);
    if (!r.aligned)
        return UNALIGNED;
    dt_cuda_dnn_run(plan->graph, stream->cuda, r.count, r.uids, r.data,
                    stream->workspace);
    return NULL;
}

const char *dt_cuda_attention_cudnn_backward(
    struct dt_stream *stream, struct dt_view dqkv, struct dt_view dout,
    struct dt_view out, struct dt_view lse, struct dt_view qkv,
    struct dt_view workspace, const struct dt_attention *a)
{
    struct dt_attention_shape s;
    struct run r = {.aligned = true};
    struct plan *plan;
    const char *why = shape_of(&s, a, qkv.dtype, true);
    char *next = dt_view_data(workspace);

    if (!why)
        why = plan_for(&plan, &s, stream);
    if (why)
        return why;
    if (workspace.count * sizeof(float) < attention_workspace_bytes(a, plan))
        return NO_ROOM;
    next += (256 - (uintptr_t)next % 256) % 256;
    add_qkv(&r, (int64_t[]){Q, K, V}, qkv, a);
    add_qkv(&r, (int64_t[]){DQ, DK, DV}, dqkv, a);
    add_view(&r, O, out, 0);
    add_view(&r, DO, dout, 0);
    add_view(&r, LSE, lse, 0);
    add_tensor(&r, DELTA, next);
    next += dt_workspace_attention_rows(a);
    if (!dt_cuda_facts.deterministic)
        add_tensor(&r, DQ_SUM, next);
    next += sum_bytes(a);
    add_mask(&r, &s, a);
    add_number(&r, ONE, &r.one, 1.0f);
    if (!r.aligned)
        return UNALIGNED;
    dt_cuda_dnn_run(plan->graph, stream->cuda, r.count, r.uids, r.data, next);
    return NULL;
}

#endif /* HAVE_CUDNN */
