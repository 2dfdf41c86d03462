/* SPDX-License-Identifier: Apache-2.0 */
/* test_best.c - the best evaluation of a run, and when a run ends early */
#include "config.h"

#include <limits.h>
#include <unistd.h>

#include "algo/algo.h"
#include "train/resume/resume.h"
#include "train/train.h"
#include "tests/unit/small_run.h"
#include "weights/weights.h"

#define LEAST "data.validation_split: 0.2\ntraining.train_batch_size: 6\n"

/* A run after step 0, as dt_run_init leaves it. */
static struct dt_run run_of(struct dt_conf *conf)
{
    struct dt_run run = {.spec = {.conf = *conf, .algo = dt_algo_of(conf)}};
    run.progress.best = (struct dt_best){.value = NAN, .saved = NAN};
    run.total_steps = 100;
    return run;
}

/* Evaluates after the next step, with this loss and accuracy. */
static void note(struct dt_run *run, double loss, double accuracy)
{
    struct dt_report_eval line = {.loss = loss};
    line.values.value[line.values.count++] =
        (struct dt_report_value){"mean_token_accuracy", accuracy, true};
    line.step = ++run->progress.step;
    dt_best_note(run, &line, dt_run_save_due(run, line.step));
}

/* As EarlyStoppingCallback counts: any better one is the best, but only one
 * that is better by more than the threshold counts.
 */
static void a_run_ends_when_evaluations_do_not_get_better(void **state)
{
    static const double losses[] = {3, NAN, 2.5, 2.45, 2.41, 2.0};
    (void)state;
    struct dt_conf *conf =
        small_conf(LEAST "training: {eval_strategy: steps, eval_steps: 1}\n"
                         "training.early_stopping_patience: 2\n"
                         "training.early_stopping_threshold: 0.1\n");
    struct dt_run run = run_of(conf);
    for (int i = 0; i < 4; i++) {
        note(&run, losses[i], 0);
        assert_int_equal(run.total_steps, 100);
    }
    assert_int_equal(run.progress.best.without, 1);
    note(&run, losses[4], 0);
    assert_int_equal(run.total_steps, 5);
    assert_true(run.progress.best.value == 2.41);
    assert_true(dt_best_ended(&run));
    dt_conf_destroy(conf);
}

static void only_a_step_that_is_saved_is_the_best(void **state)
{
    static const double accuracies[] = {0.1, 0.2, 0.9, 0.3, 0.5, 0.25};
    (void)state;
    struct dt_conf *conf =
        small_conf(LEAST "training: {eval_strategy: steps, eval_steps: 1}\n"
                         "load_best_model_at_end: true\n"
                         "metric_for_best_model: eval_mean_token_accuracy\n"
                         "checkpoint.steps: 2\n");
    struct dt_run run = run_of(conf);
    for (int i = 0; i < 6; i++)
        note(&run, 1, accuracies[i]);
    assert_int_equal(run.progress.best.step, 4);
    assert_true(run.progress.best.value == 0.9);
    assert_true(run.progress.best.saved == 0.3);
    assert_int_equal(run.total_steps, 100);
    dt_conf_destroy(conf);
}

/* Of an evaluation that has none of it, as of lengths of completions that ended
 * if none has.
 */
static void an_evaluation_without_the_metric_is_not_better(void **state)
{
    struct dt_report_eval line = {.loss = 1, .step = 1};
    (void)state;
    struct dt_conf *conf =
        small_conf(LEAST "training: {eval_strategy: steps, eval_steps: 1}\n"
                         "early_stopping_patience: 9\n"
                         "metric_for_best_model: mean_token_accuracy\n");
    struct dt_run run = run_of(conf);
    note(&run, 1, 0.5);
    dt_best_note(&run, &line, false);
    assert_true(run.progress.best.value == 0.5);
    assert_int_equal(run.progress.best.without, 1);
    dt_conf_destroy(conf);
}

static bool never(void)
{
    return false;
}

static int train_rank(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_comm *comm = small_comm(world, &err);
    int rc = dt_trainer_run(arg, &exec, comm, 1, NULL, never, NULL, &err);
    if (rc < 0)
        fprintf(stderr, "# %s\n", err.text);
    dt_comm_destroy(comm);
    return rc;
}

