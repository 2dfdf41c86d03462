/* SPDX-License-Identifier: Apache-2.0 */
/* test_cgroup.c - control groups of both versions, in trees of files */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cgroup.h"
#include "tests/unit/sysfs.h"

static void expect(const char *root, const char *controller, int version,
                   const char *path)
{
    struct dt_cgroup group;
    dt_cgroup_find(&group, scratch_path(root), controller);
    assert_int_equal(group.version, version);
    if (version > 0)
        assert_string_equal(group.path + strlen(scratch_path(root)), path);
}

static void the_group_of_a_controller_is_found_in_both_versions(void **state)
{
    (void)state;
    sysfs_write("none", "", "proc/self/cgroup");
    expect("none", "memory", 0, "");
    expect("absent", "memory", 0, "");
    sysfs_write("v2", "0::/slurm/job_1\n", "proc/self/cgroup");
    expect("v2", "memory", 2, "/sys/fs/cgroup/slurm/job_1");
    sysfs_write("top", "0::/\n", "proc/self/cgroup");
    expect("top", "cpu", 2, "/sys/fs/cgroup");
    /* both are mounted, and one name is the beginning of another */
    sysfs_write("both",
                "9:memory2:/no\n4:memory:/slurm/job_1\n3:cpuset:/no\n"
                "2:cpu,cpuacct:/\n0::/user\n",
                "proc/self/cgroup");
    expect("both", "memory", 1, "/sys/fs/cgroup/memory/slurm/job_1");
    expect("both", "cpu", 1, "/sys/fs/cgroup/cpu,cpuacct");
    expect("both", "io", 2, "/sys/fs/cgroup/user");
}

static void it_ends_at_the_topmost_one(void **state)
{
    struct dt_cgroup group;
    int groups = 1;
    (void)state;
    sysfs_write("v2", "0::/slurm/job_1\n", "proc/self/cgroup");
    dt_cgroup_find(&group, scratch_path("v2"), "memory");
    while (dt_cgroup_rise(&group) == 0)
        groups++;
    assert_int_equal(groups, 3);
    assert_string_equal(group.path + strlen(scratch_path("v2")),
                        "/sys/fs/cgroup");
    dt_cgroup_find(&group, scratch_path("none"), "memory");
    assert_int_equal(dt_cgroup_rise(&group), -1);
}

static void kills_for_lack_of_memory_are_counted_by_the_kernel(void **state)
{
    struct dt_cgroup group;
    (void)state;
    sysfs_write("v2", "0::/slurm/job_1\n", "proc/self/cgroup");
    assert_int_equal(dt_cgroup_oom_kills(scratch_path("v2")), -1);
    sysfs_write("v2", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n",
                "sys/fs/cgroup/slurm/job_1/memory.events");
    assert_int_equal(dt_cgroup_oom_kills(scratch_path("v2")), 2);
    sysfs_write("both", "4:memory:/job\n0::/user\n", "proc/self/cgroup");
    sysfs_write("both", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n",
                "sys/fs/cgroup/memory/job/memory.oom_control");
    assert_int_equal(dt_cgroup_oom_kills(scratch_path("both")), 5);
    assert_int_equal(dt_cgroup_oom_kills(scratch_path("none")), -1);
    dt_cgroup_find(&group, scratch_path("v2"), "memory");
    assert_true(isnan(dt_cgroup_number(&group, "memory.events", "oom_k")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_group_of_a_controller_is_found_in_both_versions),
        cmocka_unit_test(it_ends_at_the_topmost_one),
        cmocka_unit_test(kills_for_lack_of_memory_are_counted_by_the_kernel),
    };
    return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
