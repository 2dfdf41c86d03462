/* SPDX-License-Identifier: Apache-2.0 */
/* test_ppo_early.c - ppo.target_kl: generations whose epochs end early */
#include "config.h"

#define SCHEDULE ""
#include "tests/unit/ppo_run.h"

/* Four steps use a generation of 16 prompts. */
#define LINES                                                                  \
    "training: {train_batch_size: 16, resume: auto}\n"                         \
    "ppo: {epochs: 2, num_mini_batches: 2, total_episodes: 48}\n"              \
    "optimizer.lr: 0.01\n" PRINTABLE
#define CONSTANT "scheduler.name: constant\n"
#define LINEAR "scheduler.name: linear\n"
#define AT_ONCE "ppo.target_kl: 1.0e-6\n"
#define SOMETIMES "ppo.target_kl: 0.045\n"
#define NEVER "ppo.target_kl: 1000\n"

enum { STEPS = 12, EARLY = 8 }; /* numbers of metrics, in algo/ppo.c */

/* What each step of a run was. */
struct steps {
    long count, total[STEPS];
    uint64_t generation[STEPS];
    double lr[STEPS], early[STEPS], loss;
};

static int take_all(struct dt_run *run, void *arg)
{
    struct steps *to = arg, mine = {0};
    struct dt_error err = {0};
    TRY(run->total_steps == STEPS);
    while (run->progress.step < run->total_steps) {
        struct dt_report_step line;
        TRY(small_step(run, &line, &err) == 0);
        mine.lr[mine.count] = line.lr;
        mine.total[mine.count] = run->total_steps;
        mine.early[mine.count] = run->progress.metrics.value[EARLY];
        mine.generation[mine.count++] = run->samples.generation;
    }
    mine.loss = run->progress.loss_sum;
    if (run->spec.rank == 0)
        *to = mine;
    return 0;
}

/* The first step of a generation does not move from it, the second one sees
 * that the first one did.
 */
static void epochs_end_at_the_step_that_shows_the_divergence(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++) {
        struct steps steps;
        small_runs(size, LINES CONSTANT AT_ONCE, take_all, &steps);
        assert_int_equal(steps.count, 6);
        for (size_t i = 0; i < 6; i++) {
            assert_int_equal(steps.generation[i], i / 2 + 1);
            assert_true(steps.early[i] == (double)((i + 1) / 2));
        }
        /* all 48 prompts in fewer steps */
        assert_int_equal(steps.total[0], STEPS);
        assert_int_equal(steps.total[1], STEPS - 2);
        assert_int_equal(steps.total[5], 6);
    }
}

static void all_ranks_end_a_generation_at_the_same_step(void **state)
{
    struct steps one, two;
    (void)state;
    small_runs(1, LINES CONSTANT SOMETIMES, take_all, &one);
    small_runs(2, LINES CONSTANT SOMETIMES, take_all, &two);
    assert_in_range(one.count, 7, STEPS - 1); /* some ended early, not all */
    assert_int_equal(one.count, two.count);
    assert_memory_equal(one.generation, two.generation, sizeof(one.generation));
}

static void a_target_that_is_not_reached_changes_no_bit(void **state)
{
    struct steps with, without;
    (void)state;
    small_runs(1, LINES CONSTANT NEVER, take_all, &with);
    small_runs(1, LINES CONSTANT, take_all, &without);
    assert_int_equal(with.count, STEPS);
    assert_true(with.early[STEPS - 1] == 0);
    assert_memory_equal(&with, &without, sizeof(with));
}

/* --- the learning rate --- */

/* It is that of the generation's place among the prompts. */
static void left_out_steps_count_for_the_learning_rate(void **state)
{
    struct steps early, whole;
    (void)state;
    small_runs(1, LINES LINEAR AT_ONCE, take_all, &early);
    small_runs(1, LINES LINEAR, take_all, &whole);
    for (size_t i = 0; i < 6; i++)
        assert_true(early.lr[i] == whole.lr[i / 2 * 4]);
    assert_true(whole.lr[0] == whole.lr[3] && whole.lr[4] < whole.lr[3]);
}

static int count_generations(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(go_to(run, 8, &err) == 0);
    TRY(run->total_steps == 8 && run->ppo.left_out == 0);
    TRY(run->samples.generation == 4);
    return 0;
}

static void max_steps_are_that_many_steps_of_more_generations(void **state)
{
    (void)state;
    small_runs(1,
               "training: {train_batch_size: 16, max_steps: 8}\n"
               "ppo: {epochs: 2, num_mini_batches: 2}\n"
               "optimizer.lr: 0.01\n" PRINTABLE CONSTANT AT_ONCE,
               count_generations, NULL);
}

/* --- saving --- */

/* Within a generation, and where one ended early. */
static void a_resumed_run_ends_the_same_generations(void **state)
{
    struct kept kept;
    (void)state;
    for (int size = 1; size <= 2; size++)
        for (long half = 1; half <= 5; half++) {
            resumes(size, LINES CONSTANT AT_ONCE, half, 6, &kept);
            assert_int_equal(kept.left_out, STEPS - 6);
            assert_int_equal(kept.total_steps, 6);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epochs_end_at_the_step_that_shows_the_divergence),
        cmocka_unit_test(all_ranks_end_a_generation_at_the_same_step),
        cmocka_unit_test(a_target_that_is_not_reached_changes_no_bit),
        cmocka_unit_test(left_out_steps_count_for_the_learning_rate),
        cmocka_unit_test(max_steps_are_that_many_steps_of_more_generations),
        cmocka_unit_test(a_resumed_run_ends_the_same_generations),
    };
    return cmocka_run_group_tests(tests, prompts_enter, small_leave);
}
