/* SPDX-License-Identifier: Apache-2.0 */
/* test_rollout.c - where completions end, and what is refused */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rollout/rollout_impl.h"
#include "rollout/rollout.h"
#include "tests/unit/random_weights.h"
#include "tests/families.h"

enum { MOST = 40 };

/* A model of bytes whose likeliest token is always 'x'. */
static struct {
    struct dt_exec exec;
    struct dt_model_config config;
    struct dt_layout *layout;
    struct dt_buffer *weights;
} model;

/* The completions of the last run. */
static struct {
    struct dt_prompt prompts[4];
    size_t given, prompt_count;
    size_t done, tokens, stop_after;
    struct {
        int32_t ids[MOST];
        size_t count;
        enum dt_end end;
    } of[4];
    struct dt_rollout_counts counts;
    struct dt_error err;
} last;

static int give(void *ctx, struct dt_prompt *prompt, struct dt_error *err)
{
    (void)ctx, (void)err;
    if (last.given == last.prompt_count)
        return 0;
    *prompt = last.prompts[last.given++];
    return 1;
}

static int take(void *ctx, const struct dt_completion *c, struct dt_error *err)
{
    (void)ctx, (void)err;
    memcpy(last.of[c->prompt].ids, c->ids, c->count * sizeof(*c->ids));
    last.of[c->prompt].count = c->count;
    last.of[c->prompt].end = c->end;
    last.done++;
    return 0;
}

static void hear(void *ctx, uint64_t prompt, uint32_t copy, int32_t id)
{
    (void)ctx, (void)prompt, (void)copy, (void)id;
    last.tokens++;
}

static bool stops(void)
{
    return last.stop_after > 0 && last.tokens >= last.stop_after;
}

static struct dt_rollout_options greedy(void)
{
    return (struct dt_rollout_options){
        .compute = DT_F32,
        .slots = 2,
        .copies = 1,
        .max_prompt = 4,
        .max_tokens = 10,
        .sampling = {.top_p = 1, .repetition_penalty = 1},
    };
}

/* Completes texts in memory of this size, or as much as it needs. */
static int run(const struct dt_rollout_options *options, size_t bytes,
               const char *const *texts)
{
    static int32_t ids[4][MOST];
    const struct dt_rollout_io io = {give, take, hear, stops, NULL};
    size_t count = 0, after = last.stop_after;
    int result = -1;
    memset(&last, 0, sizeof(last));
    last.stop_after = after;
    for (; texts[count]; count++) {
        size_t length = strlen(texts[count]);
        for (size_t t = 0; t < length; t++)
            ids[count][t] = texts[count][t];
        last.prompts[count] = (struct dt_prompt){
            .number = count, .ids = ids[count], .count = length};
    }
    last.prompt_count = count;
    if (bytes == 0)
        bytes = dt_rollout_bytes(&model.config, model.exec.ops, options);
    struct dt_buffer *memory =
        dt_buffer_create(model.exec.device, bytes, "m", &last.err);
    struct dt_rollout *rollout =
        dt_rollout_create(&model.config, model.layout, &model.exec,
                          dt_places_flat(dt_view_of(model.weights, DT_F32)),
                          memory, options, &last.err);
    if (rollout) {
        result = dt_rollout_run(rollout, &io, &last.err);
        last.counts = dt_rollout_counts(rollout);
    }
    dt_rollout_destroy(rollout);
    dt_buffer_destroy(memory);
    return result;
}

#define RUN(options, ...)                                                      \
    run(options, 0, (const char *const[]){__VA_ARGS__, NULL})

static void expect(size_t prompt, size_t count, enum dt_end end)
{
    assert_int_equal(last.of[prompt].count, count);
    assert_int_equal(last.of[prompt].end, end);
}

static void completions_end_with_their_length(void **state)
{
    struct dt_rollout_options options = greedy();
    (void)state;
    assert_int_equal(RUN(&options, "abc", "d", "ef"), 0);
    assert_int_equal(last.done, 3);
    assert_int_equal(last.tokens, 30);
    for (size_t i = 0; i < 3; i++) {
        expect(i, 10, DT_END_LENGTH);
        for (size_t t = 0; t < 10; t++)
            assert_int_equal(last.of[i].ids[t], 'x');
    }
    options.max_tokens = 1000; /* positions end before it: there are 40 */
    assert_int_equal(RUN(&options, "abc", "d"), 0);
    expect(0, 37, DT_END_LENGTH);
    expect(1, 39, DT_END_LENGTH);
}

