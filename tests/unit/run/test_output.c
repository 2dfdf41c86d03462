/* SPDX-License-Identifier: Apache-2.0 */
/* test_output.c - run.output_dir, which a run has for itself while it lasts */
#include "config.h"

#include "run/dir/owner.h"
#include "train/train.h"
#include "base/clock.h"
#include "base/epoch.h"
#include "run/dir/dir.h"
#include "train/resume/resume.h"
#include "tests/unit/small_run.h"

#define SAVED "out/checkpoints/checkpoint-"
#define STATUS "out/logs/status.json"
#define FIVE                                                                   \
    EACH "training: {train_batch_size: 4, max_steps: 5, resume: auto}\n"

#define BLOWN                                                                  \
    "optimizer.lr: 1.0e+30\nscheduler.name: constant\n"                        \
    "training.max_grad_norm: 0\ntraining.train_batch_size: 4\n"

static struct dt_error trained;
static int told_rank = -1; /* which one is told to stop */
static _Thread_local int own_rank;

static bool is_told(void)
{
    return own_rank == told_rank;
}

static int train_rank(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    own_rank = world->rank;
    struct dt_comm *comm = small_comm(world, &err);
    int rc = comm ? dt_trainer_run(arg, &exec, comm, world->size, NULL, is_told,
                                   NULL, &err)
                  : -1;
    dt_comm_destroy(comm);
    if (world->rank == 0)
        trained = err;
    return rc < 0 && world->size > 1 && err.status != EX_TEMPFAIL ? -1 : 0;
}

/* Trains in out/, which is not removed; what went wrong is in `trained`. */
static void train(int size, const char *lines)
{
    struct dt_conf *conf = small_conf(lines);
    trained = (struct dt_error){0};
    world_threads(size, train_rank, conf);
    dt_conf_destroy(conf);
}

static int save_removed(struct dt_run *run, void *arg)
{
    struct dt_report_step line = {0};
    struct dt_error err = {0};
    (void)arg;
    TRY(small_step(run, &line, &err) == 0);
    TRY(dt_file_remove_tree("out", &err) == 0);
    TRY(dt_run_save(run, &err, &err) == 0);
    dt_report_step(run->report, &line);
    TRY(access(SAVED "1", F_OK) == 0);
    TRY(access("out/.owner", F_OK) == 0);
    /* another run has begun there */
    TRY(dt_file_remove_tree("out", &err) == 0);
    struct dt_owner *other = dt_owner_take("out", DT_OWNER_BEAT_MS, NULL, &err);
    TRY(other);
    TRY(dt_run_save(run, &err, &err) == -1);
    TRY(strstr(err.text, ": another run writes to this directory: process "));
    TRY(access("out/checkpoints", F_OK) == -1);
    dt_owner_release(other);
    return 0;
}

static void a_removed_directory_is_made_again_unless_taken(void **state)
{
    (void)state;
    small_runs(1, "training: {train_batch_size: 4, max_steps: 9}\n",
               save_removed, NULL);
    assert_int_equal(access("out/.owner", F_OK), -1);
}

/* The directory is given up however a run ends. */
static void a_run_owns_its_directory_until_it_ends(void **state)
{
    struct dt_error err;
    (void)state;
    struct dt_owner *other = dt_owner_take("out", DT_OWNER_BEAT_MS, NULL, &err);
    assert_non_null(other);
    train(1, FIVE);
    assert_int_equal(trained.status, EX_CANTCREAT);
    assert_non_null(strstr(trained.text, "/out: another run writes to this "));
    assert_int_equal(access("out/logs", F_OK), -1);
    dt_owner_release(other);
    train(1, FIVE "checkpoint.steps: 1\n");
    assert_string_equal(trained.text, "");
    assert_int_equal(access("out/.owner", F_OK), -1);
    train(1, "training: {train_batch_size: 5, max_steps: 9}\n");
    assert_non_null(strstr(trained.text, "/out: run.output_dir is not empty"));
    assert_int_equal(access("out/.owner", F_OK), -1);
    small_clean(NULL);
    train(1, BLOWN "training.max_steps: 4\n");
    assert_int_equal(trained.status, EX_DATAERR);
    assert_int_equal(access("out/.owner", F_OK), -1);
}

