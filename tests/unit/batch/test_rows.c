/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows.c - examples into rows: packing, truncation, weights, targets */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "batch/loader.h"
#include "batch/rows.h"
#include "tests/unit/batch/memory_examples.h"

/* Example i has the tokens 100*i + 1, 100*i + 2, ..., all of them targets but
 * those in `masked`.
 */
enum { MAX_TOKENS = 40 };

static struct dt_examples make(size_t count, const size_t *lengths)
{
    struct dt_examples examples = {.count = count};
    for (size_t i = 0; i < count; i++) {
        examples.lengths[i] = lengths[i];
        for (size_t t = 0; t < lengths[i]; t++)
            examples.words[i][t] = DT_TARGET_BIT | (uint32_t)(100 * i + t + 1);
    }
    return examples;
}

static struct dt_rows *must_make(const struct dt_examples *examples,
                                 enum dt_packing packing, size_t T)
{
    const struct dt_rows_source source = {examples, 1.0};
    const struct dt_rows_options options = {
        .T = T, .packing = packing, .end = 1.0, .vocab_size = 10000};
    struct dt_error err;
    struct dt_rows *rows = dt_rows_of_examples(&source, 1, &options, &err);
    if (!rows)
        fail_msg("%s", err.text);
    return rows;
}

/* Row i is exactly this, with its padding. */
static void check_row(const struct dt_rows *rows, size_t i, size_t length,
                      const int32_t *inputs, const int32_t *targets,
                      const int32_t *doc_start)
{
    int32_t in[MAX_TOKENS], out[MAX_TOKENS], from[MAX_TOKENS];
    struct dt_row row = {in, out, from, 0, NULL};
    size_t expected = 0;
    struct dt_error err;
    assert_int_equal(dt_rows_read(rows, i, length, &row, &err), 0);
    for (size_t t = 0; t < length; t++) {
        assert_int_equal(in[t], inputs[t]);
        assert_int_equal(out[t], targets[t]);
        assert_int_equal(from[t], doc_start[t]);
        expected += targets[t] != DT_IGNORE;
    }
    assert_int_equal(row.target_count, expected);
}

enum { NO = DT_IGNORE };

/* Lengths 5, 2, 3, 1 into bins of 4: the example of TRL's packing. */
static void best_fit_packs_as_trl_does(void **state)
{
    const uint32_t lengths[] = {4, 2, 3, 1};
    const size_t expected_order[] = {0, 2, 3, 1};
    size_t order[4], begin[5];
    (void)state;
    assert_int_equal(dt_pack_best_fit(lengths, 4, 4, order, begin), 3);
    assert_memory_equal(order, expected_order, sizeof(order));
    assert_int_equal(begin[0], 0);
    assert_int_equal(begin[1], 1);
    assert_int_equal(begin[2], 3);
    assert_int_equal(begin[3], 4);
}

/* The same by looking at every bin. */
static size_t obvious_best_fit(const uint32_t *lengths, size_t count,
                               uint32_t capacity, size_t *bin)
{
    uint32_t left[300];
    size_t bins = 0;
    for (uint32_t length = capacity; length > 0; length--)
        for (size_t i = 0; i < count; i++) {
            size_t best = bins;
            if (lengths[i] != length)
                continue;
            /* the oldest of equally full ones is the one that has been so
             * for longest: with equal lengths in order, any is as good, but
             * the space must be the same
             */
            for (size_t b = 0; b < bins; b++)
                if (left[b] >= length && (best == bins || left[b] < left[best]))
                    best = b;
            if (best == bins)
                left[bins++] = capacity;
            left[best] -= length;
            bin[i] = left[best];
        }
    return bins;
}

static void best_fit_agrees_with_looking_at_every_bin(void **state)
{
    uint32_t lengths[300] = {0};
    size_t order[300], begin[301], space[300];
    (void)state;
    for (uint64_t round = 0; round < 200; round++) {
        uint32_t capacity = 1 + (uint32_t)(round * 7 % 130);
        size_t count = round % 300;
        for (size_t i = 0; i < count; i++)
            lengths[i] = 1 + (uint32_t)(dt_rng_uniform(round, DT_RNG_INIT, i) *
                                        (float)capacity);
        size_t bins = dt_pack_best_fit(lengths, count, capacity, order, begin);
        assert_int_equal(bins,
                         obvious_best_fit(lengths, count, capacity, space));
        bool seen[300] = {false};
        for (size_t b = 0; b < bins; b++) {
            uint32_t sum = 0;
            for (size_t k = begin[b]; k < begin[b + 1]; k++) {
                assert_false(seen[order[k]]);
                seen[order[k]] = true;
                sum += lengths[order[k]];
                assert_int_equal(capacity - sum, space[order[k]]);
            }
            assert_true(sum > 0 && sum <= capacity);
        }
        assert_int_equal(begin[bins], count);
    }
}

