/* SPDX-License-Identifier: Apache-2.0 */
/* timed.c - operations that measure each call and pass it on */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/bench/timed.h"

enum { MAX_KINDS = 64, NAME_BYTES = 40 };

/* Calls of one operation with one shape. */
struct kind {
    char name[NAME_BYTES];
    double flops,
        bytes;    /* of a step; the fewest that can be read and written */
    size_t calls; /* of the first step */
    double s[TIMED_MAX_STEPS];
};

static struct dt_exec inner;
static double latency; /* of queueing next to nothing and waiting for it */
static struct kind kinds[MAX_KINDS];
static size_t kind_count;
static int step;

/* The work was queued from `start` on; it is over when this returns. */
static void note(const char *name, double start, double flops, double moved)
{
    inner.device->stream_wait(inner.stream, NULL);
    double s = dt_clock_now() - start - latency;
    size_t i = 0;

    while (i < kind_count && strcmp(kinds[i].name, name) != 0)
        i++;
    if (i == MAX_KINDS)
        return;
    if (i == kind_count)
        snprintf(kinds[kind_count++].name, NAME_BYTES, "%s", name);
    kinds[i].s[step] += s > 0.0 ? s : 0.0;
    if (step == 0) {
        kinds[i].calls++;
        kinds[i].flops += flops;
        kinds[i].bytes += moved;
    }
}

static double bytes(struct dt_view v)
{
    return (double)(v.count * dt_dtype_bytes(v.dtype));
}

/* Those of a gradient that is written, or read and written. */
static double updated(struct dt_view v, bool accumulate)
{
    return (accumulate ? 2.0 : 1.0) * bytes(v);
}

static void embedding_forward(struct dt_stream *stream, struct dt_view out,
                              struct dt_view ids, struct dt_view positions,
                              struct dt_view wte, struct dt_view wpe, size_t N,
                              size_t C, const struct dt_dropout *dropout)
{
    double start = dt_clock_now();

    inner.ops->embedding_forward(stream, out, ids, positions, wte, wpe, N, C,
                                 dropout);
    note("embedding forward", start, 0.0,
         2.0 * bytes(out) + bytes(ids) + bytes(positions) + bytes(wpe));
}

static void embedding_backward(struct dt_stream *stream, struct dt_view dwte,
                               struct dt_view dwpe, struct dt_view dout,
                               struct dt_view ids, struct dt_view positions,
                               int32_t skip, size_t N, size_t C,
                               bool accumulate)
{
    double start = dt_clock_now();
    /* rows of dwte that change, if tokens are as different as can be */
    size_t rows = N * C < dwte.count ? N * C : dwte.count;

    inner.ops->embedding_backward(stream, dwte, dwpe, dout, ids, positions,
                                  skip, N, C, accumulate);
    note("embedding backward", start, 0.0,
         bytes(dout) + bytes(ids) + bytes(positions) +
             2.0 * bytes(dt_view_slice(dwte, 0, rows)) +
             updated(dwpe, accumulate));
}

static void linear_forward(struct dt_stream *stream, struct dt_view out,
                           struct dt_view x, struct dt_view w, struct dt_view b,
                           enum dt_weight_order order, size_t N, size_t C,
                           size_t OC)
{
    char name[NAME_BYTES];
    double start = dt_clock_now();

    inner.ops->linear_forward(stream, out, x, w, b, order, N, C, OC);
    snprintf(name, sizeof(name), "linear forward %zu to %zu", C, OC);
    note(name, start, 2.0 * (double)(N * C * OC),
         bytes(x) + bytes(w) + bytes(b) + bytes(out));
}

static void linear_add_forward(struct dt_stream *stream, struct dt_view sum,
                               struct dt_view base, struct dt_view x,
                               struct dt_view w, struct dt_view b,
                               enum dt_weight_order order, size_t N, size_t C,
                               size_t OC)
{
    char name[NAME_BYTES];
    double start = dt_clock_now();

    inner.ops->linear_add_forward(stream, sum, base, x, w, b, order, N, C, OC);
    snprintf(name, sizeof(name), "linear + residual %zu to %zu", C, OC);
    note(name, start, 2.0 * (double)(N * C * OC),
         bytes(x) + bytes(w) + bytes(b) + bytes(base) + bytes(sum));
}

static void linear_backward(struct dt_stream *stream, struct dt_view dx,
                            struct dt_view dw, struct dt_view db,
                            struct dt_view dout, struct dt_view x,
                            struct dt_view w, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC, bool accumulate)
{
    char name[NAME_BYTES];
    double start = dt_clock_now();

