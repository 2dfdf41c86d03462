/* SPDX-License-Identifier: Apache-2.0 */
/* test_reward_batch.c - what a queue of completions copies, and what not */
#include "config.h"

#include <string.h>

#include "tests/unit/reward/reward.h"

#include "reward/reward_impl.h"

enum { COPIES = 3, SAMPLES = 2 * COPIES };

static struct dt_reward_batch *batch_of(struct dt_reward_sample *samples)
{
    struct dt_reward_batch *batch = dt_reward_batch_create(1, samples, SAMPLES);
    assert_non_null(batch);
    assert_int_equal(batch->count, SAMPLES);
    return batch;
}

/* Two prompts with their completions, as a generation has them. */
static void fill(struct dt_reward_sample samples[SAMPLES], char *prompt,
                 json_t *const columns[2], json_t *const messages[2])
{
    for (size_t i = 0; i < SAMPLES; i++) {
        samples[i] = sample_of(i % 2 ? "odd" : "even", NULL);
        samples[i].prompt_text = prompt + 4 * (i / COPIES);
        samples[i].columns = columns[i / COPIES];
        samples[i].messages = messages[i / COPIES];
    }
}

static void completions_of_a_prompt_share_one_copy(void **state)
{
    char prompt[] = "2+3=4+5=";
    json_t *columns[] = {json_pack("{s:i}", "answer", 5),
                         json_pack("{s:i}", "answer", 9)};
    json_t *messages[] = {json_pack("[{s:s}]", "content", "2+3="), NULL};
    struct dt_reward_sample samples[SAMPLES];
    (void)state;
    fill(samples, prompt, columns, messages);
    struct dt_reward_batch *batch = batch_of(samples);
    const struct dt_reward_sample *s = batch->sample;
    for (size_t i = 1; i < SAMPLES; i++) {
        bool first = i == COPIES; /* of the second prompt */
        assert_int_equal(s[i].prompt_text == s[i - 1].prompt_text, !first);
        assert_int_equal(s[i].columns == s[i - 1].columns, !first);
        assert_int_equal(s[i].messages == s[i - 1].messages, !first);
        assert_ptr_not_equal(s[i].completion_text, s[i - 1].completion_text);
    }
    dt_reward_batch_destroy(batch);
    for (int i = 0; i < 2; i++) {
        json_decref(columns[i]);
        json_decref(messages[i]);
    }
}

/* The caller goes on with the next prompt in the same memory. */
static void a_copy_outlives_what_it_was_made_of(void **state)
{
    char prompt[] = "2+3=4+5=";
    json_t *columns[] = {json_pack("{s:i}", "answer", 5), NULL};
    json_t *none[] = {NULL, NULL};
    struct dt_reward_sample samples[SAMPLES];
    (void)state;
    fill(samples, prompt, columns, none);
    struct dt_reward_batch *batch = batch_of(samples);
    memset(prompt, 'x', strlen(prompt));
    json_object_clear(columns[0]);
    json_decref(columns[0]);
    memset(samples, 0, sizeof(samples));
    for (size_t i = 0; i < SAMPLES; i++) {
        const struct dt_reward_sample *s = &batch->sample[i];
        assert_string_equal(s->prompt_text, i < COPIES ? "2+3=" : "4+5=");
        assert_string_equal(s->completion_text, i % 2 ? "odd" : "even");
        assert_int_equal(
            json_integer_value(json_object_get(s->columns, "answer")),
            i < COPIES ? 5 : 0);
    }
    dt_reward_batch_destroy(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_of_a_prompt_share_one_copy),
        cmocka_unit_test(a_copy_outlives_what_it_was_made_of),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
