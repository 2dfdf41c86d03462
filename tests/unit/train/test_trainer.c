/* SPDX-License-Identifier: Apache-2.0 */
/* test_trainer.c - the loop: how many steps, what is due when, how it ends */
#include "config.h"

#include "run/dir/dir.h"
#include "train/resume/resume.h"
#include "train/train.h"
#include "tests/unit/small_run.h"
#include "tests/unit/stderr_text.h"
#include "weights/weights.h"

static struct dt_error trained;
static long stop_after; /* questions, or 0: never */

static bool asks_to_stop(void)
{
    return stop_after > 0 && --stop_after == 0;
}

static int train_rank(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_comm *comm = small_comm(world, &err);
    int rc = comm ? dt_trainer_run(arg, &exec, comm, world->size, NULL,
                                   asks_to_stop, NULL, &err)
                  : -1;
    dt_comm_destroy(comm);
    if (world->rank == 0)
        trained = err;
    if (rc < 0 && err.status != EX_TEMPFAIL && world->size > 1)
        fprintf(stderr, "# %s\n", err.text);
    return rc < 0 && world->size > 1 ? -1 : 0;
}

/* Trains in out/, which is not removed; what went wrong is in `trained`. */
static void train(int size, const char *lines)
{
    struct dt_conf *conf = small_conf(lines);
    trained = (struct dt_error){0};
    world_threads(size, train_rank, conf);
    dt_conf_destroy(conf);
}

/* The steps of metrics.jsonl that have a line of `split`: "1 2 3". */
static const char *steps_of(const char *split)
{
    static char text[512];
    char line[512], end[32], *at = text;
    FILE *file = fopen("out/logs/metrics.jsonl", "r");
    long step;
    assert_non_null(file);
    text[0] = '\0';
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "{\"step\": %ld, \"split\": \"%31[a-z]\"", &step,
                   end) == 2 &&
            !strcmp(end, split))
            at += sprintf(at, "%s%ld", at > text ? " " : "", step);
    fclose(file);
    return text;
}

/* The checkpoints that are there, of 0 to 99: "3 6 7". */
static const char *saved_steps(void)
{
    static char text[512];
    char path[64], *at = text;
    text[0] = '\0';
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof(path), "out/checkpoints/checkpoint-%d", i);
        if (access(path, F_OK) == 0)
            at += sprintf(at, "%s%d", at > text ? " " : "", i);
    }
    return text;
}

static char *weights_of(int step)
{
    char path[80];
    struct dt_error err;
    struct dt_map map;
    snprintf(path, sizeof(path),
             "out/checkpoints/checkpoint-%d/model.safetensors", step);
    if (dt_map_init(&map, path, &err) < 0)
        fail_msg("%s", err.text);
    char *copy = malloc(map.bytes + 1);
    memcpy(copy, map.data, map.bytes);
    dt_map_fini(&map);
    return copy;
}

#define NO_ERROR() assert_string_equal(trained.text, "")

/* 12 examples, 5 of them in a step: two epochs are 24 of 25 samples. */
static void a_run_ends_after_its_epochs_or_steps(void **state)
{
    (void)state;
    train(1, EACH "training: {train_batch_size: 5, epochs: 2}\n");
    NO_ERROR();
    assert_string_equal(steps_of("train"), "1 2 3 4 5");
    small_clean(NULL);
    train(1, EACH "training: {train_batch_size: 5, epochs: 2, max_steps: 3}\n");
    assert_string_equal(steps_of("train"), "1 2 3");
    small_clean(NULL);
    train(2, EACH "training: {train_batch_size: 4, epochs: 1}\n");
    assert_string_equal(steps_of("train"), "1 2 3");
    small_clean(NULL);
    train(1, EACH "training: {train_batch_size: 4, epochs: 0.5}\n");
    assert_string_equal(steps_of("train"), "1 2");
}

/* What a run in a new directory warns of. */
static const char *warnings_of(const char *lines)
{
    static char text[4096];
    small_clean(NULL);
    dt_log_init(0, DT_LOG_WARN);
    struct stderr_text said = stderr_text_begin();
    train(1, lines);
    stderr_text_end(&said, text, sizeof(text));
    dt_log_init(0, DT_LOG_ERROR);
    NO_ERROR();
    return text;
}

static void a_step_larger_than_the_data_is_said_once(void **state)
{
    const char *wanted =
        "a step takes 13 samples, and the data has only 12, so some are in it "
        "several times: give more data, or lower training.train_batch_size\n";
    (void)state;
    assert_null(strstr(warnings_of("training: {train_batch_size: 12, "
                                   "max_steps: 2}\n"),
                       "a step takes"));
    const char *said =
        strstr(warnings_of("training: {train_batch_size: 13, max_steps: 2}\n"),
               wanted);
    assert_non_null(said);
    assert_null(strstr(said + 1, wanted));
}

