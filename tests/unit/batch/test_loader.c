/* SPDX-License-Identifier: Apache-2.0 */
/* test_loader.c - the order of samples, whoever reads them and from where */
#include "config.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/span.h"
#include "batch/loader.h"
#include "tests/unit/scratch.h"

enum {
    T = 3,
    FIRST = 5,     /* of the range in the dataset */
    SAMPLES = 101, /* prime: no multiple of any global batch */
    TOKENS = FIRST + SAMPLES * T + 3, /* two more than the samples need */
};

static struct dt_dataset *dataset; /* token i has the id i */
static struct dt_rows *rows;

static int setup(void **state)
{
    uint16_t ids[TOKENS];
    (void)state;
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (uint16_t)i;
    const char *path = scratch_write("ids.bin", ids, sizeof(ids));
    dataset = dt_dataset_open(&path, 1, DT_FORMAT_AUTO, TOKENS, NULL);
    if (dataset)
        rows = dt_rows_of_stream(dataset, FIRST, TOKENS - FIRST, T, NULL);
    return rows ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    dt_rows_destroy(rows);
    dt_dataset_close(dataset);
    return 0;
}

static struct dt_loader *must_create(const struct dt_loader_options *opt,
                                     uint64_t position)
{
    struct dt_error err = {0};
    struct dt_loader *loader = dt_loader_create(rows, opt, position, &err);
    if (!loader)
        fail_msg("%s", err.text);
    return loader;
}

/* What the header defines: the sample at place p of the endless order. */
static uint64_t sample_at(uint64_t seed, bool shuffle, uint64_t p)
{
    return shuffle ? dt_rng_permute(seed, p / SAMPLES, p % SAMPLES, SAMPLES)
                   : p % SAMPLES;
}

/* Which sample a row is, after a check that all of it belongs together. */
static uint64_t sample_of(const struct dt_batch *batch, size_t row)
{
    int32_t first = batch->inputs[row * T];
    assert_int_equal((first - FIRST) % T, 0);
    for (int t = 0; t < T; t++) {
        assert_int_equal(batch->inputs[row * T + (size_t)t], first + t);
        assert_int_equal(batch->targets[row * T + (size_t)t], first + t + 1);
    }
    return (uint64_t)(first - FIRST) / T;
}

/* Global micro-steps of B*world rows, read by `world` loaders, are the stream
 * from `position` on, whatever B and world.
 */
static void check_stream(size_t B, int world, bool shuffle, uint64_t position)
{
    struct dt_loader *loaders[8];
    struct dt_loader_options opt = {.B = B,
                                    .multiple_of = 1,
                                    .workers = 1,
                                    .world = world,
                                    .seed = 42,
                                    .shuffle = shuffle,
                                    .repeat = true,
                                    .prefetch = 2,
                                    .timeout_ms = 60000};
    uint64_t p = position;
    for (opt.rank = 0; opt.rank < world; opt.rank++)
        loaders[opt.rank] = must_create(&opt, position);
    while (p < position + 3 * SAMPLES) {
        for (int rank = 0; rank < world; rank++) {
            struct dt_batch batch;
            uint64_t before = dt_loader_position(loaders[rank]);
            assert_int_equal(dt_loader_next(loaders[rank], &batch, NULL), 1);
            assert_int_equal(batch.B, B);
            assert_int_equal(batch.T, T);
            assert_int_equal(batch.target_count, B * T);
            for (size_t i = 0; i < B; i++, p++)
                assert_int_equal(sample_of(&batch, i),
                                 sample_at(42, shuffle, p));
            assert_int_equal(dt_loader_position(loaders[rank]),
                             before + B * (size_t)world);
        }
        assert_int_equal(dt_loader_position(loaders[0]), p);
    }
    for (int rank = 0; rank < world; rank++) {
        dt_loader_destroy(loaders[rank]);
    }
}

static void every_world_size_reads_the_same_stream(void **state)
{
    (void)state;
    for (int world = 1; world <= 8; world *= 2) {
        check_stream(8 / (size_t)world, world, true, 0);
        check_stream(8 / (size_t)world, world, false, 0);
    }
}

static void the_stream_resumes_at_any_position(void **state)
{
    static const uint64_t positions[] = {
        1, 8, 100, 101, 102, 1000003, (uint64_t)1 << 40};
    (void)state;
    for (size_t i = 0; i < sizeof(positions) / sizeof(*positions); i++) {
        check_stream(4, 2, true, positions[i]);
        check_stream(4, 2, false, positions[i]);
    }
}

