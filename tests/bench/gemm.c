/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm.c - the least time in which a training step could be done: that of its
 * matrix multiplications by themselves
 *
 * Usage: gemm [-c CONFIG.JSON] [-d cpu|cuda] [-s SIZE] [-p fp32|bf16]
 *             [B [T [ROUNDS]]]
 *
 * GPT-2 124M unless another model is named, by default 4 64 5. Each product is
 * computed as disttrain does and, on the CPU, by oneDNN in fp32 and in bf16;
 * the best of all rounds and ways counts, whatever the layers have to do beside
 * it. With -s first the rates of one product of square matrices with SIZE rows,
 * in bf16, and of copies: the ceiling of the hardware. With -p a line of JSON
 * for summary.py in place of the table: the least time of each round in fp32,
 * or in bf16, so that rounds can be taken by turns with the steps that they
 * limit.
 */
#include "config.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "model/model.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/matmul.h"
#include "tests/bench/roof.h"
#include "tests/families.h"

static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024,"
    " \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12}";

/* A linear layer, `count` times in a step. */
struct layer {
    size_t C, OC, count;
    enum dt_weight_order order;
};

enum { LAYERS = 5 };

/* Buffers that are large enough for each layer: N rows of input, its gradient
 * and output; weight and gradient.
 */
struct memory {
    struct dt_view in, back, out, weight, grad;
};

static void must(bool done, const struct dt_error *err)
{
    if (done)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(err->status);
}

static void layers_of(const struct dt_model_config *c,
                      struct layer layers[LAYERS])
{
    const bool gated = c->family != &dt_family_gpt2;
    const enum dt_weight_order order =
        !gated ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
    const size_t C = c->n_embd, L = c->n_layer, Q = c->n_head * c->head_size;
    const size_t KV = 2 * c->n_kv_head * c->head_size;
    const size_t up = gated ? 2 * c->n_inner : c->n_inner;

    layers[0] = (struct layer){C, Q + KV, L, order};
    layers[1] = (struct layer){Q, C, L, order};
    layers[2] = (struct layer){C, up, L, order};
    layers[3] = (struct layer){c->n_inner, C, L, order};
    layers[4] = (struct layer){C, c->vocab_size, 1, DT_WEIGHT_OUT_IN};
}

static struct dt_view buffer(const struct dt_exec *exec, size_t count)
{
    return dt_view_of(roof_buffer(exec, count * sizeof(float)), DT_F32);
}

/* The first `count` elements of `type` in the memory of v */
static struct dt_view as(struct dt_view v, enum dt_dtype type, size_t count)
{
    v.dtype = type;
    v.count = count;
    return v;
}

/* Seconds of forward, both backward products, as disttrain does it; on a GPU
 * several are queued, so that the wait for it is not what is measured.
 */
static double by_disttrain(const struct dt_exec *exec, const struct memory *m,
                           const struct layer *l, size_t N, enum dt_dtype type)
{
    const struct dt_view x = as(m->in, type, N * l->C);
    const struct dt_view y = as(m->out, type, N * l->OC);
    const struct dt_view dx = as(m->back, type, N * l->C);
    const struct dt_view w = as(m->weight, type, l->C * l->OC), none = {0};
    const struct dt_view dw = as(m->grad, DT_F32, l->C * l->OC);
    const int times = exec->device->is_host ? 1 : 4;
    double start = dt_clock_now();
    struct dt_error err;

    for (int i = 0; i < times; i++) {
        exec->ops->linear_forward(exec->stream, y, x, w, none, l->order, N,
                                  l->C, l->OC);
        exec->ops->linear_backward(exec->stream, dx, dw, none, y, x, w,
                                   l->order, N, l->C, l->OC, false);
    }
    must(exec->device->stream_wait(exec->stream, &err) == 0, &err);
    return (dt_clock_now() - start) / times;
}

#ifdef HAVE_ONEDNN

static bool multiply(struct dt_view c, struct dt_view a, size_t a_stride,
                     bool a_turned, struct dt_view b, size_t b_stride,
                     bool b_turned, enum dt_dtype type, size_t M, size_t N,
                     size_t K)
{
    const struct dt_cpu_matmul p = {
        .M = M,
        .N = N,
        .K = K,
        .a = {dt_view_data(a), a_stride, a_turned},
        .b = {dt_view_data(b), b_stride, b_turned},
        .type = type,
        .c_type = c.dtype,
        .c = dt_view_data(c),
    };

    return dt_onednn_matmul(&p);
}

