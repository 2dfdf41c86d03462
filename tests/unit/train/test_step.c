/* SPDX-License-Identifier: Apache-2.0 */
/* test_step.c - what a step is: sums, clipping, rates, skips, evaluation */
#include "config.h"

#include "run/dir/dir.h"
#include "train/train.h"
#include "tests/unit/small_run.h"

/* --- one step is one step, however it is divided --- */

struct outcome {
    struct dt_report_step line;
    double loss, tokens, square;
    float weights[3]; /* of the embedding, after all steps */
};

static double sum_of_squares(struct dt_view v)
{
    double sum = 0;
    for (size_t i = 0; i < v.count; i++)
        sum += pow((double)dt_view_f32(v)[i], 2);
    return sum;
}

static int take_steps(struct dt_run *run, void *arg)
{
    struct outcome *out = arg, mine;
    struct dt_error err = {0};
    double before = 0, loss = 0;
    for (int i = 0; i < 3; i++) {
        TRY(small_step(run, &mine.line, &err) == 0);
        loss = run->progress.loss_sum - before;
        before = run->progress.loss_sum;
        /* gradients are of the sum over all ranks and micro-batches */
        TRY(near(mine.line.grad_norm,
                 sqrt(sum_of_squares(small_flat(run, DT_OWNED_GRADS))) /
                     TARGETS,
                 1e-9));
        TRY(run->progress.tokens == (i + 1) * TARGETS);
        if (i == 0)
            mine.loss = loss;
        TRY(near(run->progress.first_loss, mine.loss / TARGETS, 1e-12));
        TRY(run->progress.position == (uint64_t)(i + 1) * ROWS);
    }
    mine.loss = loss / TARGETS;
    mine.square = sum_of_squares(small_flat(run, DT_OWNED_MASTER));
    for (int i = 0; i < 3; i++)
        mine.weights[i] =
            dt_view_f32(small_flat(run, DT_OWNED_MASTER))[97 * 16 + i];
    if (run->spec.rank == 0)
        *out = mine;
    return 0;
}

static void splitting_a_step_does_not_change_it(void **state)
{
    (void)state;
    static const struct split {
        int ranks, passes;
    } splits[] = {{1, 3}, {1, 12}, {2, 1}, {2, 3}, {3, 2}, {4, 1}, {4, 3}};
    struct outcome one, other;
    char lines[128];
    small_runs(1, "training: {train_batch_size: 12, max_steps: 9}\n",
               take_steps, &one);
    for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
        snprintf(lines, sizeof(lines),
                 "training: {train_batch_size: 12, max_steps: 9, "
                 "gradient_accumulation_steps: %d}\n",
                 splits[i].passes);
        small_runs(splits[i].ranks, lines, take_steps, &other);
        assert_true(near(one.loss, other.loss, 1e-6));
        assert_true(near(one.line.grad_norm, other.line.grad_norm, 1e-5));
        assert_true(near(one.square, other.square, 1e-6));
        for (int j = 0; j < 3; j++)
            assert_true(
                near((double)one.weights[j], (double)other.weights[j], 1e-4));
    }
}

/* AdamW's first moment after one step is (1 - beta1) times the clipped
 * gradient of all ranks.
 */
static int clip_step(struct dt_run *run, void *arg)
{
    const double *max = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    double norm = sqrt(sum_of_squares(small_flat(run, DT_OWNED_M))) / 0.1;
    TRY(line.grad_norm > 0.02);
    TRY(near(norm, *max > 0 ? *max : line.grad_norm, 1e-4));
    return 0;
}

static void gradients_are_clipped_by_their_global_norm(void **state)
{
    (void)state;
    char lines[128];
    for (int size = 1; size <= 3; size++) {
        for (double max = 0; max < 0.03; max += 0.02) {
            snprintf(lines, sizeof(lines),
                     "training: {train_batch_size: 12, max_steps: 9, "
                     "max_grad_norm: %g}\n",
                     max);
            small_runs(size, lines, clip_step, &max);
        }
    }
}

static int follow_schedule(struct dt_run *run, void *arg)
{
    static const double rates[] = {0, 5e-3, 1e-2, 7.5e-3, 5e-3, 2.5e-3};
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(run->total_steps == 6);
    for (int i = 0; i < 6; i++) {
        TRY(small_step(run, &line, &err) == 0);
        TRY(near(line.lr, rates[i], 1e-12));
        TRY(dt_optim_steps(run->learner.optim) == i + 1);
    }
    return 0;
}

static void the_learning_rate_follows_the_schedule(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++)
        small_runs(size,
                   "training: {train_batch_size: 4, max_steps: 6}\n"
                   "optimizer.lr: 0.01\nscheduler.name: linear\n"
                   "scheduler.warmup_steps: 2\n",
                   follow_schedule, NULL);
}

/* --- skipped steps --- */

/* A step from weights that are not finite, which are mended afterwards. */
static int bad_step(struct dt_run *run, struct dt_error *err)
{
    struct dt_report_step line;
    float *weights = dt_view_f32(small_flat(run, DT_OWNED_MASTER)),
          first = weights[0];
    weights[0] = NAN;
    int rc = small_step(run, &line, err);
    weights[0] = first;
    return rc;
}