static void each_epoch_has_all_samples_in_another_order(void **state)
{
    struct dt_loader_options opt = {.B = 1,
                                    .multiple_of = 1,
                                    .workers = 1,
                                    .world = 1,
                                    .seed = 7,
                                    .shuffle = true,
                                    .repeat = true,
                                    .prefetch = 1,
                                    .timeout_ms = 60000};
    struct dt_span_totals spent;
    dt_span_totals(&spent);
    const uint64_t made = spent.count[DT_SPAN_BATCH];
    struct dt_loader *loader = must_create(&opt, 0);
    uint64_t order[3][SAMPLES];
    (void)state;
    for (int epoch = 0; epoch < 3; epoch++) {
        bool seen[SAMPLES] = {false};
        for (int i = 0; i < SAMPLES; i++) {
            struct dt_batch batch;
            assert_int_equal(dt_loader_next(loader, &batch, NULL), 1);
            order[epoch][i] = sample_of(&batch, 0);
            assert_false(seen[order[epoch][i]]);
            seen[order[epoch][i]] = true;
        }
    }
    assert_memory_not_equal(order[0], order[1], sizeof(order[0]));
    assert_memory_not_equal(order[1], order[2], sizeof(order[0]));
    dt_loader_destroy(loader);
    dt_span_totals(&spent); /* its thread made each in a span */
    assert_true(spent.count[DT_SPAN_BATCH] - made >= 3 * SAMPLES);
}

/* One pass: every sample once over all ranks, the last batches padded, equally
 * many everywhere.
 */
static void check_evaluation(size_t B, int world, size_t expected_batches)
{
    size_t targets = 0;
    bool seen[SAMPLES] = {false};
    struct dt_loader_options opt = {.B = B,
                                    .multiple_of = 1,
                                    .workers = 1,
                                    .world = world,
                                    .prefetch = 3,
                                    .timeout_ms = 60000};
    for (opt.rank = 0; opt.rank < world; opt.rank++) {
        struct dt_loader *loader = must_create(&opt, 0);
        struct dt_batch batch;
        size_t batches = 0;
        int rc;
        while ((rc = dt_loader_next(loader, &batch, NULL)) == 1) {
            size_t full = batch.target_count / T;
            for (size_t i = 0; i < full; i++) {
                seen[sample_of(&batch, i)] = true;
                targets += T;
            }
            for (size_t i = full * T; i < B * batch.T; i++) {
                assert_int_equal(batch.inputs[i], 0);
                assert_int_equal(batch.targets[i], DT_IGNORE);
            }
            batches++;
        }
        assert_int_equal(rc, 0);
        assert_int_equal(dt_loader_next(loader, &batch, NULL), 0);
        assert_int_equal(batches, expected_batches);
        dt_loader_destroy(loader);
    }
    assert_int_equal(targets, SAMPLES * T);
    for (int i = 0; i < SAMPLES; i++)
        assert_true(seen[i]);
}

static void an_evaluation_reads_every_sample_once(void **state)
{
    (void)state;
    check_evaluation(1, 1, 101);
    check_evaluation(101, 1, 1);
    check_evaluation(8, 1, 13);
    check_evaluation(4, 3, 9);
    check_evaluation(60, 2,
                     1); /* the second rank has padding only at the end */
    check_evaluation(40, 4, 1); /* the last rank has nothing but padding */
}

