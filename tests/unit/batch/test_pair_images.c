/* SPDX-License-Identifier: Apache-2.0 */
/* test_pair_images.c - from preference pairs with images to batches */
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

/* a.png is 6 tokens, b.png 4. */
#define USER(content) "[{\"role\": \"user\", \"content\": " content "}]"
#define SAYS(content) "[{\"role\": \"assistant\", \"content\": " content "}]"
#define SIDES                                                                  \
    "\"chosen\": " SAYS("\"yes\"") ", \"rejected\": " SAYS("\"no\"") "}\n"
#define PAIR(images, text)                                                     \
    "{\"images\": [" images "], \"prompt\": " USER("\"" text "\"") ", " SIDES

static struct dt_example_options pairs_of_images(void)
{
    struct dt_example_options options = with_images();
    options.format = DT_FORMAT_PREFERENCE;
    return options;
}

static const char *write_lines(const char *lines)
{
    return scratch_write("pairs.jsonl", lines, strlen(lines));
}

static struct dt_examples *open_lines(const char *lines)
{
    const struct dt_example_options options = pairs_of_images();
    return open_good(write_lines(lines), &options);
}

static struct dt_rows *rows_of(const struct dt_examples *examples, size_t T,
                               bool keep_end)
{
    const struct dt_rows_source source = {examples, 1.0};
    const struct dt_rows_options options = {.T = T,
                                            .keep_end = keep_end,
                                            .end = 1.0,
                                            .vocab_size = 300,
                                            .images = &images};
    struct dt_error err;
    struct dt_rows *rows = dt_rows_of_pairs(&source, 1, &options, &err);
    if (!rows)
        fail_msg("%s", err.text);
    return rows;
}

/* All pairs are in one batch. */
static struct dt_loader *loader_of(const struct dt_rows *rows)
{
    const struct dt_loader_options options = {.B = dt_rows_count(rows),
                                              .multiple_of = 1,
                                              .tokens = 200,
                                              .accumulation = 1,
                                              .world = 1,
                                              .repeat = true,
                                              .workers = 1,
                                              .prefetch = 1,
                                              .timeout_ms = 60000};
    struct dt_error err;
    struct dt_loader *loader = dt_loader_create(rows, &options, 0, &err);
    if (!loader)
        fail_msg("%s", err.text);
    return loader;
}

/* A batch as text: | begins a document;
 * I is the first token of a picture, C of a copy, i any other.
 */
static const char *shown_batch(const struct dt_batch *batch)
{
    static char text[1000];
    size_t n = 0;
    for (size_t t = 0; t < batch->T; t++) {
        const int32_t id = batch->inputs[t];
        char shows = id < 0 ? 'i' : id == 257 ? '$' : (char)id;
        for (size_t p = 0; p < batch->picture_count; p++)
            if (batch->pictures[p].first == t)
                shows = batch->pictures[p].repeats > 0 ? 'C' : 'I';
        if (batch->doc_start[t] == (int32_t)t)
            text[n++] = '|';
        text[n++] = shows;
    }
    text[n] = '\0';
    return text;
}

/* The batch of lines, as text, and what its pictures are. */
static const char *shown_lines(const char *lines, size_t T, bool keep_end,
                               struct dt_rows_stats *stats)
{
    struct dt_examples *examples = open_lines(lines);
    struct dt_rows *rows = rows_of(examples, T, keep_end);
    struct dt_loader *loader = loader_of(rows);
    struct dt_batch batch;
    struct dt_error err;
    assert_int_equal(dt_loader_next(loader, &batch, &err), 1);
    const char *text = shown_batch(&batch);
    size_t patches = 0, pictures = 0;
    for (size_t i = 0; i < batch.picture_count; i++) {
        const struct dt_batch_picture *picture = &batch.pictures[i];
        const struct dt_batch_picture *of = picture - picture->repeats;
        assert_true(picture->repeats <= i && of->repeats == 0);
        assert_int_equal(of->height, picture->height);
        assert_int_equal(of->width, picture->width);
        assert_int_equal(of->tokens, picture->tokens);
        patches += picture->repeats > 0 ? 0 : picture->tokens;
        pictures += picture->repeats == 0;
    }
    *stats = dt_rows_stats(rows);
    assert_int_equal(stats->pictures, pictures);
    assert_int_equal(stats->patches, patches);
    dt_loader_destroy(loader);
    dt_rows_destroy(rows);
    dt_examples_close(examples);
    return text;
}

