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
#include "base/epoch.h"
#include "base/fault.h"
#include "run/dir/dir.h"
#include "run/dir/owner.h"
#include "tests/unit/disk.h"
#include "tests/unit/small_run.h"
#include "tests/unit/train/flight_scene.h"
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

#define FAILING LINES "distributed.timeout_s: 1\n"

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
        unlink("out/.owner-step");
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

static void train_and_fail(const struct dt_conf *conf, int waits)
{
    small_clean(NULL);
    waits_for = waits;
    commits = released = false;
    world_threads(1, be_trained, (void *)conf);
    assert_true(commits);
}

static void nothing_is_published_once_the_directory_is_given_up(void **state)
{
    struct dt_conf *conf = small_conf(FAILING);
    (void)state;
    train_and_fail(conf, BEFORE);
    dt_conf_destroy(conf);
    assert_false(exists("out/.owner"));
    assert_false(exists(SAVED) || exists("out/checkpoints/latest"));
}

/* The thread outlives the run, and ends its work when it can. */
static void the_directory_is_kept_while_one_is_published(void **state)
{
    struct dt_conf *conf = small_conf(FAILING);
    (void)state;
    setenv(DT_EPOCH_ENV, "0123456789abcdef 1 0 1", 1);
    disk_watch(wait_within);
    train_and_fail(conf, WITHIN);
    assert_true(exists("out/.owner") && !exists(SAVED));
    released = true;
    for (int i = 0; i < 30000 && !exists("out/.owner-step"); i++)
        dt_clock_sleep(0.001);
    disk_watch(NULL);
    unsetenv(DT_EPOCH_ENV);
    assert_true(exists(SAVED) && exists("out/checkpoints/latest"));
    assert_true(exists("out/.owner-step"));
    dt_conf_destroy(conf);
}

#endif

/* --- what others remove --- */

static int save(struct dt_run *run)
{
    struct dt_error err = {0};
    TRY(take_steps(run, 1) == 0);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    return take_steps_until_saved(run);
}

/* How often that is in events.jsonl. */
static int said(const char *text)
{
    struct dt_error err;
    char *events = dt_file_read("out/logs/events.jsonl", 1 << 20, &err);
    int count = 0;
    for (const char *at = events; at && (at = strstr(at, text)); at++)
        count++;
    free(events);
    return count;
}

#define GONE                                                                   \
    "/out/checkpoints: was removed or moved during the run; it is created "    \
    "again, without the checkpoints that were in it"
#define UNOWNED                                                                \
    "/out/.owner: was removed during the run; it is created again, but "       \
    "another run could have begun meanwhile"

static int save_without(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(save(run) == 0 && !said("removed"));
    TRY(unlink("out/.owner") == 0);
    TRY(save(run) == 0 && exists("out/.owner"));
    TRY(said(UNOWNED) == 1 && !said(GONE));
    TRY(dt_file_remove_tree("out/checkpoints", &err) == 0);
    TRY(save(run) == 0 && exists("out/checkpoints/latest"));
    TRY(said(GONE) == 1 && said(UNOWNED) == 1);
    TRY(save(run) == 0 && said("removed") == 2);
    return 0;
}

static void what_is_removed_meanwhile_is_named_and_made_again(void **state)
{
    (void)state;
    small_runs(1, LINES, save_without, NULL);
}

static int save_in_a_taken_directory(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    bool stop = false;
    struct dt_report_step line;
    (void)arg;
    TRY(take_steps(run, 2) == 0);
    TRY(dt_file_remove_tree("out", &err) == 0);
    struct dt_owner *other = dt_owner_take("out", DT_OWNER_BEAT_MS, NULL, &err);
    TRY(other);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    while (dt_flight_tell(run) == 0)
        dt_clock_sleep(0.001);
    TRY(dt_run_queue_step(run, false, &err) == 0);
    TRY(dt_run_collect(run, &line, &stop, &err) == -1);
    TRY(strstr(err.text, ": another run writes to this directory: process "));
    TRY(!exists("out/checkpoints"));
    dt_owner_release(other);
    return 0;
}

static void a_run_whose_directory_is_taken_writes_nothing_and_ends(void **state)
{
    (void)state;
    small_runs(1, LINES, save_in_a_taken_directory, NULL);
}

static atomic_bool frozen;

/* A disk that does not create the file. */
static int freeze(const char *call, const char *a, const char *b)
{
    (void)b;
    if (strcmp(call, "create") == 0 && strstr(a, "out/.owner")) {
        frozen = true;
        while (frozen)
            dt_clock_sleep(0.001);
    }
    return 0;
}

static int look_on_a_frozen_disk(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(take_steps(run, 2) == 0);
    TRY(unlink("out/.owner") == 0);
    disk_watch(freeze);
    TRY(dt_run_save_or_retry(run, false, &err) == 0);
    while (!frozen)
        dt_clock_sleep(0.001);
    TRY(take_steps(run, 3) == 0 && !dt_flight_ready(run));
    disk_watch(NULL);
    frozen = false;
    TRY(take_steps_until_saved(run) == 0 && said(UNOWNED) == 1);
    return 0;
}

static void steps_do_not_wait_for_that_look(void **state)
{
    (void)state;
    small_runs(1, LINES, look_on_a_frozen_disk, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef ENABLE_FAULT_INJECTION
        cmocka_unit_test(nothing_is_published_once_the_directory_is_given_up),
        cmocka_unit_test(the_directory_is_kept_while_one_is_published),
#endif
        cmocka_unit_test(what_is_removed_meanwhile_is_named_and_made_again),
        cmocka_unit_test(
            a_run_whose_directory_is_taken_writes_nothing_and_ends),
        cmocka_unit_test(steps_do_not_wait_for_that_look),
    };
    return cmocka_run_group_tests_name("flight_output", tests, small_enter,
                                       small_leave);
}
