/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_grpo.c - runs that sample completions and learn from their rewards
 */
#include "config.h"

#include "train/train.h"
#include "tests/unit/sampled_run.h"

/* --- one generation, in any world --- */

struct first {
    uint64_t hash;
    double loss, norm;
    size_t tokens;
};

static int sample_first(struct dt_run *run, void *arg)
{
    struct first *first = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    if (run->spec.rank == 0) {
        first->hash = dt_experience_hash(&run->samples.experience);
        first->tokens = run->samples.experience.tokens;
        first->loss = run->progress.loss_sum / run->progress.loss_tokens;
        first->norm = line.grad_norm;
    }
    return 0;
}

static void completions_loss_and_gradient_are_those_of_any_world(void **state)
{
    static const char *const slots[] = {
        [1] = STEP PRINTABLE,
        [2] = STEP PRINTABLE "rollout.slots: 4\n",
        [4] = STEP PRINTABLE "rollout.slots: 16\n"};
    struct first one = {0};
    (void)state;
    for (int size = 1; size <= 4; size *= 2) {
        struct first here;
        small_runs(size, slots[size], sample_first, &here);
        if (size == 1)
            one = here;
        assert_int_equal(here.hash, one.hash);
        assert_int_equal(here.tokens, one.tokens);
        assert_true(fabs(here.loss - one.loss) < 1e-4);
        assert_true(near(here.norm, one.norm, 1e-3));
    }
}

/* --- ratios --- */

static double ratio_error(const struct dt_run *run)
{
    return run->progress.metrics.value[DT_GRPO_RATIO_ERROR_MAX];
}

static int look_at_ratios(struct dt_run *run, void *arg)
{
    const double *value = run->progress.metrics.value;
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(run->spec.sampling.parts == 2 && run->spec.sampling.uses == 4);
    TRY(small_step(run, &line, &err) == 0);
    TRY(ratio_error(run) <= 1e-5);
    TRY(value[DT_GRPO_SAMPLING_DIFF_MAX] <= 1e-5);
    TRY(value[DT_GRPO_SAMPLING_DIFF_MAX] > 0);
    TRY(value[DT_GRPO_SAMPLING_RATIO_MIN] == 1);
    TRY(value[DT_GRPO_SAMPLING_RATIO_MAX] == 1);
    TRY(small_step(run, &line, &err) == 0);
    TRY(ratio_error(run) > 1e-4);
    return 0;
}

static void ratios_are_one_before_the_first_update(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++)
        small_runs(size, REUSED PRINTABLE, look_at_ratios, NULL);
}

/* --- the order of rows --- */

static int keep_rows(struct dt_run *run, void *arg)
{
    size_t *rows = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    for (size_t i = 0; i < 8; i++)
        rows[i] = dt_sample_batches_row(&run->samples.batches, i);
    return 0;
}

static void the_data_seed_alone_decides_the_order_of_rows(void **state)
{
    static const char *const seeds[] = {"run: {seed: 1, data_seed: 5}\n",
                                        "run: {seed: 2, data_seed: 5}\n",
                                        "run: {seed: 1, data_seed: 6}\n"};
    size_t rows[3][8];
    char lines[1024];
    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(lines, sizeof(lines), "%s%s", REUSED PRINTABLE, seeds[i]);
        small_runs(1, lines, keep_rows, rows[i]);
    }
    assert_memory_equal(rows[0], rows[1], sizeof(rows[0]));
    assert_memory_not_equal(rows[0], rows[2], sizeof(rows[0]));
}

/* --- what has no advantage --- */

static int learn_nothing(struct dt_run *run, void *arg)
{
    struct dt_view flat = small_flat(run, DT_OWNED_MASTER);
    const size_t bytes = flat.count * sizeof(float);
    struct dt_report_step line;
    struct dt_error err = {0};
    float *before = malloc(bytes);
    (void)arg;
    TRY(before);
    memcpy(before, dt_view_data(flat), bytes);
    TRY(small_step(run, &line, &err) == 0);
    TRY(line.grad_norm == 0);
    TRY(!memcmp(before, dt_view_data(flat), bytes));
    free(before);
    return 0;
}