    inner.ops->linear_backward(stream, dx, dw, db, dout, x, w, order, N, C, OC,
                               accumulate);
    snprintf(name, sizeof(name), "linear backward %zu to %zu", C, OC);
    note(name, start, 4.0 * (double)(N * C * OC),
         bytes(dout) + bytes(x) + bytes(w) + bytes(dx) +
             updated(dw, accumulate) + updated(db, accumulate));
}

static void linear_activation_forward(struct dt_stream *stream,
                                      struct dt_view out, struct dt_view pre,
                                      struct dt_view x, struct dt_view w,
                                      struct dt_view b,
                                      enum dt_weight_order order,
                                      enum dt_activation activation, size_t N,
                                      size_t C, size_t OC)
{
    double start = dt_clock_now();

    inner.ops->linear_activation_forward(stream, out, pre, x, w, b, order,
                                         activation, N, C, OC);
    note("linear + activation forward", start, 2.0 * (double)(N * C * OC),
         bytes(x) + bytes(w) + bytes(b) + bytes(pre) + bytes(out));
}

static void linear_activation_backward(struct dt_stream *stream,
                                       struct dt_view dpre, struct dt_view dw,
                                       struct dt_view db, struct dt_view dout,
                                       struct dt_view x, struct dt_view pre,
                                       struct dt_view w,
                                       enum dt_weight_order order,
                                       enum dt_activation activation, size_t N,
                                       size_t C, size_t OC, bool accumulate)
{
    double start = dt_clock_now();

    inner.ops->linear_activation_backward(stream, dpre, dw, db, dout, x, pre, w,
                                          order, activation, N, C, OC,
                                          accumulate);
    note("linear + activation backward", start, 4.0 * (double)(N * C * OC),
         bytes(dout) + bytes(x) + bytes(pre) + bytes(w) + bytes(dpre) +
             updated(dw, accumulate) + updated(db, accumulate));
}

static void norm_forward(struct dt_stream *stream, struct dt_view out,
                         struct dt_view mean, struct dt_view rstd,
                         struct dt_view x, struct dt_view w, struct dt_view b,
                         struct dt_norm_rule rule, size_t N, size_t C)
{
    double start = dt_clock_now();

    inner.ops->norm_forward(stream, out, mean, rstd, x, w, b, rule, N, C);
    note("norm forward", start, 0.0, 2.0 * bytes(x));
}

static void residual_norm_forward(struct dt_stream *stream, struct dt_view sum,
                                  struct dt_view out, struct dt_view mean,
                                  struct dt_view rstd, struct dt_view x,
                                  struct dt_view y, struct dt_view w,
                                  struct dt_view b, struct dt_norm_rule rule,
                                  size_t N, size_t C,
                                  const struct dt_dropout *dropout)
{
    double start = dt_clock_now();

    inner.ops->residual_norm_forward(stream, sum, out, mean, rstd, x, y, w, b,
                                     rule, N, C, dropout);
    note("residual + norm forward", start, 0.0, 4.0 * bytes(x));
}

static void norm_backward(struct dt_stream *stream, struct dt_view dx,
                          struct dt_view dw, struct dt_view db,
                          struct dt_view sums, struct dt_view dout,
                          struct dt_view x, struct dt_view w,
                          struct dt_view mean, struct dt_view rstd, float shift,
                          size_t N, size_t C, bool accumulate)
{
    double start = dt_clock_now();

    inner.ops->norm_backward(stream, dx, dw, db, sums, dout, x, w, mean, rstd,
                             shift, N, C, accumulate);
    note("norm backward", start, 0.0, 4.0 * bytes(x));
}

static void dropout_backward(struct dt_stream *stream, struct dt_view dx,
                             struct dt_view dout, size_t N, size_t C,
                             const struct dt_dropout *dropout)
{
    double start = dt_clock_now();

    inner.ops->dropout_backward(stream, dx, dout, N, C, dropout);
    note("dropout backward", start, 0.0, 2.0 * bytes(dx));
}

static void activation_forward(struct dt_stream *stream, struct dt_view out,
                               struct dt_view x, enum dt_activation activation)
{
    double start = dt_clock_now();

    inner.ops->activation_forward(stream, out, x, activation);
    note("activation forward", start, 0.0, 2.0 * bytes(x));
}

static void glu_forward(struct dt_stream *stream, struct dt_view out,
                        struct dt_view x, enum dt_activation activation,
                        size_t N, size_t I)
{
    double start = dt_clock_now();

    inner.ops->glu_forward(stream, out, x, activation, N, I);
    note("gate forward", start, 0.0, 1.5 * bytes(x));
}

static void glu_backward(struct dt_stream *stream, struct dt_view dx,
                         struct dt_view dout, struct dt_view x,
                         enum dt_activation activation, size_t N, size_t I)
{
    double start = dt_clock_now();

