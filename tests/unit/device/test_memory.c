/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c - what the kernel and control groups leave to a process */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/device.h"
#include "tests/unit/sysfs.h"

#define MEMINFO                                                                \
    "MemTotal:       32000 kB\nMemFree:         1000 kB\n"                     \
    "MemAvailable:   20000 kB\n"

static size_t available(const char *root)
{
    return dt_memory_available(scratch_path(root));
}

static void available_memory_counts_without_a_cgroup(void **state)
{
    (void)state;
    sysfs_write("plain", MEMINFO, "proc/meminfo");
    assert_int_equal(available("plain"), 20000 * 1024);
    assert_int_equal(available("nothing"), SIZE_MAX);
}

/* The closest limit counts, wherever it is; page cache is given back. */
static void the_tightest_limit_of_cgroup_version_2_counts(void **state)
{
    (void)state;
    sysfs_write("v2", MEMINFO, "proc/meminfo");
    sysfs_write("v2", "0::/slurm/job_7/step_0\n", "proc/self/cgroup");
    sysfs_write("v2", "max\n", "sys/fs/cgroup/slurm/job_7/step_0/memory.max");
    sysfs_write("v2", "500\n",
                "sys/fs/cgroup/slurm/job_7/step_0/memory.current");
    assert_int_equal(available("v2"), 20000 * 1024);
    sysfs_write("v2", "10000000\n", "sys/fs/cgroup/slurm/job_7/memory.max");
    sysfs_write("v2", "4000000\n", "sys/fs/cgroup/slurm/job_7/memory.current");
    assert_int_equal(available("v2"), 6000000);
    sysfs_write("v2",
                "anon 1000000\nactive_file 2000000\ninactive_file 500000\n",
                "sys/fs/cgroup/slurm/job_7/memory.stat");
    assert_int_equal(available("v2"), 8500000);
    sysfs_write("v2", "300\n", "sys/fs/cgroup/slurm/job_7/step_0/memory.max");
    assert_int_equal(available("v2"), 0);
}

/* In a container, whose own group is the root that it sees; a page cache that
 * is counted a little later than what is used is not more than that.
 */
static void a_container_is_limited_by_its_root_cgroup(void **state)
{
    (void)state;
    sysfs_write("c2", MEMINFO, "proc/meminfo");
    sysfs_write("c2", "0::/\n", "proc/self/cgroup");
    sysfs_write("c2", "10000000\n", "sys/fs/cgroup/memory.max");
    sysfs_write("c2", "4000000\n", "sys/fs/cgroup/memory.current");
    assert_int_equal(available("c2"), 6000000);
    sysfs_write("c2", "0::/job_7\n", "proc/self/cgroup");
    assert_int_equal(available("c2"), 6000000);
    sysfs_write("c2", "active_file 4000001\n", "sys/fs/cgroup/memory.stat");
    assert_int_equal(available("c2"), 10000000);
}

static void the_limit_of_cgroup_version_1_counts(void **state)
{
    (void)state;
    sysfs_write("v1", MEMINFO, "proc/meminfo");
    sysfs_write("v1", "5:cpuset:/x\n4:memory:/slurm/job_7\n1:name=systemd:/\n",
                "proc/self/cgroup");
    sysfs_write("v1", "9223372036854771712\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes");
    sysfs_write("v1", "77\n", "sys/fs/cgroup/memory/memory.usage_in_bytes");
    sysfs_write("v1", "3000000\n",
                "sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes");
    sysfs_write("v1", "1000000\n",
                "sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes");
    sysfs_write("v1", "total_inactive_file 250000\n",
                "sys/fs/cgroup/memory/slurm/job_7/memory.stat");
    assert_int_equal(available("v1"), 2250000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(available_memory_counts_without_a_cgroup),
        cmocka_unit_test(the_tightest_limit_of_cgroup_version_2_counts),
        cmocka_unit_test(a_container_is_limited_by_its_root_cgroup),
        cmocka_unit_test(the_limit_of_cgroup_version_1_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
