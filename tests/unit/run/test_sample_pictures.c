/* SPDX-License-Identifier: Apache-2.0 */
/* test_sample_pictures.c - the pictures of micro-batches of completions */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/sample_pictures.h"
#include "tests/unit/data/images_scene.h"

#define LINE(images, text)                                                     \
    "{\"prompt\": [{\"role\": \"user\", \"content\": \"" text                  \
    "\"}], \"images\": [" images "]}\n"

/* A pixel is a token and a patch. */
static struct dt_prompts *prompts_of(const char *lines)
{
    const struct dt_prompts_options options = {
        .lines = with_images(), .max_length = 60, .vocab_size = PLACEHOLDER};
    struct dt_error err;
    const char *path = scratch_write("prompts.jsonl", lines, strlen(lines));
    struct dt_prompts *prompts =
        dt_prompts_open(&path, 1, tokenizer, &options, &err);
    if (!prompts)
        fail_msg("%s", err.text);
    return prompts;
}

/* Two images; text; one image. */
static struct dt_prompts *three_prompts(void)
{
    put_image("a.png", 2, 3);
    put_image("b.png", 1, 4);
    return prompts_of(LINE("\"a.png\", \"b.png\"", "k") LINE("", "text")
                          LINE("\"b.png\"", "l"));
}

static void expect_picture(const struct dt_batch *batch, size_t i,
                           uint32_t height, uint32_t width, size_t first,
                           size_t repeats)
{
    const struct dt_batch_picture *picture = &batch->pictures[i];
    assert_true(i < batch->picture_count);
    assert_int_equal(picture->height, height);
    assert_int_equal(picture->width, width);
    assert_int_equal(picture->tokens, height * width);
    assert_int_equal(picture->first, first);
    assert_int_equal(picture->repeats, repeats);
}

/* The pixels of a file of the root; returns those behind them. */
static const uint8_t *expect_pixels(const uint8_t *pixels, const char *name)
{
    struct dt_image image;
    struct dt_map map;
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", image_root, name);
    assert_int_equal(dt_map_init(&map, path, NULL), 0);
    assert_int_equal(dt_image_decode(&image, map.data, map.bytes,
                                     &dt_image_limits_usual, NULL),
                     0);
    const size_t bytes = (size_t)3 * image.height * image.width;
    assert_memory_equal(pixels, image.rgb, bytes);
    dt_image_fini(&image);
    dt_map_fini(&map);
    return pixels + bytes;
}

/* Prompts 0, 2, 1, 0, 2 and 3, which is 0 of the next epoch, one each 20
 * positions.
 */
static void completions_of_a_prompt_repeat_its_pictures(void **state)
{
    static const uint64_t numbers[] = {0, 2, 1, 0, 2, 3};
    struct dt_sample_pictures p;
    struct dt_batch batch = {0};
    struct dt_error err;
    (void)state;
    struct dt_prompts *prompts = three_prompts();
    assert_int_equal(dt_sample_pictures_init(&p, prompts, 14, &err), 0);
    for (int again = 0; again < 2; again++) {
        dt_sample_pictures_begin(&p);
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(
                dt_sample_pictures_add(&p, numbers[i], 20 * i, &err), 0);
        assert_int_equal(dt_sample_pictures_read(&p, &batch, &err), 0);
        assert_int_equal(batch.picture_count, 8);
        expect_picture(&batch, 0, 2, 3, 2, 0);
        expect_picture(&batch, 1, 1, 4, 8, 0);
        expect_picture(&batch, 2, 1, 4, 22, 0);
        expect_picture(&batch, 3, 2, 3, 62, 3);
        expect_picture(&batch, 4, 1, 4, 68, 3);
        expect_picture(&batch, 5, 1, 4, 82, 3);
        expect_picture(&batch, 6, 2, 3, 102, 6);
        expect_picture(&batch, 7, 1, 4, 108, 6);
        const uint8_t *rest = expect_pixels(batch.pixels, "a.png");
        expect_pixels(expect_pixels(rest, "b.png"), "b.png");
    }
    dt_sample_pictures_begin(&p);
    assert_int_equal(dt_sample_pictures_add(&p, 1, 0, &err), 0);
    assert_int_equal(dt_sample_pictures_read(&p, &batch, &err), 0);
    assert_int_equal(batch.picture_count, 0);
    dt_sample_pictures_fini(&p);
    assert_int_equal(dt_sample_pictures_init(&p, prompts, 13, &err), 0);
    assert_int_equal(dt_sample_pictures_add(&p, 0, 0, &err), 0);
    assert_int_equal(dt_sample_pictures_add(&p, 2, 20, &err), -1);
    assert_string_equal(err.text,
                        "pictures of 14 patches in a micro-batch, and memory "
                        "for 13: please report this");
    dt_sample_pictures_fini(&p);
    dt_prompts_close(prompts);
}

