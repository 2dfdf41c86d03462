/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_restart.c - what ranks resume that are started again without their
 * memory: what this run has saved, and never what another run has left
 */
#include "config.h"

#include "tests/unit/train/lost_scene.h"

#include "tests/unit/stderr_text.h"

#ifdef ENABLE_FAULT_INJECTION

#define LINES                                                                  \
    "algorithm: sft\n" MODEL ROWS_HELD "logging.steps: 2\n"                    \
    "distributed: {timeout_s: 20, strategy: ddp}\n"
#define STEPS_OF(every) "checkpoint: {strategy: steps, steps: " #every "}\n"
#define TRAINING(more)                                                         \
    "training: {train_batch_size: 8, max_steps: " END more "}\n"

#define NEW LINES STEPS_OF(4) TRAINING("")
#define OVER NEW "run.overwrite: true\n"
#define CHECKPOINT "out/checkpoints/checkpoint-"
#define BACK LINES STEPS_OF(5) TRAINING(", resume: " CHECKPOINT "4")
#define ELSEWHERE LINES STEPS_OF(5) TRAINING(", resume: old/checkpoint-4")

/* Another run, of another step, has checkpoints of steps 4 and 6 there. */
static void leave_old_run(void)
{
    small_clean(NULL);
    begin(1, NEW, false);
    setenv(DT_EPOCH_ENV, "fedcba9876543210 1 0 1", 1);
    assert_true(start(NULL));
    end();
}

/* Starts ranks until no fault is left, each time without the memory of those
 * before. Returns whether the last ones have done their work.
 */
static bool run_again(int size, const char *lines, const char *const *faults)
{
    int statuses[RANKS], failed = 0;
    begin(size, lines, true);
    keeper.lost = (1 << RANKS) - 1;
    for (; *faults; faults++) {
        assert_false(start(*faults));
        lose_memory();
        keeper.conf->training.restarted = true;
    }
    keeper.lost = 0;
    world_processes(size, work, NULL, statuses);
    for (int r = 0; r < size; r++)
        failed += statuses[r] != 0;
    end();
    return failed == 0;
}

/* The steps at which these have begun. */
static void begins_at(int size, const char *lines, const char *const *faults,
                      const char *want)
{
    if (!run_again(size, lines, faults))
        fail_msg("%s", faults[0]);
    char *begun = starts();
    if (strcmp(begun, want) != 0)
        fail_msg("%s: begun at \"%s\", not \"%s\"", faults[0], begun, want);
    free(begun);
}