static void checkpoints_are_saved_and_kept_as_configured(void **state)
{
    (void)state;
    train(1, "training: {train_batch_size: 4, max_steps: 7}\n"
             "checkpoint.steps: 3\n");
    assert_string_equal(saved_steps(), "3 6 7");
    small_clean(NULL);
    train(2, "training: {train_batch_size: 4, max_steps: 7}\n"
             "checkpoint.strategy: no\n");
    assert_string_equal(saved_steps(), "7");
    small_clean(NULL);
    train(1, "training: {train_batch_size: 4, max_steps: 7}\n"
             "checkpoint: {steps: 2, total_limit: 2}\n");
    assert_string_equal(saved_steps(), "6 7");
    small_clean(NULL);
    train(1, "training: {train_batch_size: 4, max_steps: 7}\n"
             "checkpoint: {steps: 2, total_limit: 1}\n");
    assert_string_equal(saved_steps(), "7");
}

static void evaluations_follow_their_strategy(void **state)
{
    (void)state;
    train(1, "data.eval: train.jsonl\n"
             "training: {train_batch_size: 4, max_steps: 5, "
             "eval_strategy: steps, eval_steps: 2}\n");
    assert_string_equal(steps_of("eval"), "2 4 5");
    small_clean(NULL);
    /* epochs end in steps 3 (15 of 12), 5 (25 of 24) and 8 (40 of 36) */
    train(1, "data.eval: train.jsonl\n"
             "training: {train_batch_size: 5, max_steps: 9, "
             "eval_strategy: epoch}\n");
    assert_string_equal(steps_of("eval"), "3 5 8 9");
    small_clean(NULL);
    train(1, "data.eval: train.jsonl\n"
             "training: {train_batch_size: 5, max_steps: 4}\n");
    assert_string_equal(steps_of("eval"), "");
}

static void steps_are_logged_as_configured(void **state)
{
    (void)state;
    train(1, "training: {train_batch_size: 4, max_steps: 8}\n"
             "logging.steps: 3\n");
    assert_string_equal(steps_of("train"), "1 3 6 8");
    small_clean(NULL);
    train(1, "training: {train_batch_size: 4, max_steps: 8}\n"
             "logging.steps: 3\nlogging.first_step: false\n");
    assert_string_equal(steps_of("train"), "3 6 8");
}

#define FIVE                                                                   \
    EACH "training: {train_batch_size: 5, max_steps: 9, resume: auto}\n"

/* Stopped in the middle of an epoch it goes on with the next sample. */
static void a_stopped_run_resumes_with_the_next_sample(void **state)
{
    (void)state;
    train(1, FIVE);
    char *whole = weights_of(9);
    small_clean(NULL);
    stop_after = 4;
    train(1, FIVE "checkpoint.steps: 3\n");
    assert_int_equal(trained.status, EX_TEMPFAIL);
    assert_string_equal(trained.text,
                        "stopped by a signal after step 4 of 9; the "
                        "checkpoint is saved; resume with training.resume: "
                        "auto");
    assert_string_equal(saved_steps(), "3 4");
    train(1, FIVE);
    NO_ERROR();
    assert_string_equal(steps_of("train"), "1 2 3 4 5 6 7 8 9");
    char *again = weights_of(9);
    assert_memory_equal(whole, again, 4 * 16 * 257);
    free(again);
    free(whole);
}

/* All ranks go on from where rank 0 has read that they are. */
static void all_ranks_resume_from_the_same_step(void **state)
{
    (void)state;
#define LINES "scheduler.name: constant\ntraining.train_batch_size: 4\n"
    train(2, LINES "training.max_steps: 8\n");
    char *whole = weights_of(8);
    small_clean(NULL);
    train(2, LINES "training.max_steps: 5\n");
    train(2, LINES "training.max_steps: 8\ntraining.resume: auto\n");
    char *again = weights_of(8);
    assert_memory_equal(whole, again, 4 * 16 * 257);
    free(again);
    free(whole);
}

/* The mean losses of the lines of metrics.jsonl. */
static int losses_of(double losses[8])
{
    char line[4096];
    int n = 0;
    FILE *file = fopen("out/logs/metrics.jsonl", "r");
    assert_non_null(file);
    while (n < 8 && fgets(line, sizeof(line), file))
        losses[n++] = strtod(strstr(line, "\"loss\": ") + 8, NULL);
    fclose(file);
    return n;
}

