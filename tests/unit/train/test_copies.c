/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_copies.c - runs on GPUs whose workers are killed and go on with the
 * copies that they have left in host memory
 */
#include "config.h"

#include <libgen.h>

#include "tests/unit/train/lost_scene.h"

#include "tests/unit/stderr_text.h"

#ifdef ENABLE_FAULT_INJECTION

/* A copy is due after every step, so that it is made of steps 2, 3 and 4: 3 is
 * evaluated and 4 saved, and else the host is a step ahead. The first copy is
 * of step 0.
 */
double __wrap_dt_copies_tell(const struct dt_run *run);

double __wrap_dt_copies_tell(const struct dt_run *run)
{
    return run->copies && run->spec.rank == 0 ? (double)(1ll << 36) : 0;
}

static void a_run_goes_on_with_its_last_copy(void **state)
{
    static const struct lost lost[] = {
        {{"train.step:step=1:kill"}, "0 0"},
        {{"learner.update:step=3:nth=2:kill"}, "0 2"},
        {{"train.step:step=6:kill"}, "0 4"},
    };
    (void)state;
    CHECK(1, TEXT, lost);
}

#define TEST(f) cmocka_unit_test(f)

/* The module is that of the build, beside this program. */
static bool find_module(void)
{
    static char path[PATH_MAX], module[PATH_MAX + 64];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n < 0)
        return false;
    snprintf(module, sizeof(module), "%s/../../simt/disttrain-cuda.so",
             dirname(path));
    setenv("DISTTRAIN_CUDA_MODULE", module, 0);
    setenv("SIMT_DEVICES", "2", 1);
    return access(getenv("DISTTRAIN_CUDA_MODULE"), R_OK) == 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_goes_on_with_its_last_copy),
    };
    if (!find_module()) {
        puts("1..0 # SKIP there is no module of tests/simt");
        return 0;
    }
    keeper.gpus = true;
    return cmocka_run_group_tests_name("copies", tests, enter, small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
