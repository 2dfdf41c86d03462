/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copies_given_up.c - copies in host memory that a run on GPUs does not go
 * on with, and those that it makes after that
 */
#include "config.h"

#include "tests/unit/train/lost_scene.h"

#include "train/resume/copies.h"

#ifdef ENABLE_FAULT_INJECTION

/* A copy is due after every step, until this one. */
static long last_due = LONG_MAX;

double __wrap_dt_copies_tell(const struct dt_run *run);

double __wrap_dt_copies_tell(const struct dt_run *run)
{
    return run->copies && run->queued < last_due
               ? dt_copies_vote(run->spec.world)
               : 0;
}

static void spoil(const char *path)
{
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fputs("?", file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

/* The newest checkpoint is that of step 6, and the copy that of step 5. */
static void those_beside_a_damaged_checkpoint_are_used(void **state)
{
    (void)state;
    small_clean(NULL);
    begin(1, TEXT, true);
    keeper.conf->training.max_steps = 9;
    keeper.conf->checkpoint.steps = 3;
    last_due = 2;
    assert_false(start("train.step:step=8:kill"));
    spoil("out/checkpoints/checkpoint-6/model.safetensors");
    last_due = LONG_MAX;
    assert_false(start("learner.update:step=6:nth=2:kill"));
    assert_true(start(NULL));
    end();
    char *begun = starts();
    assert_string_equal(begun, "0 3 5");
    free(begun);
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(those_beside_a_damaged_checkpoint_are_used),
    };
    keeper.hardware = APART;
    return cmocka_run_group_tests_name("copies_given_up", tests, enter,
                                       small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
