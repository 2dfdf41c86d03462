/* SPDX-License-Identifier: Apache-2.0 */
/* test_pair_rows.c - preference pairs as rows: truncation, targets, numbers */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/tensor.h"
#include "tests/unit/batch/memory_pairs.h"

enum { NO = DT_IGNORE };

static void check_row(const struct dt_rows *rows, size_t i, size_t length,
                      const int32_t *inputs, const int32_t *targets,
                      const int32_t *doc_start)
{
    int32_t in[64], out[64], from[64];
    struct dt_row row = {in, out, from, 0, NULL};
    assert_int_equal(dt_rows_length(rows, i), length);
    assert_int_equal(dt_rows_read(rows, i, length, &row, NULL), 0);
    assert_memory_equal(in, inputs, length * sizeof(*in));
    assert_memory_equal(out, targets, length * sizeof(*in));
    assert_memory_equal(from, doc_start, length * sizeof(*in));
}

static void both_sides_are_documents_of_one_row(void **state)
{
    const struct dt_examples examples =
        make(2, (struct lengths[]){{2, 1, 2}, {0, 3, 2}});
    struct dt_rows *rows = make_rows(&examples, &usual);
    const struct dt_rows_stats stats = dt_rows_stats(rows);
    (void)state;
    assert_true(dt_rows_shared(rows));
    assert_int_equal(dt_rows_count(rows), 2);
    assert_int_equal(dt_rows_max_length(rows), 7);
    check_row(rows, 0, 7, (int32_t[]){1, 2, 101, 1, 2, 201, 202},
              (int32_t[]){NO, 101, NO, NO, 201, 202, NO},
              (int32_t[]){0, 0, 0, 3, 3, 3, 3});
    check_row(rows, 1, 5, (int32_t[]){1101, 1102, 1103, 1201, 1202},
              (int32_t[]){1102, 1103, NO, 1202, NO},
              (int32_t[]){0, 0, 0, 3, 3});
    assert_int_equal(dt_rows_pair(rows, 1)->number, 1);
    assert_int_equal(dt_rows_pair(rows, 1)->chosen, 3);
    assert_true(dt_rows_pair(rows, 1)->margin == 0.5f);
    assert_int_equal(stats.examples, 2);
    assert_int_equal(stats.tokens, 12);
    assert_int_equal(stats.truncated + stats.dropped, 0);
    dt_rows_destroy(rows);
}

/* Sides of 6 and 3, 3 and 5, 4 and 4 tokens. */
static struct dt_examples long_pairs(void)
{
    return make(3, (struct lengths[]){{2, 4, 1}, {2, 1, 3}, {2, 2, 2}});
}

static void a_long_side_keeps_its_start(void **state)
{
    const struct dt_examples examples = long_pairs();
    struct dt_rows_options options = usual;
    struct dt_rows *rows;
    (void)state;
    options.T = 4;
    rows = make_rows(&examples, &options);
    assert_int_equal(dt_rows_count(rows), 3);
    assert_int_equal(dt_rows_stats(rows).truncated, 2);
    assert_int_equal(dt_rows_stats(rows).dropped, 0);
    check_row(rows, 0, 7, (int32_t[]){1, 2, 101, 102, 1, 2, 201},
              (int32_t[]){NO, 101, 102, NO, NO, 201, NO},
              (int32_t[]){0, 0, 0, 0, 4, 4, 4});
    dt_rows_destroy(rows);
}

static void a_long_side_keeps_its_end_if_asked_to(void **state)
{
    const struct dt_examples examples = long_pairs();
    struct dt_rows_options options = usual;
    struct dt_rows *rows;
    (void)state;
    options.T = 3;
    options.keep_end = true;
    rows = make_rows(&examples, &options);
    assert_int_equal(dt_rows_count(rows), 3);
    assert_int_equal(dt_rows_stats(rows).truncated, 3);
    check_row(rows, 0, 6, (int32_t[]){102, 103, 104, 1, 2, 201},
              (int32_t[]){103, 104, NO, NO, 201, NO},
              (int32_t[]){0, 0, 0, 3, 3, 3});
    dt_rows_destroy(rows);
}

