/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_cpu.c - which CPUs a task gets, on machines made of files */
#include "config.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spank/task/task_impl.h"
#include "tests/unit/spank/spank_stub.h"
#include "tests/unit/sysfs.h"

static void add(struct dtspank_cpus *cpus, int first, int last)
{
    for (int cpu = first; cpu <= last; cpu++)
        CPU_SET_S((size_t)cpu, sizeof(cpus->set), cpus->set);
}

/* As the kernel would write it: "0-3,16". */
static const char *text_of(const struct dtspank_cpus *cpus)
{
    static char text[1024];
    size_t used = 0;
    int first = -1;
    text[0] = '\0';
    for (int cpu = 0; cpu <= DTSPANK_CPUS_MAX; cpu++) {
        bool is_set = cpu < DTSPANK_CPUS_MAX &&
                      CPU_ISSET_S((size_t)cpu, sizeof(cpus->set), cpus->set);
        if (is_set && first < 0)
            first = cpu;
        if (is_set || first < 0)
            continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d",
                                 used ? "," : "", first);
        if (cpu - 1 > first)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "-%d",
                                     cpu - 1);
        first = -1;
    }
    return text;
}

/* All CPUs of the node, for all tasks of a step that has it alone. */
static struct dtspank_cpu_place alone(uint32_t tasks)
{
    return (struct dtspank_cpu_place){
        .tasks = tasks,
        .step_cpus = 32,
        .job_cpus = 32,
    };
}

static struct dtspank_cpu_place with_gpus(uint32_t tasks, uint32_t count,
                                          const char *gpus)
{
    struct dtspank_cpu_place place = alone(tasks);
    place.gpus = gpus;
    place.gpu_count = count;
    return place;
}

static void assert_gets(struct dtspank_cpu_place place, const char *root,
                        uint32_t local_rank, const char *list)
{
    struct dtspank_cpus cpus = {0};
    add(&cpus, 0, 31);
    place.local_rank = local_rank;
    assert_true(dtspank_cpu_choose(&place, root, &cpus));
    assert_string_equal(text_of(&cpus), list);
}

/* With a mask of the first `count` CPUs. */
static void assert_left(struct dtspank_cpu_place place, const char *root,
                        int count)
{
    struct dtspank_cpus cpus = {0};
    struct dtspank_cpus before;
    add(&cpus, 0, count - 1);
    before = cpus;
    assert_false(dtspank_cpu_choose(&place, root, &cpus));
    assert_memory_equal(&cpus, &before, sizeof(cpus));
}

/* Whole cores, socket by socket; the first tasks do not get more. */
static void tasks_share_whole_cores_socket_by_socket(void **state)
{
    const char *root = sysfs_two_sockets("split", 0);
    (void)state;
    assert_gets(alone(2), root, 0, "0-7,16-23");
    assert_gets(alone(2), root, 1, "8-15,24-31");
    assert_gets(alone(8), root, 5, "10-11,26-27");
    assert_gets(alone(3), root, 0, "0-4,16-20");
    assert_gets(alone(3), root, 1, "5-9,21-25");
    assert_gets(alone(3), root, 2, "10-15,26-31");
}

/* Some machines deal their CPUs out to the sockets in turn. */
static void tasks_stay_on_a_socket_of_interleaved_cpus(void **state)
{
    const char *root;
    (void)state;
    sysfs_two_sockets("interleaved", 0);
    sysfs_write("interleaved", "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30\n",
                "sys/devices/system/node/node0/cpulist");
    sysfs_write("interleaved", "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31\n",
                "sys/devices/system/node/node1/cpulist");
    root = scratch_path("interleaved");
    assert_gets(alone(4), root, 0, "0,2,4,6,16,18,20,22");
    assert_gets(alone(4), root, 3, "9,11,13,15,25,27,29,31");
}

/* Only the number of CPUs can be read. */
static void without_a_topology_cpus_are_split_by_number(void **state)
{
    (void)state;
    sysfs_write("flat", "0-31\n", "sys/devices/system/cpu/online");
    assert_gets(alone(4), scratch_path("flat"), 1, "8-15");
}

