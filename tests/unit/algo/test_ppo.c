/* SPDX-License-Identifier: Apache-2.0 */
/* test_ppo.c - runs with a critic, from the first ratio to a better score */
#include "config.h"

#include <sys/stat.h>

#include "base/file.h"
#include "train/resume/resume.h"
#include "tests/unit/count.h"
#include "tests/unit/ppo_run.h"
#include "tests/unit/said.h"

/* --- before the first update --- */

#define PARTS                                                                  \
    "training: {train_batch_size: 16, max_steps: 9, resume: auto}\n"           \
    "optimizer.lr: 0.01\n"                                                     \
    "ppo: {epochs: 2, num_mini_batches: 2, kl_coef: 0.1}\n"

static int look_at_ratios(struct dt_run *run, void *arg)
{
    const double *off =
        &run->progress.metrics.value[run->spec.algo->metric_count - 1];
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(run->spec.sampling.parts == 2 && run->spec.sampling.uses == 4);
    TRY(small_step(run, &line, &err) == 0);
    TRY(*off <= 1e-5);
    TRY(fabs(run->ppo.numbers[DT_PPO_KL]) <= 1e-5);
    TRY(small_step(run, &line, &err) == 0);
    TRY(*off > 1e-4);
    return 0;
}

static void ratios_are_one_before_the_first_update(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++)
        small_runs(size, PARTS PRINTABLE, look_at_ratios, NULL);
}

static int hash_first(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    uint64_t *hash = arg;
    TRY(small_step(run, &line, &err) == 0);
    if (run->spec.rank == 0)
        *hash = dt_experience_hash(&run->samples.experience);
    return 0;
}

static void tokens_and_scores_are_those_of_any_world(void **state)
{
    uint64_t one = 0, here = 0;
    (void)state;
    for (int size = 1; size <= 4; size *= 2) {
        small_runs(size, PARTS PRINTABLE, hash_first, &here);
        if (size == 1)
            one = here;
        assert_int_equal(here, one);
    }
}

/* The most rewards that there may be: each function is equal to the first. */
static int look_at_numbers(struct dt_run *run, void *arg)
{
    const struct dt_samples *s = &run->samples;
    const double *value = s->numbers.value;
    struct dt_report_step line;
    struct dt_error err = {0};
    size_t at = 0;
    (void)arg;
    TRY(small_step(run, &line, &err) == 0);
    TRY(s->numbers.count == s->own + DT_PPO_NUMBERS);
    for (int i = 0; i < DT_CONF_REWARDS_MAX; i++) {
        char name[DT_NUMBER_NAME];
        snprintf(name, sizeof(name), "rewards/f%d/mean", i);
        while (at < s->own && strcmp(s->names[at], name) != 0)
            at++;
        TRY(at + 1 < s->own);
        TRY(fabs(value[at] * DT_CONF_REWARDS_MAX - value[0]) < 1e-9);
    }
    TRY(!strcmp(s->names[s->own], dt_ppo_number_names[0]));
    TRY(!memcmp(value + s->own, run->ppo.numbers, sizeof(run->ppo.numbers)));
    return 0;
}

/* A program that has a reward for every second completion. */
#define ANSWERS_HALF                                                           \
    "read -r _\n"                                                              \
    "echo '{\"ready\": true, \"abi\": 1}'\n"                                   \
    "reward=null\n"                                                            \
    "while read -r line; do\n"                                                 \
    "    id=${line#*'\"id\":'}\n"                                              \
    "    id=${id%%,*}\n"                                                       \
    "    echo \"{\\\"id\\\": ${id%%\\}*}, \\\"rewards\\\": [$reward]}\"\n"     \
    "    if [ $reward = 1 ]; then reward=null; else reward=1; fi\n"            \
    "done\n"

static int read_half(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    char text[16384] = "";
    (void)arg;
    TRY(go_to(run, 1, &err) == 0);
    FILE *file = fopen("out/logs/samples-1.jsonl", "r");
    TRY(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    TRY(strstr(text, "\"rewards\":{\"judge\":null},\"advantage\":null"));
    return 0;
}

static void samples_without_a_reward_are_logged(void **state)
{
    FILE *file = fopen("half", "w");
    (void)state;
    assert_non_null(file);
    fputs(ANSWERS_HALF, file);
    assert_int_equal(fclose(file), 0);
    small_runs(1,
               PARTS "rollout.log_samples: 8\n"
                     "reward: {functions: [{type: command, name: judge, "
                     "command: [sh, ./half], batch_size: 1}]}\n",
               read_half, NULL);
    unlink("half");
}

static void many_rewards_are_reported_beside_numbers_of_ppo(void **state)
{
    char lines[4096] = PARTS "reward.functions: [";
    (void)state;
    for (int i = 0; i < DT_CONF_REWARDS_MAX; i++)
        snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines),
                 "%s{type: regex, pattern: \"(?s)[ -~].*\", name: f%d}",
                 i > 0 ? ", " : "", i);
    snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "]\n");
    small_runs(1, lines, look_at_numbers, NULL);
}

