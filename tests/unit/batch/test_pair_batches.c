/* SPDX-License-Identifier: Apache-2.0 */
/* test_pair_batches.c - batches of preference pairs, with a limit of tokens */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "batch/loader.h"
#include "tests/unit/batch/memory_pairs.h"

static struct dt_loader *must_load(const struct dt_rows *rows,
                                   const struct dt_loader_options *options,
                                   uint64_t position)
{
    struct dt_error err;
    struct dt_loader *loader = dt_loader_create(rows, options, position, &err);
    if (!loader)
        fail_msg("%s", err.text);
    return loader;
}

static const struct dt_loader_options loading = {.B = 2,
                                                 .multiple_of = 4,
                                                 .world = 1,
                                                 .seed = 3,
                                                 .repeat = true,
                                                 .workers = 2,
                                                 .prefetch = 3,
                                                 .timeout_ms = 60000};

static void check_side(const struct dt_batch *batch,
                       const struct dt_batch_side *side, size_t start,
                       size_t first, size_t end)
{
    assert_int_equal(side->start, start);
    assert_int_equal(side->first, first);
    assert_int_equal(side->end, end);
    for (size_t n = start; n < end; n++)
        assert_int_equal(batch->targets[n] != DT_IGNORE,
                         n >= first && n + 1 < end);
}

/* Without a limit each pair has a row, padded to the longest. */
static void a_batch_tells_where_its_pairs_are(void **state)
{
    const struct dt_examples examples =
        make(2, (struct lengths[]){{2, 1, 2}, {0, 3, 2}});
    struct dt_rows *rows = make_rows(&examples, &usual);
    struct dt_loader_options options = loading;
    struct dt_batch batch;
    (void)state;
    options.multiple_of = 1;
    struct dt_loader *loader = must_load(rows, &options, 0);
    assert_int_equal(dt_loader_next(loader, &batch, NULL), 1);
    assert_int_equal(batch.B, 2);
    assert_int_equal(batch.T, 7);
    assert_int_equal(batch.pair_count, 2);
    assert_int_equal(batch.target_count, 1 + 2 + 2 + 1);
    check_side(&batch, &batch.pairs[0].chosen, 0, 1, 3);
    check_side(&batch, &batch.pairs[0].rejected, 3, 4, 7);
    check_side(&batch, &batch.pairs[1].chosen, 7, 7, 10);
    check_side(&batch, &batch.pairs[1].rejected, 10, 10, 12);
    assert_int_equal(batch.pairs[1].number, 1);
    assert_true(batch.pairs[1].margin == 0.5f);
    dt_loader_destroy(loader);
    dt_rows_destroy(rows);
}

/* Pairs follow each other; only the end of a row is padding. */
static void with_a_limit_pairs_share_one_row(void **state)
{
    const struct dt_examples examples =
        make(3, (struct lengths[]){{2, 1, 2}, {0, 3, 2}, {1, 1, 1}});
    struct dt_rows *rows = make_rows(&examples, &usual);
    struct dt_loader_options options = loading;
    static const int32_t inputs[] = {1,    2,    101,  1,    2, 201, 202, 1101,
                                     1102, 1103, 1201, 1202, 0, 0,   0,   0};
    static const int32_t starts[] = {0, 0, 0,  3,  3,  3,  3,  7,
                                     7, 7, 10, 10, 12, 13, 14, 15};
    struct dt_batch batch;
    (void)state;
    options.multiple_of = 8;
    options.tokens = 13;
    options.accumulation = 2; /* 2 * 2 pairs in a step: the first comes again */
    struct dt_loader *loader = must_load(rows, &options, 0);
    assert_int_equal(dt_loader_next(loader, &batch, NULL), 1);
    assert_int_equal(batch.B, 1);
    assert_int_equal(batch.T, 16);
    assert_memory_equal(batch.inputs, inputs, sizeof(inputs));
    assert_memory_equal(batch.doc_start, starts, sizeof(starts));
    assert_int_equal(batch.pair_count, 2);
    check_side(&batch, &batch.pairs[1].chosen, 7, 7, 10);
    check_side(&batch, &batch.pairs[1].rejected, 10, 10, 12);
    assert_false(dt_loader_step_ends(loader));
    assert_int_equal(dt_loader_position(loader), 0);
    assert_int_equal(dt_loader_next(loader, &batch, NULL), 1);
    assert_int_equal(batch.T, 16); /* 4 + 7 */
    assert_int_equal(batch.inputs[0], 2001);
    assert_int_equal(batch.inputs[4], 1);
    assert_true(dt_loader_step_ends(loader));
    assert_int_equal(dt_loader_position(loader), 4);
    dt_loader_destroy(loader);
    dt_rows_destroy(rows);
}

/* Pairs of many lengths. */
static struct dt_examples many_pairs(void)
{
    struct lengths lengths[61];
    for (size_t i = 0; i < 61; i++)
        lengths[i] = (struct lengths){i % 3, 2 + i * 7 % 11, 3 + i * 5 % 9};
    return make(61, lengths);
}

