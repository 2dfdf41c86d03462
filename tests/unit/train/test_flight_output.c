/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_flight_output.c - saves that a run does not wait for, and its output
 * directory: whose it is, and what others remove there
 */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "run/dir/dir.h"
#include "tests/unit/disk.h"
#include "tests/unit/small_run.h"
#include "train/resume/resume_impl.h"

#define SAVED "out/checkpoints/checkpoint-2"
#define LINES                                                                  \
    "training: {train_batch_size: 12, max_steps: 3000}\n"                      \
    "checkpoint: {steps: 2, async: on}\n"

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool exists_no_more(const char *path)
{
    enum { MOST = 30000 };
    for (int i = 0; i < MOST && exists(path); i++)
        dt_clock_sleep(0.001);
    return !exists(path);
}

/* --- a run that ends meanwhile --- */

#ifdef ENABLE_FAULT_INJECTION

/* The thread of the save waits before its commit, or within. The run fails when
 * it does.
 */
enum { NOBODY, BEFORE, WITHIN };

static atomic_int waits_for;
static atomic_bool commits, released;

bool __wrap_dt_fault(const char *point);
bool __real_dt_fault(const char *point);

bool __wrap_dt_fault(const char *point)
{
    if (strcmp(point, "train.step") == 0)
        return commits;
    if (strcmp(point, "save.commit") == 0 && waits_for == BEFORE) {
        commits = true;
        exists_no_more("out/.owner");
    }
    return __real_dt_fault(point);
}

static int wait_within(const char *call, const char *a, const char *b)
{
    (void)a;
    if (b && strncmp(call, "rename", 6) == 0 && strstr(b, "/checkpoint-2")) {
        commits = true;
        while (!released)
            dt_clock_sleep(0.001);
    }
    return 0;
}

static bool never(void)
{
    return false;
}

static int be_trained(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_comm *comm = small_comm(world, &err);
    const int rc = dt_trainer_run(arg, &exec, comm, 1, NULL, never, NULL, &err);
    dt_comm_destroy(comm);
    return rc == -1 && strcmp(err.text, "failed on purpose") == 0 ? 0 : -1;
}

static void train_and_fail(int waits)
{
    struct dt_conf *conf = small_conf(LINES "distributed.timeout_s: 1\n");
    small_clean(NULL);
    waits_for = waits;
    commits = released = false;
    world_threads(1, be_trained, conf);
    assert_true(commits);
    dt_conf_destroy(conf);
}

static void nothing_is_published_once_the_directory_is_given_up(void **state)
{
    (void)state;
    train_and_fail(BEFORE);
    assert_false(exists("out/.owner"));
    assert_false(exists(SAVED) || exists("out/checkpoints/latest"));
}

/* The thread outlives the run. */
static void the_directory_is_kept_while_one_is_published(void **state)
{
    (void)state;
    disk_watch(wait_within);
    train_and_fail(WITHIN);
    assert_true(exists("out/.owner") && !exists(SAVED));
    released = true;
    for (int i = 0; i < 30000 && !exists("out/checkpoints/latest"); i++)
        dt_clock_sleep(0.001);
    disk_watch(NULL);
    assert_true(exists(SAVED));
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef ENABLE_FAULT_INJECTION
        cmocka_unit_test(nothing_is_published_once_the_directory_is_given_up),
        cmocka_unit_test(the_directory_is_kept_while_one_is_published),
#endif
    };
    return cmocka_run_group_tests_name("flight_output", tests, small_enter,
                                       small_leave);
}
