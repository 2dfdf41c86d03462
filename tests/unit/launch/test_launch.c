/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch.c - a world of one, and environments that contradict it */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "launch/launch.h"

#ifdef SANITIZER
/* A PMIx_Init that fails leaves a few bytes behind. Some of them are glibc's,
 * which has no frame pointers: only the slow unwinder sees who called it. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libpmix.so";
}
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "fast_unwind_on_malloc=0";
}
#endif

static const char *const variables[] = {
    "PMIX_NAMESPACE", "PMIX_RANK",     "SLURM_STEP_NUM_TASKS",
    "SLURM_PROCID",   "SLURM_LOCALID", "RANK",
    "WORLD_SIZE",     "LOCAL_RANK",    "LOCAL_WORLD_SIZE",
};

static int forget(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        unsetenv(variables[i]);
    return 0;
}

static void a_process_started_alone_is_the_only_rank(void **state)
{
    struct dt_error err;
    struct dt_launch *launch = dt_launch_create(1000, &err);
    char host[256] = "";
    (void)state;
    assert_non_null(launch);
    gethostname(host, sizeof(host) - 1);
    assert_string_equal(dt_launch_backend(launch), "single");
    assert_int_equal(dt_launch_rank(launch), 0);
    assert_int_equal(dt_launch_size(launch), 1);
    assert_int_equal(dt_launch_local_rank(launch), 0);
    assert_int_equal(dt_launch_local_size(launch), 1);
    assert_string_equal(dt_launch_host(launch, 0), host);
    dt_launch_destroy(launch);
    dt_launch_destroy(NULL);
}

static void a_single_rank_reads_back_what_it_put(void **state)
{
    struct dt_error err;
    struct dt_launch *launch = dt_launch_create(1000, &err);
    void *data;
    size_t bytes;
    (void)state;
    assert_non_null(launch);
    assert_int_equal(dt_launch_put(launch, "a", "old", 3, &err), 0);
    assert_int_equal(dt_launch_put(launch, "a", "new!", 4, &err), 0);
    assert_int_equal(dt_launch_put(launch, "b", "", 0, &err), 0);
    assert_int_equal(dt_launch_fence(launch, 1000, &err), 0);
    assert_int_equal(dt_launch_get(launch, 0, "a", &data, &bytes, &err), 0);
    assert_int_equal(bytes, 4);
    assert_memory_equal(data, "new!", 4);
    free(data);
    assert_int_equal(dt_launch_get(launch, 0, "b", &data, &bytes, &err), 0);
    assert_int_equal(bytes, 0);
    free(data);
    assert_int_equal(dt_launch_get(launch, 0, "c", &data, &bytes, &err), -1);
    assert_string_equal(err.text, "launch/single: rank 0 has not put c");
    assert_int_equal(err.status, EX_UNAVAILABLE);
    dt_launch_destroy(launch);
}

static void abort_ends_the_process_with_the_given_status(void **state)
{
    pid_t pid = fork();
    int status;
    (void)state;
    if (pid == 0)
        dt_launch_abort(dt_launch_create(1000, NULL), 69, "reason");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 69);
}

static void a_slurm_step_of_many_tasks_needs_pmix(void **state)
{
    struct dt_error err;
    (void)state;
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    assert_null(dt_launch_create(1000, &err));
    assert_string_equal(err.text,
                        "launch: this Slurm step has 4 tasks, but Slurm gave "
                        "them no PMIx server: use `srun --mpi=pmix -n 4 "
                        "disttrain ...` (`srun --mpi=list` must show pmix)");
    assert_int_equal(err.status, EX_UNAVAILABLE);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    dt_launch_destroy(dt_launch_create(1000, &err));
}

static void refuse(const char *name, const char *value, const char *want)
{
    struct dt_error err;
    forget(NULL);
    setenv(name, value, 1);
    assert_null(dt_launch_create(1000, &err));
    assert_non_null(strstr(err.text, want));
    assert_int_equal(err.status, EX_CONFIG);
}

static void variables_that_contradict_the_launcher_are_refused(void **state)
{
    struct dt_error err;
    struct dt_launch *launch;
    (void)state;
    refuse("RANK", "3",
           "launch: E122 RANK=3 in the environment, but there is no "
           "launcher, which makes it 0 (rank 0 of 1 on ");
    refuse("WORLD_SIZE", "8",
           "WORLD_SIZE=8 in the environment, but there is "
           "no launcher, which makes it 1 ");
    refuse("LOCAL_RANK", "x", "LOCAL_RANK=x in the environment");
    refuse("LOCAL_WORLD_SIZE", "-1", "LOCAL_WORLD_SIZE=-1 in the environment");
    refuse("RANK", "", "RANK= in the environment");
    forget(NULL);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    launch = dt_launch_create(1000, &err);
    assert_non_null(launch);
    dt_launch_destroy(launch);
}

static void an_unreachable_pmix_launcher_is_reported(void **state)
{
    struct dt_error err;
    (void)state;
    setenv("PMIX_NAMESPACE", "slurm.pmix.1.0", 1);
    setenv("PMIX_RANK", "0", 1);
    assert_null(dt_launch_create(5000, &err));
#ifdef HAVE_PMIX
    assert_memory_equal(err.text, "launch/pmix: PMIx_Init", 22);
    assert_non_null(strstr(err.text, "(client: "));
#else
    assert_string_equal(err.text,
                        "launch: a PMIx launcher started this process, but "
                        "disttrain was built without PMIx: configure it "
                        "--with-pmix (Debian: libpmix-dev)");
#endif
    assert_int_equal(err.status, EX_UNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_process_started_alone_is_the_only_rank,
                               forget),
        cmocka_unit_test_setup(a_single_rank_reads_back_what_it_put, forget),
        cmocka_unit_test_setup(abort_ends_the_process_with_the_given_status,
                               forget),
        cmocka_unit_test_setup(a_slurm_step_of_many_tasks_needs_pmix, forget),
        cmocka_unit_test_setup(
            variables_that_contradict_the_launcher_are_refused, forget),
        cmocka_unit_test_setup(an_unreachable_pmix_launcher_is_reported,
                               forget),
    };
    return cmocka_run_group_tests_name("launch", tests, NULL, NULL);
}