struct order {
    size_t row[4][8];
};

static int keep_order(struct dt_run *run, void *arg)
{
    struct order *order = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    for (size_t use = 0; use < 4; use++) {
        TRY(small_step(run, &line, &err) == 0);
        for (size_t i = 0; i < 8; i++)
            order->row[use][i] =
                dt_sample_batches_row(&run->samples.batches, i);
    }
    return 0;
}

/* Whether two steps together have each of sixteen rows once. */
static bool is_epoch(size_t a[8], size_t b[8])
{
    unsigned seen = 0;
    for (size_t i = 0; i < 8; i++)
        seen |= 1u << a[i] | 1u << b[i];
    return seen == 0xffff;
}

static void each_epoch_has_all_completions_in_another_order(void **state)
{
    struct order order;
    (void)state;
    small_runs(1, PARTS PRINTABLE, keep_order, &order);
    assert_true(is_epoch(order.row[0], order.row[1]));
    assert_true(is_epoch(order.row[2], order.row[3]));
    assert_memory_not_equal(order.row[0], order.row[2], sizeof(order.row[0]));
}

static int follow_schedule(struct dt_run *run, void *arg)
{
    const bool *by_update = arg;
    struct dt_report_step line;
    struct dt_error err = {0};
    run->spec.conf.ppo.scheduler_by_update = *by_update;
    run->learner.schedule.name = DT_SCHEDULE_LINEAR;
    TRY(run->total_steps == 9 && run->spec.sampling.uses == 4);
    for (int i = 0; i < 6; i++) {
        TRY(small_step(run, &line, &err) == 0);
        TRY(near(line.lr, 0.01 * (1 - (*by_update ? i / 4 * 4 : i) / 9.0),
                 1e-12));
    }
    return 0;
}

static void rates_follow_steps_or_generations(void **state)
{
    bool by_update[] = {false, true};
    (void)state;
    for (int i = 0; i < 2; i++)
        small_runs(1, PARTS PRINTABLE, follow_schedule, &by_update[i]);
}

/* --- scores behind the last token --- */

enum { LONGEST = 8 };

/* The reward is the return there, without the KL divergence of a token; the
 * critic learns it, too.
 */
static int look_behind(struct dt_run *run, void *arg)
{
    const struct dt_experience *e = &run->samples.experience;
    struct dt_report_step line;
    struct dt_error err = {0};
    double tokens = 0, after = 0;
    TRY(small_step(run, &line, &err) == 0);
    for (size_t i = 0; i < run->spec.sampling.step_rows; i++) {
        size_t row = dt_sample_batches_row(&run->samples.batches, i);
        tokens += e->count[row];
        if (e->count[row] == LONGEST)
            continue;
        after++;
        TRY(e->after[row] != 0);
        TRY(run->ppo.after_returns[row] == e->rewards[row]);
    }
    TRY(after > 2);
    TRY(near(run->ppo.value_share, tokens / (tokens + after), 1e-12));
    TRY(run->spec.rank > 0 ||
        run->progress.metrics.value[run->spec.algo->metric_count - 3] ==
            tokens + after); /* values that the critic was trained on */
    if (run->spec.rank == 0)
        *(double *)arg = after;
    return 0;
}

static void scores_may_stand_behind_the_last_token(void **state)
{
    double after[2];
    (void)state;
    for (int size = 1; size <= 2; size++)
        small_runs(size, PARTS PRINTABLE NEXT, look_behind, &after[size - 1]);
    assert_true(after[0] == after[1]);
}

/* --- a critic that begins --- */

#define WARMUP "ppo.critic.warmup: 1\n"

static void *copy_of(struct dt_view flat)
{
    void *copy = malloc(flat.count * sizeof(float));
    if (copy)
        memcpy(copy, dt_view_data(flat), flat.count * sizeof(float));
    return copy;
}

static bool moved(struct dt_view flat, void *before)
{
    int difference =
        memcmp(before, dt_view_data(flat), flat.count * sizeof(float));
    free(before);
    return difference != 0;
}