static void both_sides_share_the_images_of_the_prompt(void **state)
{
    static const char *const lines[] = {
        PAIR("\"a.png\"", "k"),
        "{\"image\": \"a.png\", \"prompt\": " USER(
            "[{\"type\": \"image\"}, {\"type\": \"text\", \"text\": "
            "\"k\"}]") ", " SIDES,
        "{\"prompt\": " USER(
            "[{\"type\": \"image\", \"image\": \"a.png\"}, "
            "{\"type\": \"text\", \"text\": \"k\"}]") ", " SIDES,
        "{\"conversations\": [{\"from\": \"human\", \"value\": "
        "\"<image>k\"}], \"images\": [\"a.png\"], \"chosen\": {\"from\": "
        "\"gpt\", \"value\": \"yes\"}, \"rejected\": {\"from\": \"gpt\", "
        "\"value\": \"no\"}}\n",
        "{\"images\": [\"a.png\"], \"chosen\": [{\"role\": \"user\", "
        "\"content\": \"k\"}, {\"role\": \"assistant\", \"content\": "
        "\"yes\"}], \"rejected\": [{\"role\": \"user\", \"content\": \"k\"}, "
        "{\"role\": \"assistant\", \"content\": \"no\"}]}\n",
        "{\"images\": [\"a.png\"], \"prompt\": \"u:<image>k\", \"chosen\": "
        "\"a:yes\", \"rejected\": \"a:no\"}\n",
        "{\"images\": [\"a.png\"], \"chosen\": \"u:<image>ka:yes\", "
        "\"rejected\": \"u:<image>ka:no\"}\n",
    };
    struct dt_rows_stats stats;
    (void)state;
    put_image("a.png", 2, 3);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *got = shown_lines(lines[i], 40, false, &stats);
        if (strcmp(got, "|u:Iiiiiika:yes$|u:Ciiiiika:no$") != 0)
            fail_msg("%s: %s", lines[i], got);
        assert_int_equal(stats.images, 1);
        assert_int_equal(stats.images_cut, 0);
    }
}

static void pairs_in_a_row_share_nothing_with_each_other(void **state)
{
    struct dt_rows_stats stats;
    (void)state;
    put_image("a.png", 2, 3);
    put_image("b.png", 1, 4);
    assert_string_equal(shown_lines(PAIR("\"a.png\", \"b.png\"", "k")
                                        PAIR("", "text")
                                            PAIR("\"b.png\"", "<image>l"),
                                    40, false, &stats),
                        "|u:IiiiiiIiiika:yes$|u:CiiiiiCiiika:no$"
                        "|u:texta:yes$|u:texta:no$"
                        "|u:Iiiila:yes$|u:Ciiila:no$");
    assert_int_equal(stats.images, 3);
}

static void pixels_of_a_pair_are_there_once(void **state)
{
    struct dt_batch batch;
    struct dt_error err;
    (void)state;
    put_image("a.png", 2, 3);
    put_image("b.png", 1, 4);
    struct dt_examples *examples = open_lines(
        PAIR("\"a.png\", \"b.png\"", "k") PAIR("\"b.png\", \"a.png\"", "l"));
    struct dt_rows *rows = rows_of(examples, 40, false);
    struct dt_loader *loader = loader_of(rows);
    const struct dt_loader_options options = {
        .B = 2, .tokens = 200, .accumulation = 1, .world = 1};
    struct dt_loader_most most;
    assert_int_equal(dt_loader_most(rows, &options, &most, &err), 0);
    assert_int_equal(most.pictures, 4);
    assert_int_equal(most.patches, 20);
    assert_int_equal(dt_loader_next(loader, &batch, &err), 1);
    assert_int_equal(batch.picture_count, 8);
    static const char *const names[] = {"a.png", "b.png", "b.png", "a.png"};
    const uint8_t *at = batch.pixels;
    for (size_t i = 0; i < 4; i++) {
        struct dt_image image;
        struct dt_map map;
        char path[400];
        snprintf(path, sizeof(path), "%s/%s", image_root, names[i]);
        assert_int_equal(dt_map_init(&map, path, NULL), 0);
        assert_int_equal(dt_image_decode(&image, map.data, map.bytes,
                                         &dt_image_limits_usual, NULL),
                         0);
        const size_t bytes = (size_t)3 * image.height * image.width;
        assert_memory_equal(at, image.rgb, bytes);
        at += bytes;
        dt_image_fini(&image);
        dt_map_fini(&map);
    }
    dt_loader_destroy(loader);
    dt_rows_destroy(rows);
    dt_examples_close(examples);
}

