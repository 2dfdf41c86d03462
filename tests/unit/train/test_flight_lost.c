/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_flight_lost.c - runs whose workers are killed while a save is written
 * that they do not wait for, and that go on from memory
 */
#include "config.h"

#include "tests/unit/train/lost_scene.h"

#include "tests/unit/stderr_text.h"
#include "train/resume/copies.h"
#include "train/resume/resume_impl.h"

#ifdef ENABLE_FAULT_INJECTION

#define ASYNC TEXT "checkpoint.async: on\n"
#define KEPT ASYNC "checkpoint.keep_every: 4\ncheckpoint.total_limit: 1\n"
#define KEPT_EACH                                                              \
    "algorithm: sft\n" MODEL ROWS_HELD                                         \
    "training: {train_batch_size: 8, max_steps: " END ", resume: auto}\n"      \
    "checkpoint: {strategy: steps, steps: 1, keep_every: 1, total_limit: 1, "  \
    "async: on}\n"
#define NEVER "save.commit:sleep=600000,"

/* A copy is due after every step. */
double __wrap_dt_copies_tell(const struct dt_run *run);

double __wrap_dt_copies_tell(const struct dt_run *run)
{
    return run->copies ? dt_copies_vote(run->spec.world) : 0;
}

/* Which of the checkpoints 1 to 6 are there: "..3..6". */
static const char *saved(void)
{
    static char steps[] = "......";
    char path[64];
    for (int step = 1; step <= 6; step++) {
        snprintf(path, sizeof(path), "out/checkpoints/checkpoint-%d", step);
        const bool there = access(path, F_OK) == 0;
        steps[step - 1] = (char)(there ? '0' + step : '.');
    }
    return steps;
}

/* Starts all ranks again, and returns what they warn of. */
static const char *start_again(const char *fault)
{
    static char text[4096];
    keeper.conf->training.restarted = true;
    struct stderr_text log = stderr_text_begin();
    dt_log_init(0, DT_LOG_WARN);
    const bool done = start(fault);
    dt_log_init(0, DT_LOG_ERROR);
    stderr_text_end(&log, text, sizeof(text));
    if (done != !fault)
        fail_msg("%s", text);
    return text;
}

/* Kills a worker, starts all again in the directory as it is, and returns what
 * they warn of.
 */
static const char *warned_there(int size, const char *lines, const char *fault)
{
    begin(size, lines, true);
    assert_false(start(fault));
    const char *text = start_again(NULL);
    end();
    return text;
}

/* The same in a new directory. */
static const char *warned(int size, const char *lines, const char *fault)
{
    small_clean(NULL);
    return warned_there(size, lines, fault);
}

#define LOST "the save of step 4 was lost with the processes that wrote it; "

static void at_its_own_step_it_is_made_again(void **state)
{
    static const char *const strategies[] = {STRATEGY("ddp"),
                                             STRATEGY("zero2")};
    (void)state;
    const char *text = warned(1, KEPT, "train.step:step=5:kill");
    assert_non_null(strstr(text, LOST "the run is saved again after step 4\n"));
    assert_string_equal(saved(), "...4.6");
    for (int i = 0; i < 2; i++) {
        char lines[2048];
        snprintf(lines, sizeof(lines), ASYNC "%s", strategies[i]);
        text = warned(2, lines, "train.step:step=5:rank=1:kill");
        assert_non_null(strstr(text, LOST));
        assert_string_equal(saved(), "...4.6");
    }
}

/* Rank 0 has begun the gradients of the next step when rank 1 is killed, whose
 * step is ended by all: they are not compared before the save.
 */
static void a_rank_may_be_a_step_ahead(void **state)
{
    static const char late[] = "state.unsettled:step=4:rank=1:sleep=500,"
                               "state.unsettled:step=4:rank=1:kill";
    (void)state;
    const char *text = warned(2, ASYNC STRATEGY("ddp"), late);
    assert_null(strstr(text, "different bits"));
    assert_string_equal(saved(), "...4.6");
}

/* The same bits as without it, in the run and in the checkpoint. */
static void that_changes_nothing(void **state)
{
    static const struct lost lost[] = {
        {{"train.step:step=5:kill"}, "0 4"},
        {{"train.step:step=5:kill", NEVER "train.step:step=6:kill"}, "0 4 5"},
    };
    (void)state;
    CHECK(1, ASYNC, lost);
    CHECK(1, GRPO "checkpoint.async: on\n", lost);
}

static void no_save_is_lost_with_worker_after_worker(void **state)
{
    static const char *const faults[] = {
        "train.step:step=2:kill", "train.step:step=3:kill",
        "train.step:step=4:kill", "train.step:step=5:kill"};
    (void)state;
    small_clean(NULL);
    begin(1, KEPT_EACH, true);
    for (int i = 0; i < STARTS; i++)
        assert_false(start(faults[i]));
    assert_true(start(NULL));
    end();
    assert_string_equal(saved(), "123456");
}