static int skip_some(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(small_step(run, &line, &err) == 0 && run->health == DT_WELL);
    double square = sum_of_squares(small_flat(run, DT_OWNED_MASTER));
    TRY(bad_step(run, &err) == 0 && run->health == DT_NO_LOSS);
    TRY(sum_of_squares(small_flat(run, DT_OWNED_MASTER)) == square);
    TRY(dt_optim_steps(run->learner.optim) == 1 && run->progress.step == 2);
    TRY(run->progress.position == 8 && run->progress.skipped_in_row == 1);
    TRY(small_step(run, &line, &err) == 0 && run->health == DT_WELL);
    TRY(dt_optim_steps(run->learner.optim) == 2 &&
        run->progress.skipped_in_row == 0);
    TRY(isfinite(run->progress.loss_sum));

    /* 70 scattered ones are no reason to end, 49 in a row neither */
    for (int i = 0; i < 70; i++)
        TRY(bad_step(run, &err) == 0 && small_step(run, &line, &err) == 0);
    for (int i = 0; i < 49; i++)
        TRY(bad_step(run, &err) == 0);
    TRY(run->progress.skipped_in_row == 49);
    TRY(bad_step(run, &err) == -1);
    TRY(err.status == EX_DATAERR);
    char text[256];
    snprintf(text, sizeof(text),
             "50 steps in a row had no finite gradient: lower optimizer.lr, or "
             "look at the data near global sample %d; the last of them is step "
             "%d; there is no earlier good checkpoint",
             4 * (3 + 140 + 49), 3 + 140 + 50);
    TRY(strncmp(err.text, text, strlen(text)) == 0);
    return 0;
}

static void fifty_skipped_steps_in_succession_end_the_run(void **state)
{
    (void)state;
    small_runs(1, "training: {train_batch_size: 4, max_steps: 900}\n",
               skip_some, NULL);
}

static int overflow(struct dt_run *run, void *arg)
{
    const enum dt_health *health = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    TRY(run->progress.skipped_in_row == 1);
    TRY(run->health == *health);
    /* no sum of a step's losses is beyond fp16 */
    const double *scalars = run->learner.results[1].scalars;
    TRY(near(scalars[DT_STEP_LOSS_SCALE],
             run->spec.conf.precision.loss_scale > 0 ? 1e30 / (4 * 32)
                                                     : 0x1p60 / (4 * 32),
             1e-12));
    /* a step without targets says nothing of the run */
    dt_run_judge(run, NAN, DT_STEP_EMPTY);
    TRY(run->health == *health);
    return 0;
}

/* Skips that look for a scale are a part of fp16; those of a fixed one not. */
static void only_overflows_of_a_fixed_scale_are_unhealthy(void **state)
{
    (void)state;
    enum dt_health health = DT_WELL;
    small_runs(2,
               "training: {train_batch_size: 4, max_steps: 9, "
               "gradient_accumulation_steps: 2}\n"
               "precision: {compute: fp16, initial_scale_power: 60}\n",
               overflow, &health);
    health = DT_NO_GRADIENT;
    small_runs(2,
               "training: {train_batch_size: 4, max_steps: 9, "
               "gradient_accumulation_steps: 2}\n"
               "precision: {compute: fp16, loss_scale: 1.0e+30}\n",
               overflow, &health);
}

/* --- evaluation --- */

struct held_out {
    double loss, tokens, trained;
};

static int evaluate(struct dt_run *run, void *arg)
{
    struct held_out *held = arg, mine;
    struct dt_metrics none;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(run->spec.eval_B ==
        (size_t)run->spec.conf.training.per_device_eval_batch_size);
    TRY(dt_run_evaluate(run, &mine.loss, &mine.tokens, &none, &err) == 0);
    TRY(small_step(run, &line, &err) == 0);
    mine.trained = run->progress.loss_sum / run->progress.loss_tokens;
    if (run->spec.rank == 0)
        *held = mine;
    return 0;
}

/* The held-out rows are those of one step: their mean loss is the step's, with
 * its label smoothing.
 */
static void evaluation_gives_the_mean_loss_of_training(void **state)
{
    (void)state;
    struct held_out held, smooth;
    for (int size = 1; size <= 4; size++) {
        small_runs(size,
                   "data.eval: train.jsonl\n"
                   "training: {train_batch_size: 12, max_steps: 9}\n",
                   evaluate, &held);
        assert_true(held.tokens == TARGETS);
        assert_true(near(held.loss, held.trained, 1e-6));
    }
    small_runs(2,
               "data.eval: train.jsonl\n"
               "training: {train_batch_size: 12, max_steps: 9, "
               "label_smoothing: 0.5, per_device_eval_batch_size: 5}\n",
               evaluate, &smooth);
    assert_true(near(smooth.loss, smooth.trained, 1e-6));
    assert_false(near(held.trained, smooth.trained, 1e-5));
}

/* --- the order of the data --- */

static int first_loss(struct dt_run *run, void *arg)
{
    double *loss = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    if (run->spec.rank == 0)
        *loss = run->progress.first_loss;
    return 0;
}

static void the_data_seed_matters_only_when_shuffling(void **state)
{
    (void)state;
    double loss[4];
    for (int i = 0; i < 4; i++) {
        char lines[160];
        snprintf(lines, sizeof(lines),
                 "training: {train_batch_size: 4, max_steps: 9}\n"
                 "data.shuffle: %s\ndata_seed: %d\n",
                 i < 2 ? "false" : "true", i % 2);
        small_runs(2, lines, first_loss, &loss[i]);
    }
    assert_true(loss[0] == loss[1]);
    assert_false(near(loss[2], loss[3], 1e-6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitting_a_step_does_not_change_it),
        cmocka_unit_test(gradients_are_clipped_by_their_global_norm),
        cmocka_unit_test(the_learning_rate_follows_the_schedule),
        cmocka_unit_test(fifty_skipped_steps_in_succession_end_the_run),
        cmocka_unit_test(only_overflows_of_a_fixed_scale_are_unhealthy),
        cmocka_unit_test(evaluation_gives_the_mean_loss_of_training),
        cmocka_unit_test(the_data_seed_matters_only_when_shuffling),
    };
    return cmocka_run_group_tests_name("step", tests, small_enter, small_leave);
}
