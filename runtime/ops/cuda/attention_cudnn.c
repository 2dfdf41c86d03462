/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_cudnn.c - attention by cuDNN's fused kernels
 *
 * cuDNN recognizes attention in a graph of matrix multiplications, maps and
 * reductions (attention_graph.c), and runs all of it as one kernel (backward:
 * three) that stores no matrix of scores. A plan is for one set of sizes, takes
 * much of a second to find, and is kept as long as the process: CUDA graphs may
 * have recorded its kernels.
 *
 * As a mask, documents cost what the whole row costs, and many GPUs have no
 * engine for the backward pass. So documents are computed in runs
 * (ops/documents.h), each as a ragged batch. Its plan depends on the class of
 * the run, and neither on the row nor on where documents are in it.
 */
#include "config.h"

#ifdef HAVE_CUDNN

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "ops/cuda/cuda_attention.h"
#include "ops/cuda/cuda_cache.h"
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
           a->ragged == b->ragged && a->type == b->type;
}

/* The feature of the call that cuDNN never supports, in words; NULL: none.
 * Documents have any number of positions, whatever that of the row is.
 */
static const char *refusal(const struct dt_attention *a, enum dt_dtype type,
                           bool documents)
{
    if (type == DT_F32)
        return "cuDNN computes attention in bf16 and fp16, not in fp32";
    if (a->dropout.rate > 0.0)
        return "dropout of scores needs random numbers of disttrain's own";
    if (a->softcap > 0.0f)
        return "the scores have a softcap";
    if (a->HS % 8 != 0)
        return "the size of heads is no multiple of 8";
    if ((documents || a->T % 128 != 0) && !dt_cuda_dnn_any_length())
        return "before cuDNN 9.16 only multiples of 128 positions are right";
    return NULL;
}

/* Of all rows as they are. */
static struct dt_attention_shape shape_of(const struct dt_attention *a,
                                          enum dt_dtype type, bool backward)
{
    return (struct dt_attention_shape){
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
}

/* NULL: it cannot be told. */
static const struct dt_cuda_dnn_place *own_place(void)
{
    static struct dt_cuda_dnn_place here;
    static bool asked, known;
    int driver = 0;

    if (asked)
        return known ? &here : NULL;
    asked = true;
    known = dt_cuda_cache_gpu(here.gpu, sizeof(here.gpu)) &&
            cudaDriverGetVersion(&driver) == cudaSuccess;
    dt_cuda_cache_driver("", driver, here.driver, sizeof(here.driver));
    dt_cuda_dnn_compiler_name(here.compiler, sizeof(here.compiler));
    return known ? &here : NULL;
}

/* Finds a plan, of an earlier run if `kept`. */
static struct plan *plan_create(const struct dt_attention_shape *s, bool kept)
{
    const bool deterministic = dt_cuda_facts.deterministic;
    struct plan *plan = calloc(1, sizeof(*plan));
    const struct dt_cuda_dnn_place *place = kept ? own_place() : NULL;
    struct dt_cuda_dnn_name name;

