/* SPDX-License-Identifier: Apache-2.0 */
/* test_adapters.c - adapters learn step by step as in PEFT */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <omp.h>

#include "tests/parity/stored.h"
#include "tests/parity/trial.h"
#include "weights/weights.h"

/* The losses and norms of all steps, on padded rows, `at_once` of them in a
 * micro-batch.
 */
static void train(const struct reference *r, enum dt_dtype compute,
                  size_t at_once, double *losses, double *norms)
{
    const struct learner_options options = {
        .compute = compute,
        .max_norm = reference_number(r, "max_norm"),
        .parallel = {.wire = DT_F32, .bucket_bytes = 1 << 20, .prefetch = 2},
        .adapts = true,
    };
    struct learner l;
    if (learner_init(&l, r, &options, NULL) < 0)
        fail_msg("%s", l.err.text);
    for (size_t k = 0; k < REFERENCE_STEPS; k++) {
        struct rows all, part;
        double scalars[DT_STEP_COUNT];
        reference_rows(r, k % REFERENCE_BATCHES, false, false, &all, NULL);
        const size_t count = (all.batch.B + at_once - 1) / at_once;
        learner_begin(&l, k, 1 / (double)all.batch.target_count);
        for (size_t a = 0; a < count; a++) {
            rows_take(&part, &all, a * at_once, 1, at_once);
            part.batch.doc_start = NULL;
            assert_int_equal(learner_pass(&l, a, count, &part.batch, true), 0);
        }
        assert_int_equal(learner_update(&l, scalars), 0);
        losses[k] = scalars[DT_STEP_LOSS] / (double)all.batch.target_count;
        norms[k] = scalars[DT_STEP_NORM];
    }
    learner_fini(&l);
}

static double stored(const json_t *runs, const char *name, const char *key,
                     size_t k)
{
    return json_number_value(
        json_array_get(json_object_get(json_object_get(runs, name), key), k));
}

/* Within 1e-5 of PEFT's losses at every step, and norms within 1e-4. */
static void check(const json_t *runs, const struct reference *r, size_t at_once)
{
    double losses[REFERENCE_STEPS], norms[REFERENCE_STEPS], worst = 0;
    train(r, DT_F32, at_once, losses, norms);
    for (size_t k = 0; k < REFERENCE_STEPS; k++) {
        const double loss = stored(runs, r->name, "losses", k);
        const double norm = stored(runs, r->name, "grad_norms", k);
        const double off = fabs(losses[k] / loss - 1);
        if (!(off < 1e-5))
            fail_msg("step %zu: loss %.9g, PEFT's %.9g", k, losses[k], loss);
        if (!(fabs(norms[k] / norm - 1) < 1e-4))
            fail_msg("step %zu: norm %.9g, PEFT's %.9g", k, norms[k], norm);
        worst = fmax(worst, off);
    }
    print_message("largest relative difference of a loss: %.2g\n", worst);
}

static void losses_are_those_of_peft(void **state)
{
    struct reference r;
    json_t *runs = stored_load("adapters/adapters.json");
    reference_open(&r, *state);
    check(runs, &r, ROWS_MAX);
    check(runs, &r, 2);
    reference_close(&r);
    json_decref(runs);
}

/* No loss is further from that of fp32 than one unit in the last place. */
static void losses_in_bf16(void **state)
{
    struct reference r;
    double losses[REFERENCE_STEPS], norms[REFERENCE_STEPS], worst = 0;
    json_t *runs = stored_load("adapters/adapters.json");
    reference_open(&r, *state);
    train(&r, DT_BF16, ROWS_MAX, losses, norms);
    for (size_t k = 0; k < REFERENCE_STEPS; k++)
        worst = fmax(worst,
                     fabs(losses[k] / stored(runs, r.name, "losses", k) - 1));
    print_message("largest relative difference: %.2g\n", worst);
    assert_true(worst > 0 && worst < 0x1p-8);
    reference_close(&r);
    json_decref(runs);
}

