/* SPDX-License-Identifier: Apache-2.0 */
/* test_dpo.c - runs of direct preference optimization */
#include "config.h"

#include "train/train.h"
#include "tests/unit/dpo_run.h"

#define LEARN                                                                  \
    DPO "training: {train_batch_size: 16, max_steps: 150}\n"                   \
        "optimizer.lr: 3.0e-3\n"

#define TWO_STEPS                                                              \
    DPO EACH "training: {train_batch_size: 8, max_steps: 2, "                  \
             "eval_strategy: epoch}\n"
#define LOGITS "logging.logits: true\n"

/* --- learning --- */

static int learn(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    double loss, before[DT_METRICS_MAX], after[DT_METRICS_MAX];
    (void)arg;
    TRY(evaluate(run, before, &loss, &err) == 0);
    TRY(before[CHOSEN] == 0 && before[REJECTED] == 0 && before[MARGIN] == 0);
    TRY(near(loss, log(2), 1e-6));
    TRY(pair_steps(run, 150, &err) == 0);
    TRY(evaluate(run, after, &loss, &err) == 0);
    if (run->spec.rank == 0)
        fprintf(stderr, "# held-out loss %.3f, accuracy %.3f, margin %.3f\n",
                loss, after[ACCURACY], after[MARGIN]);
    TRY(after[ACCURACY] >= 0.95 && after[MARGIN] > 2);
    /* the policy is still near the reference: beta times nats */
    TRY(fabs(after[CHOSEN]) < 8 && fabs(after[REJECTED]) < 16);
    return 0;
}

/* The reference is the policy before the first step, so there is no margin at
 * first, in any type.
 */
static void a_policy_learns_a_preference(void **state)
{
    (void)state;
    pair_learns(LEARN, learn);
}

static void it_learns_in_sixteen_bits(void **state)
{
    (void)state;
    pair_learns_in_sixteen_bits(LEARN, "zero3", learn);
}

static int fall(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    double first, last, results[DT_METRICS_MAX];
    (void)arg;
    TRY(evaluate(run, results, &first, &err) == 0);
    TRY(pair_steps(run, 30, &err) == 0);
    TRY(evaluate(run, results, &last, &err) == 0);
    /* the probability of a pair, by which it is multiplied, may rise faster */
    TRY(run->dpo.use_weighting ? results[MARGIN] > 0.05 : last < first);
    return 0;
}

static void every_loss_falls(void **state)
{
    static const char *const losses[] = {
        "sigmoid",
        "[cdpo], label_smoothing: 0.1",
        "robust, label_smoothing: 0.1",
        "hinge",
        "exo_pair, label_smoothing: 1.0e-3",
        "ipo",
        "sigmoid_norm",
        "nca_pair",
        "bco_pair",
        "sppo_hard",
        "apo_zero",
        "apo_down",
        "sft",
        "[sigmoid, bco_pair, sft], loss_weights: [0.8, 0.2, 1]",
        "sigmoid, f_divergence: js_divergence",
        "sigmoid, f_divergence: forward_kl",
        "sigmoid, f_divergence: alpha_divergence, f_alpha: 0.5",
        "sigmoid, ld_alpha: 0.5",
        "sigmoid, use_weighting: true",
        "sigmoid, reference: {mode: none}",
    };
    char lines[512];
    (void)state;
    for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
        snprintf(lines, sizeof(lines),
                 DPO "training: {train_batch_size: 16, max_steps: 30}\n"
                     "optimizer.lr: 2.0e-4\n"
                     "dpo: {loss: %s}\n",
                 losses[i]);
        small_runs(1, lines, fall, NULL);
    }
}

static void a_resumed_run_is_the_same_bit_by_bit(void **state)
{
    (void)state;
    pair_resumes(DPO "optimizer.lr: 1.0e-3\n");
}

/* --- what is reported --- */

static int keep_weights(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    TRY(pair_steps(run, 3, &err) == 0);
    return pair_keep(run, arg);
}

