/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_restart.c - what a run resumes that is started again after another one
 */
#include "config.h"

#include "tests/unit/train/lost_scene.h"

#ifdef ENABLE_FAULT_INJECTION

#define LINES                                                                  \
    "algorithm: sft\n" MODEL ROWS_HELD "logging.steps: 2\n"                    \
    "distributed: {timeout_s: 20, strategy: ddp}\n"
#define STEPS_OF(every) "checkpoint: {strategy: steps, steps: " #every "}\n"
#define TRAINING(more)                                                         \
    "training: {train_batch_size: 8, max_steps: " END more "}\n"

#define NEW LINES STEPS_OF(4) TRAINING("")
#define CHECKPOINT "out/checkpoints/checkpoint-"
#define BACK LINES STEPS_OF(5) TRAINING(", resume: " CHECKPOINT "4")

/* Another run has checkpoints of steps 4 and 6 there. */
static void leave_old_run(void)
{
    small_clean(NULL);
    begin(1, NEW, false);
    assert_true(start(NULL));
    end();
}

static void latest_names(long step)
{
    char target[64] = "", want[64];
    assert_true(readlink("out/checkpoints/latest", target, 63) > 0);
    snprintf(want, sizeof(want), "checkpoint-%ld", step);
    assert_string_equal(target, want);
}

/* Without keepers, too: a start with training.resume: auto goes on there. */
static void the_next_run_finds_the_checkpoint_that_one_went_back_to(
    void **state)
{
    (void)state;
    leave_old_run();
    latest_names(6);
    begin(1, BACK, true);
    assert_false(start("train.step:step=5:kill"));
    end();
    latest_names(4);
}

static void an_evaluation_leaves_latest_alone(void **state)
{
    (void)state;
    leave_old_run();
    begin(1, LINES TRAINING(", eval_only: true, resume: " CHECKPOINT "4"),
          false);
    assert_true(start(NULL));
    end();
    latest_names(6);
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_next_run_finds_the_checkpoint_that_one_went_back_to),
        TEST(an_evaluation_leaves_latest_alone),
    };
    return cmocka_run_group_tests_name("restart", tests, enter, small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
