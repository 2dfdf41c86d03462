/* SPDX-License-Identifier: Apache-2.0 */
/* test_dpo.c - runs of direct preference optimization */
#include "config.h"

#include <glob.h>

#include "tests/unit/pair_run.h"

#define DPO "algorithm: dpo\n"
#define LEARN                                                                  \
    DPO "training: {train_batch_size: 16, max_steps: 150}\n"                   \
        "optimizer.lr: 3.0e-3\n"

enum { CHOSEN, REJECTED, ACCURACY, MARGIN, LOGP_CHOSEN, LOGP_REJECTED };

/* --- learning --- */

static int evaluate(struct dt_run *run, double results[DT_METRICS_MAX],
                    double *loss, struct dt_error *err)
{
    struct dt_metrics metrics;
    double count;
    if (dt_run_evaluate(run, loss, &count, &metrics, err) < 0)
        return -1;
    dt_metrics_results(run->algo, &metrics, results);
    return count == HELD_OUT ? 0 : -1;
}

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
    if (run->rank == 0)
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

/* --- the reference --- */

#define FROM(model, more)                                                      \
    DPO "run.output_dir: out\n"                                                \
        "model: {" model "}\n"                                                 \
        "data: {train: train.jsonl, eval: eval.jsonl, max_length: 32}\n"       \
        "scheduler.name: constant\n"                                           \
        "optimizer.lr: 1.0e-3\n"                                               \
        "logging.report_to: jsonl\n"                                           \
        "training: {train_batch_size: 8, max_steps: 9}\n" more
#define SHAPE "n_positions: 32, n_embd: 32, n_layer: 1, n_head: 2"

/* Saves a model after some steps as ref/. */
static int make_other(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    TRY(pair_steps(run, 5, &err) == 0);
    return pair_save(run, arg);
}

static void leave_other(const char *name)
{
    small_clean(NULL);
    pair_runs(FROM(SHAPE, ""), make_other);
    assert_int_equal(rename("out/checkpoints/checkpoint-5", name), 0);
}

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

/* --- computed before --- */

#define PRECOMPUTE "dpo.reference.mode: precompute\n"
#define FEW                                                                    \
    DPO "training: {train_batch_size: 8, max_steps: 9}\n"                      \
        "optimizer.lr: 1.0e-3\n"

/* The files of references, which `glob` finds. */
static size_t references(char path[256])
{
    glob_t found;
    size_t count = 0;
    if (glob(".disttrain-cache/reference-*.safetensors", 0, NULL, &found) == 0)
        count = found.gl_pathc;
    if (count > 0)
        snprintf(path, 256, "%s", found.gl_pathv[0]);
    globfree(&found);
    return count;
}

static int clean_references(void **state)
{
    char path[256];
    while (references(path) > 0)
        if (unlink(path) < 0)
            return -1;
    return small_clean(state);
}

struct outcome {
    double loss, results[DT_METRICS_MAX];
};

static int five_steps(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct outcome *outcome = arg, mine;
    TRY(pair_steps(run, 5, &err) == 0);
    TRY(evaluate(run, mine.results, &mine.loss, &err) == 0);
    TRY((run->reference.parallel == NULL) == (run->precomputed[0].buf != NULL));
    if (run->rank == 0)
        *outcome = mine;
    return 0;
}

static void assert_alike(const struct outcome *a, const struct outcome *b)
{
    assert_true(near(a->loss, b->loss, 1e-4));
    for (int i = 0; i < 6; i++)
        assert_true(fabs(a->results[i] - b->results[i]) < 1e-3);
}

static void a_reference_computed_before_gives_the_same_steps(void **state)
{
    struct outcome live, before, again;
    char path[256];
    (void)state;
    small_runs(1, FEW, five_steps, &live);
    assert_int_equal(references(path), 0);
    small_runs(1, FEW PRECOMPUTE, five_steps, &before);
    assert_alike(&live, &before);
    assert_int_equal(references(path), 1);
    small_runs(2, FEW PRECOMPUTE "distributed.strategy: zero3\n", five_steps,
               &again);
    assert_alike(&live, &again);
    assert_int_equal(references(path), 1);
    assert_int_equal(unlink(path), 0);
    small_runs(2, FEW PRECOMPUTE "distributed.strategy: zero3\n", five_steps,
               &again);
    assert_alike(&live, &again);
    assert_int_equal(references(path), 1);
}