static void a_stop_id_is_the_last_token(void **state)
{
    const int32_t ids[] = {'y', 'x'};
    struct dt_rollout_options options = greedy();
    (void)state;
    options.stop = ids;
    options.stop_count = 2;
    assert_int_equal(RUN(&options, "abc"), 0);
    expect(0, 1, DT_END_EOS);
    options.stop_count = 1;
    assert_int_equal(RUN(&options, "abc"), 0);
    expect(0, 10, DT_END_LENGTH);
}

static void a_stop_string_ends_with_its_last_token(void **state)
{
    const char *const strings[] = {"xyx", "xxxx", "xxxxxx"};
    struct dt_rollout_options options = greedy();
    struct dt_error err;
    struct dt_tokenizer *tokenizer = dt_tokenizer_load("byte", &err);
    (void)state;
    options.tokenizer = tokenizer;
    options.strings = strings;
    options.string_count = 3;
    assert_int_equal(RUN(&options, "a", "xxx", "b"), 0);
    expect(0, 4, DT_END_STRING);
    expect(1, 4, DT_END_STRING); /* the prompt does not count */
    expect(2, 4, DT_END_STRING); /* nor what its slot had before */
    options.string_count = 1;
    assert_int_equal(RUN(&options, "a"), 0);
    expect(0, 10, DT_END_LENGTH);
    dt_tokenizer_destroy(tokenizer);
}

static void a_penalty_is_for_what_was_there(void **state)
{
    struct dt_rollout_options options = greedy();
    (void)state;
    options.sampling.repetition_penalty = 1e6;
    options.max_tokens = 5;
    assert_int_equal(RUN(&options, "x"), 0);
    for (size_t t = 0; t < 5; t++) {
        assert_int_not_equal(last.of[0].ids[t], 'x');
        for (size_t i = 0; i < t; i++)
            assert_int_not_equal(last.of[0].ids[t], last.of[0].ids[i]);
    }
}

static void a_run_can_be_stopped_at_a_token(void **state)
{
    struct dt_rollout_options options = greedy();
    (void)state;
    last.stop_after = 3;
    assert_int_equal(RUN(&options, "abc", "d"), 1);
    assert_int_equal(last.tokens, 4); /* of two slots */
    assert_int_equal(last.done, 0);
    last.stop_after = 0;
}

static void a_prompt_has_at_least_one_token_and_at_most_as_many_as_said(
    void **state)
{
    struct dt_rollout_options options = greedy();
    (void)state;
    assert_int_equal(RUN(&options, "abc", ""), -1);
    assert_int_equal(last.err.status, EX_DATAERR);
    assert_string_equal(last.err.text,
                        "prompt 1 has 0 tokens, expected 1 to 4");
    assert_int_equal(RUN(&options, "abcde"), -1);
    assert_string_equal(last.err.text,
                        "prompt 0 has 5 tokens, expected 1 to 4");
    options.max_prompt = 40;
    assert_int_equal(RUN(&options, "abc"), -1);
    assert_int_equal(last.err.status, EX_DATAERR);
    assert_string_equal(last.err.text, "a prompt of 40 tokens leaves no room: "
                                       "the model has 40 positions");
}

static void memory_decides_how_many_blocks_there_are(void **state)
{
    const char *const texts[] = {"abc", "d", "ef", NULL};
    struct dt_rollout_options options = greedy();
    char text[128];
    (void)state;
    options.max_tokens = 36; /* two blocks, and one to copy the prompt's */
    options.blocks = 3;
    size_t bytes = dt_rollout_bytes(&model.config, model.exec.ops, &options);
    options.blocks = 0;
    assert_int_equal(run(&options, bytes, texts), 0);
    assert_int_equal(last.done, 3);
    assert_int_equal(run(&options, bytes - 1, texts), -1);
    assert_int_equal(last.err.status, EX_CONFIG);
    snprintf(text, sizeof(text),
             "2 slots of 40 tokens need %zu bytes, and there are %zu",
             dt_rollout_bytes(&model.config, model.exec.ops, &options),
             bytes - 1);
    assert_string_equal(last.err.text, text);
    options.blocks = 2;
    assert_int_equal(RUN(&options, "abc"), -1);
    assert_string_equal(last.err.text,
                        "2 blocks of 32 positions, but a sequence of 40 tokens "
                        "needs 3 of them");
}

