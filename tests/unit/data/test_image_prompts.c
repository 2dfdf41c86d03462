/* SPDX-License-Identifier: Apache-2.0 */
/* test_image_prompts.c - prompts with images, and what rewards see of them
 *
 * Lines are written with ' in place of ".
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/prompts.h"
#include "tests/unit/data/images_scene.h"

static struct dt_prompts_options prompt_options(void)
{
    struct dt_prompts_options options = {
        .lines = with_images(), .max_length = 60, .vocab_size = PLACEHOLDER};
    return options;
}

static struct dt_prompts *try_lines(const char *lines,
                                    const struct dt_prompts_options *options,
                                    struct dt_error *err)
{
    char text[4000];
    size_t n = strlen(lines);
    for (size_t i = 0; i <= n; i++)
        text[i] = lines[i] == '\'' ? '"' : lines[i];
    const char *path = scratch_write("prompts.jsonl", text, n);
    notes[0] = '\0';
    return dt_prompts_open(&path, 1, tokenizer, options, err);
}

static struct dt_prompts *prompts_of(const char *lines,
                                     const struct dt_prompts_options *options)
{
    struct dt_error err;
    struct dt_prompts *prompts = try_lines(lines, options, &err);
    if (!prompts)
        fail_msg("%s", err.text);
    return prompts;
}

/* Prompt p as text: i for the tokens of pictures, and I for the first. */
static const char *shown_prompt(const struct dt_prompts *prompts, uint64_t p)
{
    static char text[200];
    struct dt_example_parts parts;
    struct dt_example_image image;
    size_t words, count;
    const uint32_t *example = dt_prompts_example(prompts, p, &words);
    const int32_t *ids = dt_prompts_ids(prompts, p, &count);
    assert_true(dt_example_find(example, words, &parts));
    assert_ptr_equal(parts.tokens, ids);
    assert_int_equal(parts.token_count, count);
    for (size_t t = 0; t < count; t++)
        text[t] = ids[t] < 0 ? 'i' : ids[t] < 256 ? (char)ids[t] : '#';
    while (dt_example_next_image(&parts, &image))
        text[image.first[0]] = 'I';
    text[count] = '\0';
    return text;
}

#define ASK(images, text)                                                      \
    "{'prompt': [{'role': 'user', 'content': '" text "'}], 'images': [" images \
    "], 'answer': 7}\n"

static void images_take_their_places_in_prompts(void **state)
{
    const struct dt_prompts_options options = prompt_options();
    (void)state;
    put_image("a.png", 2, 3);
    put_image("b.png", 1, 4);
    struct dt_prompts *prompts = prompts_of(
        ASK("'a.png', 'b.png'", "k") ASK("", "no")
            ASK("'b.png'",
                "x<image>y") "{'prompt': 'see <image> it', 'image': 'a.png'}\n"
                             "{'messages': [{'role': 'user', 'content': "
                             "[{'type': 'text', "
                             "'text': 'c'}, {'type': 'image', 'image': "
                             "'b.png'}, {'type': "
                             "'text', 'text': 'd'}]}]}\n",
        &options);
    assert_string_equal(shown_prompt(prompts, 0), "u:IiiiiiIiiik");
    assert_string_equal(shown_prompt(prompts, 1), "u:no");
    assert_string_equal(shown_prompt(prompts, 2), "u:xIiiiy");
    assert_string_equal(shown_prompt(prompts, 3), "see Iiiiii it");
    assert_string_equal(shown_prompt(prompts, 4), "u:cIiiid");
    dt_prompts_close(prompts);
}