    inner.ops->glu_backward(stream, dx, dout, x, activation, N, I);
    note("gate backward", start, 0.0, 2.5 * bytes(x));
}

/* Bytes of a rotation from one to the other: v stays, if they are the same. */
static double rotated(struct dt_view to, struct dt_view from,
                      const struct dt_rope *r)
{
    const bool same = to.buf == from.buf && to.offset == from.offset;
    const double turned = (double)(r->NH + r->NKV);

    return 2.0 * bytes(from) *
           (same ? turned / (turned + (double)r->NKV) : 1.0);
}

static void rope_forward(struct dt_stream *stream, struct dt_view out,
                         struct dt_view rstd, struct dt_view qkv, size_t N,
                         const struct dt_rope *rope)
{
    double start = dt_clock_now();

    inner.ops->rope_forward(stream, out, rstd, qkv, N, rope);
    note("rope forward", start, 0.0, rotated(out, qkv, rope));
}

static void rope_backward(struct dt_stream *stream, struct dt_view dqkv,
                          struct dt_view dq_norm, struct dt_view dk_norm,
                          struct dt_view qkv, struct dt_view rstd, size_t N,
                          const struct dt_rope *rope, bool accumulate)
{
    double start = dt_clock_now();

    inner.ops->rope_backward(stream, dqkv, dq_norm, dk_norm, qkv, rstd, N, rope,
                             accumulate);
    note("rope backward", start, 0.0, rotated(dqkv, dqkv, rope) + bytes(qkv));
}

/* Multiplications and additions of one product over the scores. */
static double scores(const struct dt_attention *a)
{
    return (double)(a->B * a->T * a->T * a->NH * a->HS);
}

static void attention_forward(struct dt_stream *stream, struct dt_view out,
                              struct dt_view lse, struct dt_view qkv,
                              const struct dt_attention *attention)
{
    double start = dt_clock_now();

    inner.ops->attention_forward(stream, out, lse, qkv, attention);
    note("attention forward", start, 2.0 * scores(attention),
         bytes(qkv) + bytes(out) + bytes(lse));
}

static void attention_backward(struct dt_stream *stream, struct dt_view dqkv,
                               struct dt_view dout, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv,
                               struct dt_view workspace,
                               const struct dt_attention *attention)
{
    double start = dt_clock_now();

    inner.ops->attention_backward(stream, dqkv, dout, out, lse, qkv, workspace,
                                  attention);
    note("attention backward", start, 5.0 * scores(attention),
         bytes(qkv) + bytes(out) + bytes(lse) + bytes(dout) + bytes(dqkv));
}

static void kv_store(struct dt_stream *stream, const struct dt_kv *kv,
                     struct dt_view qkv, struct dt_view places, size_t N)
{
    double start = dt_clock_now();

    inner.ops->kv_store(stream, kv, qkv, places, N);
    note("kv store", start, 0.0,
         4.0 * (double)(N * kv->NKV * kv->HS * dt_dtype_bytes(qkv.dtype)));
}

static void kv_attention(struct dt_stream *stream, struct dt_view out,
                         struct dt_view qkv, struct dt_view positions,
                         const struct dt_kv *kv)
{
    const double row = (double)(kv->NKV * kv->HS * dt_dtype_bytes(qkv.dtype));
    double start = dt_clock_now(), keys = 0.0;

    inner.ops->kv_attention(stream, out, qkv, positions, kv);
    for (size_t b = 0; b < kv->B && inner.device->is_host; b++)
        keys += dt_view_i32(positions)[b] + 1;
    note("kv attention", start, 4.0 * keys * (double)(kv->NH * kv->HS),
         2.0 * keys * row);
}

static void sample(struct dt_stream *stream, struct dt_view ids,
                   struct dt_view logp, struct dt_view logits,
                   struct dt_view draws, struct dt_view seen,
                   const struct dt_sampling *sampling, size_t B, size_t V)
{
    double start = dt_clock_now();

    inner.ops->sample(stream, ids, logp, logits, draws, seen, sampling, B, V);
    note("sample", start, 0.0, bytes(logits));
}

static void linear_cross_entropy(struct dt_stream *stream,
                                 struct dt_view scalars, struct dt_view dx,
                                 struct dt_view dw, struct dt_view x,
                                 struct dt_view w, struct dt_view targets,
                                 struct dt_view workspace,
                                 const struct dt_logit_rule *rule,
                                 float smoothing, size_t N, size_t C, size_t V,
                                 bool accumulate)
{
    double start = dt_clock_now();

    inner.ops->linear_cross_entropy(stream, scalars, dx, dw, x, w, targets,
                                    workspace, rule, smoothing, N, C, V,
                                    accumulate);
    note("head and loss, both ways", start, 6.0 * (double)(N * C * V),
         bytes(x) + bytes(w) + bytes(targets) + bytes(dx) +
             updated(dw, accumulate));
}