/* The numbers of the pairs in steps of `world` ranks from `position` on. */
static void read_steps(const struct dt_rows *rows,
                       const struct dt_loader_options *options, int world,
                       uint64_t position, size_t steps, uint64_t *numbers)
{
    size_t read = 0;
    for (int rank = 0; rank < world; rank++) {
        struct dt_loader_options opt = *options;
        opt.rank = rank;
        opt.world = world;
        struct dt_loader *loader = must_load(rows, &opt, position);
        for (size_t step = 0; step < steps;) {
            struct dt_batch batch;
            assert_int_equal(dt_loader_next(loader, &batch, NULL), 1);
            assert_true(batch.T <= opt.tokens && batch.T % 4 == 0);
            for (size_t i = 0; i < batch.pair_count; i++)
                numbers[read++] = batch.pairs[i].number;
            step += dt_loader_step_ends(loader);
        }
        assert_int_equal(dt_loader_position(loader),
                         position +
                             steps * opt.B * opt.accumulation * (size_t)world);
        dt_loader_destroy(loader);
    }
    assert_int_equal(read, steps * options->B * options->accumulation *
                               (size_t)world);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Whatever the limit, the world and where the run was resumed, a step has the
 * same pairs.
 */
static void every_division_has_the_same_steps(void **state)
{
    static const struct {
        size_t B, accumulation, tokens;
        int world;
    } ways[] = {{12, 1, 1000, 1}, {2, 6, 64, 1},  {3, 2, 32, 2},
                {1, 4, 40, 3},    {1, 12, 32, 1}, {4, 1, 100, 3}};
    const struct dt_examples examples = many_pairs();
    struct dt_rows_options options = usual;
    (void)state;
    options.T = 100;
    struct dt_rows *rows = make_rows(&examples, &options);
    for (uint64_t position = 0; position < 10000; position += 5004) {
        uint64_t want[12], got[12];
        for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
            struct dt_loader_options opt = loading;
            opt.shuffle = true;
            opt.B = ways[i].B;
            opt.accumulation = ways[i].accumulation;
            opt.tokens = ways[i].tokens;
            read_steps(rows, &opt, ways[i].world, position, 1, got);
            qsort(got, 12, sizeof(*got), by_number);
            if (i == 0)
                memcpy(want, got, sizeof(want));
            assert_memory_equal(got, want, sizeof(want));
        }
    }
    dt_rows_destroy(rows);
}

/* Else collectives of a micro-batch would wait for a rank that has none. */
static void every_rank_has_as_many_batches_in_a_step(void **state)
{
    const struct dt_examples examples = many_pairs();
    struct dt_rows_options options = usual;
    struct dt_loader *loaders[3];
    size_t empty = 0;
    (void)state;
    options.T = 100;
    struct dt_rows *rows = make_rows(&examples, &options);
    for (int rank = 0; rank < 3; rank++) {
        struct dt_loader_options opt = loading;
        opt.shuffle = true;
        opt.rank = rank;
        opt.world = 3;
        opt.accumulation = 3;
        opt.tokens = 48;
        loaders[rank] = must_load(rows, &opt, 0);
    }
    for (int i = 0; i < 200; i++) {
        for (int rank = 0; rank < 3; rank++) {
            struct dt_batch batch;
            assert_int_equal(dt_loader_next(loaders[rank], &batch, NULL), 1);
            assert_int_equal(dt_loader_step_ends(loaders[rank]),
                             dt_loader_step_ends(loaders[0]));
            empty += batch.pair_count == 0;
            if (batch.pair_count == 0) {
                assert_int_equal(batch.target_count, 0);
                assert_int_equal(batch.T, 4);
            }
        }
    }
    assert_true(empty > 0);
    for (int rank = 0; rank < 3; rank++)
        dt_loader_destroy(loaders[rank]);
    dt_rows_destroy(rows);
}

/* Ranks together see each pair once, and end after as many batches. */
static void a_pass_with_a_limit_has_every_pair_once(void **state)
{
    const struct dt_examples examples = many_pairs();
    struct dt_rows_options options = usual;
    int seen[61] = {0};
    size_t batches[2] = {0};
    (void)state;
    options.T = 100;
    struct dt_rows *rows = make_rows(&examples, &options);
    for (int rank = 0; rank < 2; rank++) {
        struct dt_loader_options opt = loading;
        struct dt_batch batch;
        opt.repeat = false;
        opt.rank = rank;
        opt.world = 2;
        opt.accumulation = 5;
        opt.tokens = 64;
        struct dt_loader *loader = must_load(rows, &opt, 0);
        while (dt_loader_next(loader, &batch, NULL) == 1) {
            batches[rank]++;
            for (size_t i = 0; i < batch.pair_count; i++)
                seen[batch.pairs[i].number]++;
        }
        dt_loader_destroy(loader);
    }
    for (int i = 0; i < 61; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(batches[0], batches[1]);
    dt_rows_destroy(rows);
}

static void a_pair_longer_than_the_limit_is_refused(void **state)
{
    const struct dt_examples examples = many_pairs();
    struct dt_rows_options options = usual;
    struct dt_loader_options opt = loading;
    struct dt_error err;
    (void)state;
    options.T = 100;
    struct dt_rows *rows = make_rows(&examples, &options);
    opt.accumulation = 1;
    opt.tokens = dt_rows_max_length(rows) - 1;
    assert_null(dt_loader_create(rows, &opt, 0, &err));
    assert_int_equal(err.status, EX_CONFIG);
    assert_string_equal(err.text,
                        "data: the longest row has 26 tokens, a batch at most "
                        "25 (training.micro_batch_tokens)");
    dt_rows_destroy(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_tells_where_its_pairs_are),
        cmocka_unit_test(with_a_limit_pairs_share_one_row),
        cmocka_unit_test(every_division_has_the_same_steps),
        cmocka_unit_test(every_rank_has_as_many_batches_in_a_step),
        cmocka_unit_test(a_pass_with_a_limit_has_every_pair_once),
        cmocka_unit_test(a_pair_longer_than_the_limit_is_refused),
    };
    return cmocka_run_group_tests_name("pair batches", tests, NULL, NULL);
}