/* What a reward sees of prompt p, as one line of JSON. */
static void expect_line(const struct dt_prompts *prompts, uint64_t p,
                        const char *text, const char *messages,
                        const char *columns)
{
    struct dt_prompt_line line;
    struct dt_error err;
    assert_int_equal(dt_prompts_read(prompts, p, &line, &err), 0);
    assert_string_equal(line.text, text);
    char *is = line.messages ? json_dumps(line.messages, JSON_SORT_KEYS) : NULL;
    assert_string_equal(is ? is : "", messages);
    free(is);
    is = json_dumps(line.columns, JSON_SORT_KEYS);
    assert_string_equal(is, columns);
    free(is);
    dt_prompt_line_fini(&line);
}

/* The image `i` of prompt p: its path, "" for none; its bytes have that name.
 */
static void expect_image(const struct dt_prompts *prompts, uint64_t p, size_t i,
                         const char *path)
{
    struct dt_prompt_line line;
    struct dt_error err;
    struct dt_image_file file;
    const char *hash, *is = "";
    assert_int_equal(dt_prompts_read(prompts, p, &line, &err), 0);
    assert_int_equal(json_unpack(json_array_get(line.images, i), "{s:s, s?s !}",
                                 "sha256", &hash, "path", &is),
                     0);
    assert_string_equal(is, path);
    assert_int_equal(dt_image_store_get(&file, &image_store, hash,
                                        &dt_image_limits_usual, &err),
                     0);
    free(file.data);
    dt_prompt_line_fini(&line);
}

/* Of 2 x 3 pixels. */
#define BASE64                                                                 \
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGP8zwAFTDAGAwAT" \
    "KQED8NgHhAAAAABJRU5ErkJggg=="

static void rewards_see_names_of_images_and_no_pixels(void **state)
{
    static const char lines[] =
        ASK("'a.png', {'path': 'b.png', 'bytes': null}", "k")
            ASK("", "no") "{'prompt': '<image>?', 'images': "
                          "['data:image/png;base64," BASE64 "']}\n";
    const struct dt_prompts_options options = prompt_options();
    (void)state;
    put_image("a.png", 2, 3);
    put_image("b.png", 1, 4);
    struct dt_prompts *prompts = prompts_of(lines, &options);
    expect_line(prompts, 0, "u:<image><image>k",
                "[{\"content\": [{\"type\": \"image\"}, {\"type\": \"image\"}, "
                "{\"text\": \"k\", \"type\": \"text\"}], \"role\": \"user\"}]",
                "{\"answer\": 7}");
    expect_line(prompts, 1, "u:no",
                "[{\"content\": \"no\", \"role\": \"user\"}]",
                "{\"answer\": 7}");
    expect_line(prompts, 2, "<image>?", "", "{}");
    expect_image(prompts, 0, 0, "a.png");
    expect_image(prompts, 0, 1, "b.png");
    expect_image(prompts, 2, 0, "");
    dt_prompts_close(prompts);
}

/* A cut would take the image, or a part of it, from the question. */
static void a_long_prompt_with_an_image_is_left_out(void **state)
{
    struct dt_prompts_options options = prompt_options();
    struct dt_error err;
    (void)state;
    put_image("a.png", 2, 3);
    options.keep_end = true;
    for (options.max_length = 8; options.max_length <= 9;
         options.max_length++) {
        struct dt_prompts *prompts =
            prompts_of(ASK("'a.png'", "k") ASK("", "123456789"), &options);
        const struct dt_prompts_stats stats = dt_prompts_stats(prompts);
        assert_int_equal(stats.count, options.max_length - 7);
        assert_int_equal(stats.dropped, 9 - options.max_length);
        assert_int_equal(stats.cut, 1);
        assert_string_equal(shown_prompt(prompts, stats.count - 1),
                            options.max_length == 8 ? "23456789" : "123456789");
        dt_prompts_close(prompts);
    }
    options.max_length = 8;
    assert_null(try_lines(ASK("'a.png'", "k"), &options, &err));
    assert_non_null(strstr(err.text, "prompts.jsonl: all 1 prompts are longer "
                                     "than 8 tokens"));
}