/* One that will be missing is named. */
static void later_the_run_is_saved_at_once(void **state)
{
    const char *missing = "; checkpoint-4, which checkpoint.keep_every asks "
                          "for, will be missing\n";
    (void)state;
    const char *text = warned(1, ASYNC, NEVER "train.step:step=6:kill");
    assert_non_null(strstr(text, LOST "the run is saved again after step 5\n"));
    assert_string_equal(saved(), "....56");
    text = warned(1, KEPT, NEVER "train.step:step=6:kill");
    assert_non_null(strstr(text, LOST "the run is saved again after step 5"));
    assert_non_null(strstr(text, missing));
    /* a step that was committed comes first */
    text = warned(1, KEPT, NEVER "state.commit:step=5:kill");
    assert_non_null(strstr(text, LOST "the run is saved again after step 5"));
    assert_non_null(strstr(text, missing));
}

/* What the start after it has found out is known to the next one, if no step
 * comes between.
 */
static void it_is_lost_once(void **state)
{
    (void)state;
    small_clean(NULL);
    begin(1, ASYNC, true);
    assert_false(start(NEVER "train.step:step=6:kill"));
    const char *text = start_again(NEVER "train.step:step=6:kill");
    assert_non_null(strstr(text, LOST "the run is saved again after step 5\n"));
    text = start_again(NULL);
    assert_null(strstr(text, LOST));
    assert_non_null(strstr(text, "the save of step 5 was lost with "));
    end();
}

static void so_it_is_with_a_copy_in_host_memory(void **state)
{
    (void)state;
    keeper.hardware = APART;
    for (int size = 1; size <= 2; size++) {
        const char *text = warned(size, ASYNC STRATEGY("ddp"),
                                  "train.step:step=6:rank=0:kill");
        assert_non_null(
            strstr(text, LOST "the run is saved again after step 4\n"));
        assert_string_equal(saved(), "...4.6");
    }
    keeper.hardware = ON_CPUS;
}

#define FROM(path)                                                             \
    "algorithm: sft\n" MODEL ROWS_HELD                                         \
    "training: {train_batch_size: 8, max_steps: " END ", resume: " path "}\n"  \
    "checkpoint: {strategy: steps, steps: 2}\n"
#define ASYNC_FROM(path) FROM(path) "checkpoint.async: on\n"
#define ROOT "out/checkpoints/"

/* Another run, of another step, has checkpoints of steps 2, 4 and 6 there, and
 * `latest` names that of step 4.
 */
static void leave_old_run(void)
{
    small_clean(NULL);
    begin(1, FROM("auto"), true);
    setenv(DT_EPOCH_ENV, "fedcba9876543210 1 0 1", 1);
    assert_true(start(NULL));
    end();
    assert_string_equal(saved(), ".2.4.6");
    assert_int_equal(unlink(ROOT "latest"), 0);
    assert_int_equal(symlink("checkpoint-4", ROOT "latest"), 0);
}

/* The run goes back behind it, or has begun elsewhere. */
static void one_that_is_not_of_this_run_does_not_count(void **state)
{
    struct dt_error err;
    const char *text;
    (void)state;
    for (int size = 1; size <= 2; size++) {
        leave_old_run();
        text = warned_there(size, ASYNC_FROM(ROOT "checkpoint-2"),
                            "train.step:step=5:rank=0:kill");
        assert_non_null(
            strstr(text, LOST "the run is saved again after step 4\n"));
    }
    dt_file_remove_tree("old", &err);
    assert_int_equal(rename("out/checkpoints", "old"), 0);
    leave_old_run();
    text = warned_there(1, ASYNC_FROM("old/checkpoint-2"),
                        "train.step:step=5:kill");
    assert_non_null(strstr(text, LOST "the run is saved again after step 4\n"));
}

/* As if its commit had been the last that the processes before did. */
static int find_published(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(small_step(run, &line, &err) == 0);
    TRY(dt_run_save(run, &err, &err) == 0);
    TRY(small_step(run, &line, &err) == 0);
    run->saves.flight = 1;
    TRY(dt_flight_recover(run, &err) == 0);
    TRY(run->saves.flight == 0 && run->saves.retry == 0);
    TRY(run->saves.newest == 1 && run->saves.unproven == 1);
    run->saves.flight = 2; /* it was not published */
    TRY(dt_flight_recover(run, &err) == 0);
    TRY(run->saves.flight == 0 && run->saves.retry == 2);
    TRY(run->saves.newest == 1);
    return 0;
}

static void one_that_was_published_is_known(void **state)
{
    (void)state;
    setenv(DT_EPOCH_ENV, "0123456789abcdef 1 0 1", 1);
    small_runs(1, ASYNC, find_published, NULL);
    small_runs(2, ASYNC, find_published, NULL);
    unsetenv(DT_EPOCH_ENV);
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(at_its_own_step_it_is_made_again),
        TEST(a_rank_may_be_a_step_ahead),
        TEST(that_changes_nothing),
        TEST(no_save_is_lost_with_worker_after_worker),
        TEST(later_the_run_is_saved_at_once),
        TEST(it_is_lost_once),
        TEST(so_it_is_with_a_copy_in_host_memory),
        TEST(one_that_is_not_of_this_run_does_not_count),
        TEST(one_that_was_published_is_known),
    };
    return cmocka_run_group_tests_name("flight_lost", tests, enter,
                                       small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
