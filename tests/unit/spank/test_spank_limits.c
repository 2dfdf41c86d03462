/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_limits.c - limits that are too small, and how to raise them */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "spank/task/task_impl.h"
#include "tests/unit/spank/spank_stub.h"
#include "tests/unit/sysfs.h"

/* What the node has: getrlimit of this program says so. Sanitizers ask it too,
 * for others, and before they are ready.
 */
static rlim_t soft[RLIMIT_NLIMITS];
static rlim_t hard[RLIMIT_NLIMITS];

__attribute__((no_sanitize("address", "undefined"))) int getrlimit(
    __rlimit_resource_t resource, struct rlimit *limit)
{
    if (resource != RLIMIT_MEMLOCK && resource != RLIMIT_CORE &&
        resource != RLIMIT_NOFILE)
        return prlimit(0, resource, NULL, limit);
    *limit = (struct rlimit){soft[resource], hard[resource]};
    return 0;
}

static const char *with_rdma;
static const char *without_rdma;

static void set(const char *name, const char *value)
{
    spank_setenv(NULL, name, value, 1);
}

/* The first of 8 ranks on a node where everything is unlimited. */
static int setup(void **state)
{
    (void)state;
    sysfs_write("rdma", "", "sys/class/infiniband/mlx5_0");
    sysfs_write("plain", "", "sys/class/net/eth0");
    with_rdma = scratch_path("rdma/sys/class/infiniband");
    without_rdma = scratch_path("plain/sys/class/infiniband");
    stub_reset();
    stub.local_tasks = 4;
    set("SLURMD_NODENAME", "n7");
    set("SLURM_LOCALID", "0");
    set("SLURM_STEP_NUM_TASKS", "8");
    for (int i = 0; i < RLIMIT_NLIMITS; i++)
        soft[i] = hard[i] = RLIM_INFINITY;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stub_reset();
    return 0;
}

static void report(const char *rdma, const char *said)
{
    stub.said[0] = '\0';
    dtspank_limits_report(NULL, rdma);
    assert_string_equal(stub.said, said);
}

#define MAY_HAVE "disttrain: n7: a task may have "
#define MEMLOCK(mib)                                                           \
    MAY_HAVE mib " MiB of locked memory, and RDMA locks its buffers "

static void little_locked_memory_is_told_with_its_remedy(void **state)
{
    (void)state;
    report(with_rdma, "");
    soft[RLIMIT_MEMLOCK] = 8 << 20;
    report(with_rdma, MEMLOCK("8") "(ulimit -l unlimited before srun)\n");
    hard[RLIMIT_MEMLOCK] = 8 << 20;
    report(with_rdma, MEMLOCK("8") "(LimitMEMLOCK=infinity in "
                                   "slurmd.service)\n");
    soft[RLIMIT_MEMLOCK] = hard[RLIMIT_MEMLOCK] = 1 << 30;
    report(with_rdma, "");
}

/* The limits of the submit host come after the plugin. */
static void propagated_limits_count_as_slurm_sets_them(void **state)
{
    (void)state;
    set("SLURM_RLIMIT_MEMLOCK", "65536");
    report(with_rdma, MEMLOCK("0") "(srun --propagate=NONE, or "
                                   "PropagateResourceLimitsExcept=MEMLOCK in "
                                   "slurm.conf)\n");
    set("SLURM_RLIMIT_MEMLOCK", "U2097152");
    report(with_rdma, MEMLOCK("2") "(srun --propagate=NONE, or "
                                   "PropagateResourceLimitsExcept=MEMLOCK in "
                                   "slurm.conf)\n");
    soft[RLIMIT_MEMLOCK] = 8 << 20;
    set("SLURM_RLIMIT_MEMLOCK", "18446744073709551615");
    report(with_rdma, "");
    hard[RLIMIT_MEMLOCK] = 16 << 20; /* lowered to the node's */
    report(with_rdma, MEMLOCK("16") "(LimitMEMLOCK=infinity in "
                                    "slurmd.service)\n");
    set("SLURM_RLIMIT_MEMLOCK", "U18446744073709551615"); /* refused */
    report(with_rdma, MEMLOCK("8") "(LimitMEMLOCK=infinity in "
                                   "slurmd.service)\n");
    soft[RLIMIT_MEMLOCK] = hard[RLIMIT_MEMLOCK] = RLIM_INFINITY;
    set("SLURM_RLIMIT_MEMLOCK", "8M"); /* Slurm ignores it as well */
    report(with_rdma, "");
    set("SLURM_RLIMIT_MEMLOCK", "");
    report(with_rdma, "");
}

static void a_core_file_limit_is_told_unless_zero(void **state)
{
    (void)state;
    set("SLURM_RLIMIT_CORE", "4194304");
    report(with_rdma, MAY_HAVE "4 MiB for a core file, and a larger one is cut "
                               "(srun --propagate=NONE, or "
                               "PropagateResourceLimitsExcept=CORE in "
                               "slurm.conf)\n");
    set("SLURM_RLIMIT_CORE", "0"); /* none is wanted */
    report(with_rdma, "");
}

static void many_ranks_need_more_open_files(void **state)
{
    (void)state;
    soft[RLIMIT_NOFILE] = 1024;
    set("SLURM_STEP_NUM_TASKS", "64");
    report(with_rdma, "");
    set("SLURM_STEP_NUM_TASKS", "65");
    report(without_rdma, MAY_HAVE "1024 open files, and every rank talks to "
                                  "all others (ulimit -n 65536 before "
                                  "srun)\n");
    soft[RLIMIT_NOFILE] = 4096;
    report(without_rdma, "");
    set("SLURM_RLIMIT_NOFILE", "1024"); /* the node's own would do */
    report(without_rdma, MAY_HAVE "1024 open files, and every rank talks to "
                                  "all others (srun --propagate=NONE, or "
                                  "PropagateResourceLimitsExcept=NOFILE in "
                                  "slurm.conf)\n");
}

static void one_task_tells_all_limits_in_one_line(void **state)
{
    (void)state;
    set("SLURM_STEP_NUM_TASKS", "65");
    soft[RLIMIT_MEMLOCK] = 8 << 20;
    soft[RLIMIT_CORE] = 1;
    soft[RLIMIT_NOFILE] = 1024;
    report(with_rdma,
           MEMLOCK("8") "(ulimit -l unlimited before srun); 0 MiB for a core "
                        "file, and a larger one is cut (ulimit -c unlimited "
                        "before srun); 1024 open files, and every rank talks "
                        "to all others (ulimit -n 65536 before srun)\n");
    set("SLURM_LOCALID", "1");
    report(with_rdma, "");
}

static void a_small_step_without_rdma_is_told_nothing(void **state)
{
    (void)state;
    soft[RLIMIT_MEMLOCK] = soft[RLIMIT_CORE] = soft[RLIMIT_NOFILE] = 1;
    report(without_rdma, "");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(little_locked_memory_is_told_with_its_remedy),
        TEST(propagated_limits_count_as_slurm_sets_them),
        TEST(a_core_file_limit_is_told_unless_zero),
        TEST(many_ranks_need_more_open_files),
        TEST(one_task_tells_all_limits_in_one_line),
        TEST(a_small_step_without_rdma_is_told_nothing),
    };
    return cmocka_run_group_tests_name("spank_limits", tests, NULL, NULL);
}