static void logging_logits_changes_no_bit(void **state)
{
    struct pair_kept without, with;
    (void)state;
    small_runs(1, FEW, keep_weights, &without);
    small_runs(1, FEW LOGITS, keep_weights, &with);
    assert_int_equal(without.count, with.count);
    assert_memory_equal(without.weights, with.weights,
                        with.count * sizeof(float));
    for (int i = 0; i < DT_DPO_METRICS; i++)
        assert_true(without.metrics.value[i] == with.metrics.value[i]);
    free(without.weights);
    free(with.weights);
}

static bool no_stop(void)
{
    return false;
}

static int train(const struct dt_comm_world *world, void *arg)
{
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_error err = {0};
    struct dt_comm *comm = small_comm(world, &err);
    int rc = dt_trainer_run(arg, &exec, comm, 1, NULL, no_stop, NULL, &err);
    dt_comm_destroy(comm);
    return rc;
}

/* Of the lines of both splits in metrics.jsonl, how many have a number by this
 * name.
 */
static int lines_with(const char *name)
{
    char line[2048], key[64];
    int count = 0;
    FILE *file = fopen("out/logs/metrics.jsonl", "r");
    assert_non_null(file);
    snprintf(key, sizeof(key), "\"%s\": ", name);
    while (fgets(line, sizeof(line), file)) {
        const char *at = strstr(line, key);
        count += at && strchr("-0123456789", at[strlen(key)]);
    }
    fclose(file);
    return count;
}

static void metrics_have_the_names_of_trl(void **state)
{
    static const char *const always[] = {
        "rewards/chosen",  "rewards/rejected", "rewards/accuracies",
        "rewards/margins", "logps/chosen",     "logps/rejected"};
    static const char *const asked[] = {"logits/chosen", "logits/rejected",
                                        "entropy", "mean_token_accuracy"};
    (void)state;
    for (int logits = 0; logits < 2; logits++) {
        struct dt_conf *conf =
            small_conf(logits ? TWO_STEPS LOGITS : TWO_STEPS);
        small_clean(NULL);
        world_threads(1, train, conf);
        dt_conf_destroy(conf);
        for (int i = 0; i < 6; i++)
            assert_int_equal(lines_with(always[i]), 3);
        for (int i = 0; i < 4; i++)
            assert_int_equal(lines_with(asked[i]), logits ? 3 : 0);
        assert_int_equal(lines_with("num_tokens"), 2);
    }
}

/* --- the reference --- */

/* A reference that learned some steps finds the first model worse. */
static int compare_with_other(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    double loss, before[DT_METRICS_MAX], after[DT_METRICS_MAX];
    (void)arg;
    TRY(evaluate(run, before, &loss, &err) == 0);
    TRY(before[MARGIN] < -1e-3);
    TRY(pair_steps(run, 5, &err) == 0);
    TRY(evaluate(run, after, &loss, &err) == 0);
    TRY(after[MARGIN] > before[MARGIN]);
    /* what is not the policy's share is the reference's, which is frozen */
    TRY(near(after[CHOSEN] - before[CHOSEN],
             0.1 * (after[LOGP_CHOSEN] - before[LOGP_CHOSEN]), 1e-3));
    return 0;
}

static void a_directory_is_the_reference(void **state)
{
    (void)state;
    leave_other("ref");
    pair_runs(FROM(SHAPE ", reference_path: ref", ""), compare_with_other);
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
}

/* With a model that is read, the reference is what was read. */
static int start_alike(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    double loss, results[DT_METRICS_MAX];
    (void)arg;
    TRY(evaluate(run, results, &loss, &err) == 0);
    TRY(results[CHOSEN] == 0 && results[REJECTED] == 0);
    return 0;
}

static void the_start_is_the_reference(void **state)
{
    (void)state;
    leave_other("ref");
    pair_runs(FROM("path: ref, tokenizer: byte", ""), start_alike);
    pair_runs(FROM("path: ref, tokenizer: byte", "precision.compute: bf16\n"),
              start_alike);
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
}

