/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.c - where the time of a training step of GPT-2 124M goes
 *
 * Usage: ops [B [T [STEPS [VARIANT]]]], by default 4 64 9 0. The model runs on
 * a table of operations that measures each call and passes it on. Prints
 * medians over the steps after the first.
 */
#include "config.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/model.h"
#include "ops/cpu/cpu.h"
#include "optim/optim.h"

enum { MAX_KINDS = 64, MAX_STEPS = 100, NAME_BYTES = 40 };

/* Calls of one operation with one shape. */
struct kind {
    char name[NAME_BYTES];
    double flops, bytes; /* of a step; bytes only where they are the limit */
    double s[MAX_STEPS];
};

static const struct dt_model_config GPT2 = {
    .model_type = "gpt2",
    .vocab_size = 50257,
    .n_positions = 1024,
    .n_embd = 768,
    .n_layer = 12,
    .n_head = 12,
    .n_inner = 4 * 768,
    .layer_norm_epsilon = 1e-5f,
    .initializer_range = 0.02f,
    .tie_word_embeddings = true,
};

static const struct dt_ops *inner;
static struct kind kinds[MAX_KINDS];
static size_t kind_count;
static int step;

static void note(const char *name, double start, double flops, double bytes)
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
        kinds[i].bytes += bytes;
    }
}

static void embedding_forward(struct dt_stream *stream, struct dt_view out,
                              struct dt_view ids, struct dt_view wte,
                              struct dt_view wpe, size_t B, size_t T, size_t C)
{
    double start = dt_clock_now();

    inner->embedding_forward(stream, out, ids, wte, wpe, B, T, C);
    note("embedding forward", start, 0.0, 12.0 * (double)(B * T * C));
}

