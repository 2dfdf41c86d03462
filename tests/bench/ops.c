/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.c - where the time and the memory of a training step go
 *
 * Usage: ops [-c CONFIG.JSON] [-t fp32|bf16|fp16] [-k] [-K] [-d cpu|cuda]
 *            [-v VARIANT] [-r SIZE] [B [T [STEPS]]]
 *
 * GPT-2 124M with fp32 unless another model is named, by default 4 64 9; -k
 * recomputes blocks, -K saves all activations. Prints medians over the steps
 * after the first. With -r also the fraction of the roofline of each, which is
 * measured first, by multiplying square matrices with SIZE rows and by copying
 * such.
 */
#include "config.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/model.h"
#include "ops/cpu/cpu.h"
#include "optim/optim.h"
#include "tests/bench/machine.h"
#include "tests/bench/roof.h"
#include "tests/bench/timed.h"

static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024,"
    " \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12}";

struct run {
    struct dt_model_config config;
    struct dt_model_options options;
    const char *device; /* "cpu", "cuda" */
    struct dt_ops ops;
    struct dt_exec exec; /* with these ops */
    struct dt_layout *layout;
    struct dt_view master, weights, grads; /* master is weights in fp32 */
    struct dt_view m, v;
    struct dt_view scalars;
    struct dt_model *model;
    struct dt_optim *optim;
    size_t steps, variant, roof_size; /* 0: no roof */
    struct roof roof;
};

static struct dt_view flat(const struct run *run, enum dt_dtype dtype,
                           const char *what)
{
    return machine_memory(&run->exec, run->layout->count, dtype, what);
}