/* Four steps use the first generation. */
static int warm_up(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    for (int step = 1; step <= 5; step++) {
        struct dt_view policy = weights_of(&run->learner);
        struct dt_view critic = weights_of(&run->critic);
        void *before[] = {copy_of(policy), copy_of(critic)};
        TRY(before[0] && before[1]);
        TRY(small_step(run, &line, &err) == 0);
        TRY(moved(policy, before[0]) == (step == 5));
        TRY(moved(critic, before[1]));
        TRY(isfinite(line.grad_norm) && line.grad_norm > 0);
        TRY(isfinite(run->progress.loss_sum));
    }
    TRY(dt_optim_steps(run->learner.optim) == 1);
    TRY(dt_optim_steps(run->critic.optim) == 5);
    return 0;
}

static void a_critic_may_be_trained_alone_at_first(void **state)
{
    struct kept kept;
    (void)state;
    for (int size = 1; size <= 2; size++) {
        small_runs(size, PARTS PRINTABLE WARMUP, warm_up, NULL);
        resumes(size, PARTS PRINTABLE WARMUP, 2, 6, &kept);
    }
}

/* --- strategies --- */

static int keep_metrics(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(run->critic.parallel);
    for (int i = 0; i < 6; i++)
        TRY(small_step(run, &line, &err) == 0);
    if (run->spec.rank == 0)
        memcpy(arg, &run->progress.metrics, sizeof(struct dt_metrics));
    return 0;
}

static void all_strategies_have_the_same_bits(void **state)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "zero3"};
    struct dt_metrics metrics[4];
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char lines[512];
        snprintf(lines, sizeof(lines),
                 PARTS PRINTABLE "distributed.strategy: %s\n", strategies[i]);
        small_runs(2, lines, keep_metrics, &metrics[i]);
        assert_memory_equal(&metrics[i], &metrics[0], sizeof(metrics[0]));
    }
}

/* --- saving --- */

#define ADAPTIVE                                                               \
    "ppo.kl_control: adaptive\n"                                               \
    "ppo.kl_control_target: 0.01\n"                                            \
    "ppo.kl_control_horizon: 100\n"

/* A step begins a generation, ends an epoch of it or a mini-batch. */
static void a_resumed_run_is_the_same_bit_by_bit(void **state)
{
    struct kept kept;
    (void)state;
    for (int size = 1; size <= 2; size++)
        for (long half = 4; half <= 7; half++) {
            resumes(size,
                    half % 2 ? PARTS ADAPTIVE PRINTABLE NEXT
                             : PARTS ADAPTIVE PRINTABLE,
                    half, 9, &kept);
            assert_true(kept.kl_coef != 0.1);
        }
}

static int save(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    (void)arg;
    TRY(dt_run_save(run, &why, &err) == 0);
    return 0;
}

static void the_critic_is_saved_as_a_model_with_scores(void **state)
{
    struct dt_error err = {0};
    (void)state;
    for (int size = 1; size <= 2; size++) {
        small_runs(size, PARTS PRINTABLE, save, NULL);
        char *text = dt_file_read("out/checkpoints/checkpoint-0/critic/"
                                  "config.json",
                                  1 << 16, &err);
        if (!text)
            fail_msg("%s", err.text);
        assert_non_null(strstr(text, "GPT2ForSequenceClassification"));
        free(text);
        assert_int_equal(
            dt_ckpt_verify("out/checkpoints/checkpoint-0", NULL, &err), 0);
    }
}

/* --- learning --- */

static void a_policy_learns_what_is_rewarded(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++)
        small_runs(size, LEARN, learn_rewarded, NULL);
}

/* After the first token of a completion it is known whether it is rewarded, and
 * a policy that hardly moves goes on to sample both. The values are those
 * before the epochs of a generation.
 */
static int explain(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    const double *numbers = run->ppo.numbers;
    (void)arg;
    TRY(go_to(run, 1, &err) == 0);
    TRY(numbers[DT_PPO_EXPLAINED] < 0.1);
    TRY(go_until(run, DT_PPO_EXPLAINED, 0.5, 300, &err) == 0);
    TRY(numbers[DT_PPO_SCORES] > 0.2 && numbers[DT_PPO_SCORES] < 0.6);
    return 0;
}

static void a_critic_explains_returns_that_can_be_foreseen(void **state)
{
    FILE *file = fopen("prompts.jsonl", "w");
    (void)state;
    for (int i = 0; i < PROMPTS; i++)
        fprintf(file, "{\"prompt\": \"%c\"}\n", 'a' + i % 5);
    assert_int_equal(fclose(file), 0);
    small_runs(1,
               "training: {train_batch_size: 64, max_steps: 300}\n"
               "optimizer.lr: 1.0e-6\n"
               "ppo: {epochs: 4, kl_coef: 0, vf_coef: 1, lam: 1,\n"
               "      cliprange_value: 100, critic: {lr: 0.01}}\n" PRINTABLE,
               explain, NULL);
}

