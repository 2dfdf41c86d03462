/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_gpu.c - which GPUs a task sees, and what the user is told of it */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "spank/task/task_impl.h"
#include "tests/unit/spank/spank_stub.h"

static void set(const char *name, const char *value)
{
    spank_setenv(NULL, name, value, 1);
}

/* A step with GPUs, of which the first of the node's tasks sees `visible`. */
static void step(uint32_t tasks, const char *gpus, const char *visible)
{
    stub_reset();
    stub.local_tasks = tasks;
    set("SLURMD_NODENAME", "n7");
    set("SLURM_LOCALID", "0");
    set("SLURM_GPUS_ON_NODE", gpus);
    if (visible)
        set("CUDA_VISIBLE_DEVICES", visible);
}

static void apply(const char *said)
{
    stub.said[0] = '\0';
    assert_int_equal(dtspank_gpu_apply(NULL, NULL), 0);
    assert_string_equal(stub.said, said);
}

static int teardown(void **state)
{
    (void)state;
    stub_reset();
    return 0;
}

static void every_list_of_visible_gpus_is_counted(void **state)
{
    static const struct {
        const char *list;
        int count;
    } cases[] = {
        {"0", 1},
        {"0,1,2,3", 4},
        {"", 0},
        {"-1", 0},
        {"NoDevFiles", 0},
        {"0,-1,1", 1},
        {"0,,1", 1},
        {"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,1", 2},
        {"MIG-c7384736-a75d-5afc-978f-d2f1294409fd", 1},
        {"MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/0,MIG-GPU-1/2/0", 1},
        {"0,", 1},
    };
    (void)state;
    stub_reset();
    assert_int_equal(dtspank_gpu_visible(NULL), -1);
    set("ZE_AFFINITY_MASK", "0.0,0.1,1.0");
    assert_int_equal(dtspank_gpu_visible(NULL), 3);
    set("ROCR_VISIBLE_DEVICES", "0,1");
    assert_int_equal(dtspank_gpu_visible(NULL), 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        set("CUDA_VISIBLE_DEVICES", cases[i].list);
        assert_int_equal(dtspank_gpu_visible(NULL), cases[i].count);
    }
}

/* All for everybody is what is wanted: nothing changes, nothing is said. */
static void all_gpus_for_every_task_change_nothing(void **state)
{
    (void)state;
    step(4, "4", "0,1,2,3");
    apply("");
    assert_string_equal(stub_getenv("CUDA_VISIBLE_DEVICES"), "0,1,2,3");
    step(2, "4", "0,1,2,3");
    apply("");
    step(1, "4", "2"); /* LOCAL_RANK is 0 */
    apply("");
    step(2, "2", NULL); /* --gpu-bind=none: all of the node */
    apply("");
    step(4, "0", NULL);
    apply("");
    spank_unsetenv(NULL, "SLURM_GPUS_ON_NODE");
    set("CUDA_VISIBLE_DEVICES", "0"); /* the user's own business */
    apply("");
}

static void one_gpu_for_each_task_brings_a_warning(void **state)
{
    (void)state;
    step(4, "4", "0");
    apply("disttrain: n7: each task sees 1 of the step's 4 GPUs: LOCAL_RANK is "
          "no device index there, and GPUs may not reach each other (P2P, "
          "IPC); use --gpus-per-node=4 without --gpus-per-task and --gpu-bind, "
          "or launch.gpu_visibility: one for programs that take device 0\n");
    assert_string_equal(stub_getenv("CUDA_VISIBLE_DEVICES"), "0");
    set("SLURM_LOCALID", "1");
    apply(""); /* once a node */
    set("SLURM_LOCALID", "0");
    set(DT_ENV_GPU_VISIBILITY, "one");
    apply("");
}

static void more_tasks_than_gpus_bring_a_warning(void **state)
{
    (void)state;
    step(4, "2", "0,1");
    apply("disttrain: n7: 4 tasks share 2 GPUs: LOCAL_RANK is not always the "
          "index of one, and NCCL refuses two ranks on one; use "
          "--ntasks-per-node=2\n");
    set(DT_ENV_GPU_VISIBILITY, "one");
    apply("disttrain: n7: 4 tasks share 2 GPUs: NCCL refuses two ranks on one; "
          "use --ntasks-per-node=2\n");
    step(2, "1", "0");
    apply("disttrain: n7: 2 tasks share 1 GPU: LOCAL_RANK is not always the "
          "index of one, and NCCL refuses two ranks on one; use "
          "--ntasks-per-node=1\n");
}

static void a_shared_mig_device_brings_a_warning(void **state)
{
    (void)state;
    step(2, "2", "MIG-a,MIG-b");
    apply("disttrain: n7: CUDA shows each task the same first MIG device of 2; "
          "use launch.gpu_visibility: one\n");
    set(DT_ENV_GPU_VISIBILITY, "one");
    set("SLURM_LOCALID", "1");
    apply("");
    assert_string_equal(stub_getenv("CUDA_VISIBLE_DEVICES"), "MIG-b");
}

static void assert_sees(const char *local_rank, const char *gpu)
{
    step(8, "2", "2,GPU-5");
    set("ROCR_VISIBLE_DEVICES", "2,GPU-5");
    set("ZE_AFFINITY_MASK", "");
    set(DT_ENV_GPU_VISIBILITY, "one");
    set("SLURM_LOCALID", local_rank);
    assert_int_equal(dtspank_gpu_apply(NULL, NULL), 0);
    assert_string_equal(stub_getenv("CUDA_VISIBLE_DEVICES"), gpu);
    assert_string_equal(stub_getenv("ROCR_VISIBLE_DEVICES"), gpu);
    assert_string_equal(stub_getenv("ZE_AFFINITY_MASK"), "");
    assert_null(stub_getenv("GPU_DEVICE_ORDINAL"));
    assert_int_equal(dtspank_gpu_visible(NULL), 1);
}

static void visibility_one_gives_each_task_one_gpu(void **state)
{
    (void)state;
    assert_sees("0", "2");
    assert_sees("1", "GPU-5");
    assert_sees("2", "2");
    assert_sees("7", "GPU-5");
    step(1, "4", "4,5,6,7");
    set(DT_ENV_GPU_VISIBILITY, "one");
    apply("");
    assert_string_equal(stub_getenv("CUDA_VISIBLE_DEVICES"), "4");
}

static void visibility_one_without_a_list_changes_nothing(void **state)
{
    (void)state;
    step(2, "2", NULL);
    set(DT_ENV_GPU_VISIBILITY, "one");
    apply("disttrain: n7: launch.gpu_visibility: one changes nothing, because "
          "Slurm does not say which GPUs the step has; drop --gpu-bind=none\n");
    assert_null(stub_getenv("CUDA_VISIBLE_DEVICES"));
    assert_int_equal(dtspank_gpu_visible(NULL), -1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_list_of_visible_gpus_is_counted),
        TEST(all_gpus_for_every_task_change_nothing),
        TEST(one_gpu_for_each_task_brings_a_warning),
        TEST(more_tasks_than_gpus_bring_a_warning),
        TEST(a_shared_mig_device_brings_a_warning),
        TEST(visibility_one_gives_each_task_one_gpu),
        TEST(visibility_one_without_a_list_changes_nothing),
    };
    return cmocka_run_group_tests_name("spank_gpu", tests, NULL, NULL);
}