/* A line has the mean of the steps since the one before it. */
static void logged_losses_are_means_of_their_steps(void **state)
{
    double each[8], pairs[8];
    (void)state;
    train(1, EACH "training: {train_batch_size: 12, max_steps: 4}\n");
    assert_int_equal(losses_of(each), 4);
    small_clean(NULL);
    train(1, "logging: {steps: 2, first_step: false}\n"
             "training: {train_batch_size: 12, max_steps: 4}\n");
    assert_int_equal(losses_of(pairs), 2);
    for (int i = 0; i < 2; i++)
        assert_true(near(pairs[i], (each[2 * i] + each[2 * i + 1]) / 2, 1e-7));
}

/* The first step explodes the weights, which shows in the second. */
#define BLOWN                                                                  \
    "optimizer.lr: 1.0e+30\nscheduler.name: constant\n"                        \
    "training.max_grad_norm: 0\ntraining.train_batch_size: 4\n"

static void a_diverged_run_is_not_saved(void **state)
{
    (void)state;
    stop_after = 3;
    train(1, BLOWN "training.max_steps: 9\n");
    assert_int_equal(trained.status, EX_TEMPFAIL);
    assert_string_equal(trained.text,
                        "stopped by a signal after step 3 of 9; nothing was "
                        "saved, because the loss is not finite; an earlier "
                        "checkpoint can be resumed with training.resume: auto");
    assert_string_equal(saved_steps(), "");
    small_clean(NULL);
    train(1, BLOWN "training.max_steps: 4\ncheckpoint.steps: 1\n");
    assert_int_equal(trained.status, EX_DATAERR);
    assert_string_equal(trained.text,
                        "the run diverged: the loss of its last step, 4, "
                        "is not finite, and no checkpoint was saved; lower "
                        "optimizer.lr, or look at the data near global sample "
                        "16; there is no earlier good checkpoint");
    assert_string_equal(saved_steps(), "1");
}

/* Only the last step is saved: nothing has changed since its gradient. */
static void steps_without_a_gradient_are_saved_at_the_end(void **state)
{
    (void)state;
    train(1, "training: {train_batch_size: 4, max_steps: 4}\n"
             "precision: {compute: fp16, loss_scale: 1.0e+30}\n"
             "checkpoint.steps: 2\n");
    NO_ERROR();
    assert_string_equal(saved_steps(), "4");
}

#define INFINITE                                                               \
    "optimizer.lr: 1.0e+39\nscheduler.name: constant\n"                        \
    "training.train_batch_size: 4\ntraining.max_steps: 9\n"

static void infinite_weights_end_the_run_unsaved(void **state)
{
    static const char text[] = "the run diverged: after step 1 the weights are "
                               "not finite; lower optimizer.lr, or look at the "
                               "data before global sample 4; ";
    (void)state;
    train(1, INFINITE "checkpoint.steps: 1\n");
    assert_int_equal(trained.status, EX_DATAERR);
    assert_memory_equal(trained.text, text, strlen(text));
    assert_string_equal(saved_steps(), "");
}

/* Step 2 exploded the weights, and no step was there to show it: the run that
 * goes on from them finds that out.
 */
static void a_resumed_run_detects_exploded_weights(void **state)
{
    char target[32] = {0};
    (void)state;
    train(1, "training: {train_batch_size: 4, max_steps: 1}\n");
    train(1, BLOWN "training.max_steps: 2\ntraining.resume: auto\n");
    NO_ERROR();
    assert_string_equal(saved_steps(), "1 2");
    train(1, "training: {train_batch_size: 4, max_steps: 99, resume: auto}\n");
    assert_int_equal(trained.status, EX_DATAERR);
    assert_non_null(strstr(trained.text, "; the last good checkpoint is /"));
    assert_int_equal(readlink("out/checkpoints/latest", target, 31), 12);
    assert_string_equal(target, "checkpoint-1");
}

/* --- saves, step by step --- */

/* A checkpoint is good when the next step has shown it. */
static int prove(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    for (int i = 1; i <= 3; i++) {
        TRY(small_step(run, &line, &err) == 0);
        TRY(strcmp(saved_steps(), i == 1 ? "" : i == 2 ? "1" : "2") == 0);
        TRY(run->saves.unproven == 0);
        TRY(dt_run_save_or_retry(run, false, &err) == 0);
        TRY(strcmp(saved_steps(), i == 1 ? "1" : i == 2 ? "1 2" : "2 3") == 0);
    }
    dt_view_f32(small_flat(run, DT_OWNED_MASTER))[0] = INFINITY;
    TRY(dt_run_weights_finite(run, &err) == 0);
    TRY(small_step(run, &line, &err) == 0);
    TRY(strcmp(saved_steps(), "2 3") == 0);
    dt_error_set(&err, EX_DATAERR, "no sense");
    TRY(dt_run_give_up(run, &err) == -1);
    TRY(strstr(err.text, "no sense; the last good checkpoint is /"));
    TRY(strstr(err.text, "/out/checkpoints/checkpoint-2: training.resume: "
                         "auto resumes from it"));
    return 0;
}

