/* SPDX-License-Identifier: Apache-2.0 */
/* test_ppo_shared.c - a critic that is a head on the policy's trunk */
#include "config.h"

#include <unistd.h>

#include "base/file.h"
#include "ckpt/safetensors.h"
#include "train/resume/resume.h"
#include "tests/unit/ppo_run.h"
#include "weights/weights.h"

#define LINES                                                                  \
    "training: {train_batch_size: 16, max_steps: 9, resume: auto}\n"           \
    "optimizer.lr: 0.01\n"                                                     \
    "ppo: {epochs: 2, num_mini_batches: 2, kl_coef: 0.1}\n" PRINTABLE
#define SHARED "ppo.critic.share_backbone: true\n"

/* --- one model --- */

static int look_at_it(struct dt_run *run, void *arg)
{
    const double *off =
        &run->progress.metrics.value[run->spec.algo->metric_count - 1];
    struct dt_report_step line;
    struct dt_error err = {0};
    (void)arg;
    TRY(!run->spec.critic.layout && !dt_run_learner(run, 1));
    const struct dt_layout *layout = run->spec.learner.layout;
    TRY(!strcmp(layout->params[layout->param_count - 1].name, "score.weight"));
    TRY(small_step(run, &line, &err) == 0);
    TRY(*off <= 1e-5);
    TRY(fabs(run->ppo.numbers[DT_PPO_KL]) <= 1e-5);
    TRY(run->progress.metrics.value[DT_PPO_VALUE_LOSS] > 0);
    TRY(small_step(run, &line, &err) == 0);
    TRY(*off > 1e-4);
    return 0;
}

static void ratios_are_one_before_the_first_update(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++)
        small_runs(size, LINES SHARED, look_at_it, NULL);
}

/* The head of the critic begins at random, and what it says is not zero. */
struct first {
    double value_loss, policy_loss, loss, rows;
};

static int keep_first(struct dt_run *run, void *arg)
{
    const double *value = run->progress.metrics.value;
    struct dt_report_step line;
    struct dt_error err = {0};
    TRY(small_step(run, &line, &err) == 0);
    if (run->spec.rank == 0)
        *(struct first *)arg =
            (struct first){value[DT_PPO_VALUE_LOSS], value[DT_PPO_POLICY_LOSS],
                           run->progress.loss_sum, run->progress.metrics.pairs};
    return 0;
}

static void the_loss_is_that_of_the_policy_and_of_the_values(void **state)
{
    struct first first;
    (void)state;
    small_runs(1, LINES SHARED "ppo.vf_coef: 0.25\n", keep_first, &first);
    assert_true(first.rows == 8 && first.value_loss > 0);
    assert_true(fabs(first.loss - first.policy_loss - 0.25 * first.value_loss) <
                1e-9);
}

static int keep_metrics(struct dt_run *run, void *arg)
{
    struct dt_report_step line;
    struct dt_error err = {0};
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
                 LINES SHARED "distributed.strategy: %s\n", strategies[i]);
        small_runs(2, lines, keep_metrics, &metrics[i]);
        assert_memory_equal(&metrics[i], &metrics[0], sizeof(metrics[0]));
    }
}

/* --- files --- */

static void a_resumed_run_is_the_same_bit_by_bit(void **state)
{
    struct kept kept;
    (void)state;
    for (int size = 1; size <= 2; size++)
        for (long half = 3; half <= 5; half++)
            resumes(size, LINES SHARED NEXT, half, 8, &kept);
}

/* Weights in half precision beside those of the optimizer. */
static void a_resumed_run_in_half_precision_is_the_same_too(void **state)
{
    struct kept kept;
    (void)state;
    resumes(1, LINES SHARED "precision.compute: bf16\n", 3, 6, &kept);
}

static int save(struct dt_run *run, void *arg)
{
    struct dt_error err = {0}, why = {0};
    TRY(go_to(run, *(const long *)arg, &err) == 0);
    TRY(dt_run_save(run, &why, &err) == 0);
    return 0;
}

#define SAVED "out/checkpoints/checkpoint-1"

/* Who does not know the head finds the model as it would be without one. */
static void the_head_is_in_a_file_of_its_own(void **state)
{
    const long step = 1;
    struct dt_error err = {0};
    struct dt_model_config config = {0};
    (void)state;
    for (int size = 1; size <= 2; size++) {
        small_runs(size, LINES SHARED, save, (void *)(uintptr_t)&step);
        assert_int_equal(dt_ckpt_verify(SAVED, NULL, &err), 0);
        assert_int_equal(access(SAVED "/critic", F_OK), -1);
        assert_int_equal(dt_model_config_load(&config, SAVED, &err), 0);
        assert_non_null(strstr(config.text, "GPT2LMHeadModel"));
        struct dt_layout *layout = dt_model_layout(&config, 1, &err);
        struct dt_weights *weights = dt_weights_open(SAVED, layout, &err);
        if (!weights)
            fail_msg("%s", err.text);
        dt_weights_close(weights);
        dt_layout_destroy(layout);

        struct dt_safetensors *head =
            dt_safetensors_open(SAVED "/" DT_VALUE_HEAD_FILE, &err);
        if (!head)
            fail_msg("%s", err.text);
        assert_int_equal(dt_safetensors_count(head), 1);
        assert_int_equal(dt_safetensors_check(head, "score.weight", 2,
                                              (const size_t[]){1, 32}, DT_F32,
                                              &err),
                         0);
        dt_safetensors_close(head);
        dt_model_config_fini(&config);
    }
}