/* By a process that was killed, so that the run starts again. */
static void half_a_model_that_was_made_there_does_not_count(void **state)
{
    static const char *const rest[] = {"out/composed", "out/.tmp-composed",
                                       "out/.old-composed"};
    struct dt_conf *given =
        small_conf("training: {train_batch_size: 4, max_steps: 5}\n");
    struct dt_conf conf = *given;
    struct dt_error err;
    (void)state;
    conf.model.vision = conf.model.language = "half";
    conf.model.path = "out/composed";
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
        assert_int_equal(dt_file_mkdirs(rest[i], &err), 0);
    if (dt_run_check_free(&conf, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(dt_run_check_free(given, &err), -1);
    assert_non_null(strstr(err.text, "/out: run.output_dir is not empty"));
    assert_int_equal(dt_file_mkdirs("out/.tmp-other", &err), 0);
    assert_int_equal(dt_run_check_free(&conf, &err), -1);
    dt_conf_destroy(given);
}

static bool was_said(const char *text)
{
    struct dt_error err;
    char *events = dt_file_read("out/logs/events.jsonl", 1 << 20, &err);
    bool found = events && strstr(events, text);
    free(events);
    return found;
}

#define GONE                                                                   \
    ": was removed or moved during the run; it is created again, without the " \
    "checkpoints that were in it"

static int save_without(struct dt_run *run, void *arg)
{
    struct dt_report_step line = {0};
    struct dt_error err = {0};
    (void)arg;
    TRY(small_step(run, &line, &err) == 0);
    TRY(dt_run_save(run, &err, &err) == 0);
    TRY(!was_said("removed"));
    TRY(unlink("out/.owner") == 0);
    TRY(dt_run_check_output(run, &err) == 0);
    TRY(was_said("/out/.owner: was removed during the run; it is created "
                 "again, but another run could have begun meanwhile"));
    TRY(access("out/.owner", F_OK) == 0 && !was_said(GONE));
    TRY(dt_file_remove_tree("out/checkpoints", &err) == 0);
    TRY(dt_run_save(run, &err, &err) == 0);
    TRY(was_said("/out/checkpoints" GONE) && !was_said("/out" GONE));
    TRY(access(SAVED "1", F_OK) == 0);
    TRY(rename("out", "moved") == 0);
    TRY(dt_run_check_output(run, &err) == 0);
    TRY(access("out/.owner-step", F_OK) == 0); /* a restart is not refused */
    TRY(dt_run_save(run, &err, &err) == 0);
    TRY(was_said("/out" GONE) && access(SAVED "1", F_OK) == 0);
    TRY(dt_file_remove_tree("moved", &err) == 0);
    return 0;
}

static void what_is_removed_during_a_run_is_named(void **state)
{
    (void)state;
    setenv(DT_EPOCH_ENV, "0123456789abcdef 1 0 1", 1);
    small_runs(1, "training: {train_batch_size: 4, max_steps: 9}\n",
               save_without, NULL);
    unsetenv(DT_EPOCH_ENV);
}

/* A thread of the run writes it. */
static void wait_for_status(void)
{
    for (int i = 0; i < 6000 && access(STATUS, F_OK) != 0; i++)
        dt_clock_sleep(0.01);
}

/* A heartbeat has seen that another run owns the directory. */
static int step_when_lost(struct dt_run *run, void *arg)
{
    struct dt_report_step line = {.step = 1};
    struct dt_error err = {0};
    char *before, *after;
    (void)arg;
    TRY(small_step(run, &line, &err) == 0);
    dt_report_step(run->report, &line);
    wait_for_status();
    char *record = dt_file_read("out/.owner", 4096, &err);
    TRY(record);
    char *nonce = strstr(record, "\nnonce ") + 7;
    *nonce = *nonce == '0' ? '1' : '0';
    dt_live_publish(run->live, "out/logs", NULL, NULL); /* without an owner */
    dt_owner_release(run->owner);
    run->owner = dt_owner_take("out", 20, NULL, &err);
    TRY(run->owner);
    dt_live_publish(run->live, "out/logs", dt_run_holds_output, run);
    TRY(dt_file_replace("out/.owner", record, strlen(record), &err) == 0);
    free(record);
    while (dt_run_holds_output(run))
        dt_clock_sleep(0.01);
    TRY((before = dt_file_read("out/logs/metrics.jsonl", 4096, &err)));
    TRY(small_step(run, &line, &err) == -1);
    TRY(strstr(err.text, ": another run writes to this directory: process "));
    dt_events_end(run, -1, &err);
    dt_run_live_end(run, -1, &err);
    dt_live_destroy(run->live);
    run->live = NULL;
    TRY(!run->report);
    TRY((after = dt_file_read(STATUS, 1 << 16, &err)));
    TRY(strstr(after, "\"running\"") && !strstr(after, "\"failed\""));
    free(after);
    TRY((after = dt_file_read("out/logs/metrics.jsonl", 4096, &err)));
    TRY(strcmp(before, after) == 0);
    free(after);
    free(before);
    TRY(access("out/checkpoints/checkpoint-1", F_OK) == -1);
    return 0;
}

static void a_run_that_lost_its_directory_writes_nothing_more(void **state)
{
    (void)state;
    small_runs(1, "training: {train_batch_size: 4, max_steps: 9}\n",
               step_when_lost, NULL);
    assert_int_equal(access("out/.owner", F_OK), 0);
}

/* Rank 0 is told to stop while it waits, and both ranks end. */
static void a_signal_ends_the_wait_for_the_directory(void **state)
{
    struct dt_error err;
    (void)state;
    assert_int_equal(dt_file_mkdirs("out", &err), 0);
    assert_int_equal(dt_file_replace("out/.owner", "?\n", 2, &err), 0);
    told_rank = 0;
    train(2, FIVE);
    told_rank = -1;
    assert_int_equal(trained.status, EX_TEMPFAIL);
    assert_string_equal(trained.text,
                        "stopped by a signal before the first step");
    assert_int_equal(access("out/.owner", F_OK), 0);
}

/* Rank 0 is told to stop while it makes the cache, and both ranks end. */
static void a_signal_ends_the_preparing_of_data(void **state)
{
    (void)state;
    told_rank = 0;
    train(2, FIVE "data.cache_dir: new\n");
    told_rank = -1;
    assert_int_equal(trained.status, EX_TEMPFAIL);
    assert_string_equal(trained.text,
                        "stopped by a signal before the first step");
    assert_int_equal(access("out", F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_removed_directory_is_made_again_unless_taken,
                               small_clean),
        cmocka_unit_test_setup(a_run_owns_its_directory_until_it_ends,
                               small_clean),
        cmocka_unit_test_setup(half_a_model_that_was_made_there_does_not_count,
                               small_clean),
        cmocka_unit_test_setup(what_is_removed_during_a_run_is_named,
                               small_clean),
        cmocka_unit_test_setup(
            a_run_that_lost_its_directory_writes_nothing_more, small_clean),
        cmocka_unit_test_setup(a_signal_ends_the_wait_for_the_directory,
                               small_clean),
        cmocka_unit_test_setup(a_signal_ends_the_preparing_of_data,
                               small_clean),
    };
    return cmocka_run_group_tests_name("output", tests, small_enter,
                                       small_leave);
}