static void long_pairs_are_left_out_if_asked_to(void **state)
{
    const struct dt_examples examples = long_pairs();
    struct dt_rows_options options = usual;
    struct dt_rows *rows;
    (void)state;
    options.T = 4;
    options.drop_long = true;
    rows = make_rows(&examples, &options);
    assert_int_equal(dt_rows_count(rows), 1);
    assert_int_equal(dt_rows_stats(rows).examples, 3);
    assert_int_equal(dt_rows_stats(rows).dropped, 2);
    assert_int_equal(dt_rows_stats(rows).truncated, 0);
    assert_int_equal(dt_rows_pair(rows, 0)->number, 2);
    dt_rows_destroy(rows);
}

/* As in TRL, a prompt of T - 1 tokens leaves one to train on; one of T does
 * not, and neither does a single token without a prompt.
 */
static void pairs_without_a_target_on_both_sides_are_left_out(void **state)
{
    const struct dt_examples examples =
        make(4, (struct lengths[]){{3, 2, 2}, {4, 2, 2}, {0, 1, 3}, {0, 3, 1}});
    struct dt_rows_options options = usual;
    struct dt_rows *rows;
    (void)state;
    options.T = 4;
    rows = make_rows(&examples, &options);
    assert_int_equal(dt_rows_count(rows), 1);
    assert_int_equal(dt_rows_stats(rows).dropped, 3);
    check_row(rows, 0, 8, (int32_t[]){1, 2, 3, 101, 1, 2, 3, 201},
              (int32_t[]){NO, NO, 101, NO, NO, NO, 201, NO},
              (int32_t[]){0, 0, 0, 0, 4, 4, 4, 4});
    dt_rows_destroy(rows);
}

/* Copies keep the number of their pair; numbers go on in the next source. */
static void numbers_count_the_pairs_of_all_sources(void **state)
{
    const struct dt_examples one = long_pairs(), two = long_pairs();
    const struct dt_rows_source sources[] = {{&one, 2.0}, {&two, 1.0}};
    const uint64_t numbers[] = {0, 1, 2, 0, 1, 2, 3, 4, 5};
    struct dt_rows *rows = dt_rows_of_pairs(sources, 2, &usual, NULL);
    (void)state;
    assert_int_equal(dt_rows_count(rows), 9);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(dt_rows_pair(rows, i)->number, numbers[i]);
    dt_rows_destroy(rows);
}

static void expect_refusal(const struct dt_examples *examples,
                           const struct dt_rows_options *options,
                           const char *text)
{
    const struct dt_rows_source source = {examples, 1.0};
    struct dt_error err = {0};
    assert_null(dt_rows_of_pairs(&source, 1, options, &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_string_equal(err.text, text);
}

static void pairs_that_cannot_be_learned_are_refused(void **state)
{
    struct dt_examples examples = long_pairs();
    struct dt_rows_options options = usual;
    int32_t in[9], out[9], from[9];
    struct dt_row row = {in, out, from, 0, NULL};
    struct dt_error err;
    (void)state;
    options.T = 2;
    expect_refusal(&examples, &options,
                   "data: none of 3 pairs is left to train on: their prompts "
                   "leave no token of a completion within max_length 2");
    options.drop_long = true;
    expect_refusal(&examples, &options,
                   "data: none of 3 pairs is left to train on: they are longer "
                   "than max_length 2");
    options = usual;
    options.begin = 0.999;
    expect_refusal(&examples, &options,
                   "data: no pair in this share of the files");
    options = usual;
    options.vocab_size = 104;
    struct dt_rows *rows = make_rows(&examples, &options);
    assert_int_equal(dt_rows_read(rows, 0, 9, &row, &err), -1);
    assert_string_equal(err.text,
                        "data: token id 104, but the model's vocab_size is "
                        "104: is this the tokenizer of the model?");
    dt_rows_destroy(rows);
    examples.words[1][1] = 9;
    expect_refusal(&examples, &usual,
                   "data: example 2 of the cache is no preference pair: remove "
                   "the cache");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_are_documents_of_one_row),
        cmocka_unit_test(a_long_side_keeps_its_start),
        cmocka_unit_test(a_long_side_keeps_its_end_if_asked_to),
        cmocka_unit_test(long_pairs_are_left_out_if_asked_to),
        cmocka_unit_test(pairs_without_a_target_on_both_sides_are_left_out),
        cmocka_unit_test(numbers_count_the_pairs_of_all_sources),
        cmocka_unit_test(pairs_that_cannot_be_learned_are_refused),
    };
    return cmocka_run_group_tests_name("pair rows", tests, NULL, NULL);
}
