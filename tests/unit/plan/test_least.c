/* SPDX-License-Identifier: Apache-2.0 */
/* test_least.c - the memory that ranks with GPUs of their own plan with */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/run.h"
#include "base/clock.h"
#include "plan/plan.h"
#include "tests/unit/world.h"

static const size_t GiB = (size_t)1 << 30;

/* What the GPU of each rank has left, and ranks that have begun. */
static size_t left_of[2];
static _Thread_local int this_rank;
static atomic_int begun;

/* NCCL takes its memory when all ranks are there: nobody asks earlier. */
static size_t available_bytes(void)
{
    return begun == 2 ? left_of[this_rank] : 0;
}

static const struct dt_device gpu = {.name = "cuda",
                                     .available_bytes = available_bytes};

static int ask(const struct dt_comm_world *world, void *arg)
{
    const struct dt_comm_options options = {.interface = "lo",
                                            .timeout_ms = 20000};
    struct dt_spec spec = {.world = world->size, .exec.device = &gpu};
    struct dt_error err;
    size_t *least = arg;

    struct dt_comm *comm = dt_comm_create("gloo", world, &options, &err);
    if (!comm)
        return -1;
    this_rank = world->rank;
    dt_clock_sleep(world->rank * 0.05);
    begun++;
    int rc = dt_plan_least_memory(&spec, comm, &least[world->rank], &err);
    dt_comm_destroy(comm);
    return rc;
}

static void assert_least(size_t rank0, size_t rank1, size_t expected)
{
    size_t least[2];
    begun = 0;
    left_of[0] = rank0;
    left_of[1] = rank1;
    world_threads(2, ask, least);
    assert_true(least[0] == expected && least[1] == expected);
}

static void all_ranks_plan_with_the_least(void **state)
{
    (void)state;
    assert_least(3 * GiB, 2 * GiB, 2 * GiB);
    assert_least(5 * GiB, SIZE_MAX, 5 * GiB);
    assert_least(SIZE_MAX, SIZE_MAX, SIZE_MAX);
}

static void gradients_in_bf16_leave_less(void **state)
{
    struct dt_spec spec = {.world = 2, .exec.device = &gpu};
    (void)state;
    assert_true(dt_plan_plannable(&spec, 4 * GiB) == 4 * GiB);
    spec.conf.precision.reduce_bf16 = 1;
    assert_true(dt_plan_plannable(&spec, 4 * GiB) == 5 * GiB / 2);
    assert_true(dt_plan_plannable(&spec, GiB) == 0);
    spec.world = 1;
    assert_true(dt_plan_plannable(&spec, 4 * GiB) == 4 * GiB);
    spec.world = 2;
    spec.exec.device = &dt_cpu;
    assert_true(dt_plan_plannable(&spec, 4 * GiB) == 4 * GiB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_plan_with_the_least),
        cmocka_unit_test(gradients_in_bf16_leave_less),
    };
    return cmocka_run_group_tests_name("least", tests, NULL, NULL);
}