/* The same by oneDNN; infinite if it cannot */
static double by_onednn(const struct dt_exec *exec, const struct memory *m,
                        const struct layer *l, size_t N, enum dt_dtype type)
{
    const bool turned = l->order == DT_WEIGHT_OUT_IN;
    const size_t C = l->C, OC = l->OC, stride = turned ? C : OC;
    const struct dt_view y = as(m->out, type, N * OC);
    const struct dt_view dx = as(m->back, type, N * C);
    const double start = dt_clock_now();
    bool ok = exec->device->is_host;

    ok = ok &&
         multiply(y, m->in, C, false, m->weight, stride, turned, type, N, OC,
                  C) &&
         multiply(dx, m->out, OC, false, m->weight, stride, !turned, type, N, C,
                  OC);
    if (turned)
        ok = ok && multiply(m->grad, m->out, OC, true, m->in, C, false, type,
                            OC, C, N);
    else
        ok = ok && multiply(m->grad, m->in, C, true, m->out, OC, false, type, C,
                            OC, N);
    return ok ? dt_clock_now() - start : INFINITY;
}

#else

static double by_onednn(const struct dt_exec *exec, const struct memory *m,
                        const struct layer *l, size_t N, enum dt_dtype type)
{
    (void)exec;
    (void)m;
    (void)l;
    (void)N;
    (void)type;
    return INFINITY;
}

#endif

enum { FP32, FP32_ONEDNN, BF16, BF16_ONEDNN, WAYS };

/* Seconds of each way, once */
static void measure(const struct dt_exec *exec, const struct memory *m,
                    const struct layer *l, size_t N, double s[WAYS])
{
    s[FP32] = by_disttrain(exec, m, l, N, DT_F32);
    s[FP32_ONEDNN] = by_onednn(exec, m, l, N, DT_F32);
    s[BF16] = by_disttrain(exec, m, l, N, DT_BF16);
    s[BF16_ONEDNN] = by_onednn(exec, m, l, N, DT_BF16);
}

/* What the layer takes in a step; what is stored as bf16 may be computed in
 * fp32.
 */
static double least(const struct layer *l, const double s[WAYS], bool bf16)
{
    double all = fmin(s[FP32], s[FP32_ONEDNN]);

    if (bf16)
        all = fmin(all, fmin(s[BF16], s[BF16_ONEDNN]));
    return (double)l->count * all;
}

/* The rates of each layer, and the limit of a step */
static void print_best(const struct layer layers[LAYERS], size_t N,
                       double best[LAYERS][WAYS])
{
    double limit[2] = {0.0, 0.0};

    printf("by                         disttrain  oneDNN disttrain oneDNN\n");
    printf("of                            fp32    fp32    bf16    bf16\n");
    for (size_t i = 0; i < LAYERS; i++) {
        const struct layer *l = &layers[i];
        const double flops = 6.0 * (double)(N * l->C * l->OC);

        printf(
            "%6zu to %6zu: GFLOP/s %7.1f %7.1f %7.1f %7.1f\n", l->C, l->OC,
            flops / best[i][FP32] * 1e-9, flops / best[i][FP32_ONEDNN] * 1e-9,
            flops / best[i][BF16] * 1e-9, flops / best[i][BF16_ONEDNN] * 1e-9);
        for (int bf16 = 0; bf16 < 2; bf16++)
            limit[bf16] += least(l, best[i], bf16);
    }
    for (int bf16 = 0; bf16 < 2; bf16++)
        printf("%s: %.3f s a step, at most %.0f tokens/s\n",
               bf16 ? "bf16" : "fp32", limit[bf16], (double)N / limit[bf16]);
}

/* Buffers for all layers */
static struct memory memory_of(const struct dt_exec *exec,
                               const struct layer layers[LAYERS], size_t N)
{
    size_t in = 0, out = 0, weight = 0;

    for (size_t i = 0; i < LAYERS; i++) {
        size_t C = layers[i].C, OC = layers[i].OC;
        in = C > in ? C : in;
        out = OC > out ? OC : out;
        weight = C * OC > weight ? C * OC : weight;
    }
    return (struct memory){buffer(exec, N * in), buffer(exec, N * in),
                           buffer(exec, N * out), buffer(exec, weight),
                           buffer(exec, weight)};
}