static void train(const char *lines)
{
    struct dt_conf *conf = small_conf(lines);
    world_threads(1, train_rank, conf);
    dt_conf_destroy(conf);
}

/* The metric is that of another algorithm. */
static void an_unknown_metric_is_refused_and_removes_no_run(void **state)
{
    (void)state;
    train(LEAST "training.max_steps: 1\n");
    struct dt_conf *conf =
        small_conf(LEAST "run.overwrite: true\n"
                         "training: {max_steps: 1, eval_strategy: steps,"
                         " early_stopping_patience: 1,"
                         " metric_for_best_model: rewards/margins}\n");
    small_refused(conf, "training.metric_for_best_model: an evaluation has no "
                        "rewards/margins, but loss");
    assert_int_equal(access("out/checkpoints/checkpoint-1", F_OK), 0);
}

static void check_link(const char *link, const char *wanted)
{
    char target[PATH_MAX] = "";
    if (readlink(link, target, sizeof(target) - 1) < 0 && *wanted)
        fail_msg("%s: no link", link);
    assert_string_equal(target, wanted);
}

/* The loss falls, so that the first one is the greatest. */
#define FIRST                                                                  \
    "data.eval: train.jsonl\n"                                                 \
    "optimizer.lr: 1e-2\n"                                                     \
    "scheduler.name: constant\n"                                               \
    "checkpoint: {steps: 1, total_limit: 1}\n"                                 \
    "training: {train_batch_size: 6, resume: auto, eval_strategy: steps,"      \
    " eval_steps: 1, greater_is_better: true"

static void the_best_checkpoint_is_kept_and_is_the_model_of_the_run(
    void **state)
{
    char found[PATH_MAX];
    struct dt_error err;
    (void)state;
    train(FIRST ", max_steps: 9, load_best_model_at_end: true,"
                " early_stopping_patience: 2}\n");
    check_link("out/checkpoints/best", "checkpoint-1");
    check_link("out/checkpoints/latest", "checkpoint-3");
    assert_int_equal(access("out/checkpoints/checkpoint-2", F_OK), -1);
    assert_int_equal(dt_weights_find("out", found, &err), 0);
    assert_string_equal(strrchr(found, '/'), "/checkpoint-1");

    /* it has ended, and remembers the best one with more patience */
    train(FIRST ", max_steps: 9, load_best_model_at_end: true,"
                " early_stopping_patience: 2}\n");
    check_link("out/checkpoints/latest", "checkpoint-3");
    train(FIRST ", max_steps: 9, load_best_model_at_end: true,"
                " early_stopping_patience: 3}\n");
    check_link("out/checkpoints/best", "checkpoint-1");
    check_link("out/checkpoints/latest", "checkpoint-4");

    /* a link that somebody has removed, and one to another checkpoint */
    assert_int_equal(unlink("out/checkpoints/best"), 0);
    train(FIRST ", max_steps: 5, load_best_model_at_end: true}\n");
    check_link("out/checkpoints/best", "checkpoint-1");
    check_link("out/checkpoints/latest", "checkpoint-5");
    assert_int_equal(unlink("out/checkpoints/best"), 0);
    assert_int_equal(symlink("checkpoint-5", "out/checkpoints/best"), 0);
    train(FIRST ", max_steps: 6, load_best_model_at_end: true}\n");
    check_link("out/checkpoints/best", "checkpoint-1");

    /* a best checkpoint that is gone: the next one is better than none */
    assert_int_equal(dt_file_remove_tree("out/checkpoints/checkpoint-1", &err),
                     0);
    train(FIRST ", max_steps: 7, load_best_model_at_end: true}\n");
    check_link("out/checkpoints/best", "checkpoint-7");

    train(FIRST ", max_steps: 8}\n");
    check_link("out/checkpoints/best", "");
    assert_int_equal(dt_weights_find("out", found, &err), 0);
    assert_string_equal(strrchr(found, '/'), "/checkpoint-8");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, NULL, small_clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_run_ends_when_evaluations_do_not_get_better),
        CASE(only_a_step_that_is_saved_is_the_best),
        CASE(an_evaluation_without_the_metric_is_not_better),
        CASE(an_unknown_metric_is_refused_and_removes_no_run),
        CASE(the_best_checkpoint_is_kept_and_is_the_model_of_the_run),
    };
    return cmocka_run_group_tests_name("best", tests, small_enter, small_leave);
}