/* Two prompts of a block each, whose completions need a second one: the second
 * sequence has to wait for the end of the first, or it would be dropped.
 */
static void no_sequence_starts_without_its_next_block(void **state)
{
    struct dt_rollout_options options = greedy();
    (void)state;
    options.max_tokens = 36;
    options.blocks = 3;
    assert_int_equal(RUN(&options, "ab", "cd"), 0);
    assert_int_equal(last.done, 2);
    assert_int_equal(last.counts.preempted, 0);
}

static void a_block_is_free_when_its_last_user_drops_it(void **state)
{
    struct dt_blocks blocks;
    (void)state;
    assert_int_equal(dt_blocks_init(&blocks, 2, NULL), 0);
    int32_t a = dt_blocks_take(&blocks), b = dt_blocks_take(&blocks);
    assert_true(a >= 0 && b >= 0 && a != b);
    assert_int_equal(dt_blocks_take(&blocks), -1);
    dt_blocks_share(&blocks, a);
    dt_blocks_drop(&blocks, a);
    assert_int_equal(dt_blocks_take(&blocks), -1);
    dt_blocks_drop(&blocks, a);
    assert_int_equal(dt_blocks_take(&blocks), a);
    dt_blocks_fini(&blocks);
}

static struct dt_view param(const char *name)
{
    return dt_layout_param(model.layout, dt_view_of(model.weights, DT_F32),
                           (size_t)dt_layout_find(model.layout, name));
}

/* The norm at the top gives its bias e0, and e0 asks for a row of wte. */
static int create_model(void **state)
{
    struct dt_error err;
    (void)state;
    model.exec = dt_exec_cpu();
    model.config = (struct dt_model_config){.family = &dt_family_gpt2,
                                            .vocab_size = DT_BYTE_VOCAB,
                                            .n_positions = MOST,
                                            .n_embd = 4,
                                            .n_layer = 1,
                                            .n_head = 2,
                                            .n_kv_head = 2,
                                            .head_size = 2,
                                            .n_inner = 16,
                                            .norm_epsilon = 1e-5,
                                            .initializer_range = 0.5,
                                            .tie_word_embeddings = true,
                                            .qkv_bias = true,
                                            .out_bias = true,
                                            .mlp_bias = true};
    model.layout = dt_model_layout(&model.config, 1, &err);
    model.weights =
        dt_buffer_create(model.exec.device, model.layout->count * 4, "w", &err);
    random_weights(&model.config, model.layout,
                   dt_view_of(model.weights, DT_F32), 1);
    struct dt_view scale = param("transformer.ln_f.weight");
    memset(dt_view_f32(scale), 0, scale.count * sizeof(float));
    dt_view_f32(param("transformer.ln_f.bias"))[0] = 1;
    dt_view_f32(param("transformer.wte.weight"))[(size_t)'x' * 4] = 5;
    return 0;
}

static int destroy_model(void **state)
{
    (void)state;
    dt_buffer_destroy(model.weights);
    dt_layout_destroy(model.layout);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_end_with_their_length),
        cmocka_unit_test(a_stop_id_is_the_last_token),
        cmocka_unit_test(a_stop_string_ends_with_its_last_token),
        cmocka_unit_test(a_penalty_is_for_what_was_there),
        cmocka_unit_test(a_run_can_be_stopped_at_a_token),
        cmocka_unit_test(
            a_prompt_has_at_least_one_token_and_at_most_as_many_as_said),
        cmocka_unit_test(memory_decides_how_many_blocks_there_are),
        cmocka_unit_test(no_sequence_starts_without_its_next_block),
        cmocka_unit_test(a_block_is_free_when_its_last_user_drops_it),
    };
    return cmocka_run_group_tests_name("rollout", tests, create_model,
                                       destroy_model);
}
