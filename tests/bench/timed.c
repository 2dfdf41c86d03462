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
    double flops, bytes; /* of a step; bytes only where they are the limit */
    double s[TIMED_MAX_STEPS];
};

static const struct dt_ops *inner;
static struct kind kinds[MAX_KINDS];
static size_t kind_count;
static int step;

static void note(const char *name, double start, double flops, double moved)
{
    double s = dt_clock_now() - start;
    size_t i = 0;

    while (i < kind_count && strcmp(kinds[i].name, name) != 0)
        i++;
    if (i == MAX_KINDS)
        return;
    if (i == kind_count)
        snprintf(kinds[kind_count++].name, NAME_BYTES, "%s", name);
    kinds[i].s[step] += s;
    if (step == 0) {
        kinds[i].flops += flops;
        kinds[i].bytes += moved;
    }
}

static double bytes(struct dt_view v)
{
    return (double)(v.count * dt_dtype_bytes(v.dtype));
}

static void embedding_forward(struct dt_stream *stream, struct dt_view out,
                              struct dt_view ids, struct dt_view positions,
                              struct dt_view wte, struct dt_view wpe, size_t N,
                              size_t C, const struct dt_dropout *dropout)
{
    double start = dt_clock_now();

    inner->embedding_forward(stream, out, ids, positions, wte, wpe, N, C,
                             dropout);
    note("embedding forward", start, 0.0, 3.0 * bytes(out));
}

static void embedding_backward(struct dt_stream *stream, struct dt_view dwte,
                               struct dt_view dwpe, struct dt_view dout,
                               struct dt_view ids, struct dt_view positions,
                               size_t N, size_t C, bool accumulate)
{
    double start = dt_clock_now();

    inner->embedding_backward(stream, dwte, dwpe, dout, ids, positions, N, C,
                              accumulate);
    note("embedding backward", start, 0.0, 20.0 * (double)(N * C));
}

static void linear_forward(struct dt_stream *stream, struct dt_view out,
                           struct dt_view x, struct dt_view w, struct dt_view b,
                           enum dt_weight_order order, size_t N, size_t C,
                           size_t OC)
{
    char name[NAME_BYTES];
    double start = dt_clock_now();

    inner->linear_forward(stream, out, x, w, b, order, N, C, OC);
    snprintf(name, sizeof(name), "linear forward %zu to %zu", C, OC);
    note(name, start, 2.0 * (double)(N * C * OC), 0.0);
}

static void linear_backward(struct dt_stream *stream, struct dt_view dx,
                            struct dt_view dw, struct dt_view db,
                            struct dt_view dout, struct dt_view x,
                            struct dt_view w, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC, bool accumulate)
{
    char name[NAME_BYTES];
    double start = dt_clock_now();

    inner->linear_backward(stream, dx, dw, db, dout, x, w, order, N, C, OC,
                           accumulate);
    snprintf(name, sizeof(name), "linear backward %zu to %zu", C, OC);
    note(name, start, 4.0 * (double)(N * C * OC), 0.0);
}

static void norm_forward(struct dt_stream *stream, struct dt_view out,
                         struct dt_view mean, struct dt_view rstd,
                         struct dt_view x, struct dt_view w, struct dt_view b,
                         float eps, size_t N, size_t C)
{
    double start = dt_clock_now();

    inner->norm_forward(stream, out, mean, rstd, x, w, b, eps, N, C);
    note("norm forward", start, 0.0, 2.0 * bytes(x));
}

static void residual_norm_forward(struct dt_stream *stream, struct dt_view sum,
                                  struct dt_view out, struct dt_view mean,
                                  struct dt_view rstd, struct dt_view x,
                                  struct dt_view y, struct dt_view w,
                                  struct dt_view b, float eps, size_t N,
                                  size_t C, const struct dt_dropout *dropout)
{
    double start = dt_clock_now();

    inner->residual_norm_forward(stream, sum, out, mean, rstd, x, y, w, b, eps,
                                 N, C, dropout);
    note("residual + norm forward", start, 0.0, 4.0 * bytes(x));
}

static void norm_backward(struct dt_stream *stream, struct dt_view dx,
                          struct dt_view dw, struct dt_view db,
                          struct dt_view dout, struct dt_view x,
                          struct dt_view w, struct dt_view mean,
                          struct dt_view rstd, size_t N, size_t C,
                          bool accumulate)
{
    double start = dt_clock_now();

    inner->norm_backward(stream, dx, dw, db, dout, x, w, mean, rstd, N, C,
                         accumulate);
    note("norm backward", start, 0.0, 4.0 * bytes(x));
}

static void dropout_backward(struct dt_stream *stream, struct dt_view dx,
                             struct dt_view dout, size_t N, size_t C,
                             const struct dt_dropout *dropout)
{
    double start = dt_clock_now();

    inner->dropout_backward(stream, dx, dout, N, C, dropout);
    note("dropout backward", start, 0.0, 2.0 * bytes(dx));
}

static void gelu_forward(struct dt_stream *stream, struct dt_view out,
                         struct dt_view x)
{
    double start = dt_clock_now();

    inner->gelu_forward(stream, out, x);
    note("gelu forward", start, 0.0, 2.0 * bytes(x));
}

static void gelu_backward(struct dt_stream *stream, struct dt_view dx,
                          struct dt_view dout, struct dt_view x)
{
    double start = dt_clock_now();

    inner->gelu_backward(stream, dx, dout, x);
    note("gelu backward", start, 0.0, 3.0 * bytes(x));
}