/* --- warnings --- */

static int go_seven(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(go_to(run, 7, &err) == 0);
    return 0;
}

static void equal_scores_are_warned_of(void **state)
{
    const char *text =
        said(1,
             "training: {train_batch_size: 16, max_steps: 9}\n"
             "ppo: {epochs: 1, num_mini_batches: 1, kl_coef: 0.1}\n"
             "reward: {functions: [{type: regex, pattern: \"(?s).*\"}]}\n",
             go_seven);
    (void)state;
    assert_int_equal(count_of(text, "5 generations in a row had equal rewards"),
                     1);
    assert_int_equal(count_of(text, "no update has changed"), 0);
}

/* --- refusals --- */

static void refused(const char *lines, const char *why)
{
    small_clean(NULL);
    small_refused(small_conf(lines), why);
}

static void make_value_model(int tokens, int positions)
{
    FILE *file;
    mkdir("value", 0777);
    file = fopen("value/config.json", "w");
    fprintf(file,
            "{\"model_type\": \"gpt2\", \"architectures\": "
            "[\"GPT2LMHeadModel\"], \"vocab_size\": %d, \"n_positions\": %d, "
            "\"n_embd\": 32, \"n_layer\": 1, \"n_head\": 2, "
            "\"activation_function\": \"gelu_new\"}",
            tokens, positions);
    assert_int_equal(fclose(file), 0);
}

static void a_critic_of_other_tokens_is_refused(void **state)
{
    (void)state;
    make_value_model(300, 32);
    refused(PARTS PRINTABLE "model.value_path: value\n",
            "has 300 tokens, but the model has 257: the critic reads what the "
            "model writes");
    make_value_model(257, 8);
    refused(PARTS PRINTABLE "model.value_path: value\n",
            "has 8 positions, but data.max_length is 12");
}

static void a_policy_that_is_never_trained_is_refused(void **state)
{
    (void)state;
    refused(PARTS PRINTABLE "ppo.critic.warmup: 3\n",
            "ppo.critic.warmup: 3 generations of 4 steps leave none of 9 to "
            "the policy");
}

/* --- a generation ahead --- */

#define AHEAD                                                                  \
    "training: {train_batch_size: 16, max_steps: 9, resume: auto}\n"           \
    "optimizer.lr: 0.01\n"                                                     \
    "rollout.overlap: 1\n"                                                     \
    "ppo: {epochs: 1, num_mini_batches: 1, kl_coef: 0.1}\n"

/* The second generation is of the weights before the first update. */
static int look_ahead(struct dt_run *run, void *arg)
{
    const double *off =
        &run->progress.metrics.value[run->spec.algo->metric_count - 1];
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(small_step(run, &line, &err) == 0);
    TRY(*off <= 1e-5);
    TRY(small_step(run, &line, &err) == 0);
    TRY(*off > 1e-4);
    return 0;
}

static void with_overlap_ratios_are_to_what_has_sampled(void **state)
{
    struct kept kept;
    (void)state;
    for (int size = 1; size <= 2; size++) {
        small_runs(size, AHEAD PRINTABLE, look_ahead, NULL);
        resumes(size, AHEAD PRINTABLE, 3, 5, &kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratios_are_one_before_the_first_update),
        cmocka_unit_test(tokens_and_scores_are_those_of_any_world),
        cmocka_unit_test(samples_without_a_reward_are_logged),
        cmocka_unit_test(many_rewards_are_reported_beside_numbers_of_ppo),
        cmocka_unit_test(each_epoch_has_all_completions_in_another_order),
        cmocka_unit_test(rates_follow_steps_or_generations),
        cmocka_unit_test(scores_may_stand_behind_the_last_token),
        cmocka_unit_test(a_critic_may_be_trained_alone_at_first),
        cmocka_unit_test(all_strategies_have_the_same_bits),
        cmocka_unit_test(a_resumed_run_is_the_same_bit_by_bit),
        cmocka_unit_test(the_critic_is_saved_as_a_model_with_scores),
        cmocka_unit_test(a_policy_learns_what_is_rewarded),
        cmocka_unit_test(equal_scores_are_warned_of),
        cmocka_unit_test(a_critic_of_other_tokens_is_refused),
        cmocka_unit_test(a_policy_that_is_never_trained_is_refused),
        cmocka_unit_test(a_critic_explains_returns_that_can_be_foreseen),
        cmocka_unit_test(with_overlap_ratios_are_to_what_has_sampled),
    };
    return cmocka_run_group_tests(tests, prompts_enter, small_leave);
}