static void without_packing_each_row_is_one_example(void **state)
{
    struct dt_examples examples = make(3, (size_t[]){6, 1, 3});
    struct dt_rows *rows = must_make(&examples, DT_PACK_NONE, 4);
    struct dt_rows_stats stats = dt_rows_stats(rows);
    (void)state;
    assert_int_equal(dt_rows_count(rows), 2);
    assert_int_equal(stats.examples, 3);
    assert_int_equal(stats.truncated, 1);
    assert_int_equal(stats.dropped, 1); /* one token predicts nothing */
    assert_int_equal(stats.tokens, 7);
    assert_int_equal(dt_rows_length(rows, 1), 3);
    check_row(rows, 0, 4, (int32_t[]){1, 2, 3, 4}, (int32_t[]){2, 3, 4, NO},
              (int32_t[]){0, 0, 0, 0});
    check_row(rows, 1, 5, (int32_t[]){201, 202, 203, 0, 0},
              (int32_t[]){202, 203, NO, NO, NO}, (int32_t[]){0, 0, 0, 3, 4});
    dt_rows_destroy(rows);
}

static void truncation_keeps_the_end_if_asked_to(void **state)
{
    struct dt_examples examples = make(1, (size_t[]){6});
    const struct dt_rows_source source = {&examples, 1.0};
    const struct dt_rows_options options = {
        .T = 4, .keep_end = true, .end = 1.0, .vocab_size = 10};
    struct dt_rows *rows = dt_rows_of_examples(&source, 1, &options, NULL);
    (void)state;
    check_row(rows, 0, 4, (int32_t[]){3, 4, 5, 6}, (int32_t[]){4, 5, 6, NO},
              (int32_t[]){0, 0, 0, 0});
    dt_rows_destroy(rows);
}

/* A document's first token is nobody's target, whatever the mask says. */
static void packed_documents_do_not_predict_each_other(void **state)
{
    struct dt_examples examples = make(3, (size_t[]){5, 2, 2});
    (void)state;
    examples.words[0][2] &= ~DT_TARGET_BIT;
    struct dt_rows *rows = must_make(&examples, DT_PACK_BFD, 4);
    assert_int_equal(dt_rows_count(rows), 2);
    check_row(rows, 0, 4, (int32_t[]){1, 2, 3, 4}, (int32_t[]){2, NO, 4, NO},
              (int32_t[]){0, 0, 0, 0});
    check_row(rows, 1, 4, (int32_t[]){101, 102, 201, 202},
              (int32_t[]){102, NO, 202, NO}, (int32_t[]){0, 0, 2, 2});
    dt_rows_destroy(rows);

    rows = must_make(&examples, DT_PACK_BFD_SPLIT, 3);
    assert_int_equal(dt_rows_count(rows), 4);
    check_row(rows, 0, 3, (int32_t[]){1, 2, 3}, (int32_t[]){2, NO, NO},
              (int32_t[]){0, 0, 0});
    check_row(rows, 1, 3, (int32_t[]){4, 5, 0}, (int32_t[]){5, NO, NO},
              (int32_t[]){0, 0, 2});
    assert_int_equal(dt_rows_stats(rows).tokens, 9);
    assert_int_equal(dt_rows_stats(rows).truncated, 0);
    dt_rows_destroy(rows);
}