static void init(struct run *run)
{
    const struct dt_optim_options options = {
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    struct dt_error err;

    run->layout = dt_model_layout(&run->config, 1, &err);
    machine_must(run->layout, &err);
    run->master = run->weights =
        machine_weights(&run->exec, &run->config, run->layout);
    run->grads = flat(run, DT_F32, "gradients");
    run->m = flat(run, DT_F32, "m");
    run->v = flat(run, DT_F32, "v");
    run->scalars = machine_memory(&run->exec, DT_STEP_COUNT, DT_F64, "scalars");
    if (run->options.compute != DT_F32) {
        run->weights = flat(run, run->options.compute, "weights");
        run->ops.convert(run->exec.stream, run->weights, run->master);
    }
    run->model = dt_model_create(
        &run->config, run->layout, &run->exec, dt_places_flat(run->weights),
        dt_places_flat(run->grads), &run->options, &err);
    machine_must(run->model, &err);
    run->optim = dt_optim_create(run->layout, &run->exec, &options, &err);
    machine_must(run->optim, &err);
}

/* Seconds of one step. */
static double run_step(struct run *run, const struct dt_batch *batch)
{
    double start = dt_clock_now();
    size_t last = run->layout->unit_count - 1;
    struct dt_step_params params[DT_STEP_OUTCOMES];
    struct dt_error err;

    for (int i = 0; i < DT_STEP_OUTCOMES; i++) {
        params[i] = dt_optim_step_params(run->optim, 1, 1e-5);
        params[i].loss_scale = 1.0;
    }
    run->ops.step_begin(run->exec.stream, run->scalars, params);
    run->ops.step_add(run->exec.stream, run->scalars,
                      (double)batch->target_count, 0);
    machine_must(dt_model_bind(run->model, batch, true, &err) == 0, &err);
    for (size_t u = 0; u < last; u++)
        dt_model_forward(run->model, u);
    dt_model_loss_and_backward(run->model, run->scalars, false);
    for (size_t u = last; u-- > 0;)
        dt_model_backward(run->model, u, false);
    run->ops.sum_of_squares(run->exec.stream, run->scalars, run->grads);
    run->ops.clip_and_check(run->exec.stream, run->scalars, 1.0);
    dt_optim_update(run->optim, false, run->scalars, 0, run->master,
                    run->options.compute == DT_F32 ? (struct dt_view){0}
                                                   : run->weights,
                    run->grads, run->m, run->v, NULL);
    machine_must(run->exec.device->stream_wait(run->exec.stream, &err) == 0,
                 &err);
    return dt_clock_now() - start;
}

/* False if the arguments are wrong. */
static bool parse(struct run *run, int argc, char **argv)
{
    struct dt_error err;
    bool ok = true;
    int c;

    machine_must(dt_model_config_parse(&run->config, gpt2, "GPT-2", &err) == 0,
                 &err);
    while ((c = getopt(argc, argv, "c:d:t:kKr:v:")) != -1) {
        if (c == 'c')
            machine_must(dt_model_config_load(&run->config, optarg, &err) == 0,
                         &err);
        else if (c == 'd')
            run->device = optarg;
        else if (c == 'K')
            run->options.save_activations = true;
        else if (c == 't')
            ok &= machine_type(optarg, &run->options.compute);
        else if (c == 'k')
            run->options.recompute = true;
        else if (c == 'r')
            run->roof_size = strtoul(optarg, NULL, 10);
        else if (c == 'v')
            run->variant = strtoul(optarg, NULL, 10);
        else
            ok = false;
    }
    argv += optind;
    argc -= optind;
    run->options.B = argc > 0 ? strtoul(argv[0], NULL, 10) : 4;
    run->options.T = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
    run->steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 9;
    return ok && run->steps >= 2 && run->steps <= TIMED_MAX_STEPS &&
           run->options.B > 0 && run->options.T > 0 &&
           run->options.T <= run->config.n_positions;
}

static void measure(struct run *run)
{
    size_t N = run->options.B * run->options.T;
    int32_t *ids = calloc(N, sizeof(*ids));
    struct dt_batch batch = {.B = run->options.B,
                             .T = run->options.T,
                             .inputs = ids,
                             .targets = ids,
                             .target_count = N};
    double s[TIMED_MAX_STEPS], all;

    for (size_t i = 0; ids && i < N; i++)
        ids[i] = (int32_t)(i * 7919 % run->config.vocab_size);
    for (size_t i = 0; i < run->steps; i++) {
        s[i] = run_step(run, &batch);
        timed_next();
    }
    all = timed_median(s + 1, (int)run->steps - 1);
    printf("%s, %s, %d threads: %.1f ms a step, %.1f tokens/s\n", run->ops.name,
           run->ops.library(), omp_get_max_threads(), all * 1e3,
           (double)N / all);
    printf("%zu parameters, activations %.0f MB, peak %.0f MB\n",
           run->layout->param_total,
           (double)dt_model_activation_bytes(&run->config, &run->ops,
                                             &run->options) *
               1e-6,
           (double)run->exec.device->peak_bytes() * 1e-6);
    timed_print(all, run->roof_size > 0 ? &run->roof : NULL);
    free(ids);
}

static void measure_roof(struct run *run)
{
    const size_t size = run->roof_size;

    run->roof.flops = roof_product(&run->exec, run->options.compute, size);
    run->roof.bytes = roof_copy(&run->exec, size * size * sizeof(float));
    printf("roof: %.4g TFLOP/s, %.0f GB/s\n", run->roof.flops * 1e-12,
           run->roof.bytes * 1e-9);
}

/* The hardware, and its operations measured. */
static void open_device(struct run *run)
{
    run->exec = machine_open(run->device);
    if (run->exec.device->is_host && dt_cpu_variant(run->variant))
        run->exec.ops = dt_cpu_variant(run->variant);
    if (run->roof_size > 0)
        measure_roof(run);
    run->ops = timed_ops(&run->exec);
    run->exec.ops = &run->ops;
    printf("%s\n", run->exec.device->describe());
}

int main(int argc, char **argv)
{
    struct run run = {.device = "cpu", .options = {.train = true}};

    if (!parse(&run, argc, argv)) {
        fprintf(stderr, "Usage: ops [-c CONFIG.JSON] [-t fp32|bf16|fp16] [-k] "
                        "[-K] [-d cpu|cuda] [-v VARIANT] [-r SIZE] "
                        "[B [T [STEPS]]]\n");
        return EX_USAGE;
    }
    open_device(&run);
    init(&run);
    measure(&run);
    return 0;
}