/* Four tasks share what is near their four GPUs. */
static void a_task_gets_cpus_near_its_gpu(void **state)
{
    const char *root = sysfs_two_sockets("gpus", 8);
    struct dtspank_cpu_place place = with_gpus(8, 8, "0,1,2,3,4,5,6,7");
    (void)state;
    assert_gets(place, root, 0, "0-1,16-17");
    assert_gets(place, root, 3, "6-7,22-23");
    assert_gets(place, root, 4, "8-9,24-25");
    assert_gets(place, root, 7, "14-15,30-31");
    /* one on each socket, the second socket's first */
    assert_gets(with_gpus(2, 2, "5,0"), root, 0, "8-15,24-31");
    assert_gets(with_gpus(2, 2, "5,0"), root, 1, "0-7,16-23");
    place = with_gpus(4, 2, "2,3");
    place.one_gpu = true; /* local ranks 0 and 2 have GPU 2 */
    assert_gets(place, root, 2, "4-5,20-21");
}

static void cpus_near_an_amd_gpu_are_found(void **state)
{
    (void)state;
    sysfs_two_sockets("amd", 0);
    sysfs_write("amd", "", "sys/bus/pci/drivers/amdgpu/0000:03:00.0");
    sysfs_write("amd", "", "sys/bus/pci/drivers/amdgpu/0000:83:00.0");
    sysfs_write("amd", "8-15,24-31\n",
                "sys/bus/pci/devices/0000:03:00.0/local_cpulist");
    sysfs_write("amd", "0-7,16-23\n",
                "sys/bus/pci/devices/0000:83:00.0/local_cpulist");
    assert_gets(with_gpus(2, 2, "0,1"), scratch_path("amd"), 0, "8-15,24-31");
}

/* Which CPUs are near is not certain: Slurm's mask stays. */
static void unknown_gpus_leave_the_mask_of_slurm(void **state)
{
    const char *root = sysfs_two_sockets("unknown", 8);
    (void)state;
    assert_left(with_gpus(2, 2, "0,8"), root, 32);
    assert_left(with_gpus(2, 2, "0"), root, 32); /* each task has its own */
    assert_left(with_gpus(2, 1, "0"), root, 32);
    assert_left(with_gpus(2, 4, "0,1,2,3"), root, 32);
    assert_left(with_gpus(2, 2, "GPU-1,GPU-2"), root, 32);
    assert_left(with_gpus(2, 2, ""), root, 32);
    assert_left(with_gpus(2, 2, "0,1"), sysfs_two_sockets("none", 0), 32);
    unlink(
        scratch_path("unknown/sys/bus/pci/devices/0000:49:00.0/local_cpulist"));
    assert_left(with_gpus(2, 2, "0,1"), scratch_path("unknown"), 32);
}

/* The CPUs may be another job's, or are this task's alone. */
static void cpus_that_may_belong_to_others_are_left(void **state)
{
    const char *root = sysfs_two_sockets("safe", 0);
    struct dtspank_cpu_place place = alone(2);
    (void)state;
    place.step_cpus = place.job_cpus = 16; /* the mask is not the job's */
    assert_left(place, root, 32);
    place.step_cpus = 0;
    assert_left(place, root, 32);
    assert_left(alone(2), root, 16); /* each has half of them */
    assert_left(alone(1), root, 32); /* nothing to share */
    assert_left(alone(0), root, 32);
    assert_left(alone(9), root, 32); /* fewer than two cores each */
    assert_left(alone(2), scratch_path("nowhere"), 32);
    place = alone(2);
    place.bind = "none"; /* srun --cpu-bind=none */
    assert_left(place, root, 32);
}