static void data_shorter_than_one_sample_is_refused(void **state)
{
    struct dt_error err;
    (void)state;
    assert_null(dt_rows_of_stream(dataset, 0, 100, 100, &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_string_equal(err.text,
                        "data: 100 tokens are too few for a sample of 100 + 1: "
                        "give more data or a smaller max_length");
    struct dt_rows *one = dt_rows_of_stream(dataset, 0, 101, 100, &err);
    assert_non_null(one);
    assert_int_equal(dt_rows_count(one), 1);
    dt_rows_destroy(one);
    dt_rows_destroy(NULL);
    dt_loader_destroy(NULL);
}

static void batches_larger_than_memory_are_refused(void **state)
{
    struct dt_loader_options opt = {.B = SIZE_MAX / 8,
                                    .multiple_of = 1,
                                    .workers = 1,
                                    .world = 1,
                                    .prefetch = 1,
                                    .timeout_ms = 1000};
    struct dt_error err;
    (void)state;
    assert_null(dt_loader_create(rows, &opt, 0, &err));
    assert_int_equal(err.status, EX_OSERR);
    assert_non_null(strstr(err.text, "data: out of memory for 2 batches of "));
}

/* Good batches come before the error, and the error stays. */
static void good_batches_come_before_a_bad_token(void **state)
{
    enum { N = 3000000, BAD = 20000 };
    struct dt_loader_options opt = {.B = 1,
                                    .multiple_of = 1,
                                    .workers = 1,
                                    .world = 1,
                                    .prefetch = 4,
                                    .timeout_ms = 60000};
    uint16_t *ids = calloc(N, sizeof(*ids));
    struct dt_batch batch;
    struct dt_error err;
    (void)state;
    assert_non_null(ids);
    ids[BAD] = 500;
    const char *path = scratch_write("late.bin", ids, N * sizeof(*ids));
    struct dt_dataset *late =
        dt_dataset_open(&path, 1, DT_FORMAT_AUTO, 500, NULL);
    assert_non_null(late);
    struct dt_rows *late_rows = dt_rows_of_stream(late, 0, N, 1000, &err);
    struct dt_loader *loader = dt_loader_create(late_rows, &opt, 0, &err);
    for (int i = 0; i < 19; i++)
        assert_int_equal(dt_loader_next(loader, &batch, NULL), 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dt_loader_next(loader, &batch, &err), -1);
        assert_int_equal(err.status, EX_DATAERR);
        assert_non_null(strstr(err.text, "late.bin: byte 40000: token id 500"));
    }
    assert_int_equal(dt_loader_position(loader), 19);
    dt_loader_destroy(loader);
    dt_rows_destroy(late_rows);
    dt_dataset_close(late);
    free(ids);
}

/* Without patience a batch is soon late; it still comes. */
static void a_late_batch_is_reported_and_still_comes(void **state)
{
    struct dt_loader_options opt = {.B = 20000,
                                    .multiple_of = 1,
                                    .workers = 1,
                                    .world = 1,
                                    .repeat = true,
                                    .shuffle = true,
                                    .prefetch = 1,
                                    .timeout_ms = 0};
    struct dt_loader *loader = must_create(&opt, 0);
    struct dt_batch batch;
    struct dt_error err;
    const double end = dt_clock_now() + 60;
    int rc;
    (void)state;
    while ((rc = dt_loader_next(loader, &batch, &err)) == 1 &&
           dt_clock_now() < end)
        ;
    assert_int_equal(rc, -1);
    assert_int_equal(err.status, EX_IOERR);
    assert_string_equal(err.text, "data: no batch within 0 ms: does the file "
                                  "system of the data hang?");
    while ((rc = dt_loader_next(loader, &batch, &err)) == -1 &&
           dt_clock_now() < end)
        usleep(1000);
    assert_int_equal(rc, 1);
    dt_loader_destroy(loader);
}

/* The signal mask of the thread called "loader", as /proc says it. */
static unsigned long long loader_mask(void)
{
    unsigned long long mask = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *e; (e = readdir(tasks));) {
        char path[300], line[200], name[64] = "";
        unsigned long long blocked = 0;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f)) {
            sscanf(line, "Name: %63s", name);
            sscanf(line, "SigBlk: %llx", &blocked);
        }
        if (f)
            fclose(f);
        if (strcmp(name, "loader") == 0)
            mask = blocked;
    }
    closedir(tasks);
    return mask;
}

static void the_loader_thread_blocks_signals(void **state)
{
    struct dt_loader_options opt = {.B = 1,
                                    .multiple_of = 1,
                                    .workers = 1,
                                    .world = 1,
                                    .prefetch = 1,
                                    .timeout_ms = 60000};
    struct dt_loader *loader = must_create(&opt, 0);
    static const int signals[] = {1, 2, 10, 12,
                                  15}; /* HUP INT USR1 USR2 TERM */
    unsigned long long mask = loader_mask();
    (void)state;
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        assert_true(mask >> (signals[i] - 1) & 1);
    dt_loader_destroy(loader);
    assert_true(loader_mask() == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_world_size_reads_the_same_stream),
        cmocka_unit_test(the_stream_resumes_at_any_position),
        cmocka_unit_test(each_epoch_has_all_samples_in_another_order),
        cmocka_unit_test(an_evaluation_reads_every_sample_once),
        cmocka_unit_test(data_shorter_than_one_sample_is_refused),
        cmocka_unit_test(batches_larger_than_memory_are_refused),
        cmocka_unit_test(good_batches_come_before_a_bad_token),
        cmocka_unit_test(a_late_batch_is_reported_and_still_comes),
        cmocka_unit_test(the_loader_thread_blocks_signals),
    };
    return cmocka_run_group_tests_name("loader", tests, setup, teardown);
}
