/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copies.c - ranks on GPUs that are killed and go on with copies, which
 * are on their way while steps go on; streams overtake each other
 *
 * tests/unit/train/test_copies.c has the other cases, on a device whose copies
 * are done at once; with DT_TEST_DEVICE=cuda and the module on these GPUs, too,
 * which takes minutes.
 */
#include "config.h"

#include "tests/unit/train/lost_scene.h"
#include "train/resume/copies.h"

#ifdef ENABLE_FAULT_INJECTION

/* A copy is due after every step. */
double __wrap_dt_copies_tell(const struct dt_run *run);

double __wrap_dt_copies_tell(const struct dt_run *run)
{
    return run->copies ? dt_copies_vote(run->spec.world) : 0;
}

static void gpus_go_on_with_their_copies(void **state)
{
    static const struct lost lost[] = {
        {{"copy.whole:rank=1:nth=3:kill", "copy.take:rank=0:kill",
          "copy.end:rank=0:kill"},
         NULL},
    };
    (void)state;
    CHECK(2, SMALLEST BF16 STRATEGY("zero3"), lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_go_on_with_their_copies),
    };
    keeper.hardware = ON_GPUS;
    setenv("SIMT_DEVICES", "2", 1);
    setenv("SIMT_SEED", "7", 0);
    return cmocka_run_group_tests_name("copies", tests, enter, small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