/* Wrapped, nothing is lost but the end, and first tokens are targets. */
static void wrapping_loses_nothing_but_the_end(void **state)
{
    struct dt_examples examples = make(4, (size_t[]){5, 2, 7, 3});
    struct dt_rows *rows = must_make(&examples, DT_PACK_WRAPPED, 4);
    int32_t in[4], out[4], doc_start[4], stream[17];
    struct dt_row row = {in, out, doc_start, 0, NULL};
    size_t count = 0, n = 0;
    bool seen[4] = {false};
    (void)state;
    assert_int_equal(dt_rows_count(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(dt_rows_read(rows, i, 4, &row, NULL), 0);
        count += row.target_count;
        for (size_t t = 0; t < 4; t++) {
            assert_int_equal(doc_start[t], 0);
            if (t > 0)
                assert_int_equal(in[t], out[t - 1]);
            else if (i > 0)
                assert_int_equal(in[0], stream[n - 1]);
            if (n == 0)
                stream[n++] = in[0];
            stream[n++] = out[t];
        }
    }
    assert_int_equal(count, 16);
    for (size_t i = 0; i < 17;) { /* whole examples, each once */
        size_t e = (size_t)stream[i] / 100, left = 17 - i;
        assert_false(seen[e]);
        seen[e] = true;
        for (size_t t = 0; t < examples.lengths[e] && t < left; t++, i++)
            assert_int_equal(stream[i], 100 * e + t + 1);
    }
    dt_rows_destroy(rows);
}

/* In order, the stream is the files; what fills no row is counted. */
static void wrapped_in_order_the_rows_are_the_files(void **state)
{
    struct dt_examples examples = make(5, (size_t[]){5, 2, 7, 3, 2});
    const struct dt_rows_source sources[] = {{&examples, 1.0},
                                             {&examples, 1.0}};
    struct dt_rows_options options = {.T = 4,
                                      .packing = DT_PACK_WRAPPED,
                                      .in_order = true,
                                      .end = 1.0,
                                      .seed = 3,
                                      .vocab_size = 10000};
    struct dt_rows *rows = dt_rows_of_examples(sources, 2, &options, NULL);
    static const int32_t stream[] = {
        1,   2,   3,   4,   5,   101, 102, 201, 202, 203, 204, 205, 206,
        207, 301, 302, 303, 401, 402, 1,   2,   3,   4,   5,   101, 102,
        201, 202, 203, 204, 205, 206, 207, 301, 302, 303, 401, 402};
    (void)state;
    assert_int_equal(dt_rows_count(rows), 9);
    assert_int_equal(dt_rows_stats(rows).tail, 1);
    for (size_t i = 0; i < 9; i++)
        check_row(rows, i, 4, stream + 4 * i, stream + 4 * i + 1,
                  (int32_t[]){0, 0, 0, 0});
    dt_rows_destroy(rows);
    options.T = 37; /* one row, and nothing is left */
    rows = dt_rows_of_examples(sources, 2, &options, NULL);
    assert_int_equal(dt_rows_count(rows), 1);
    assert_int_equal(dt_rows_stats(rows).tail, 0);
    dt_rows_destroy(rows);
}

/* 2.5 times: two copies and half of them once more, another choice with
 * another seed; 0 < weight < 1 leaves some out.
 */
static void a_weight_says_how_often_examples_are_used(void **state)
{
    const size_t lengths[] = {2, 2, 2, 2, 2, 2, 2, 2};
    struct dt_examples examples = make(8, lengths);
    struct dt_rows_source source = {&examples, 2.5};
    struct dt_rows_options options = {
        .T = 2, .end = 1.0, .seed = 1, .vocab_size = 10000};
    int uses[8] = {0};
    struct dt_rows *rows = dt_rows_of_examples(&source, 1, &options, NULL);
    (void)state;
    assert_int_equal(dt_rows_count(rows), 20);
    for (size_t i = 0; i < 20; i++) {
        int32_t in[2], out[2], doc_start[2];
        struct dt_row row = {in, out, doc_start, 0, NULL};
        dt_rows_read(rows, i, 2, &row, NULL);
        uses[in[0] / 100]++;
    }
    for (int i = 0; i < 8; i++)
        assert_true(uses[i] == 2 || uses[i] == 3);
    dt_rows_destroy(rows);
    /* a place in a list of sources has a choice of its own */
    struct dt_examples many =
        make(16, (size_t[]){2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
    const struct dt_rows_source two[] = {{&many, 0.5}, {&many, 0.5}};
    uint64_t chosen[2][2] = {{0}};
    for (options.seed = 0; options.seed < 2; options.seed++) {
        rows = dt_rows_of_examples(two, 2, &options, NULL);
        assert_int_equal(dt_rows_count(rows), 16);
        for (size_t i = 0; i < 16; i++) {
            int32_t in[2], out[2], doc_start[2];
            struct dt_row row = {in, out, doc_start, 0, NULL};
            dt_rows_read(rows, i, 2, &row, NULL);
            chosen[options.seed][i / 8] |= UINT64_C(1) << in[0] / 100;
        }
        dt_rows_destroy(rows);
        for (int i = 0; i < 2; i++) /* nothing twice */
            assert_int_equal(__builtin_popcountll(chosen[options.seed][i]), 8);
        assert_true(chosen[options.seed][0] != chosen[options.seed][1]);
    }
    assert_true(chosen[0][0] != chosen[1][0] && chosen[0][1] != chosen[1][1]);
    source.weight = 0.25;
    rows = dt_rows_of_examples(&source, 1, &options, NULL);
    assert_int_equal(dt_rows_count(rows), 2);
    dt_rows_destroy(rows);
}

/* Of a text, which is one example, a weight is so many of its tokens. */
static void a_weight_of_a_text_counts_its_tokens(void **state)
{
    static const struct {
        double weight;
        size_t tokens;
    } cases[] = {{0.3, 3}, {0.5, 5}, {1, 10}, {1.5, 15}, {2, 20}, {2.4, 24}};
    struct dt_examples text = make(1, (size_t[]){10});
    struct dt_rows_source source = {&text, 1};
    const struct dt_rows_options options = {.T = 2,
                                            .packing = DT_PACK_WRAPPED,
                                            .in_order = true,
                                            .end = 1.0,
                                            .vocab_size = 10000};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        source.weight = cases[i].weight;
        struct dt_rows *rows = dt_rows_of_examples(&source, 1, &options, NULL);
        assert_int_equal(dt_rows_stats(rows).tokens, cases[i].tokens);
        assert_int_equal(dt_rows_count(rows), (cases[i].tokens - 1) / 2);
        dt_rows_destroy(rows);
    }
}

static void shares_neither_overlap_nor_omit_an_example(void **state)
{
    struct dt_examples examples = make(5, (size_t[]){2, 2, 2, 2, 2});
    const struct dt_rows_source source = {&examples, 1.0};
    struct dt_rows_options options = {.T = 2, .end = 0.75, .vocab_size = 10000};
    struct dt_rows *train = dt_rows_of_examples(&source, 1, &options, NULL);
    options.begin = 0.75;
    options.end = 1.0;
    struct dt_rows *held = dt_rows_of_examples(&source, 1, &options, NULL);
    (void)state;
    assert_int_equal(dt_rows_count(train), 4);
    assert_int_equal(dt_rows_count(held), 1);
    check_row(held, 0, 2, (int32_t[]){401, 402}, (int32_t[]){402, NO},
              (int32_t[]){0, 0});
    dt_rows_destroy(train);
    dt_rows_destroy(held);
}

static void a_single_text_is_divided_by_its_tokens(void **state)
{
    struct dt_examples examples = make(1, (size_t[]){8});
    const struct dt_rows_source source = {&examples, 1.0};
    struct dt_rows_options options = {
        .T = 2, .packing = DT_PACK_WRAPPED, .end = 0.5, .vocab_size = 10000};
    struct dt_rows *train = dt_rows_of_examples(&source, 1, &options, NULL);
    options.begin = 0.5;
    options.end = 1.0;
    struct dt_rows *held = dt_rows_of_examples(&source, 1, &options, NULL);
    (void)state;
    assert_int_equal(dt_rows_count(train), 1);
    assert_int_equal(dt_rows_count(held), 1);
    check_row(train, 0, 2, (int32_t[]){1, 2}, (int32_t[]){2, 3},
              (int32_t[]){0, 0});
    check_row(held, 0, 2, (int32_t[]){5, 6}, (int32_t[]){6, 7},
              (int32_t[]){0, 0});
    dt_rows_destroy(train);
    dt_rows_destroy(held);
}

static void rows_that_cannot_be_learned_are_refused(void **state)
{
    struct dt_examples examples = make(2, (size_t[]){3, 1});
    const struct dt_rows_source source = {&examples, 1.0};
    struct dt_rows_options options = {.T = 4, .end = 1.0, .vocab_size = 3};
    struct dt_error err;
    int32_t in[4], out[4], doc_start[4];
    struct dt_row row = {in, out, doc_start, 0, NULL};
    struct dt_rows *rows = dt_rows_of_examples(&source, 1, &options, NULL);
    (void)state;
    assert_int_equal(dt_rows_read(rows, 0, 4, &row, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_string_equal(err.text,
                        "data: token id 3, but the model's vocab_size is 3: "
                        "is this the tokenizer of the model?");
    dt_rows_destroy(rows);
    for (size_t t = 0; t < 3; t++)
        examples.words[0][t] &= ~DT_TARGET_BIT;
    assert_null(dt_rows_of_examples(&source, 1, &options, &err));
    assert_string_equal(err.text,
                        "data: none of 2 examples is left to train on (2 "
                        "have no target within max_length 4)");
    options.begin = 0.999;
    assert_null(dt_rows_of_examples(&source, 1, &options, &err));
    assert_string_equal(err.text,
                        "data: no example in this share of the files");
}

/* Batches are as long as their longest row, rounded up, and the same whatever
 * the number of threads.
 */
static void check_batches(enum dt_packing packing)
{
    struct dt_examples examples = make(7, (size_t[]){5, 9, 2, 7, 3, 4, 11});
    struct dt_rows *rows = must_make(&examples, packing, 10);
    struct dt_loader *loaders[2];
    struct dt_loader_options opt = {.B = 2,
                                    .multiple_of = 4,
                                    .world = 1,
                                    .seed = 5,
                                    .shuffle = true,
                                    .repeat = true,
                                    .prefetch = 6,
                                    .timeout_ms = 60000};
    assert_int_equal(dt_rows_shared(rows), packing == DT_PACK_BFD);
    for (size_t i = 0; i < 2; i++) {
        opt.workers = i ? 4 : 1;
        loaders[i] = dt_loader_create(rows, &opt, 3, NULL);
        assert_non_null(loaders[i]);
    }
    for (uint64_t k = 0; k < 200; k++) {
        struct dt_batch a, b;
        assert_int_equal(dt_loader_next(loaders[0], &a, NULL), 1);
        assert_int_equal(dt_loader_next(loaders[1], &b, NULL), 1);
        assert_int_equal(a.T, b.T);
        assert_true(a.T == 4 || a.T == 8 || a.T == 10);
        assert_int_equal(a.rows[0], 3 + 2 * k);
        assert_memory_equal(a.rows, b.rows, 2 * sizeof(*a.rows));
        assert_memory_equal(a.inputs, b.inputs, 2 * a.T * sizeof(*a.inputs));
        assert_memory_equal(a.targets, b.targets, 2 * a.T * sizeof(*a.targets));
        assert_int_equal(a.doc_start != NULL, dt_rows_shared(rows));
        if (a.doc_start)
            assert_memory_equal(a.doc_start, b.doc_start,
                                2 * a.T * sizeof(*a.doc_start));
    }
    dt_loader_destroy(loaders[0]);
    dt_loader_destroy(loaders[1]);
    dt_rows_destroy(rows);
}

/* Only rows of several documents say where each begins. */
static void batches_do_not_depend_on_the_thread_count(void **state)
{
    (void)state;
    check_batches(DT_PACK_NONE);
    check_batches(DT_PACK_BFD);
    check_batches(DT_PACK_WRAPPED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_fit_packs_as_trl_does),
        cmocka_unit_test(best_fit_agrees_with_looking_at_every_bin),
        cmocka_unit_test(without_packing_each_row_is_one_example),
        cmocka_unit_test(truncation_keeps_the_end_if_asked_to),
        cmocka_unit_test(packed_documents_do_not_predict_each_other),
        cmocka_unit_test(wrapping_loses_nothing_but_the_end),
        cmocka_unit_test(wrapped_in_order_the_rows_are_the_files),
        cmocka_unit_test(a_weight_says_how_often_examples_are_used),
        cmocka_unit_test(a_weight_of_a_text_counts_its_tokens),
        cmocka_unit_test(shares_neither_overlap_nor_omit_an_example),
        cmocka_unit_test(a_single_text_is_divided_by_its_tokens),
        cmocka_unit_test(rows_that_cannot_be_learned_are_refused),
        cmocka_unit_test(batches_do_not_depend_on_the_thread_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