static void equal_rewards_have_no_gradient(void **state)
{
    (void)state;
    small_runs(
        2, STEP "reward: {functions: [{type: regex, pattern: \"(?s).*\"}]}\n",
        learn_nothing, NULL);
}

/* A program that has no reward for anything, which is no failure. */
#define ANSWERS_NULL                                                           \
    "read -r _\n"                                                              \
    "echo '{\"ready\": true, \"abi\": 1}'\n"                                   \
    "while read -r line; do\n"                                                 \
    "    id=${line#*'\"id\":'}\n"                                              \
    "    id=${id%%,*}\n"                                                       \
    "    echo \"{\\\"id\\\": ${id%%\\}*}, \\\"rewards\\\": [null]}\"\n"        \
    "done\n"

static void a_generation_without_a_reward_has_no_gradient(void **state)
{
    FILE *file = fopen("null", "w");
    (void)state;
    assert_non_null(file);
    fputs(ANSWERS_NULL, file);
    assert_int_equal(fclose(file), 0);
    small_runs(2,
               STEP "reward: {functions: [{type: command, name: judge, "
                    "command: [sh, ./null], batch_size: 1}]}\n",
               learn_nothing, NULL);
    unlink("null");
}

static int fail_to_score(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(dt_run_queue_step(run, false, &err) == -1);
    TRY(strstr(err.text, "has no key \"none\""));
    return 0;
}

static void a_reward_that_fails_anywhere_ends_the_step(void **state)
{
    (void)state;
    small_runs(1,
               STEP "reward: {functions: [{type: exact, answer_column: none, "
                    "where: rank0}]}\n",
               fail_to_score, NULL);
    small_runs(1,
               STEP "reward: {functions: [{type: exact, answer_column: none, "
                    "where: all}]}\n",
               fail_to_score, NULL);
}

/* --- tokens that take part --- */

/* What a step that uses half of the generation has. */
static int look_at_entropies(struct dt_run *run, void *arg)
{
    const struct dt_samples *s = &run->samples;
    const struct dt_experience *e = &s->experience;
    double *least = arg, tokens = 0, chosen = 0, above = 0;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    for (size_t i = 0; i < run->spec.sampling.step_rows; i++) {
        size_t row = dt_sample_batches_row(&s->batches, i);
        tokens += e->count[row];
        for (size_t t = e->at[row]; t < e->at[row + 1]; t++) {
            TRY(e->entropy[t] > 0);
            chosen += (double)e->entropy[t] >= s->least_entropy;
            above += (double)e->entropy[t] > s->least_entropy;
        }
    }
    TRY(chosen >= 0.25 * tokens - 1 && above <= 0.25 * tokens);
    TRY(fabs(s->entropy_share * chosen - s->denominator) < 1e-9);
    TRY(ratio_error(run) <= 1e-5);
    if (run->spec.rank == 0) {
        least[0] = s->least_entropy;
        least[1] = run->progress.loss_sum;
    }
    return 0;
}

static void a_share_of_the_tokens_of_a_step_takes_part(void **state)
{
    double one[2], here[2];
    (void)state;
    for (int size = 1; size <= 4; size *= 2) {
        small_runs(size,
                   REUSED PRINTABLE "grpo.top_entropy_quantile: 0.25\n"
                                    "grpo.entropy_coef: 0.1\n",
                   look_at_entropies, here);
        if (size == 1)
            memcpy(one, here, sizeof(one));
        assert_true(fabs(here[0] - one[0]) < 1e-5);
        assert_true(fabs(here[1] - one[1]) < 1e-4);
    }
}

/* --- learning --- */

static void rewards_rise(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++)
        assert_learned(size, LEARNING PRINTABLE);
}

/* --- saving --- */

/* Of four steps that use a generation, any may be the last. */
static void a_run_resumes_at_every_step(void **state)
{
    (void)state;
    resumes_at_every_step(REUSED PRINTABLE "grpo.top_entropy_quantile: 0.5\n");
}

static bool stop_asked;

static bool stops(void)
{
    return stop_asked;
}

