/* SPDX-License-Identifier: Apache-2.0 */
/* test_image_lines.c - from lines with images through a cache to batches */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batch/loader.h"
#include "tests/unit/data/images_scene.h"

#define LINE(images, text)                                                     \
    "{\"images\": [" images "], \"messages\": [{\"role\": \"user\", "          \
    "\"content\": \"" text "\"}, {\"role\": \"assistant\", \"content\": "      \
    "\"z\"}]}\n"

static struct dt_examples *open_lines(const char *lines)
{
    const struct dt_example_options options = with_images();
    return open_good(scratch_write("lines.jsonl", lines, strlen(lines)),
                     &options);
}

static struct dt_rows *rows_of(const struct dt_examples *examples, size_t T)
{
    const struct dt_rows_source source = {examples, 1.0};
    const struct dt_rows_options options = {
        .T = T, .end = 1.0, .vocab_size = 300, .images = &images};
    struct dt_error err;
    struct dt_rows *rows = dt_rows_of_examples(&source, 1, &options, &err);
    if (!rows)
        fail_msg("%s", err.text);
    return rows;
}

/* Rows in the order of lines, two in a batch. */
static struct dt_loader *loader_of(const struct dt_rows *rows)
{
    const struct dt_loader_options options = {.B = 2,
                                              .multiple_of = 1,
                                              .world = 1,
                                              .repeat = true,
                                              .workers = 2,
                                              .prefetch = 2,
                                              .timeout_ms = 60000};
    struct dt_error err;
    struct dt_loader *loader = dt_loader_create(rows, &options, 0, &err);
    if (!loader)
        fail_msg("%s", err.text);
    return loader;
}

/* Row i of a batch as text: i for the tokens of images, and I for the first. */
static const char *shown_row(const struct dt_batch *batch, size_t i)
{
    static char text[200];
    size_t n = 0;
    for (size_t t = 0; t < batch->T; t++) {
        const int32_t id = batch->inputs[i * batch->T + t];
        text[n++] = id < 0 ? 'i' : id == 0 ? '.' : id == 257 ? '$' : (char)id;
        for (size_t p = 0; p < batch->picture_count; p++)
            if (batch->pictures[p].first == i * batch->T + t)
                text[n - 1] = 'I';
    }
    text[n] = '\0';
    return text;
}

/* The pixels of a file of the root, which are as many as its patches. */
static size_t check_pixels(const uint8_t *pixels, const char *name)
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
    return bytes;
}

static void lines_become_batches_with_pixels(void **state)
{
    struct dt_batch batch;
    struct dt_error err;
    (void)state;
    put_image("a.png", 2, 3);
    put_image("b.png", 1, 4);
    struct dt_examples *examples =
        open_lines(LINE("\"a.png\", \"b.png\"", "k") LINE("", "text")
                       LINE("\"b.png\"", "l") LINE("\"a.png\"", "m"));
    struct dt_rows *rows = rows_of(examples, 30);
    struct dt_loader *loader = loader_of(rows);
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(dt_loader_next(loader, &batch, &err), 1);
        assert_string_equal(shown_row(&batch, 0), "u:IiiiiiIiiika:z$");
        assert_string_equal(shown_row(&batch, 1), "u:texta:z$.......");
        assert_int_equal(batch.picture_count, 2);
        const size_t bytes = check_pixels(batch.pixels, "a.png");
        check_pixels(batch.pixels + bytes, "b.png");
        assert_int_equal(dt_loader_next(loader, &batch, &err), 1);
        assert_string_equal(shown_row(&batch, 0), "u:Iiiila:z$..");
        assert_string_equal(shown_row(&batch, 1), "u:Iiiiiima:z$");
        check_pixels(batch.pixels, "b.png");
    }
    dt_loader_destroy(loader);
    dt_rows_destroy(rows);
    dt_examples_close(examples);
}

/* The row ends before the second image, or with it. */
static void lines_are_cut_between_images(void **state)
{
    struct dt_batch batch;
    struct dt_error err;
    (void)state;
    put_image("a.png", 2, 3);
    put_image("b.png", 1, 4);
    struct dt_examples *examples =
        open_lines(LINE("\"a.png\", \"b.png\"", "k") LINE("", "a longer text"));
    for (size_t T = 11; T < 13; T++) {
        struct dt_rows *rows = rows_of(examples, T);
        struct dt_loader *loader = loader_of(rows);
        assert_int_equal(dt_loader_next(loader, &batch, &err), 1);
        assert_string_equal(shown_row(&batch, 0),
                            T < 12 ? "u:Iiiiii..." : "u:IiiiiiIiii");
        assert_int_equal(dt_rows_stats(rows).images_cut, T < 12);
        dt_loader_destroy(loader);
        dt_rows_destroy(rows);
    }
    dt_examples_close(examples);
}

static int setup(void **state)
{
    tokenizer = images_tokenizer();
    return images_set_up(state);
}

static int teardown(void **state)
{
    (void)state;
    dt_tokenizer_destroy(tokenizer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_batches_with_pixels),
        cmocka_unit_test(lines_are_cut_between_images),
    };
    return cmocka_run_group_tests_name("image lines", tests, setup, teardown);
}