/* A side is 22 tokens or 21: u: and images of 6 and 4, k, a:, the answer, $. */
static void truncation_keeps_images_whole(void **state)
{
    static const struct {
        size_t T;
        bool keep_end;
        const char *wanted;
        size_t images, cut;
    } cases[] = {
        {19, false, "|u:IiiiiiIiiika:yes$|u:CiiiiiCiiika:no$", 2, 0},
        {16, false, "|u:IiiiiiIiiika:y|u:CiiiiiCiiika:n", 2, 0},
        {18, true, "|:IiiiiiIiiika:yes$|u:CiiiiiCiiika:no$", 2, 0},
        {17, true, "|IiiiiiIiiika:yes$|:CiiiiiCiiika:no$", 2, 0},
        /* one side has the first image, the other has it no longer */
        {16, true, "|Iiiika:yes$|IiiiiiCiiika:no$", 2, 0},
        {15, true, "|Iiiika:yes$|Ciiika:no$", 1, 1},
        {11, true, "|Iiiika:yes$|Ciiika:no$", 1, 1},
        {10, true, "|ka:yes$|Iiiika:no$", 1, 1},
        {9, true, "|ka:yes$|ka:no$", 0, 2},
    };
    struct dt_rows_stats stats;
    (void)state;
    put_image("a.png", 2, 3);
    put_image("b.png", 1, 4);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *got = shown_lines(PAIR("\"a.png\", \"b.png\"", "k"),
                                      cases[i].T, cases[i].keep_end, &stats);
        if (strcmp(got, cases[i].wanted) != 0)
            fail_msg("T %zu: %s, expected %s", cases[i].T, got,
                     cases[i].wanted);
        assert_int_equal(stats.images, cases[i].images);
        assert_int_equal(stats.images_cut, cases[i].cut);
    }
}

/* Another file of the same name and size is another image. */
static void rows_tell_the_files_of_images_apart(void **state)
{
    uint64_t hashes[3];
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct dt_rows_stats stats;
        char path[64];
        small_png_write("root/a.png", 2, 3, i < 2 ? 5 : 6);
        snprintf(path, sizeof(path), "%s", scratch_path(".disttrain-cache"));
        dt_file_remove_tree(path, NULL);
        shown_lines(PAIR("\"a.png\"", "k"), 40, false, &stats);
        hashes[i] = stats.image_hash;
    }
    assert_int_equal(hashes[0], hashes[1]);
    assert_int_not_equal(hashes[0], hashes[2]);
}

static void bad_pairs_are_refused_with_their_reason(void **state)
{
    static const struct {
        const char *line, *wanted;
    } cases[] = {
        {PAIR("\"a.png\"", "<image> and <image>"),
         "1 image for 2 places in the messages: expected as many parts of the "
         "type image, or markers <image>, as images"},
        {"{\"prompt\": " USER("\"k\"") ", \"chosen\": " SAYS(
             "\"yes\"") ", "
                        "\"rejected\": " SAYS(
                            "[{\"type\": \"image\", \"image\": "
                            "\"a.png\"}]") "}\n",
         "rejected: an image in a completion: images belong to the prompt, "
         "which both sides share"},
        {"{\"images\": [\"a.png\"], \"prompt\": \"k\", \"chosen\": \"yes\", "
         "\"rejected\": \"no\"}\n",
         "its text has not as many <image> as the pictures of its 1 image"},
        {"{\"images\": [\"a.png\"], \"prompt\": \"<image>\", \"chosen\": "
         "\"yes <image>\", \"rejected\": \"no\"}\n",
         "the text has 2 <image> for 1 image: expected one for each"},
        {"{\"images\": [\"a.png\"], \"prompt\": \"k\", \"chosen\": "
         "\"yes <image>\", \"rejected\": \"no\"}\n",
         "a completion spells <image>, which stands for an image: images "
         "belong to the prompt, which both sides share"},
        {"{\"images\": [\"a.png\"], \"prompt_ids\": [1], \"chosen_ids\": [2], "
         "\"rejected_ids\": [3]}\n",
         "images beside chosen_ids: give messages or text"},
        {PAIR("\"c.png\"", "k"), "image 1: c.png: "},
        {"{\"videos\": [\"a\"], \"prompt\": " USER("\"k\"") ", " SIDES,
         "videos: only text and images are trained on: leave it out"},
    };
    (void)state;
    put_image("a.png", 2, 3);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct dt_example_options options = pairs_of_images();
        struct dt_error err;
        assert_null(open_file(write_lines(cases[i].line), &options, &err));
        const char *at = strstr(err.text, "pairs.jsonl:1: ");
        at = at ? at + strlen("pairs.jsonl:1: ") : err.text;
        if (strncmp(at, cases[i].wanted, strlen(cases[i].wanted)) != 0)
            fail_msg("%s: %s", cases[i].line, at);
    }
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
        cmocka_unit_test(both_sides_share_the_images_of_the_prompt),
        cmocka_unit_test(pairs_in_a_row_share_nothing_with_each_other),
        cmocka_unit_test(pixels_of_a_pair_are_there_once),
        cmocka_unit_test(truncation_keeps_images_whole),
        cmocka_unit_test(rows_tell_the_files_of_images_apart),
        cmocka_unit_test(bad_pairs_are_refused_with_their_reason),
    };
    return cmocka_run_group_tests_name("pair images", tests, setup, teardown);
}