/* Stopped while it samples, a run takes up where it was. */
static int stop_and_go_on(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    struct first *first = arg;
    run->stop = stops;
    TRY(steps(run, 1, &line, &err) == 0);
    stop_asked = first->hash == 0;
    if (stop_asked) {
        TRY(dt_run_queue_step(run, false, &err) == 1);
        TRY(run->queued == 1);
        stop_asked = false;
    }
    TRY(steps(run, 2, &line, &err) == 0);
    first->hash = dt_experience_hash(&run->samples.experience);
    return 0;
}

static void a_stop_in_a_rollout_changes_nothing(void **state)
{
    struct first stopped = {.hash = 0}, whole = {.hash = 1};
    (void)state;
    small_runs(1, STEP PRINTABLE, stop_and_go_on, &stopped);
    small_runs(1, STEP PRINTABLE, stop_and_go_on, &whole);
    assert_int_equal(stopped.hash, whole.hash);
}

/* --- strategies --- */

struct weights {
    uint64_t hash;
};

static int hash_after_two(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    uint64_t *hash = arg;
    TRY(steps(run, 3, &line, &err) == 0);
    if (run->spec.rank == 0)
        *hash = dt_experience_hash(&run->samples.experience);
    return 0;
}

/* The third generation is sampled with weights of two updates. */
static void all_strategies_sample_the_same(void **state)
{
    uint64_t ddp = 0, hash;
    char lines[1024];
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        snprintf(lines, sizeof(lines), "%sdistributed.zero_stage: %d\n",
                 STEP PRINTABLE, stage);
        small_runs(2, lines, hash_after_two, &hash);
        if (stage == 0)
            ddp = hash;
        assert_int_equal(hash, ddp);
    }
}

/* --- a reference that follows --- */

/* Divergences of three steps, each of its own metrics. */
static int diverge(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    double *kl = arg;
    for (int i = 0; i < 3; i++) {
        dt_metrics_clear(run->spec.algo, &run->progress.metrics);
        TRY(small_step(run, &line, &err) == 0);
        if (run->spec.rank == 0)
            kl[i] = run->progress.metrics.value[DT_GRPO_KL];
    }
    return 0;
}

/* After two steps the reference is the model. */
static void a_reference_may_follow_the_model(void **state)
{
    double still[3], moved[3];
    (void)state;
    for (int stage = 0; stage <= 3; stage += 3) {
        char lines[512];
        snprintf(lines, sizeof(lines),
                 STEP PRINTABLE "grpo.beta: 0.1\ndistributed.zero_stage: %d\n",
                 stage);
        small_runs(2, lines, diverge, still);
        snprintf(lines, sizeof(lines),
                 STEP PRINTABLE
                 "grpo: {beta: 0.1, sync_ref: {enabled: true, alpha: 1, "
                 "steps: 2}}\ndistributed.zero_stage: %d\n",
                 stage);
        small_runs(2, lines, diverge, moved);
        assert_true(still[1] > 1e-3 && still[2] > 1e-3);
        assert_true(moved[1] == still[1] && fabs(moved[2]) < 1e-6);
    }
}

static void a_reference_that_followed_is_resumed(void **state)
{
    (void)state;
    resumes_at_every_step(
        STEP PRINTABLE
        "grpo: {beta: 0.1, sync_ref: {enabled: true, alpha: 0.5, steps: 2}}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_loss_and_gradient_are_those_of_any_world),
        cmocka_unit_test(ratios_are_one_before_the_first_update),
        cmocka_unit_test(the_data_seed_alone_decides_the_order_of_rows),
        cmocka_unit_test(equal_rewards_have_no_gradient),
        cmocka_unit_test(a_generation_without_a_reward_has_no_gradient),
        cmocka_unit_test(a_reward_that_fails_anywhere_ends_the_step),
        cmocka_unit_test(a_share_of_the_tokens_of_a_step_takes_part),
        cmocka_unit_test(rewards_rise),
        cmocka_unit_test(a_run_resumes_at_every_step),
        cmocka_unit_test(a_stop_in_a_rollout_changes_nothing),
        cmocka_unit_test(all_strategies_sample_the_same),
        cmocka_unit_test(a_reference_may_follow_the_model),
        cmocka_unit_test(a_reference_that_followed_is_resumed),
    };
    return cmocka_run_group_tests(tests, prompts_enter, small_leave);
}
