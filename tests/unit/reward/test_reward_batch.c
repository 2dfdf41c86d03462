/* SPDX-License-Identifier: Apache-2.0 */
/* test_reward_batch.c - what a queue of completions copies, and what not */
#include "config.h"

#include <string.h>

#include "tests/unit/reward/reward.h"

#include "base/file.h"
#include "image/processor.h"
#include "image/store.h"
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

/* --- images --- */

static struct dt_image_processor processor;
static struct dt_image_store store = {.dir = "store"};
static const struct dt_example_images images = {.processor = &processor,
                                                .store = &store};

/* Puts a file into the store; the images of a prompt that has it and, if it is
 * not NULL, another one.
 */
static json_t *put(const char *file, const char *path, json_t *before)
{
    char name[DT_SHA256_HEX];
    struct dt_error err;
    json_t *list = before ? json_copy(before) : json_array();
    processor.limits = dt_image_limits_usual;
    if (dt_file_mkdirs("store", &err) < 0 ||
        dt_image_store_put(&store, file, strlen(file), name, &err) < 0)
        fail_msg("%s", err.text);
    json_array_append_new(
        list, json_pack("{s:s, s:s*}", "sha256", name, "path", path));
    return list;
}

/* Of the prompt 2+3= the images are in `first`, of the other one in `second`.
 */
static json_t *request_of(json_t *first, json_t *second,
                          const struct dt_example_images *with,
                          struct dt_error *err)
{
    char prompt[] = "2+3=4+5=";
    json_t *none[] = {NULL, NULL};
    struct dt_reward_sample samples[SAMPLES];
    fill(samples, prompt, none, none);
    for (size_t i = 0; i < SAMPLES; i++)
        samples[i].images = i < COPIES ? first : second;
    struct dt_reward_batch *batch = batch_of(samples);
    assert_ptr_equal(batch->sample[0].images, batch->sample[1].images);
    const struct dt_reward_part part = {batch, 1, COPIES};
    char *line = dt_reward_request(&part, 7, with, err);
    dt_reward_batch_destroy(batch);
    json_t *request = line ? json_loads(line, 0, NULL) : NULL;
    free(line);
    return request;
}

static void a_request_names_images_and_has_their_files_once(void **state)
{
    struct dt_error err;
    const char *file;
    json_t *sample;
    size_t i;
    (void)state;
    json_t *one = put("one", "a/1.png", NULL), *two = put("two", NULL, one);
    json_t *request = request_of(one, two, NULL, &err);
    assert_null(json_object_get(request, "images"));
    json_array_foreach(json_object_get(request, "samples"), i, sample)
        assert_true(json_equal(json_object_get(sample, "images"),
                               i < COPIES - 1 ? one : two));
    assert_int_equal(i, COPIES);
    json_decref(request);

    request = request_of(one, two, &images, &err);
    const json_t *files = json_object_get(request, "images");
    assert_int_equal(json_object_size(files), 2);
    for (i = 0; i < 2; i++) {
        const char *name = json_string_value(
            json_object_get(json_array_get(two, i), "sha256"));
        file = json_string_value(json_object_get(files, name));
        assert_string_equal(file, i == 0 ? "b25l" : "dHdv");
    }
    json_decref(request);

    /* of text alone there is neither */
    request = request_of(NULL, NULL, &images, &err);
    sample = json_array_get(json_object_get(request, "samples"), 0);
    assert_null(json_object_get(sample, "images"));
    assert_int_equal(json_object_size(json_object_get(request, "images")), 0);
    json_decref(request);

    dt_file_remove_tree("store", NULL);
    assert_null(request_of(one, two, &images, &err));
    assert_int_equal(err.status, EX_NOINPUT);
    json_decref(one);
    json_decref(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_of_a_prompt_share_one_copy),
        cmocka_unit_test(a_copy_outlives_what_it_was_made_of),
        cmocka_unit_test(a_request_names_images_and_has_their_files_once),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