#define FAULTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void a_new_run_never_resumes_what_it_was_to_remove(void **state)
{
    static const struct {
        const char *faults[3], *begun;
    } lost[] = {
        {{"output.take:rank=0:kill"}, "0"},
        {{"output.taken:rank=0:kill", "output.take:rank=0:kill"}, "0"},
        {{"state.settle:step=0:rank=0:kill"}, "0"},
        {{"train.step:step=3:rank=1:kill"}, "0 0"},
        {{"output.take:rank=0:kill", "train.step:step=5:rank=0:kill",
          "output.take:rank=0:kill"},
         "0 4"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
        const char *const *f = lost[i].faults;
        leave_old_run();
        begins_at(2, OVER, FAULTS(f[0], f[1], f[2]), lost[i].begun);
    }
}

static void a_directory_of_another_run_is_refused_each_time(void **state)
{
    char text[4096];
    (void)state;
    leave_old_run();
    struct stderr_text log = stderr_text_begin();
    const bool done = run_again(1, NEW, FAULTS("output.take:kill"));
    stderr_text_end(&log, text, sizeof(text));
    assert_false(done);
    assert_non_null(strstr(text, "/out: run.output_dir is not empty; "));
    assert_int_equal(access(CHECKPOINT "6", F_OK), 0);
}

/* That of keepers that have lost nodes does not count. */
static void a_directory_that_this_run_has_taken_is_not_refused(void **state)
{
    (void)state;
    small_clean(NULL);
    assert_int_equal(mkdir("out", 0777), 0);
    assert_int_equal(mkdir("out/" DT_EPOCH_DIR, 0777), 0);
    begins_at(2, NEW,
              FAULTS("output.taken:rank=0:kill",
                     "state.settle:step=0:rank=0:kill",
                     "train.step:step=3:rank=1:kill"),
              "0 0");
}

static void latest_names(long step)
{
    char target[64] = "", want[64];
    assert_true(readlink("out/checkpoints/latest", target, 63) > 0);
    snprintf(want, sizeof(want), "checkpoint-%ld", step);
    assert_string_equal(target, want);
}

static void a_run_that_goes_back_never_resumes_what_it_has_left(void **state)
{
    (void)state;
    leave_old_run();
    begins_at(
        2, BACK,
        FAULTS("output.take:rank=0:kill", "train.step:step=5:rank=0:kill"),
        "0 4 4");
    leave_old_run();
    begins_at(2, BACK,
              FAULTS("train.step:step=5:rank=0:kill",
                     "train.step:step=6:rank=0:kill"),
              "0 4 4 5");
}

/* Without keepers, too: a start with training.resume: auto goes on there. */
static void the_next_run_finds_the_checkpoint_that_one_went_back_to(
    void **state)
{
    (void)state;
    leave_old_run();
    latest_names(6);
    begin(1, BACK, true);
    assert_false(start("train.step:step=5:kill"));
    end();
    latest_names(4);
}

/* As other nodes do that have decided without this one while it loaded. */
static void a_start_that_has_lost_its_directory_leaves_latest_alone(
    void **state)
{
    static const char *const faults[] = {NULL};
    char text[4096];
    (void)state;
    leave_old_run();
    assert_int_equal(mkdir("out/" DT_EPOCH_DIR, 0777), 0);
    assert_int_equal(mkdir("out/" DT_EPOCH_DIR "/0123456789abcdef-2", 0777), 0);
    struct stderr_text log = stderr_text_begin();
    const bool done = run_again(1, BACK, faults);
    stderr_text_end(&log, text, sizeof(text));
    assert_false(done);
    assert_non_null(strstr(text, ": other nodes of this step have decided "));
    latest_names(6);
}

#define UNDONE "out/checkpoints/.old-checkpoint-9"

/* While it writes down where the run has gone back to, another rank waits, and
 * has no state yet that the next start could go on with.
 */
static void a_rank_0_that_is_lost_meanwhile_does_so_again(void **state)
{
    (void)state;
    leave_old_run();
    /* its first rename there, after two that see whether one can save */
    assert_int_equal(mkdir(UNDONE, 0777), 0);
    begin(2, BACK, true);
    assert_false(start("ckpt.rename:rank=0:nth=3:kill"));
    assert_int_equal(access(UNDONE, F_OK), 0);
    latest_names(6);
    keeper.conf->training.restarted = true;
    assert_false(start("train.step:step=5:rank=1:kill"));
    end();
    latest_names(4);
}

static void an_evaluation_leaves_latest_alone(void **state)
{
    (void)state;
    leave_old_run();
    begin(1, LINES TRAINING(", eval_only: true, resume: " CHECKPOINT "4"),
          false);
    assert_true(start(NULL));
    end();
    latest_names(6);
}

static void a_checkpoint_elsewhere_is_resumed_until_the_first_save(void **state)
{
    struct dt_error err;
    (void)state;
    leave_old_run();
    dt_file_remove_tree("old", &err);
    assert_int_equal(rename("out/checkpoints", "old"), 0);
    for (int i = 0; i < 2; i++) {
        begins_at(2, ELSEWHERE,
                  FAULTS("output.take:rank=0:kill",
                         "train.step:step=5:rank=0:kill",
                         "train.step:step=6:rank=0:kill"),
                  "0 4 4 5");
        /* and where another run has checkpoints of higher steps */
        leave_old_run();
    }
}

#define TEST(f) cmocka_unit_test(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_run_never_resumes_what_it_was_to_remove),
        TEST(a_directory_of_another_run_is_refused_each_time),
        TEST(a_directory_that_this_run_has_taken_is_not_refused),
        TEST(a_run_that_goes_back_never_resumes_what_it_has_left),
        TEST(the_next_run_finds_the_checkpoint_that_one_went_back_to),
        TEST(a_start_that_has_lost_its_directory_leaves_latest_alone),
        TEST(a_rank_0_that_is_lost_meanwhile_does_so_again),
        TEST(an_evaluation_leaves_latest_alone),
        TEST(a_checkpoint_elsewhere_is_resumed_until_the_first_save),
    };
    return cmocka_run_group_tests_name("restart", tests, enter, small_leave);
}

#else

int main(void)
{
    puts("1..0 # SKIP built without --enable-fault-injection");
    return 0;
}

#endif