static void the_next_step_proves_a_checkpoint(void **state)
{
    (void)state;
    char target[32] = {0};
    small_runs(1,
               "training: {train_batch_size: 4, max_steps: 9}\n"
               "checkpoint.total_limit: 1\n",
               prove, NULL);
    assert_int_equal(readlink("out/checkpoints/latest", target, 31), 12);
    assert_string_equal(target, "checkpoint-2");
}

struct poison {
    enum { WEIGHT, M, V } where;
    float value;
};

static int save_poisoned(struct dt_run *run, void *arg)
{
    const struct poison *poison = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    struct dt_view views[] = {small_flat(run, DT_OWNED_MASTER),
                              small_flat(run, DT_OWNED_M),
                              small_flat(run, DT_OWNED_V)};
    const struct dt_param *param = &run->spec.learner.layout->params[3];
    dt_view_f32(views[poison->where])[param->offset + param->count - 1] =
        poison->value;
    TRY(dt_run_save(run, &err, &err) == 0);
    return 0;
}

static void a_checkpoint_that_is_not_finite_is_refused(void **state)
{
    (void)state;
    static const struct poison poisons[] = {
        {WEIGHT, NAN}, {WEIGHT, -INFINITY}, {M, NAN}, {V, INFINITY}};
    static const char *const names[] = {"", "", "m/", "v/"};
    for (int i = 0; i < 4; i++) {
        char text[256];
        small_runs(1, "training: {train_batch_size: 4, max_steps: 9}\n",
                   save_poisoned, (void *)&poisons[i]);
        train(1, "training: {train_batch_size: 4, max_steps: 9, "
                 "resume: auto}\n");
        assert_int_equal(trained.status, EX_DATAERR);
        snprintf(text, sizeof(text),
                 "/checkpoint-1/%s: tensor \"%stransformer.h.0.ln_1.bias\" "
                 "has values that are NaN or infinite; to resume from "
                 "another checkpoint, name it in training.resume",
                 poisons[i].where == WEIGHT
                     ? "model.safetensors"

                     : "optim-rank-00000-of-00001.safetensors",
                 names[i]);
        assert_non_null(strstr(trained.text, text));
    }
}

#define LARGE "model.vocab_size: 100000\ntraining.train_batch_size: 4\n"

static int take_a_step(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct dt_report_step line;
    (void)arg;
    TRY(small_step(run, &line, &err) == 0);
    return 0;
}

/* Large weights are still on their way to the other rank. */
static void a_run_may_end_behind_any_step(void **state)
{
    (void)state;
    small_runs(2, LARGE "distributed.strategy: zero1\n", take_a_step, NULL);
    small_runs(2, LARGE "distributed.strategy: zero3\n", take_a_step, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_run_ends_after_its_epochs_or_steps,
                               small_clean),
        cmocka_unit_test_setup(a_step_larger_than_the_data_is_said_once,
                               small_clean),
        cmocka_unit_test_setup(checkpoints_are_saved_and_kept_as_configured,
                               small_clean),
        cmocka_unit_test_setup(evaluations_follow_their_strategy, small_clean),
        cmocka_unit_test_setup(steps_are_logged_as_configured, small_clean),
        cmocka_unit_test_setup(a_stopped_run_resumes_with_the_next_sample,
                               small_clean),
        cmocka_unit_test_setup(all_ranks_resume_from_the_same_step,
                               small_clean),
        cmocka_unit_test_setup(logged_losses_are_means_of_their_steps,
                               small_clean),
        cmocka_unit_test_setup(a_diverged_run_is_not_saved, small_clean),
        cmocka_unit_test_setup(steps_without_a_gradient_are_saved_at_the_end,
                               small_clean),
        cmocka_unit_test_setup(infinite_weights_end_the_run_unsaved,
                               small_clean),
        cmocka_unit_test_setup(a_resumed_run_detects_exploded_weights,
                               small_clean),
        cmocka_unit_test_setup(the_next_step_proves_a_checkpoint, small_clean),
        cmocka_unit_test_setup(a_checkpoint_that_is_not_finite_is_refused,
                               small_clean),
        cmocka_unit_test_setup(a_run_may_end_behind_any_step, small_clean),
    };
    return cmocka_run_group_tests_name("trainer", tests, small_enter,
                                       small_leave);
}
