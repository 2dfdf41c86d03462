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

/* Rank 0 says that bits differ, and marks its copies. At the next start rank 1
 * is killed before it has dropped its own. Nobody gets one of these.
 */
static void those_of_a_rank_with_wrong_bits_are_never_used_again(void **state)
{
    static const struct lost lost[] = {
        {{"replica.m:rank=1:step=6:error,copy.forget:rank=0:kill",
          "copy.drop:rank=1:kill"},
         "0 0"},
    };
    (void)state;
    CHECK(2, SMALLEST STRATEGY("ddp") "distributed.check_replicas: 1\n", lost);
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(those_beside_a_damaged_checkpoint_are_used),
        TEST(those_of_a_rank_with_wrong_bits_are_never_used_again),
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