/* The table of the best of all rounds. */
static void run(const struct dt_exec *exec,
                const struct dt_model_config *config, size_t N, int rounds)
{
    double best[LAYERS][WAYS], s[WAYS];
    struct layer layers[LAYERS];
    struct memory m;

    layers_of(config, layers);
    m = memory_of(exec, layers, N);
    printf("%s, %s, %d threads, %zu tokens\n", exec->ops->name,
           exec->ops->library(), omp_get_max_threads(), N);
    for (size_t i = 0; i < LAYERS; i++) {
        for (int way = 0; way < WAYS; way++)
            best[i][way] = INFINITY;
        for (int round = 0; round < rounds; round++) {
            measure(exec, &m, &layers[i], N, s);
            for (int way = 0; way < WAYS; way++)
                best[i][way] = fmin(best[i][way], s[way]);
        }
    }
    print_best(layers, N, best);
}

/* A line of JSON as those of the peers: seconds of each round, after one that
 * does not count.
 */
static void run_as_peer(const struct dt_exec *exec,
                        const struct dt_model_config *config, size_t N,
                        int rounds, bool bf16)
{
    struct layer layers[LAYERS];
    struct memory m;
    double s[WAYS];

    layers_of(config, layers);
    m = memory_of(exec, layers, N);
    printf("{\"name\": \"the limit, by gemm\", \"tokens\": %zu, \"seconds\": [",
           N);
    for (int round = 0; round <= rounds; round++) {
        double step = 0.0;
        for (size_t i = 0; i < LAYERS; i++) {
            measure(exec, &m, &layers[i], N, s);
            step += least(&layers[i], s, bf16);
        }
        if (round > 0)
            printf("%s%.6f", round > 1 ? ", " : "", step);
    }
    printf("]}\n");
}

static void ceiling(const struct dt_exec *exec, size_t size)
{
    printf("%s\n", exec->device->describe());
    printf("ceiling: %.4g TFLOP/s, bf16, squares of %zu\n",
           roof_product(exec, DT_BF16, size) * 1e-12, size);
    printf("copies: %.0f GB/s\n",
           roof_copy(exec, size * size * sizeof(float)) * 1e-9);
}

static struct dt_exec open_device(const char *name)
{
    const struct dt_backend_options options = {0};
    struct dt_error err;
    const struct dt_backend *backend =
        dt_backend_open(name, &options, NULL, 0, &err);
    struct dt_exec exec;

    must(backend, &err);
    exec = (struct dt_exec){backend->device, backend->ops, NULL};
    must(exec.device->stream_create(&exec.stream, &err) == 0, &err);
    return exec;
}

int main(int argc, char **argv)
{
    struct dt_model_config config;
    struct dt_error err;
    struct dt_exec exec;
    const char *device = "cpu", *peer = NULL;
    size_t B, T, size = 0;
    int c, rounds;

    must(dt_model_config_parse(&config, gpt2, "GPT-2", &err) == 0, &err);
    while ((c = getopt(argc, argv, "c:d:p:s:")) != -1) {
        if (c == 'c') {
            dt_model_config_fini(&config);
            must(dt_model_config_load(&config, optarg, &err) == 0, &err);
        } else if (c == 'd') {
            device = optarg;
        } else if (c == 'p' && (strcmp(optarg, "fp32") == 0 ||
                                strcmp(optarg, "bf16") == 0)) {
            peer = optarg;
        } else if (c == 's') {
            size = strtoul(optarg, NULL, 10);
        } else {
            fprintf(stderr, "Usage: gemm [-c CONFIG.JSON] [-d cpu|cuda] "
                            "[-s SIZE] [-p fp32|bf16] [B [T [ROUNDS]]]\n");
            return EX_USAGE;
        }
    }
    B = argc > optind ? strtoul(argv[optind], NULL, 10) : 4;
    T = argc > optind + 1 ? strtoul(argv[optind + 1], NULL, 10) : 64;
    rounds = argc > optind + 2 ? atoi(argv[optind + 2]) : 5;
    exec = open_device(device);
    if (size > 0)
        ceiling(&exec, size);
    if (peer)
        run_as_peer(&exec, &config, B * T, rounds, strcmp(peer, "bf16") == 0);
    else
        run(&exec, &config, B * T, rounds);
    dt_model_config_fini(&config);
    return 0;
}
