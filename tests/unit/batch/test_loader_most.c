/* SPDX-License-Identifier: Apache-2.0 */
/* test_loader_most.c - no micro-batch has more pictures than the most */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batch/loader.h"
#include "tests/unit/batch/memory_images.h"

static struct dt_image_processor pixels;
static struct dt_example_images of_pixels = {.processor = &pixels};
static const struct dt_rows_options long_rows = {
    .T = 30, .end = 1.0, .vocab_size = VOCAB, .images = &of_pixels};

static int setup(void **state)
{
    (void)state;
    pixels = small_processor();
    return 0;
}

/* The sum of the pictures or patches of all batches of these rows, in an order
 * where the same row comes twice if an epoch ends between.
 */
static size_t most_by_trying(const struct dt_rows *rows, size_t B, bool patches)
{
    struct {
        size_t value, uses;
    } left[MAX_EXAMPLES];
    const size_t n = dt_rows_count(rows);
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        left[i].value =
            patches ? dt_rows_patches(rows, i) : dt_rows_pictures(rows, i);
        left[i].uses = (B - 1 + n - 1) / n + 1;
    }
    for (size_t k = 0; k < B; k++) {
        size_t best = 0;
        for (size_t i = 1; i < n; i++)
            if (left[i].uses > 0 &&
                (left[best].uses == 0 || left[i].value > left[best].value))
                best = i;
        left[best].uses--;
        sum += left[best].value;
    }
    return sum;
}

/* Rows of many lengths; every fourth has no image. */
static struct dt_rows *mixed_rows(struct dt_examples *examples)
{
    examples->count = 0;
    for (uint32_t i = 0; i < 9; i++) {
        const uint32_t height = i % 4 > 0 ? 4 + 4 * (i % 3) : 0;
        add_example(
            examples, &pixels,
            (struct segment[]){{i, height, 4 * (i % 4), NULL}, {2, 0, 0, NULL}},
            2);
    }
    return make_rows(examples, &long_rows);
}

static void the_most_of_a_batch_is_that_of_the_largest_rows(void **state)
{
    static struct dt_examples examples;
    struct dt_loader_options opt = {.world = 1, .repeat = true};
    struct dt_loader_most most;
    (void)state;
    examples.count = 0;
    for (uint32_t i = 0; i < 5; i++) /* rows 0 and 3 have no image */
        add_example(&examples, &pixels,
                    (struct segment[]){{i, i % 3 ? 4 * i : 0, 8, NULL},
                                       {2, 0, 0, NULL}},
                    2);
    struct dt_rows *rows = make_rows(&examples, &long_rows);
    for (opt.B = 1; opt.B < 20; opt.B++) {
        assert_int_equal(dt_loader_most(rows, &opt, &most, NULL), 0);
        assert_int_equal(most.patches, most_by_trying(rows, opt.B, true));
        assert_int_equal(most.pictures, most_by_trying(rows, opt.B, false));
    }
    opt.repeat = false; /* each row once */
    opt.B = 100;
    assert_int_equal(dt_loader_most(rows, &opt, &most, NULL), 0);
    assert_int_equal(most.patches, dt_rows_stats(rows).patches);
    assert_int_equal(most.pictures, dt_rows_stats(rows).pictures);
    dt_rows_destroy(rows);
}

/* The most patches of rows that have at most so many tokens, each row at most
 * `uses` times.
 */
static size_t most_within(const struct dt_rows *rows, size_t tokens,
                          size_t uses)
{
    size_t best[100] = {0};
    assert_true(tokens < 100);
    for (size_t i = 0; i < uses * dt_rows_count(rows); i++) {
        const size_t length = dt_rows_length(rows, i / uses);
        const size_t patches = dt_rows_patches(rows, i / uses);
        for (size_t t = tokens; t >= length; t--)
            if (best[t - length] + patches > best[t])
                best[t] = best[t - length] + patches;
    }
    return best[tokens];
}

/* Two ranks have 6 samples each in a step, so 9 rows are used up to 3 times. */
static void the_most_within_tokens_is_a_close_bound(void **state)
{
    static struct dt_examples examples;
    struct dt_loader_options opt = {
        .B = 2, .accumulation = 3, .world = 2, .repeat = true};
    struct dt_rows *rows = mixed_rows(&examples);
    size_t largest = 0;
    (void)state;
    for (size_t i = 0; i < dt_rows_count(rows); i++)
        if (dt_rows_patches(rows, i) > largest)
            largest = dt_rows_patches(rows, i);
    for (opt.tokens = 17; opt.tokens < 100; opt.tokens++) {
        struct dt_loader_most most;
        const size_t least = most_within(rows, opt.tokens, 3);
        assert_int_equal(dt_loader_most(rows, &opt, &most, NULL), 0);
        assert_in_range(most.patches, least, least + largest);
    }
    dt_rows_destroy(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_of_a_batch_is_that_of_the_largest_rows),
        cmocka_unit_test(the_most_within_tokens_is_a_close_bound),
    };
    return cmocka_run_group_tests_name("most of a batch", tests, setup, NULL);
}