static void bad_images_are_bad_lines_or_are_left_out(void **state)
{
    static const char lines[] = ASK("'no.png'", "k") ASK("'a.png'", "l");
    const struct dt_prompts_options options = prompt_options();
    struct dt_error err;
    (void)state;
    put_image("a.png", 1, 2);
    assert_null(try_lines(lines, &options, &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(strstr(err.text, "prompts.jsonl:1: image 1: no.png: "));
    images.drop = true;
    struct dt_prompts *prompts = prompts_of(lines, &options);
    assert_int_equal(dt_prompts_stats(prompts).count, 1);
    assert_int_equal(dt_prompts_stats(prompts).lost, 1);
    assert_int_equal(dt_prompts_stats(prompts).bad, 0);
    assert_non_null(strstr(notes, "prompts.jsonl:1: image 1: no.png: "));
    err = (struct dt_error){0};
    dt_error_set(&err, EX_DATAERR, "image 1: damaged");
    dt_prompts_name(prompts, 0, &err);
    assert_non_null(strstr(err.text, "prompts.jsonl:2: image 1: damaged"));
    dt_prompts_close(prompts);
    assert_null(try_lines(ASK("'no.png'", "k"), &options, &err));
    assert_non_null(strstr(err.text, "prompts.jsonl: no prompt is left: an "
                                     "image of 1 of 1 lines is missing or "
                                     "bad"));
}

static void places_that_have_no_image_are_refused(void **state)
{
    static const struct {
        const char *line, *why;
    } cases[] = {
        {"{'prompt': '<image> of', 'images': []}\n",
         "prompts.jsonl:1: its text spells <image>, which stands for an image, "
         "and the line has none: images are those of the key images or image, "
         "and its keys are prompt, images; if it shall have none, leave"},
        {"{'prompt': 'of', 'images': ['a.png']}\n",
         "prompts.jsonl:1: its text has not as many <image> as the pictures"},
        {"{'prompt': 'a <image>', 'images': ['a.png']}\n",
         "prompts.jsonl:1: the prompt ends with an image: expected text behind "
         "it"},
        {ASK("'a.png'", "<image> <image>"),
         "prompts.jsonl:1: 1 image for 2 places in the messages"},
        {"{'prompt': 'a', 'image': 'a.png', 'images': ['a.png']}\n",
         "prompts.jsonl:1: images and image: expected one of the two"},
    };
    const struct dt_prompts_options options = prompt_options();
    struct dt_error err;
    (void)state;
    put_image("a.png", 1, 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_null(try_lines(cases[i].line, &options, &err));
        if (!strstr(err.text, cases[i].why))
            fail_msg("%s", err.text);
    }
}

static uint64_t hash_of(const struct dt_prompts_options *options)
{
    struct dt_prompts *prompts = prompts_of(ASK("'a.png'", "k"), options);
    const uint64_t hash = dt_prompts_hash(prompts);
    dt_prompts_close(prompts);
    return hash;
}

/* The same line of another image is another prompt. */
static void the_hash_is_of_images_too(void **state)
{
    const struct dt_prompts_options options = prompt_options();
    (void)state;
    put_image("a.png", 1, 6);
    const uint64_t hash = hash_of(&options);
    assert_true(hash == hash_of(&options));
    processor.background[1]++; /* other pixels */
    assert_true(hash != hash_of(&options));
    processor.background[1]--;
    put_image("a.png", 2, 3);
    assert_true(hash != hash_of(&options));
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
        CASE(images_take_their_places_in_prompts),
        CASE(rewards_see_names_of_images_and_no_pixels),
        CASE(a_long_prompt_with_an_image_is_left_out),
        CASE(bad_images_are_bad_lines_or_are_left_out),
        CASE(places_that_have_no_image_are_refused),
        CASE(the_hash_is_of_images_too),
    };
    return cmocka_run_group_tests_name("image prompts", tests, set_up,
                                       tear_down);
}