static void zero(struct dt_stream *stream, struct dt_view x)
{
    double start = dt_clock_now();

    inner.ops->zero(stream, x);
    note("zero", start, 0.0, bytes(x));
}

static void convert(struct dt_stream *stream, struct dt_view out,
                    struct dt_view x)
{
    double start = dt_clock_now();

    inner.ops->convert(stream, out, x);
    note("convert", start, 0.0, bytes(out) + bytes(x));
}

static void sum_of_squares(struct dt_stream *stream, struct dt_view scalars,
                           struct dt_view x)
{
    double start = dt_clock_now();

    inner.ops->sum_of_squares(stream, scalars, x);
    note("sum of squares", start, 0.0, bytes(x));
}

static void adamw(struct dt_stream *stream, struct dt_view scalars,
                  struct dt_view p, struct dt_view w, struct dt_view g,
                  struct dt_view m, struct dt_view v,
                  const struct dt_adamw *args)
{
    double start = dt_clock_now();

    inner.ops->adamw(stream, scalars, p, w, g, m, v, args);
    note("adamw", start, 0.0, 7.0 * bytes(p) + bytes(w));
}

/* The median of what clearing one number takes, from the call to its end. */
static double measure_latency(void)
{
    double s[TIMED_MAX_STEPS];
    struct dt_error err;
    struct dt_buffer *buf =
        dt_buffer_create(inner.device, sizeof(float), "one number", &err);

    for (int i = 0; buf && i < TIMED_MAX_STEPS; i++) {
        double start = dt_clock_now();
        inner.ops->zero(inner.stream, dt_view_of(buf, DT_F32));
        inner.device->stream_wait(inner.stream, NULL);
        s[i] = dt_clock_now() - start;
    }
    if (!buf)
        return 0.0;
    dt_buffer_destroy(buf);
    return timed_median(s, TIMED_MAX_STEPS);
}

struct dt_ops timed_ops(const struct dt_exec *exec)
{
    struct dt_ops ops = *exec->ops;

    inner = *exec;
    latency = measure_latency();
    ops.embedding_forward = embedding_forward;
    ops.embedding_backward = embedding_backward;
    ops.linear_forward = linear_forward;
    if (ops.linear_add_forward)
        ops.linear_add_forward = linear_add_forward;
    ops.linear_backward = linear_backward;
    ops.linear_activation_forward = linear_activation_forward;
    ops.linear_activation_backward = linear_activation_backward;
    ops.norm_forward = norm_forward;
    ops.residual_norm_forward = residual_norm_forward;
    ops.norm_backward = norm_backward;
    ops.dropout_backward = dropout_backward;
    ops.activation_forward = activation_forward;
    ops.glu_forward = glu_forward;
    ops.glu_backward = glu_backward;
    ops.rope_forward = rope_forward;
    ops.rope_backward = rope_backward;
    ops.attention_forward = attention_forward;
    ops.attention_backward = attention_backward;
    ops.kv_store = kv_store;
    ops.kv_attention = kv_attention;
    ops.sample = sample;
    ops.linear_cross_entropy = linear_cross_entropy;
    ops.zero = zero;
    ops.convert = convert;
    ops.sum_of_squares = sum_of_squares;
    ops.adamw = adamw;
    return ops;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double timed_median(double *s, int count)
{
    qsort(s, (size_t)count, sizeof(*s), compare);
    return s[count / 2];
}

void timed_next(void)
{
    step++;
}

void timed_print(double all, const struct roof *roof)
{
    double sum = 0.0;

    printf("%-30s %5s %11s %7s %15s %15s %10s%s\n", "operation", "calls",
           "time", "share", "flops", "least bytes", "intensity",
           roof ? " of the roof" : "");
    for (size_t i = 0; i < kind_count; i++) {
        struct kind *k = &kinds[i];
        double s = timed_median(k->s + 1, step - 1);
        if (s <= 0.0) /* before the first step only */
            continue;
        printf("%-30s %5zu %8.3f ms %5.1f %% %7.1f GFLOP/s %10.1f GB/s "
               "%10.1f",
               k->name, k->calls, s * 1e3, 100.0 * s / all, k->flops / s * 1e-9,
               k->bytes / s * 1e-9, k->flops / k->bytes);
        if (roof)
            roof_print_share(roof, k->flops, k->bytes, s);
        putchar('\n');
        sum += s;
    }
    printf("all operations %.2f ms, of steps of %.2f ms that waited for each; "
           "%.1f us of queueing and waiting taken off each call\n",
           sum * 1e3, all * 1e3, latency * 1e6);
}
