/* SPDX-License-Identifier: Apache-2.0 */
/* test_example_images.c - words about images at the begin of examples */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/example.h"

enum { TOKENS = 9 };

/* An image of three pictures and one of one, before tokens 100, 101, ... */
static size_t make(uint32_t example[64])
{
    static const uint32_t tiles[] = {0, 2, 4}, whole[] = {TOKENS - 1};
    struct dt_example_image images[] = {
        {.height = 20, .width = 30, .pictures = 3, .first = tiles},
        {.height = 5, .width = 4, .pictures = 1, .first = whole}};
    memset(images[0].sha256, 0xab, sizeof(images[0].sha256));
    memset(images[1].sha256, 0x12, sizeof(images[1].sha256));
    const size_t words = dt_example_images_words(images, 2);
    dt_example_images_write(example, images, 2);
    dt_example_set_line(example, 7);
    for (uint32_t i = 0; i < TOKENS; i++)
        example[words + i] = 100 + i;
    return words + TOKENS;
}

static void images_are_read_as_they_were_written(void **state)
{
    uint32_t example[64];
    struct dt_example_parts parts;
    struct dt_example_image image;
    (void)state;
    size_t count = make(example);
    assert_int_equal(count, 2 + 11 + 3 + 11 + 1 + TOKENS);
    assert_true(dt_example_find(example, count, &parts));
    assert_int_equal(parts.images, 2);
    assert_int_equal(parts.line, 7);
    assert_int_equal(parts.token_count, TOKENS);
    assert_int_equal(parts.tokens[0], 100);
    assert_true(dt_example_next_image(&parts, &image));
    assert_int_equal(image.sha256[31], 0xab);
    assert_int_equal(image.height, 20);
    assert_int_equal(image.width, 30);
    assert_int_equal(image.pictures, 3);
    assert_int_equal(image.first[2], 4);
    assert_true(dt_example_next_image(&parts, &image));
    assert_int_equal(image.sha256[0], 0x12);
    assert_int_equal(image.height, 5);
    assert_int_equal(image.pictures, 1);
    assert_int_equal(image.first[0], TOKENS - 1);
    assert_false(dt_example_next_image(&parts, &image));
}

static void an_example_may_have_no_image(void **state)
{
    uint32_t example[4] = {99, 99, 100, 101};
    struct dt_example_parts parts;
    struct dt_example_image image;
    (void)state;
    assert_int_equal(dt_example_images_words(NULL, 0), 2);
    dt_example_images_write(example, NULL, 0);
    assert_true(dt_example_find(example, 4, &parts));
    assert_int_equal(parts.line, 0);
    assert_int_equal(parts.token_count, 2);
    assert_int_equal(parts.tokens[0], 100);
    assert_false(dt_example_next_image(&parts, &image));
    assert_true(dt_example_find(example, 2, &parts));
    assert_int_equal(parts.token_count, 0);
    dt_example_set_line(example, UINT64_C(1) << 32);
    assert_true(dt_example_find(example, 2, &parts));
    assert_int_equal(parts.line, UINT32_MAX);
}

/* Each count is one too large for the words, or an index for the tokens. */
static void damaged_words_are_refused(void **state)
{
    uint32_t example[64];
    struct dt_example_parts parts;
    (void)state;
    const size_t count = make(example);
    assert_false(dt_example_find(example, 0, &parts));
    for (size_t n = 1; n < count; n++) /* the last picture has no token */
        assert_false(dt_example_find(example, n, &parts));
    const struct {
        size_t word;
        uint32_t value;
    } bad[] = {
        {0, 3},                   /* images */
        {0, UINT32_MAX}, {12, 0}, /* pictures */
        {12, 2},         {12, UINT32_MAX},
        {14, 0}, /* the second picture begins where the first does */
        {15, 1},         {27, 4}, /* the second image before the first */
        {27, TOKENS},    {27, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        make(example);
        example[bad[i].word] = bad[i].value;
        assert_false(dt_example_find(example, count, &parts));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_read_as_they_were_written),
        cmocka_unit_test(an_example_may_have_no_image),
        cmocka_unit_test(damaged_words_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