/* Rank 0 has all weights under ddp, and the head is the last of them. */
static int keep_head(struct dt_run *run, void *arg)
{
    const struct dt_layout *layout = run->spec.learner.layout;
    const struct dt_param *head = &layout->params[layout->param_count - 1];
    if (run->spec.rank == 0)
        memcpy(arg, dt_view_f32(weights_of(&run->learner)) + head->offset,
               32 * sizeof(float));
    return 0;
}

/* SMALL describes a model, and these lines name one. */
#define FROM_POLICY                                                            \
    "algorithm: ppo\n"                                                         \
    "run.output_dir: out\n"                                                    \
    "model: {path: policy, tokenizer: byte}\n"                                 \
    "data: {train: prompts.jsonl, max_length: 12, max_prompt_length: 4}\n"     \
    "rollout.max_completion_length: 8\n" LINES SHARED

static void begin_from_policy(int size, float head[32])
{
    struct dt_conf_problems problems, warnings;
    struct small_world small = {.f = keep_head, .arg = head};
    small.conf = dt_conf_load_text(
        "t.yaml", FROM_POLICY, sizeof(FROM_POLICY) - 1, &problems, &warnings);
    if (!small.conf)
        fail_msg("%s", problems.text[0]);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    small_clean(NULL);
    world_threads(size, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
}

static void a_new_run_begins_with_the_head_that_was_saved(void **state)
{
    float start[32], head[32], again[32];
    const long step = 1;
    struct dt_error err = {0};
    (void)state;
    small_runs(1, LINES SHARED, keep_head, start);
    small_runs(1, LINES SHARED, save, (void *)(uintptr_t)&step);
    assert_int_equal(rename(SAVED, "policy"), 0);
    begin_from_policy(1, head);
    begin_from_policy(2, again);
    assert_memory_equal(head, again, sizeof(head));
    assert_memory_not_equal(head, start, sizeof(head));
    assert_int_equal(unlink("policy/" DT_VALUE_HEAD_FILE), 0);
    begin_from_policy(2, head);
    assert_memory_equal(head, start, sizeof(head));
    assert_int_equal(dt_file_remove_tree("policy", &err), 0);
}

/* --- refusals --- */

static void refused_after(const char *was, const char *is, const char *why)
{
    const long step = 1;
    small_runs(1, was, save, (void *)(uintptr_t)&step);
    small_refused(small_conf(is), why);
}

static void a_run_goes_on_with_the_critic_that_it_had(void **state)
{
    (void)state;
    refused_after(LINES, LINES SHARED,
                  "was trained with ppo.critic.share_backbone false, not true, "
                  "which changes what is trained; set it back, or start a new "
                  "run in another run.output_dir");
    refused_after(LINES SHARED, LINES,
                  "was trained with ppo.critic.share_backbone true, not false");
}

/* --- learning --- */

static void a_policy_learns_what_is_rewarded(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++)
        small_runs(size, LEARN SHARED, learn_rewarded, NULL);
}

/* After the first token of a completion it is known whether it is rewarded; the
 * loss is almost that of the values alone.
 */
static int explain(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    (void)arg;
    TRY(go_to(run, 1, &err) == 0);
    TRY(run->ppo.numbers[DT_PPO_EXPLAINED] < 0.1);
    TRY(go_until(run, DT_PPO_EXPLAINED, 0.5, 300, &err) == 0);
    return 0;
}

static void the_head_explains_returns_that_can_be_foreseen(void **state)
{
    FILE *file = fopen("prompts.jsonl", "w");
    (void)state;
    for (int i = 0; i < PROMPTS; i++)
        fprintf(file, "{\"prompt\": \"%c\"}\n", 'a' + i % 5);
    assert_int_equal(fclose(file), 0);
    small_runs(1,
               "training: {train_batch_size: 64, max_steps: 300}\n"
               "optimizer.lr: 0.01\n"
               "ppo: {epochs: 4, kl_coef: 0, vf_coef: 1000, lam: 1,\n"
               "      cliprange_value: 100}\n" PRINTABLE SHARED,
               explain, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ratios_are_one_before_the_first_update),
        cmocka_unit_test(the_loss_is_that_of_the_policy_and_of_the_values),
        cmocka_unit_test(all_strategies_have_the_same_bits),
        cmocka_unit_test(a_resumed_run_is_the_same_bit_by_bit),
        cmocka_unit_test(a_resumed_run_in_half_precision_is_the_same_too),
        cmocka_unit_test(the_head_is_in_a_file_of_its_own),
        cmocka_unit_test(a_new_run_begins_with_the_head_that_was_saved),
        cmocka_unit_test(a_run_goes_on_with_the_critic_that_it_had),
        cmocka_unit_test(a_policy_learns_what_is_rewarded),
        cmocka_unit_test(the_head_explains_returns_that_can_be_foreseen),
    };
    return cmocka_run_group_tests(tests, prompts_enter, small_leave);
}
