/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.c - tokens per second of a rollout
 *
 * GPT-2 124M with random weights completes prompts of 16 tokens, each once.
 * Usage: decode fp32|bf16 SLOTS SEQUENCES TOKENS STOPS [ops]
 * The first STOPS ids end a completion: none for equal lengths. For one slot it
 * says, too, what part that is of the rate at which the weights can be read.
 * With `ops`, what each operation of a step takes, too. The memory is in use
 * before, as that of a trainer is.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rollout/rollout.h"
#include "tests/bench/roof.h"
#include "tests/bench/timed.h"
#include "tests/unit/random_weights.h"

enum { PROMPT = 16 };

struct bench {
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

static void fail(const struct dt_error *err)
{
    fprintf(stderr, "decode: %s\n", err->text);
    exit(1);
}

static void begin(struct bench *b, enum dt_dtype type)
{
    static const char json[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": "
        "1024, \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12}";
    struct dt_error err;
    b->exec = dt_exec_cpu();
    if (dt_model_config_parse(&b->config, json, "GPT-2", &err) < 0 ||
        !(b->layout = dt_model_layout(&b->config, 1, &err)))
        fail(&err);
    struct dt_buffer *full = dt_buffer_create(
        b->exec.device, b->layout->count * sizeof(float), "weights", &err);
    struct dt_buffer *buf = dt_buffer_create(
        b->exec.device, b->layout->count * dt_dtype_bytes(type), "weights",
        &err);
    if (!full || !buf)
        fail(&err);
    random_weights(&b->config, b->layout, dt_view_of(full, DT_F32), 1);
    b->weights = dt_view_of(buf, type);
    b->exec.ops->convert(b->exec.stream, b->weights, dt_view_of(full, DT_F32));
    dt_buffer_destroy(full);
}

/* One run. Returns tokens per second. */
static double run(struct bench *b, const struct dt_rollout_options *options)
{
    const struct dt_rollout_io io = {
        .next = give,
        .done = take,
        .stop = b->exec.ops == &b->ops ? next_step : NULL,
        .ctx = b,
    };
    struct dt_error err;
    struct dt_buffer *memory = dt_buffer_create(
        b->exec.device, dt_rollout_bytes(&b->config, b->exec.ops, options),
        "a rollout", &err);
    struct dt_rollout *rollout =
        memory ? dt_rollout_create(&b->config, b->layout, &b->exec,
                                   dt_places_flat(b->weights), memory, options,
                                   &err)
               : NULL;
    if (memory)
        memset(memory->data, 0, memory->bytes);
    double start = dt_clock_now();
    if (!rollout || dt_rollout_run(rollout, &io, &err) < 0)
        fail(&err);
    double seconds = dt_clock_now() - start;
    dt_rollout_destroy(rollout);
    dt_buffer_destroy(memory);
    return (double)b->drawn / seconds;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: decode fp32|bf16 SLOTS SEQUENCES TOKENS STOPS "
                        "[ops]\n");
        return 64;
    }
    const enum dt_dtype type = strcmp(argv[1], "bf16") ? DT_F32 : DT_BF16;
    const size_t stops = strtoul(argv[5], NULL, 10);
    int32_t *ids = calloc(stops + 1, sizeof(*ids));
    for (size_t i = 0; i < stops; i++)
        ids[i] = (int32_t)i;
    b.sequences = strtoul(argv[3], NULL, 10);
    const struct dt_rollout_options options = {
        .compute = type,
        .slots = strtoul(argv[2], NULL, 10),
        .copies = 1,
        .max_prompt = PROMPT,
        .max_tokens = strtoul(argv[4], NULL, 10),
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
        .seed = 1,
        .stop = ids,
        .stop_count = stops,
    };
    begin(&b, type);
    if (argc == 7) {
        b.ops = timed_ops(&b.exec);
        b.exec.ops = &b.ops;
    }
    const double rate = run(&b, &options);
    printf("%.1f tokens/s of %zu", rate, b.drawn);
    if (options.slots == 1) {
        double bytes = (double)(b.weights.count * dt_dtype_bytes(type));
        double reads = roof_read(dt_view_data(b.weights), (size_t)bytes);
        printf(", %.0f %% of %.1f GB/s", 100 * rate * bytes / reads,
               reads * 1e-9);
    }
    printf("\n");
    if (steps.count > 1)
        timed_print(timed_median(steps.s + 1, steps.count - 1), NULL);
    free(ids);
    return 0;
}