static void embedding_backward(struct dt_stream *stream, struct dt_view dwte,
                               struct dt_view dwpe, struct dt_view dout,
                               struct dt_view ids, size_t B, size_t T, size_t C,
                               bool accumulate)
{
    double start = dt_clock_now();

    inner->embedding_backward(stream, dwte, dwpe, dout, ids, B, T, C,
                              accumulate);
    note("embedding backward", start, 0.0, 20.0 * (double)(B * T * C));
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

static void layernorm_forward(struct dt_stream *stream, struct dt_view out,
                              struct dt_view mean, struct dt_view rstd,
                              struct dt_view x, struct dt_view w,
                              struct dt_view b, float eps, size_t N, size_t C)
{
    double start = dt_clock_now();

    inner->layernorm_forward(stream, out, mean, rstd, x, w, b, eps, N, C);
    note("layernorm forward", start, 0.0, 8.0 * (double)(N * C));
}

static void residual_layernorm_forward(struct dt_stream *stream,
                                       struct dt_view sum, struct dt_view out,
                                       struct dt_view mean, struct dt_view rstd,
                                       struct dt_view x, struct dt_view y,
                                       struct dt_view w, struct dt_view b,
                                       float eps, size_t N, size_t C)
{
    double start = dt_clock_now();

    inner->residual_layernorm_forward(stream, sum, out, mean, rstd, x, y, w, b,
                                      eps, N, C);
    note("residual + layernorm forward", start, 0.0, 16.0 * (double)(N * C));
}

static void layernorm_backward(struct dt_stream *stream, struct dt_view dx,
                               struct dt_view dw, struct dt_view db,
                               struct dt_view dout, struct dt_view x,
                               struct dt_view w, struct dt_view mean,
                               struct dt_view rstd, size_t N, size_t C,
                               bool accumulate)
{
    double start = dt_clock_now();

    inner->layernorm_backward(stream, dx, dw, db, dout, x, w, mean, rstd, N, C,
                              accumulate);
    note("layernorm backward", start, 0.0, 16.0 * (double)(N * C));
}

static void gelu_forward(struct dt_stream *stream, struct dt_view out,
                         struct dt_view x)
{
    double start = dt_clock_now();

    inner->gelu_forward(stream, out, x);
    note("gelu forward", start, 0.0, 8.0 * (double)x.count);
}

static void gelu_backward(struct dt_stream *stream, struct dt_view dx,
                          struct dt_view dout, struct dt_view x)
{
    double start = dt_clock_now();

    inner->gelu_backward(stream, dx, dout, x);
    note("gelu backward", start, 0.0, 12.0 * (double)x.count);
}

static void attention_forward(struct dt_stream *stream, struct dt_view out,
                              struct dt_view lse, struct dt_view qkv, size_t B,
                              size_t T, size_t NH, size_t HS)
{
    double start = dt_clock_now();

    inner->attention_forward(stream, out, lse, qkv, B, T, NH, HS);
    note("attention forward", start, 2.0 * (double)(B * T * T * NH * HS), 0.0);
}

static void attention_backward(struct dt_stream *stream, struct dt_view dqkv,
                               struct dt_view dout, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv, size_t B,
                               size_t T, size_t NH, size_t HS)
{
    double start = dt_clock_now();

    inner->attention_backward(stream, dqkv, dout, out, lse, qkv, B, T, NH, HS);
    note("attention backward", start, 5.0 * (double)(B * T * T * NH * HS), 0.0);
}

static double linear_cross_entropy(struct dt_stream *stream, struct dt_view dx,
                                   struct dt_view dw, struct dt_view x,
                                   struct dt_view w, struct dt_view targets,
                                   struct dt_view scratch, float scale,
                                   size_t N, size_t C, size_t V,
                                   bool accumulate)
{
    double start = dt_clock_now();
    double loss = inner->linear_cross_entropy(
        stream, dx, dw, x, w, targets, scratch, scale, N, C, V, accumulate);

    note("head and loss, both ways", start, 6.0 * (double)(N * C * V), 0.0);
    return loss;
}

static double sum_of_squares(struct dt_stream *stream, struct dt_view x)
{
    double start = dt_clock_now(), sum = inner->sum_of_squares(stream, x);

    note("sum of squares", start, 0.0, 4.0 * (double)x.count);
    return sum;
}

static void adamw(struct dt_stream *stream, struct dt_view p, struct dt_view g,
                  struct dt_view m, struct dt_view v,
                  const struct dt_adamw *args)
{
    double start = dt_clock_now();

    inner->adamw(stream, p, g, m, v, args);
    note("adamw", start, 0.0, 28.0 * (double)p.count);
}

static const struct dt_ops TIMED = {
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .linear_forward = linear_forward,
    .linear_backward = linear_backward,
    .layernorm_forward = layernorm_forward,
    .residual_layernorm_forward = residual_layernorm_forward,
    .layernorm_backward = layernorm_backward,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .linear_cross_entropy = linear_cross_entropy,
    .sum_of_squares = sum_of_squares,
    .adamw = adamw,
};

static void must(const void *made, const struct dt_error *err)
{
    if (made)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(err->status);
}

static struct dt_view flat(const struct dt_layout *layout, const char *what)
{
    struct dt_error err;
    struct dt_buffer *buf =
        dt_buffer_create(layout->count * sizeof(float), what, &err);

    must(buf, &err);
    return dt_view_of(buf, DT_F32);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *s, int count)
{
    qsort(s, (size_t)count, sizeof(*s), compare);
    return s[count / 2];
}

static void print(double *step_s, int steps, size_t N)
{
    double all = median(step_s + 1, steps - 1);

    printf("%s, %s, %d threads: %.1f ms a step, %.1f tokens/s\n", inner->name,
           inner->library(), omp_get_max_threads(), all * 1e3, (double)N / all);
    for (size_t i = 0; i < kind_count; i++) {
        struct kind *k = &kinds[i];
        double s = median(k->s + 1, steps - 1);
        printf("%-30s %8.2f ms %5.1f %%", k->name, s * 1e3, 100.0 * s / all);
        if (k->flops > 0.0)
            printf(" %7.1f GFLOP/s\n", k->flops / s * 1e-9);
        else
            printf(" %7.1f GB/s\n", k->bytes / s * 1e-9);
    }
}

struct run {
    struct dt_layout *layout;
    struct dt_view weights, grads;
    struct dt_model *model;
    struct dt_optim *optim;
};

static void run_init(struct run *run, const struct dt_ops *table, size_t B,
                     size_t T)
{
    const struct dt_optim_options options = {0.9, 0.95, 1e-8, 0.1, DT_DECAY_HF};
    struct dt_error err;

    run->layout = dt_model_layout(&GPT2, 1, &err);
    must(run->layout, &err);
    run->weights = flat(run->layout, "weights");
    run->grads = flat(run->layout, "gradients");
    dt_model_init_weights(&GPT2, run->layout, run->weights, 1);
    run->model = dt_model_create(&GPT2, run->layout, table, run->weights,
                                 run->grads, B, T, &err);
    must(run->model, &err);
    run->optim = dt_optim_create(run->layout, table, &options, &err);
    must(run->optim, &err);
}

/* Seconds of one step. */
static double run_step(struct run *run, const struct dt_batch *batch)
{
    double start = dt_clock_now(), norm;
    size_t last = run->layout->unit_count - 1;

    for (size_t u = 0; u < last; u++)
        dt_model_forward(run->model, u, batch);
    dt_model_loss(run->model, batch, true, 1.0f / (float)batch->target_count,
                  false);
    for (size_t u = last; u-- > 0;)
        dt_model_backward(run->model, u, batch, false);
    norm = dt_optim_grad_norm(run->optim, run->grads, 1.0);
    dt_optim_step(run->optim, run->weights, run->grads, 1e-5,
                  dt_optim_clip(norm, 1.0));
    return dt_clock_now() - start;
}

int main(int argc, char **argv)
{
    size_t B = argc > 1 ? strtoul(argv[1], NULL, 10) : 4;
    size_t T = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
    int steps = argc > 3 ? atoi(argv[3]) : 9;
    struct dt_ops timed = TIMED;
    struct run run;
    int32_t *ids = calloc(B * T + 1, sizeof(*ids));
    struct dt_batch batch = {.B = B,
                             .T = T,
                             .inputs = ids,
                             .targets = ids,
                             .target_count = B * T};
    double step_s[MAX_STEPS];

    inner = dt_cpu_variant(argc > 4 ? strtoul(argv[4], NULL, 10) : 0);
    if (!ids || !inner || steps < 2 || steps > MAX_STEPS || B == 0 || T == 0 ||
        T > GPT2.n_positions) {
        fprintf(stderr, "Usage: ops [B [T [STEPS [VARIANT]]]]\n");
        return EX_USAGE;
    }
    timed.name = inner->name;
    timed.library = inner->library;
    timed.residual_forward = inner->residual_forward;
    timed.zero = inner->zero;
    for (size_t i = 0; i < B * T; i++)
        ids[i] = (int32_t)(i * 7919 % GPT2.vocab_size);
    run_init(&run, &timed, B, T);
    for (step = 0; step < steps; step++)
        step_s[step] = run_step(&run, &batch);
    print(step_s, steps, B * T);
    return 0;
}
