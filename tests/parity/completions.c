/* SPDX-License-Identifier: Apache-2.0 */
/* completions.c - rollouts of a subject */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/parity/completions.h"

static const size_t lengths[PROMPTS] = {1, 40, 2, 31, 32, 33, 65, 64, LONGEST};

struct source {
    const struct task *task;
    size_t given, V;
    int32_t ids[LONGEST];
    struct completions *out;
};

/* A token of a prompt. */
static int32_t token_of(size_t prompt, size_t t, size_t V)
{
    return (int32_t)((prompt * 31 + t * t * 7 + t) % V);
}

static int give(void *ctx, struct dt_prompt *prompt, struct dt_error *err)
{
    struct source *source = ctx;
    const struct task *task = source->task;
    size_t all = (PROMPTS - task->first + task->step - 1) / task->step;
    size_t turn = task->reverse ? all - 1 - source->given : source->given;
    size_t n = task->first + turn * task->step;
    (void)err;
    if (source->given++ == all)
        return 0;
    for (size_t t = 0; t < lengths[n]; t++)
        source->ids[t] = token_of(n, t, source->V);
    *prompt = (struct dt_prompt){
        .number = n, .ids = source->ids, .count = lengths[n]};
    return 1;
}

static int take(void *ctx, const struct dt_completion *completion,
                struct dt_error *err)
{
    struct source *source = ctx;
    size_t n = completion->prompt, count = completion->count;
    struct completed *to = &source->out->of[n][completion->copy];
    (void)err;
    assert_true(n < PROMPTS && completion->copy < COPIES);
    assert_true(count >= 1 && count <= TOKENS);
    assert_int_equal(to->times++, 0);
    to->prompt = lengths[n];
    to->count = count;
    to->end = completion->end;
    for (size_t t = 0; t < to->prompt; t++)
        to->ids[t] = token_of(n, t, source->V);
    memcpy(to->ids + to->prompt, completion->ids, count * sizeof(*to->ids));
    memcpy(to->logps, completion->logps, count * sizeof(*to->logps));
    return 0;
}

struct dt_rollout_options completions_options(const struct subject *s,
                                              size_t slots)
{
    static const int32_t stop[] = {5, 9};
    return (struct dt_rollout_options){
        .compute = s->copy_buf ? s->copy.dtype : DT_F32,
        .slots = slots,
        .copies = COPIES,
        .max_prompt = LONGEST,
        .max_tokens = TOKENS,
        .sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
        .seed = 11,
        .stop = stop,
        .stop_count = 2,
    };
}

void completions_run(const struct subject *s, const struct task *task,
                     struct completions *out)
{
    struct source source = {
        .task = task, .V = s->config->vocab_size, .out = out};
    const struct dt_rollout_io io = {
        .next = give, .done = take, .ctx = &source};
    struct dt_error err = {0};
    struct dt_buffer *memory = dt_buffer_create(
        s->exec->device,
        dt_rollout_bytes(s->config, s->exec->ops, &task->options), "a rollout",
        &err);
    assert_non_null(memory);
    struct dt_rollout *rollout =
        dt_rollout_create(s->config, s->layout, s->exec,
                          dt_places_flat(s->copy_buf ? s->copy : s->master),
                          memory, &task->options, &err);
    if (!rollout || dt_rollout_run(rollout, &io, &err) != 0)
        fail_msg("%s", err.text);
    out->counts = dt_rollout_counts(rollout);
    dt_rollout_destroy(rollout);
    dt_buffer_destroy(memory);
}
