/* SPDX-License-Identifier: Apache-2.0 */
/* test_int8_run.c - a run whose sums between nodes are rounded to 8 bits learns
 * what a run with fp32 sums learns
 */
#include "config.h"

#include "tests/unit/small_run.h"

enum { STEPS = 150, LAST = 20 };

#define LEARN                                                                  \
    "training: {train_batch_size: 8, max_steps: 150}\n"                        \
    "optimizer.lr: 3.0e-3\n"                                                   \
    "scheduler.name: constant\n"

struct curve {
    double first, last; /* losses: of step 1, and the mean of the last steps */
    double weight;      /* some weight at the end */
};

static int learn(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct dt_report_step line;
    struct curve mine = {0};
    for (int step = 1; step <= STEPS; step++) {
        double sum = run->progress.loss_sum, count = run->progress.loss_tokens;
        TRY(small_step(run, &line, &err) == 0);
        double loss = (run->progress.loss_sum - sum) /
                      (run->progress.loss_tokens - count);
        if (step == 1)
            mine.first = loss;
        if (step > STEPS - LAST)
            mine.last += loss / LAST;
    }
    mine.weight = dt_view_f32(
        dt_parallel_part(run->learner.parallel, DT_OWNED_MASTER, 1))[0];
    if (run->spec.rank == 0)
        *(struct curve *)arg = mine;
    return 0;
}

/* Two nodes of two ranks each. */
static struct curve run_on_two_nodes(const char *lines)
{
    struct curve curve;
    struct small_world small = {.conf = small_conf(lines),
                                .f = learn,
                                .arg = &curve,
                                .two_nodes = true};
    small_clean(NULL);
    world_threads(4, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
    fprintf(stderr, "# loss %.4f at first, %.4f at last\n", curve.first,
            curve.last);
    return curve;
}

static void a_run_with_int8_sums_converges_as_with_fp32(void **state)
{
    (void)state;
    struct curve native = run_on_two_nodes(LEARN);
    struct curve ddp =
        run_on_two_nodes(LEARN "distributed.reduce_between_nodes: int8\n");
    struct curve zero3 =
        run_on_two_nodes(LEARN "distributed: {reduce_between_nodes: int8, "
                               "strategy: zero3}\n");
    assert_true(native.last < native.first / 4);
    assert_true(near(ddp.last, native.last, 0.02));
    assert_true(near(zero3.last, native.last, 0.02));
    assert_true(ddp.weight != native.weight); /* there is noise */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_run_with_int8_sums_converges_as_with_fp32,
                                  small_clean),
    };
    return cmocka_run_group_tests_name("int8 runs", tests, small_enter,
                                       small_leave);
}