    if (!plan)
        return NULL;
    plan->shape = *s;
    plan->graph = dt_cuda_dnn_graph_create();
    if (!plan->graph)
        return plan;
    dt_cuda_attention_graph(plan->graph, s, deterministic);
    kept = place && dt_cuda_dnn_name(plan->graph, place, deterministic, &name);
    if (kept && dt_cuda_dnn_recall(plan->graph, &name))
        return plan;
    if (dt_cuda_dnn_plan(plan->graph, deterministic, &plan->why) < 0) {
        dt_cuda_dnn_graph_destroy(plan->graph);
        plan->graph = NULL;
    } else if (kept) {
        dt_cuda_dnn_remember(plan->graph, &name);
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
        *plan = plan_create(s, !dt_cuda_autotune_asks(DT_AUTOTUNE_FRESH));
        if (!*plan)
            return "out of memory";
        cache.plans[cache.count++] = *plan;
    }
    return (*plan)->graph ? NULL : (*plan)->why.text;
}

/* --- the operands of a graph --- */

struct operands {
    int64_t uids[UID_COUNT];
    void *data[UID_COUNT];
    size_t count;
    bool aligned;
    float scale, hidden, window, one;
};

/* A pass and its tensors; dout and dqkv of a backward one. */
struct pass {
    struct dt_stream *stream;
    struct dt_view out, lse, qkv, dout, dqkv;
    const struct dt_attention *a;
    bool backward;
    char *space; /* at a multiple of 256 bytes */
    size_t bytes;
};

static void add_tensor(struct operands *o, int64_t uid, void *data)
{
    o->uids[o->count] = uid;
    o->data[o->count++] = data;
    o->aligned &= (uintptr_t)data % 16 == 0;
}

/* Element `first` of a view */
static void add_view(struct operands *o, int64_t uid, struct dt_view v,
                     size_t first)
{
    add_tensor(o, uid,
               (char *)dt_view_data(v) + first * dt_dtype_bytes(v.dtype));
}

/* Numbers are read when the graph is queued. */
static void add_number(struct operands *o, int64_t uid, float *where,
                       float number)
{
    *where = number;
    o->uids[o->count] = uid;
    o->data[o->count++] = where;
}

/* Heads of q, k and v of qkv, or of their gradients */
static void add_qkv(struct operands *o, const int64_t uids[3],
                    struct dt_view qkv, const struct dt_attention *a)
{
    add_view(o, uids[0], qkv, 0);
    add_view(o, uids[1], qkv, a->NH * a->HS);
    add_view(o, uids[2], qkv, (a->NH + a->NKV) * a->HS);
}

static void add_mask(struct operands *o, const struct dt_attention_shape *s,
                     const struct dt_attention *a)
{
    add_number(o, SCALE, &o->scale, a->scale);
    add_number(o, HIDDEN, &o->hidden, -INFINITY);
    if (s->window > 0)
        add_number(o, WINDOW, &o->window, (float)s->window);
    if (s->first)
        add_view(o, FIRST, a->first, 0);
    if (s->last)
        add_view(o, LAST, a->last, 0);
}

/* The parts of the workspace of a graph, and what is behind them, which is
 * rounded up to 256 bytes.
 */
static size_t rows_bytes(const struct dt_attention_shape *s)
{
    return dt_workspace_attention_rows(&(struct dt_attention){
        .B = (size_t)s->B, .T = (size_t)s->T, .NH = (size_t)s->NH});
}

/* Also of lengths, which are fewer and smaller. */
static size_t starts_bytes(const struct dt_attention_shape *s)
{
    return dt_workspace_attention_starts((size_t)s->B);
}

static size_t sum_bytes(const struct dt_attention_shape *s)
{
    return dt_cuda_facts.deterministic
               ? 0
               : dt_workspace_attention_sums(
                     &(struct dt_attention){.B = (size_t)s->B,
                                            .T = (size_t)s->T,
                                            .NH = (size_t)s->NH,
                                            .HS = (size_t)s->HS});
}

static size_t space_bytes(const struct plan *plan)
{
    const struct dt_attention_shape *s = &plan->shape;
    size_t bytes = dt_cuda_dnn_workspace(plan->graph);

    if (s->ragged)
        bytes += 3 * starts_bytes(s) + rows_bytes(s);
    if (s->backward)
        bytes += rows_bytes(s) + sum_bytes(s);
    return bytes;
}

static void *take(char **next, size_t bytes)
{
    void *here = *next;

    *next += bytes;
    return here;
}

/* Everything but where documents are. lse: data of LSE. */
static void add_operands(struct operands *o, const struct pass *pass,
                         const struct dt_attention_shape *s, void *lse,
                         char **next)
{
    const struct dt_attention *a = pass->a;

    add_qkv(o, (int64_t[]){Q, K, V}, pass->qkv, a);
    add_view(o, O, pass->out, 0);
    add_tensor(o, LSE, lse);
    add_mask(o, s, a);
    if (!pass->backward)
        return;
    add_qkv(o, (int64_t[]){DQ, DK, DV}, pass->dqkv, a);
    add_view(o, DO, pass->dout, 0);
    add_tensor(o, DELTA, take(next, rows_bytes(s)));
    if (!dt_cuda_facts.deterministic)
        add_tensor(o, DQ_SUM, take(next, sum_bytes(s)));
    add_number(o, ONE, &o->one, 1.0f);
}

static const char UNALIGNED[] = "a tensor is not at a multiple of 16 bytes";
static const char NO_ROOM[] = "it wants more scratch memory than there is";

/* --- rows as they are --- */

static const char *compute_rows(const struct pass *pass)
{
    struct operands o = {.aligned = true};
    struct dt_attention_shape s =
        shape_of(pass->a, pass->qkv.dtype, pass->backward);
    struct plan *plan;
    char *next = pass->space;
    const char *why = plan_for(&plan, &s, pass->stream);

    if (why)
        return why;
    if (space_bytes(plan) > pass->bytes)
        return NO_ROOM;
    add_operands(&o, pass, &s, dt_view_data(pass->lse), &next);
    if (!o.aligned)
        return UNALIGNED;
    dt_cuda_dnn_run(plan->graph, pass->stream->cuda, o.count, o.uids, o.data,
                    next);
    return NULL;
}

/* --- documents --- */

/* A run of class c, with the masks of `whole`. */
static struct dt_attention_shape shape_of_run(
    const struct dt_attention *a, const struct dt_attention_shape *whole,
    size_t c)
{
    struct dt_attention_shape s = *whole;

    s.B = (int64_t)dt_document_count(&a->documents, c);
    s.T = (int64_t)dt_document_length(&a->documents, c);
    s.window = (int64_t)a->window < s.T ? (int64_t)a->window : 0;
    s.first = false;
    s.ragged = true;
    return s;
}

/* Places in the workspace for what spans say. */
static struct dt_document_run take_run(char **next, const struct plan *plan,
                                       const struct dt_document *spans)
{
    const size_t bytes = starts_bytes(&plan->shape);

    return (struct dt_document_run){.count = plan->shape.B,
                                    .length = plan->shape.T,
                                    .spans = spans,
                                    .lengths = take(next, bytes),
                                    .qkv_starts = take(next, bytes),
                                    .out_starts = take(next, bytes)};
}

static const char *compute_run(const struct pass *pass, struct plan *plan,
                               const struct dt_document *spans)
{
    struct operands o = {.aligned = true};
    char *next = pass->space;
    const struct dt_document_run run = take_run(&next, plan, spans);
    float *lse = take(&next, rows_bytes(&plan->shape));

    add_operands(&o, pass, &plan->shape, lse, &next);
    add_tensor(&o, LENGTHS, run.lengths);
    add_tensor(&o, QKV_STARTS, run.qkv_starts);
    add_tensor(&o, OUT_STARTS, run.out_starts);
    if (!o.aligned)
        return UNALIGNED;
    dt_cuda_document_places(pass->stream, &run, pass->a);
    if (pass->backward)
        dt_cuda_document_rows(pass->stream, lse, pass->lse, &run, pass->a,
                              true);
    dt_cuda_dnn_run(plan->graph, pass->stream->cuda, o.count, o.uids, o.data,
                    next);
    if (!pass->backward)
        dt_cuda_document_rows(pass->stream, lse, pass->lse, &run, pass->a,
                              false);
    return NULL;
}

/* The plans of all classes that have runs. NULL, or why one has none. */
static const char *plans_of(struct plan *plans[DT_DOCUMENT_CLASSES],
                            const struct pass *pass)
{
    const struct dt_attention_shape whole =
        shape_of(pass->a, pass->qkv.dtype, pass->backward);

    for (size_t c = 0; c < dt_document_classes(&pass->a->documents); c++) {
        const struct dt_attention_shape s = shape_of_run(pass->a, &whole, c);
        const char *why = pass->a->documents.runs[c] > 0
                              ? plan_for(&plans[c], &s, pass->stream)
                              : NULL;
        if (why)
            return why;
        if (plans[c] && space_bytes(plans[c]) > pass->bytes)
            return NO_ROOM;
    }
    return NULL;
}

/* Those of one position, which are in no run. */
static void compute_alone(const struct pass *pass)
{
    if (pass->backward)
        dt_cuda_document_alone_backward(pass->stream, pass->dqkv, pass->dout,
                                        pass->a);
    else
        dt_cuda_document_alone(pass->stream, pass->out, pass->lse, pass->qkv,
                               pass->a);
}

/* Tensors are aligned for all runs or for none. */
static const char *compute_documents(const struct pass *pass)
{
    struct plan *plans[DT_DOCUMENT_CLASSES] = {NULL};
    const struct dt_documents *d = &pass->a->documents;
    const struct dt_document *spans = dt_view_data(d->spans);
    const char *why = plans_of(plans, pass);

    for (size_t c = 0; c < DT_DOCUMENT_CLASSES; c++)
        for (size_t i = 0; i < d->runs[c] && !why; i++) {
            why = compute_run(pass, plans[c], spans);
            spans += plans[c]->shape.B;
        }
    if (!why)
        compute_alone(pass);
    return why;
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
    plan = plan_create(&small, false);
    if (!plan)
        return dt_error_set(err, EX_OSERR, "out of memory");
    rc = plan->graph ? 0 : -1;
    *err = plan->why;
    dt_cuda_dnn_graph_destroy(plan->graph);
    free(plan);
    return rc;
}

/* The most of a run of each class. */
static const char *documents_workspace(enum dt_dtype type,
                                       const struct dt_attention *a,
                                       size_t *bytes)
{
    const struct dt_attention_shape whole = shape_of(a, type, true);

    for (size_t c = 0; c < dt_document_classes(&a->documents); c++) {
        const struct dt_attention_shape s = shape_of_run(a, &whole, c);
        struct plan *plan;
        const char *why = plan_for(&plan, &s, NULL);
        if (why)
            return why;
        *bytes = space_bytes(plan) > *bytes ? space_bytes(plan) : *bytes;
    }
    return NULL;
}

static const char *rows_workspace(enum dt_dtype type,
                                  const struct dt_attention *a, size_t *bytes)
{
    const struct dt_attention_shape s = shape_of(a, type, true);
    struct plan *plan;
    const char *why = plan_for(&plan, &s, NULL);

    *bytes = why ? 0 : space_bytes(plan);
    return why;
}

const char *dt_cuda_attention_cudnn_workspace(enum dt_dtype type,
                                              const struct dt_attention *a,
                                              bool documents, size_t *count)
{
    const char *why = refusal(a, type, documents);
    size_t bytes = 0;

    if (!why)
        why = documents ? documents_workspace(type, a, &bytes)
                        : rows_workspace(type, a, &bytes);
    *count = why ? 0 : (256 + bytes) / sizeof(float);
    return why;
}

/* A pass whose documents are computed one by one, if that can be. */
static const char *compute(const struct pass *pass, bool documents)
{
    const char *why = refusal(pass->a, pass->qkv.dtype, documents);

    if (why)
        return why;
    return documents ? compute_documents(pass) : compute_rows(pass);
}

const char *dt_cuda_attention_cudnn_forward(
    struct dt_stream *stream, struct dt_view out, struct dt_view lse,
    struct dt_view qkv, const struct dt_attention *a, bool documents)
{
    const struct pass pass = {.stream = stream,
                              .out = out,
                              .lse = lse,
                              .qkv = qkv,
                              .a = a,
                              .space = stream->workspace,
                              .bytes = stream->workspace_bytes};

    return compute(&pass, documents);
}

const char *dt_cuda_attention_cudnn_backward(
    struct dt_stream *stream, struct dt_view dqkv, struct dt_view dout,
    struct dt_view out, struct dt_view lse, struct dt_view qkv,
    struct dt_view workspace, const struct dt_attention *a, bool documents)
{
    char *space = dt_view_data(workspace);
    const size_t lost = (256 - (uintptr_t)space % 256) % 256;
    const size_t bytes = workspace.count * sizeof(float);
    const struct pass pass = {.stream = stream,
                              .out = out,
                              .lse = lse,
                              .qkv = qkv,
                              .dout = dout,
                              .dqkv = dqkv,
                              .a = a,
                              .backward = true,
                              .space = space + lost,
                              .bytes = bytes > lost ? bytes - lost : 0};

    return compute(&pass, documents);
}

#endif /* HAVE_CUDNN */