static void an_image_that_is_gone_is_named_with_its_line(void **state)
{
    struct dt_sample_pictures p;
    struct dt_batch batch = {0};
    struct dt_error err;
    (void)state;
    struct dt_prompts *prompts = three_prompts();
    assert_int_equal(dt_sample_pictures_init(&p, prompts, 100, &err), 0);
    dt_sample_pictures_begin(&p);
    assert_int_equal(dt_sample_pictures_add(&p, 2, 0, &err), 0);
    assert_int_equal(dt_sample_pictures_add(&p, 0, 20, &err), 0);
    dt_file_remove_tree(image_store_dir, NULL);
    assert_int_equal(dt_sample_pictures_read(&p, &batch, &err), -1);
    assert_non_null(strstr(err.text, "prompts.jsonl:3: image 1: "));
    dt_sample_pictures_fini(&p);
    dt_prompts_close(prompts);
}

static struct dt_sample_most most_of(const struct dt_prompts *prompts,
                                     size_t rows, size_t groups, size_t tokens)
{
    const struct dt_sample_room room = {rows, groups, tokens};
    struct dt_sample_most most;
    struct dt_error err;
    if (dt_sample_pictures_most(prompts, &room, &most, &err) < 0)
        fail_msg("%s", err.text);
    return most;
}

/* Prompts have 13 tokens with 10 patches, 6 tokens, and 7 with 4. */
static void memory_is_for_the_most_of_any_micro_batch(void **state)
{
    (void)state;
    struct dt_prompts *prompts = three_prompts();
    struct dt_sample_most most = most_of(prompts, 8, 4, 60);
    assert_int_equal(most.prompt_patches, 10);
    assert_int_equal(most.prompt_pictures, 2);
    assert_int_equal(most.patches, 14);
    assert_int_equal(most.pictures, 3);
    assert_int_equal(most.places, 8);
    assert_true(most.all_patches == 14 && most.all_pictures == 3 &&
                most.tokens == 26);

    /* one prompt only, whatever room there is */
    most = most_of(prompts, 8, 1, 60);
    assert_int_equal(most.patches, 10);
    assert_int_equal(most.pictures, 2);
    assert_int_equal(most_of(prompts, 1, 4, 60).patches, 10);
    assert_int_equal(most_of(prompts, 1, 4, 60).places, 1);

    /* little room: a row that does not fit counts in part */
    most = most_of(prompts, 8, 4, 13);
    assert_int_equal(most.patches, 10);
    assert_int_equal(most.places, 1);
    assert_int_equal(most_of(prompts, 8, 4, 14).patches, 11);
    assert_int_equal(most_of(prompts, 8, 4, 14).places, 2);
    dt_prompts_close(prompts);

    prompts = prompts_of(LINE("", "text"));
    most = most_of(prompts, 8, 4, 60);
    assert_true(most.patches == 0 && most.pictures == 0 &&
                most.prompt_patches == 0 && most.places == 0);
    dt_prompts_close(prompts);
}

static int set_up(void **state)
{
    (void)state;
    tokenizer = images_tokenizer();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    dt_tokenizer_destroy(tokenizer);
    scratch_remove();
    return 0;
}

#define CASE(name) cmocka_unit_test_setup(name, images_set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(completions_of_a_prompt_repeat_its_pictures),
        CASE(an_image_that_is_gone_is_named_with_its_line),
        CASE(memory_is_for_the_most_of_any_micro_batch),
    };
    return cmocka_run_group_tests_name("sample pictures", tests, set_up,
                                       tear_down);
}