static void swiglu_forward(struct dt_stream *stream, struct dt_view out,
                           struct dt_view x, size_t N, size_t I)
{
    double start = dt_clock_now();

    inner->swiglu_forward(stream, out, x, N, I);
    note("swiglu forward", start, 0.0, 1.5 * bytes(x));
}

static void swiglu_backward(struct dt_stream *stream, struct dt_view dx,
                            struct dt_view dout, struct dt_view x, size_t N,
                            size_t I)
{
    double start = dt_clock_now();

    inner->swiglu_backward(stream, dx, dout, x, N, I);
    note("swiglu backward", start, 0.0, 2.5 * bytes(x));
}

static void rotary_forward(struct dt_stream *stream, struct dt_view out,
                           struct dt_view rstd, struct dt_view qkv, size_t N,
                           const struct dt_rotary *rotary)
{
    double start = dt_clock_now();

    inner->rotary_forward(stream, out, rstd, qkv, N, rotary);
    note("rotary forward", start, 0.0, 2.0 * bytes(qkv));
}

static void rotary_backward(struct dt_stream *stream, struct dt_view dqkv,
                            struct dt_view dq_norm, struct dt_view dk_norm,
                            struct dt_view qkv, struct dt_view rstd, size_t N,
                            const struct dt_rotary *rotary, bool accumulate)
{
    double start = dt_clock_now();

    inner->rotary_backward(stream, dqkv, dq_norm, dk_norm, qkv, rstd, N, rotary,
                           accumulate);
    note("rotary backward", start, 0.0, 2.0 * bytes(dqkv));
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

    inner->attention_forward(stream, out, lse, qkv, attention);
    note("attention forward", start, 2.0 * scores(attention), 0.0);
}

static void attention_backward(struct dt_stream *stream, struct dt_view dqkv,
                               struct dt_view dout, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv,
                               struct dt_view scratch,
                               const struct dt_attention *attention)
{
    double start = dt_clock_now();

    inner->attention_backward(stream, dqkv, dout, out, lse, qkv, scratch,
                              attention);
    note("attention backward", start, 5.0 * scores(attention), 0.0);
}

static double linear_cross_entropy(struct dt_stream *stream, struct dt_view dx,
                                   struct dt_view dw, struct dt_view x,
                                   struct dt_view w, struct dt_view targets,
                                   struct dt_view scratch, float scale,
                                   float smoothing, size_t N, size_t C,
                                   size_t V, bool accumulate)
{
    double start = dt_clock_now();
    double loss =
        inner->linear_cross_entropy(stream, dx, dw, x, w, targets, scratch,
                                    scale, smoothing, N, C, V, accumulate);

    note("head and loss, both ways", start, 6.0 * (double)(N * C * V), 0.0);
    return loss;
}

static void zero(struct dt_stream *stream, struct dt_view x)
{
    double start = dt_clock_now();

    inner->zero(stream, x);
    note("zero", start, 0.0, bytes(x));
}

static void convert(struct dt_stream *stream, struct dt_view out,
                    struct dt_view x)
{
    double start = dt_clock_now();

    inner->convert(stream, out, x);
    note("convert", start, 0.0, bytes(out) + bytes(x));
}

static double sum_of_squares(struct dt_stream *stream, struct dt_view x)
{
    double start = dt_clock_now(), sum = inner->sum_of_squares(stream, x);

    note("sum of squares", start, 0.0, bytes(x));
    return sum;
}

static void adamw(struct dt_stream *stream, struct dt_view p, struct dt_view w,
                  struct dt_view g, struct dt_view m, struct dt_view v,
                  const struct dt_adamw *args)
{
    double start = dt_clock_now();

    inner->adamw(stream, p, w, g, m, v, args);
    note("adamw", start, 0.0, 7.0 * bytes(p) + bytes(w));
}

struct dt_ops timed_ops(const struct dt_ops *ops)
{
    inner = ops;
    return (struct dt_ops){
        .name = ops->name,
        .library = ops->library,
        .emulation = ops->emulation,
        .embedding_forward = embedding_forward,
        .embedding_backward = embedding_backward,
        .linear_forward = linear_forward,
        .linear_backward = linear_backward,
        .norm_forward = norm_forward,
        .residual_norm_forward = residual_norm_forward,
        .norm_backward = norm_backward,
        .dropout_backward = dropout_backward,
        .gelu_forward = gelu_forward,
        .gelu_backward = gelu_backward,
        .swiglu_forward = swiglu_forward,
        .swiglu_backward = swiglu_backward,
        .rotary_forward = rotary_forward,
        .rotary_backward = rotary_backward,
        .attention_forward = attention_forward,
        .attention_backward = attention_backward,
        .attention_scratch = ops->attention_scratch,
        .linear_cross_entropy = linear_cross_entropy,
        .zero = zero,
        .convert = convert,
        .sum_of_squares = sum_of_squares,
        .adamw = adamw,
    };
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

void timed_print(double all)
{
    for (size_t i = 0; i < kind_count; i++) {
        struct kind *k = &kinds[i];
        double s = timed_median(k->s + 1, step - 1);
        printf("%-30s %8.2f ms %5.1f %%", k->name, s * 1e3, 100.0 * s / all);
        if (k->flops > 0.0)
            printf(" %7.1f GFLOP/s\n", k->flops / s * 1e-9);
        else
            printf(" %7.1f GB/s\n", k->bytes / s * 1e-9);
    }
}
