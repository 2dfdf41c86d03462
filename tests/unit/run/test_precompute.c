/* SPDX-License-Identifier: Apache-2.0 */
/* test_precompute.c - what a reference gives to pairs, computed before */
#include "config.h"

#include <glob.h>

#include "tests/unit/dpo_run.h"

#define PRECOMPUTE "dpo.reference.mode: precompute\n"

/* The files of references, which `glob` finds. */
static size_t references(char path[256])
{
    glob_t found;
    size_t count = 0;
    if (glob(".disttrain-cache/reference-*.safetensors", 0, NULL, &found) == 0)
        count = found.gl_pathc;
    if (count > 0)
        snprintf(path, 256, "%s", found.gl_pathv[0]);
    globfree(&found);
    return count;
}

static int clean_references(void **state)
{
    char path[256];
    while (references(path) > 0)
        if (unlink(path) < 0)
            return -1;
    return small_clean(state);
}

struct outcome {
    double loss, results[DT_METRICS_MAX];
};

static int five_steps(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct outcome *outcome = arg, mine;
    TRY(pair_steps(run, 5, &err) == 0);
    TRY(evaluate(run, mine.results, &mine.loss, &err) == 0);
    TRY((run->reference.parallel == NULL) ==
        (run->reference.precomputed[0].buf != NULL));
    if (run->spec.rank == 0)
        *outcome = mine;
    return 0;
}

static void assert_alike(const struct outcome *a, const struct outcome *b)
{
    assert_true(near(a->loss, b->loss, 1e-4));
    for (int i = 0; i < 6; i++)
        assert_true(fabs(a->results[i] - b->results[i]) < 1e-3);
}

static void a_reference_computed_before_gives_the_same_steps(void **state)
{
    struct outcome live, before, again;
    char path[256];
    (void)state;
    small_runs(1, FEW, five_steps, &live);
    assert_int_equal(references(path), 0);
    small_runs(1, FEW PRECOMPUTE, five_steps, &before);
    assert_alike(&live, &before);
    assert_int_equal(references(path), 1);
    small_runs(2, FEW PRECOMPUTE "distributed.strategy: zero3\n", five_steps,
               &again);
    assert_alike(&live, &again);
    assert_int_equal(references(path), 1);
    assert_int_equal(unlink(path), 0);
    small_runs(2, FEW PRECOMPUTE "distributed.strategy: zero3\n", five_steps,
               &again);
    assert_alike(&live, &again);
    assert_int_equal(references(path), 1);
}

static void another_reference_has_a_file_of_its_own(void **state)
{
    struct outcome outcome;
    char path[256];
    (void)state;
    leave_other("ref");
    small_runs(1, FEW PRECOMPUTE, five_steps, &outcome);
    small_runs(1, FEW PRECOMPUTE "model.reference_path: ref\n", five_steps,
               &outcome);
    assert_int_equal(references(path), 2);
    small_runs(1, FEW PRECOMPUTE "run.seed: 7\n", five_steps, &outcome);
    assert_int_equal(references(path), 3);
    small_runs(1, FEW PRECOMPUTE "dpo.ld_alpha: 0.5\n", five_steps, &outcome);
    assert_int_equal(references(path), 4);
    small_runs(1, FEW PRECOMPUTE "dpo.beta: 0.5\n", five_steps, &outcome);
    assert_int_equal(references(path), 4);
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
}

static void a_run_with_a_reference_computed_before_resumes(void **state)
{
    char path[256];
    (void)state;
    pair_resumes(DPO PRECOMPUTE "optimizer.lr: 1.0e-3\n");
    assert_int_equal(references(path), 1);
}

static int resume_without(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    double loss, results[DT_METRICS_MAX];
    (void)arg;
    TRY(run->progress.step == 3);
    TRY(evaluate(run, results, &loss, &err) == 0);
    TRY(results[MARGIN] != 0 && !run->reference.parallel);
    return 0;
}

static int stop_after_three(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    TRY(pair_steps(run, 3, &err) == 0);
    return pair_save(run, arg);
}

/* Without the file, when the model is not the reference any more. */
static void the_first_model_is_the_reference_of_a_resumed_run(void **state)
{
    char path[256];
    (void)state;
    small_runs(1, FEW PRECOMPUTE, stop_after_three, NULL);
    assert_int_equal(references(path), 1);
    assert_int_equal(unlink(path), 0);
    struct small_world small = {
        .conf = small_conf(FEW PRECOMPUTE "training.resume: auto\n"),
        .f = resume_without};
    world_threads(1, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
}

static void a_damaged_file_of_a_reference_is_refused(void **state)
{
    char path[256];
    (void)state;
    pair_runs(FROM(SHAPE, PRECOMPUTE), stop_after_three);
    assert_int_equal(references(path), 1);
    assert_int_equal(truncate(path, 100), 0);
    pair_refused(FROM(SHAPE, PRECOMPUTE),
                 "remove it to compute the reference's sums again");
}

/* A file in the place of another one, as after a careless copy. */
static void a_file_of_another_reference_is_refused(void **state)
{
    char path[256], other[256];
    (void)state;
    pair_runs(FROM(SHAPE, PRECOMPUTE), stop_after_three);
    assert_int_equal(references(path), 1);
    assert_int_equal(rename(path, "kept"), 0);
    pair_runs(FROM(SHAPE, PRECOMPUTE "run.seed: 7\n"), stop_after_three);
    assert_int_equal(references(other), 1);
    assert_int_equal(rename("kept", other), 0);
    pair_refused(FROM(SHAPE, PRECOMPUTE "run.seed: 7\n"),
                 "safetensors: was computed with another reference or other "
                 "pairs; remove it to compute the reference's sums again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(
            a_reference_computed_before_gives_the_same_steps, clean_references),
        cmocka_unit_test_teardown(another_reference_has_a_file_of_its_own,
                                  clean_references),
        cmocka_unit_test_teardown(
            a_run_with_a_reference_computed_before_resumes, clean_references),
        cmocka_unit_test_teardown(
            the_first_model_is_the_reference_of_a_resumed_run,
            clean_references),
        cmocka_unit_test_teardown(a_damaged_file_of_a_reference_is_refused,
                                  clean_references),
        cmocka_unit_test_teardown(a_file_of_another_reference_is_refused,
                                  clean_references),
    };
    return cmocka_run_group_tests_name("precompute", tests, pair_enter,
                                       small_leave);
}
