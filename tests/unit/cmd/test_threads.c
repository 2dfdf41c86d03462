/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads.c - how many threads a rank has, and how long they spin */
#include "config.h"

#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/proc.h"
#include "cmd/cmd_impl.h"
#include "launch/launch_impl.h"
#include "tests/unit/stderr_text.h"
#include "tests/unit/sysfs.h"

static int usable(const char *root)
{
    return dt_cpus_usable(scratch_path(root));
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static void a_limit_of_cpu_time_is_a_number_of_processors(void **state)
{
    const int all = usable("nothing");
    (void)state;
    assert_in_range(all, 1, omp_get_num_procs());
    sysfs_write("v2", "1:name=systemd:/x\n0::/slurm/job\n", "proc/self/cgroup");
    assert_int_equal(usable("v2"), all);
    sysfs_write("v2", "max 100000\n", "sys/fs/cgroup/slurm/job/cpu.max");
    assert_int_equal(usable("v2"), all);
    sysfs_write("v2", "150000 100000\n", "sys/fs/cgroup/slurm/cpu.max");
    assert_int_equal(usable("v2"), least(all, 2));
    sysfs_write("v2", "100000 100000\n", "sys/fs/cgroup/slurm/job/cpu.max");
    assert_int_equal(usable("v2"), 1);
    sysfs_write("v2", "9900000 100000\n", "sys/fs/cgroup/slurm/job/cpu.max");
    assert_int_equal(usable("v2"), least(all, 2));
    /* a container, whose own group is the root that it sees */
    sysfs_write("box", "0::/\n", "proc/self/cgroup");
    sysfs_write("box", "30000 100000\n", "sys/fs/cgroup/cpu.max");
    assert_int_equal(usable("box"), 1);
    sysfs_write("box", "0::/docker/abc\n", "proc/self/cgroup");
    assert_int_equal(usable("box"), 1);
}

/* The threads of rank 0 of `ranks` on this node, and what is said of them. */
static int threads_of(int ranks, char *said, size_t size)
{
    char *hosts[4] = {(char *)"h0", (char *)"h0", (char *)"h0", (char *)"h0"};
    struct dt_launch launch = {
        .size = ranks, .hosts = hosts, .local_size = ranks};
    struct stderr_text text = stderr_text_begin();
    dt_join_threads(&launch);
    stderr_text_end(&text, said, size);
    return omp_get_max_threads();
}

static void a_rank_has_no_more_threads_than_processors(void **state)
{
    const int cpus = dt_cpus_usable("");
    char said[256], wanted[256];
    (void)state;
    unsetenv("OMP_NUM_THREADS");
    omp_set_num_threads(cpus + 7);
    assert_int_equal(threads_of(1, said, sizeof(said)), cpus);
    assert_int_equal(threads_of(2, said, sizeof(said)),
                     cpus > 1 ? cpus / 2 : 1);
    assert_string_equal(said, "");
    setenv("OMP_NUM_THREADS", "x", 1); /* has been read before */
    omp_set_num_threads(1);
    assert_int_equal(threads_of(2, said, sizeof(said)), 1);
    omp_set_num_threads(cpus);
    assert_int_equal(threads_of(2, said, sizeof(said)), cpus);
    assert_string_equal(said, "");
    omp_set_num_threads(cpus + 7);
    assert_int_equal(threads_of(2, said, sizeof(said)), cpus);
    snprintf(wanted, sizeof(wanted),
             "warning: OMP_NUM_THREADS is %d, but a rank may use %d CPU%s "
             "here: it has that many threads\n",
             cpus + 7, cpus, cpus == 1 ? "" : "s");
    assert_non_null(strstr(said, wanted));
    unsetenv("OMP_NUM_THREADS");
}

static void clear(void)
{
    unsetenv("OMP_WAIT_POLICY");
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("KMP_BLOCKTIME");
}

static void waiting_threads_sleep_soon_unless_the_user_decides(void **state)
{
    static const char *const chosen[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT",
                                         "KMP_BLOCKTIME"};
    (void)state;
    clear();
    omp_set_num_threads(2);
    assert_true(dt_cmd_spin_limit()); /* and once more, with these: */
    assert_string_equal(getenv("GOMP_SPINCOUNT"), "1000");
    assert_string_equal(getenv("KMP_BLOCKTIME"), "1");
    assert_null(getenv("OMP_WAIT_POLICY"));
    assert_false(dt_cmd_spin_limit()); /* which its children do not get */
    assert_null(getenv("GOMP_SPINCOUNT"));
    assert_null(getenv("KMP_BLOCKTIME"));
    for (int i = 0; i < 3; i++) {
        setenv(chosen[i], "9", 1);
        assert_false(dt_cmd_spin_limit());
        assert_string_equal(getenv(chosen[i]), "9");
        clear();
    }
    omp_set_num_threads(1); /* it waits for nobody */
    assert_false(dt_cmd_spin_limit());
    assert_null(getenv("GOMP_SPINCOUNT"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_of_cpu_time_is_a_number_of_processors),
        cmocka_unit_test(a_rank_has_no_more_threads_than_processors),
        cmocka_unit_test(waiting_threads_sleep_soon_unless_the_user_decides),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