/* What Slurm has bound to a common mask is shared, whoever has the rest. */
static void a_common_mask_of_slurm_is_shared(void **state)
{
    const char *root = sysfs_two_sockets("bound", 0);
    struct dtspank_cpu_place place = {
        .local_rank = 1, .tasks = 2, .step_cpus = 8, .job_cpus = 8};
    struct dtspank_cpus cpus = {0};
    (void)state;
    add(&cpus, 4, 7);
    add(&cpus, 20, 23);
    place.bind = "mask_cpu:";
    place.masks = "0xf000f0,0xf000f0";
    assert_true(dtspank_cpu_choose(&place, root, &cpus));
    assert_string_equal(text_of(&cpus), "6-7,22-23");
    place.masks = "0xff,0xff00";
    assert_left(place, root, 8);
    place.masks = "0xff,0xff0";
    assert_left(place, root, 8);
    place.masks = "0xff0,0xff";
    assert_left(place, root, 8);
}

/* A job that has the whole node may start steps that ask for less. */
static void a_small_step_shares_the_whole_node(void **state)
{
    struct dtspank_cpu_place place = alone(2);
    (void)state;
    place.step_cpus = 2;
    assert_gets(place, sysfs_two_sockets("whole", 0), 1, "8-15,24-31");
}

static void warn(struct dtspank_cpu_place place, int cpus, const char *said)
{
    struct dtspank_cpus mask = {0};
    add(&mask, 0, cpus - 1);
    stub.said[0] = '\0';
    dtspank_cpu_warn(NULL, &place, sysfs_two_sockets("warn", 0), &mask);
    assert_string_equal(stub.said, said);
}

#define WARNING(has, share, wanted)                                            \
    "disttrain: n7: each task has " has ", but the job has " share             \
    " for each; use srun --cpus-per-task=" wanted                              \
    ", or export SRUN_CPUS_PER_TASK=" wanted                                   \
    " in the batch script (Slurm 22.05 and 23.02 do not pass sbatch "          \
    "--cpus-per-task on to srun)\n"

static void tasks_with_too_few_cpus_bring_one_warning(void **state)
{
    struct dtspank_cpu_place place = {
        .tasks = 2, .step_cpus = 2, .job_cpus = 32};
    (void)state;
    stub_reset();
    spank_setenv(NULL, "SLURMD_NODENAME", "n7", 1);
    warn(place, 1, WARNING("1 CPU", "16", "16"));
    place.local_rank = 1;
    warn(place, 1, "");
    place.local_rank = 0;
    place.per_task = 2; /* the batch script's */
    warn(place, 1, WARNING("1 CPU", "16", "2"));
    place.per_task = 24; /* for fewer tasks */
    warn(place, 1, WARNING("1 CPU", "16", "16"));
    place.per_task = 1; /* wanted so */
    warn(place, 1, "");
    place.per_task = 0;
    place.job_cpus = 6; /* a third may be meant */
    warn(place, 1, "");
    place.job_cpus = 0;
    warn(place, 1, "");
    place.tasks = 0;
    warn(place, 1, "");
    stub_reset();
}

static void the_warning_divides_a_common_mask_by_tasks(void **state)
{
    struct dtspank_cpu_place place = {
        .tasks = 2, .step_cpus = 4, .job_cpus = 32};
    (void)state;
    stub_reset();
    spank_setenv(NULL, "SLURMD_NODENAME", "n7", 1);
    warn(place, 4, WARNING("2 CPUs", "16", "16"));
    warn(place, 32, ""); /* not bound at all */
    place.step_cpus = 32;
    warn(place, 31, ""); /* of its own */
    stub_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_share_whole_cores_socket_by_socket),
        cmocka_unit_test(tasks_stay_on_a_socket_of_interleaved_cpus),
        cmocka_unit_test(without_a_topology_cpus_are_split_by_number),
        cmocka_unit_test(a_task_gets_cpus_near_its_gpu),
        cmocka_unit_test(cpus_near_an_amd_gpu_are_found),
        cmocka_unit_test(unknown_gpus_leave_the_mask_of_slurm),
        cmocka_unit_test(cpus_that_may_belong_to_others_are_left),
        cmocka_unit_test(a_common_mask_of_slurm_is_shared),
        cmocka_unit_test(a_small_step_shares_the_whole_node),
        cmocka_unit_test(tasks_with_too_few_cpus_bring_one_warning),
        cmocka_unit_test(the_warning_divides_a_common_mask_by_tasks),
    };
    return cmocka_run_group_tests_name("spank_cpu", tests, NULL, NULL);
}
