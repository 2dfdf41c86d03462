/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.c - tokens per second of a rollout
 *
 * Usage: decode [-c CONFIG.JSON] [-d cpu|cuda] [-o] [-p TOP_P]
 *               fp32|bf16 SLOTS SEQUENCES TOKENS STOPS
 *
 * GPT-2 124M unless another model is named, with random weights, completes
 * prompts of 16 tokens, each once. The first STOPS ids end a completion: none
 * for equal lengths. For one slot on the CPU it says, too, what part that is of
 * the rate at which the weights can be read. With -o, what each operation of a
 * step takes, too. The memory is in use before, as that of a trainer is; on a
 * GPU as many sequences as slots come first, unmeasured: they choose kernels
 * and record graphs.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "rollout/rollout.h"
#include "tests/bench/machine.h"
#include "tests/bench/roof.h"
#include "tests/bench/timed.h"

enum { PROMPT = 16 };

static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024,"
    " \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12}";

struct bench {
    const char *device; /* "cpu", "cuda" */
    bool each;          /* operation is measured */
    struct dt_rollout_options options;
    struct dt_exec exec;
    struct dt_model_config config;
    struct dt_layout *layout;
    struct dt_view weights;
    size_t sequences, given, drawn;
    struct dt_ops ops; /* measured ones */
};

/* What steps took, measured ones. */
static struct {
    double s[TIMED_MAX_STEPS], began;
    int count;
} steps;

static int give(void *ctx, struct dt_prompt *prompt, struct dt_error *err)
{
    static int32_t ids[PROMPT];
    struct bench *b = ctx;
    (void)err;
    if (b->given == b->sequences)
        return 0;
    for (size_t t = 0; t < PROMPT; t++)
        ids[t] = (int32_t)((b->given * 131 + t * 17) % b->config.vocab_size);
    *prompt =
        (struct dt_prompt){.number = b->given++, .ids = ids, .count = PROMPT};
    return 1;
}

static int take(void *ctx, const struct dt_completion *completion,
                struct dt_error *err)
{
    struct bench *b = ctx;
    (void)err;
    b->drawn += completion->count;
    return 0;
}

/* Called before each step: ends the one before. */
static bool next_step(void)
{
    const double now = dt_clock_now();

    if (steps.began > 0) {
        steps.s[steps.count++] = now - steps.began;
        timed_next();
    }
    steps.began = dt_clock_now();
    return steps.count + 1 == TIMED_MAX_STEPS;
}

/* The device, and the weights in the type of the rollout. */
static void begin(struct bench *b)
{
    const enum dt_dtype type = b->options.compute;
    struct dt_error err;

    b->exec = machine_open(b->device);
    b->layout = dt_model_layout(&b->config, 1, &err);
    machine_must(b->layout, &err);
    b->weights = machine_weights(&b->exec, &b->config, b->layout);
    if (type != DT_F32) {
        struct dt_buffer *full = b->weights.buf;
        b->weights =
            machine_memory(&b->exec, b->layout->count, type, "weights");
        b->exec.ops->convert(b->exec.stream, b->weights,
                             dt_view_of(full, DT_F32));
        machine_must(b->exec.device->stream_wait(b->exec.stream, &err) == 0,
                     &err);
        dt_buffer_destroy(full);
    }
    if (b->each) {
        b->ops = timed_ops(&b->exec);
        b->exec.ops = &b->ops;
    }
}

/* Completes `count` sequences. */
static void complete(struct bench *b, struct dt_rollout *rollout, size_t count)
{
    const struct dt_rollout_io io = {
        .next = give,
        .done = take,
        .stop = b->each ? next_step : NULL,
        .ctx = b,
    };
    struct dt_error err;

    b->sequences = count;
    b->given = b->drawn = 0;
    steps.count = 0;
    steps.began = 0;
    machine_must(dt_rollout_run(rollout, &io, &err) >= 0, &err);
}

/* One run of `count` sequences. Returns tokens per second. */
static double run(struct bench *b, size_t count)
{
    struct dt_error err;
    struct dt_buffer *memory = dt_buffer_create(
        b->exec.device, dt_rollout_bytes(&b->config, b->exec.ops, &b->options),
        "a rollout", &err);
    machine_must(memory, &err);
    struct dt_rollout *rollout = dt_rollout_create(
        &b->config, b->layout, &b->exec, dt_places_flat(b->weights), memory,
        &b->options, &err);
    machine_must(rollout, &err);
    if (b->exec.device->is_host)
        memset(memory->data, 0, memory->bytes);
    else
        complete(b, rollout, b->options.slots);
    const double start = dt_clock_now();
    complete(b, rollout, count);
    const double seconds = dt_clock_now() - start;
    dt_rollout_destroy(rollout);
    dt_buffer_destroy(memory);
    return (double)b->drawn / seconds;
}

/* The arguments before the numbers. False if one is wrong. */
static bool parse(struct bench *b, int argc, char **argv)
{
    struct dt_error err;
    int c;

    machine_must(dt_model_config_parse(&b->config, gpt2, "GPT-2", &err) == 0,
                 &err);
    while ((c = getopt(argc, argv, "c:d:op:")) != -1) {
        if (c == 'c')
            machine_must(dt_model_config_load(&b->config, optarg, &err) == 0,
                         &err);
        else if (c == 'd')
            b->device = optarg;
        else if (c == 'o')
            b->each = true;
        else if (c == 'p')
            b->options.sampling.top_p = strtof(optarg, NULL);
        else
            return false;
    }
    return argc - optind == 5 &&
           machine_type(argv[optind], &b->options.compute);
}

/* Ids that end a completion. */
static int32_t *first_ids(size_t count)
{
    int32_t *ids = calloc(count + 1, sizeof(*ids));

    for (size_t i = 0; ids && i < count; i++)
        ids[i] = (int32_t)i;
    return ids;
}

static void print_share(const struct bench *b, double rate)
{
    const double bytes =
        (double)(b->weights.count * dt_dtype_bytes(b->weights.dtype));
    const double reads = roof_read(dt_view_data(b->weights), (size_t)bytes);

    printf(", %.0f %% of %.1f GB/s", 100 * rate * bytes / reads, reads * 1e-9);
}

int main(int argc, char **argv)
{
    struct bench b = {
        .device = "cpu",
        .options = {.copies = 1,
                    .max_prompt = PROMPT,
                    .sampling = {.temperature = 1,
                                 .top_p = 1,
                                 .repetition_penalty = 1},
                    .seed = 1},
    };

    if (!parse(&b, argc, argv)) {
        fprintf(stderr,
                "usage: decode [-c CONFIG.JSON] [-d cpu|cuda] [-o] [-p TOP_P] "
                "fp32|bf16 SLOTS SEQUENCES TOKENS STOPS\n");
        return EX_USAGE;
    }
    argv += optind;
    b.options.slots = strtoul(argv[1], NULL, 10);
    b.options.max_tokens = strtoul(argv[3], NULL, 10);
    b.options.stop_count = strtoul(argv[4], NULL, 10);
    int32_t *stop = first_ids(b.options.stop_count);
    b.options.stop = stop;
    begin(&b);
    const double rate = run(&b, strtoul(argv[2], NULL, 10));
    printf("%.1f tokens/s of %zu", rate, b.drawn);
    if (b.options.slots == 1 && b.exec.device->is_host)
        print_share(&b, rate);
    printf("\n");
    if (steps.count > 1)
        timed_print(timed_median(steps.s + 1, steps.count - 1), NULL);
    free(stop);
    return 0;
}