static void strategies_have_the_same_bits(void **state)
{
    static const struct trial_way ways[] = {
        {DT_DDP, false, DT_WHEN_AUTO},
        {DT_ZERO1, false, DT_WHEN_AUTO},
        {DT_ZERO2, false, DT_WHEN_AUTO},
        {DT_ZERO3, false, DT_WHEN_AUTO},
    };
    static const enum dt_dtype types[] = {DT_F32, DT_BF16};
    struct reference r;
    if (!trial_has_ranks())
        skip();
    reference_open(&r, *state);
    for (size_t i = 0; i < 2; i++) {
        const struct trial trial = {
            .reference = &r,
            .options = {.compute = types[i],
                        .max_norm = 0.1,
                        .parallel = {.wire = DT_F32,
                                     .bucket_bytes = 1 << 10,
                                     .prefetch = 2},
                        .adapts = true},
            .micro_batches = 1,
            .overflow = true,
            .evaluates = true,
        };
        trial_compare(&trial, 3, ways, sizeof(ways) / sizeof(ways[0]));
    }
    reference_close(&r);
}

/* The sum of the losses of the first batch, which changes nothing. */
static double evaluate(struct learner *l, const struct rows *rows)
{
    double sum;
    learner_begin(l, 0, 1);
    assert_int_equal(learner_pass(l, 0, 1, &rows->batch, false), 0);
    assert_int_equal(l->exec.device->copy(l->exec.stream, &sum,
                                          dt_view_data(l->step), sizeof(sum),
                                          &l->err),
                     0);
    assert_int_equal(l->exec.device->stream_wait(l->exec.stream, &l->err), 0);
    return sum;
}

/* A learner of fp32 weights, with an adapter or without. */
static void open_learner(struct learner *l, const struct reference *r,
                         bool adapts)
{
    const struct learner_options options = {
        .parallel = {.wire = DT_F32, .bucket_bytes = 1 << 20, .prefetch = 2},
        .adapts = adapts,
    };
    if (learner_init(l, r, &options, NULL) < 0)
        fail_msg("%s", l->err.text);
}

/* The adapter off is the model to the bit, and merged into it the same as
 * beside it.
 */
static void adapters_can_be_off_or_merged(void **state)
{
    struct reference r;
    struct learner model, adapter;
    struct rows rows;
    reference_open(&r, *state);
    if (!subject_exec()->device->is_host)
        skip();
    reference_rows(&r, 0, false, false, &rows, NULL);
    rows.batch.doc_start = NULL;
    open_learner(&model, &r, false);
    open_learner(&adapter, &r, true);
    const double bare = evaluate(&model, &rows);
    const double with = evaluate(&adapter, &rows);
    dt_model_use_adapter(adapter.own.model, NULL);
    assert_true(evaluate(&adapter, &rows) == bare);
    assert_true(fabs(with / bare - 1) > 1e-5);

    struct dt_view flat = dt_parallel_weights(model.parallel).flat;
    if (dt_weights_load_merged(reference_adapter(r.name), &r.config,
                               model.layout, flat, &model.err) < 0)
        fail_msg("%s", model.err.text);
    assert_true(fabs(evaluate(&model, &rows) / with - 1) < 1e-6);
    learner_fini(&model);
    learner_fini(&adapter);
    reference_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFERENCE_TESTS(losses_are_those_of_peft),
        REFERENCE_TESTS(losses_in_bf16),
        REFERENCE_TESTS(adapters_can_be_off_or_merged),
        {"strategies: gpt2", strategies_have_the_same_bits, NULL, NULL, "gpt2"},
        {"strategies: llama", strategies_have_the_same_bits, NULL, NULL,
         "llama"},
    };
    omp_set_num_threads(1); /* a child has none of its parent's threads */
    cmocka_set_test_filter(getenv("DT_TEST_ONLY"));
    return cmocka_run_group_tests_name("adapters", tests, NULL, NULL);
}