static void another_reference_is_refused(void **state)
{
    (void)state;
    leave_other("ref");
    pair_refused(FROM("n_positions: 32, n_embd: 16, n_layer: 1, n_head: 2, "
                      "reference_path: ref",
                      ""),
                 "ref: its n_embd is not that of the model: the reference has "
                 "to be of the same shape");
    assert_int_equal(unlink("ref/model.safetensors"), 0);
    pair_refused(FROM(SHAPE ", reference_path: ref", ""), "the reference: ");
    small_clean(NULL);
    small_runs(1, "algorithm: rm\ntraining.train_batch_size: 8\n", pair_save,
               NULL);
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
    assert_int_equal(rename("out/checkpoints/checkpoint-0", "ref"), 0);
    pair_refused(FROM(SHAPE ", reference_path: ref", ""),
                 "ref: its architectures is not that of the model");
    pair_refused(FROM("path: ref, tokenizer: byte", ""),
                 "ref: a reward model, but algorithm dpo trains a language "
                 "model");
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
}

/* --- data and options --- */

static void pairs_that_are_none_are_refused(void **state)
{
    static const struct {
        const char *line, *why;
    } bad[] = {
        {"{\"prompt\": \"a\", \"chosen\": \"b\"}",
         "bad.jsonl:1: rejected is missing: a pair needs chosen and rejected"},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"b\"}",
         "bad.jsonl:1: chosen and rejected are the same"},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"\"}",
         "bad.jsonl:1: rejected: an empty string"},
        {"{\"text\": \"a\"}",
         "bad.jsonl:1: expected the keys chosen and rejected, got text"},
        {"{\"prompt\": \"0123456789012345678901234567890123456789\", "
         "\"chosen\": \"b\", \"rejected\": \"c\"}",
         "none of 1 pairs is left to train on"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        FILE *file = fopen("bad.jsonl", "w");
        fprintf(file, "%s\n", bad[i].line);
        assert_int_equal(fclose(file), 0);
        pair_refused(DPO "run.output_dir: out\n"
                         "model: {" SHAPE "}\n"
                         "data: {train: bad.jsonl, max_length: 32}\n"
                         "training.train_batch_size: 8\n",
                     bad[i].why);
    }
}

static void options_that_do_not_fit_are_refused(void **state)
{
    static const char *const bad[][2] = {
        {"dpo: {loss: [sigmoid, sigmoid]}\n",
         "t.yaml:9:13: dpo.loss: E113 sigmoid is there twice"},
        {"dpo: {loss: [sigmoid, sft], loss_weights: [1]}\n",
         "t.yaml:9:43: dpo.loss_weights: E113 1 numbers for 2 losses in "
         "dpo.loss"},
        {"dpo: {loss: [sigmoid], loss_weights: [much]}\n",
         "dpo.loss_weights: E113 expected a number, got \"much\""},
        {"dpo: {label_smoothing: 0.1}\n",
         "dpo.label_smoothing: E113 sigmoid does not use it: cdpo, robust and "
         "exo_pair do"},
        {"dpo: {loss: bco_pair, f_divergence: js_divergence}\n",
         "dpo.f_divergence: E113 bco_pair has no form other than reverse_kl"},
    };
    char text[1024];
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "%s%s", FROM(SHAPE, ""), bad[i][0]);
        pair_refused(text, bad[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_policy_learns_a_preference, small_clean),
        cmocka_unit_test_teardown(it_learns_in_sixteen_bits, small_clean),
        cmocka_unit_test_teardown(every_loss_falls, small_clean),
        cmocka_unit_test_teardown(a_resumed_run_is_the_same_bit_by_bit,
                                  small_clean),
        cmocka_unit_test_teardown(logging_logits_changes_no_bit, small_clean),
        cmocka_unit_test_teardown(metrics_have_the_names_of_trl, small_clean),
        cmocka_unit_test_teardown(a_directory_is_the_reference, small_clean),
        cmocka_unit_test_teardown(the_start_is_the_reference, small_clean),
        cmocka_unit_test_teardown(another_reference_is_refused, small_clean),
        cmocka_unit_test_teardown(pairs_that_are_none_are_refused, small_clean),
        cmocka_unit_test_teardown(options_that_do_not_fit_are_refused,
                                  small_clean),
    };
    return cmocka_run_group_tests_name("dpo", tests, pair_enter, small_leave);
}