static void another_reference_has_a_file_of_its_own(void **state)
{
    struct outcome outcome;
    char path[256];
    (void)state;
    leave_other("ref");
    small_runs(1, FEW PRECOMPUTE, five_steps, &outcome);
    small_runs(1, FEW PRECOMPUTE "model.reference_path: ref\n", five_steps,
               &outcome);
    assert_int_equal(references(path), 2);
    small_runs(1, FEW PRECOMPUTE "run.seed: 7\n", five_steps, &outcome);
    assert_int_equal(references(path), 3);
    small_runs(1, FEW PRECOMPUTE "dpo.ld_alpha: 0.5\n", five_steps, &outcome);
    assert_int_equal(references(path), 4);
    small_runs(1, FEW PRECOMPUTE "dpo.beta: 0.5\n", five_steps, &outcome);
    assert_int_equal(references(path), 4);
    assert_int_equal(dt_file_remove_tree("ref", NULL), 0);
}

static void a_run_with_a_reference_computed_before_resumes(void **state)
{
    char path[256];
    (void)state;
    pair_resumes(DPO PRECOMPUTE "optimizer.lr: 1.0e-3\n");
    assert_int_equal(references(path), 1);
}

static int resume_without(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    double loss, results[DT_METRICS_MAX];
    (void)arg;
    TRY(run->progress.step == 3);
    TRY(evaluate(run, results, &loss, &err) == 0);
    TRY(results[MARGIN] != 0 && !run->reference.parallel);
    return 0;
}

static int stop_after_three(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    TRY(pair_steps(run, 3, &err) == 0);
    return pair_save(run, arg);
}

/* Without the file, when the model is not the reference any more. */
static void the_first_model_is_the_reference_of_a_resumed_run(void **state)
{
    char path[256];
    (void)state;
    small_runs(1, FEW PRECOMPUTE, stop_after_three, NULL);
    assert_int_equal(references(path), 1);
    assert_int_equal(unlink(path), 0);
    struct small_world small = {
        .conf = small_conf(FEW PRECOMPUTE "training.resume: auto\n"),
        .f = resume_without};
    world_threads(1, small_rank, &small);
    dt_conf_destroy((struct dt_conf *)small.conf);
}

static void a_damaged_file_of_a_reference_is_refused(void **state)
{
    char path[256];
    (void)state;
    pair_runs(FROM(SHAPE, PRECOMPUTE), stop_after_three);
    assert_int_equal(references(path), 1);
    assert_int_equal(truncate(path, 100), 0);
    pair_refused(FROM(SHAPE, PRECOMPUTE),
                 "remove it to compute what the reference gives anew");
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
        cmocka_unit_test_teardown(a_directory_is_the_reference, small_clean),
        cmocka_unit_test_teardown(the_start_is_the_reference, small_clean),
        cmocka_unit_test_teardown(another_reference_is_refused, small_clean),
        cmocka_unit_test_teardown(
            a_reference_computed_before_gives_the_same_steps, clean_references),
        cmocka_unit_test_teardown(another_reference_has_a_file_of_its_own,
                                  clean_references),
        cmocka_unit_test_teardown(
            a_run_with_a_reference_computed_before_resumes, clean_references),
        cmocka_unit_test_teardown(
            the_first_model_is_the_reference_of_a_resumed_run,
            clean_references),
        cmocka_unit_test_teardown(a_damaged_file_of_a_reference_is_refused,
                                  clean_references),
        cmocka_unit_test_teardown(pairs_that_are_none_are_refused, small_clean),
        cmocka_unit_test_teardown(options_that_do_not_fit_are_refused,
                                  small_clean),
    };
    return cmocka_run_group_tests_name("dpo", tests, pair_enter, small_leave);
}
