/* SPDX-License-Identifier: Apache-2.0 */
/* test_rm.c - runs of reward models */
#include "config.h"

#include "train/train.h"
#include "tests/unit/pair_run.h"
#include "weights/weights.h"

#define RM "algorithm: rm\n"
#define LEARN                                                                  \
    RM "training: {train_batch_size: 16, max_steps: 150}\n"                    \
       "optimizer.lr: 3.0e-3\n"

/* --- learning --- */

static int learn(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    struct dt_metrics metrics;
    double loss, count, results[DT_METRICS_MAX];
    (void)arg;
    TRY(pair_steps(run, 150, &err) == 0);
    TRY(dt_run_evaluate(run, &loss, &count, &metrics, &err) == 0);
    dt_metrics_results(run->spec.algo, &metrics, results);
    TRY(count == HELD_OUT && metrics.pairs == HELD_OUT);
    if (run->spec.rank == 0)
        fprintf(stderr, "# held-out loss %.3f, accuracy %.3f\n", loss,
                results[0]);
    TRY(results[0] >= 0.95);
    TRY(results[2] <= results[3] && results[3] <= results[4]);
    return 0;
}

static void a_reward_model_learns_a_rule(void **state)
{
    (void)state;
    pair_learns(LEARN, learn);
}

static void it_learns_in_sixteen_bits(void **state)
{
    (void)state;
    pair_learns_in_sixteen_bits(LEARN, "zero2", learn);
}

/* --- saving --- */

/* Also what belongs to the next line of the report. */
static void a_resumed_run_is_the_same_bit_by_bit(void **state)
{
    (void)state;
    pair_resumes(RM);
}

/* --- the head --- */

/* What a run of a language model saved, with a head that is new. */
static int begin(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    int head = dt_layout_find(run->spec.learner.layout, "score.weight");
    struct dt_model_config config = {0};
    (void)arg;
    TRY(head >= 0 &&
        dt_layout_find(run->spec.learner.layout, "lm_head.weight") < 0);
    const float *w = dt_view_f32(
        dt_layout_param(run->spec.learner.layout,
                        small_flat(run, DT_OWNED_MASTER), (size_t)head));
    double squares = 0;
    for (int i = 0; i < 32; i++)
        squares += w[i] * w[i];
    TRY(squares / 32 > 0.01 * 0.01 && squares / 32 < 0.04 * 0.04);
    TRY(pair_save(run, NULL) == 0);
    TRY(dt_model_config_load(&config, "out/checkpoints/latest", &err) == 0);
    TRY(config.scores && config.pad == 256);
    dt_model_config_fini(&config);
    return 0;
}

#define FROM_MODEL                                                             \
    "run.output_dir: out\n"                                                    \
    "model: {path: lm, tokenizer: byte}\n"                                     \
    "data: {train: train.jsonl, eval: eval.jsonl, max_length: 32}\n"           \
    "training.train_batch_size: 8\n"

static void a_language_model_gets_a_new_head(void **state)
{
    (void)state;
    FILE *file = fopen("train.txt", "w");
    for (int i = 0; i < 100; i++)
        fprintf(file, "line %d\n", i);
    assert_int_equal(fclose(file), 0);
    pair_runs("algorithm: sft\n"
              "run.output_dir: out\n"
              "model: {n_positions: 32, n_embd: 32, n_layer: 1, n_head: 2}\n"
              "data: {train: train.txt, max_length: 32}\n"
              "training.train_batch_size: 8\n",
              pair_save);
    assert_int_equal(rename("out/checkpoints/checkpoint-0", "lm"), 0);
    pair_runs(RM FROM_MODEL, begin);
    assert_int_equal(dt_file_remove_tree("lm", NULL), 0);
}

/* --- the token that is scored --- */

/* How far from its end each side is scored. */
static int scored(struct dt_run *run, void *arg)
{
    const int *before = arg;
    struct dt_error err = {0};
    struct dt_batch batch;
    TRY(dt_loader_next(run->loader, &batch, &err) > 0);
    dt_run_pick(run, &batch);
    TRY(batch.picked_count == 2 * batch.pair_count && batch.pair_count > 0);
    for (size_t i = 0; i < batch.pair_count; i++) {
        const struct dt_batch_pair *pair = &batch.pairs[i];
        TRY(batch.picked[2 * i] == (int32_t)pair->chosen.end - 1 - *before);
        TRY(batch.picked[2 * i + 1] ==
            (int32_t)pair->rejected.end - 1 - *before);
    }
    return pair_save(run, NULL);
}

static void assert_saved_pad(const char *want)
{
    char text[4096] = "";
    FILE *file = fopen("out/checkpoints/latest/config.json", "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    if (!strstr(text, want))
        fail_msg("%s", text);
}

/* The end has the id of padding: transformers would skip it, or has none. */
static void an_end_that_is_padding_is_scored_if_asked(void **state)
{
    int before = 1;
    (void)state;
    small_runs(1, RM "training.train_batch_size: 8\n", scored, &before);
    assert_saved_pad("\"pad_token_id\": 256");
    before = 0;
    small_runs(1,
               RM "training.train_batch_size: 8\n"
                  "rm.last_token: end\n",
               scored, &before);
    assert_saved_pad("\"pad_token_id\": null");
}

/* Its padding is not its end, t2. */
static void write_tokenizer(void)
{
    FILE *file = fopen("own/tokenizer.json", "w");
    fprintf(file, "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": "
                  "{");
    for (int i = 0; i < 30; i++)
        fprintf(file, "%s\"t%d\": %d", i ? ", " : "", i, i);
    fprintf(file, "}}, \"added_tokens\": [{\"id\": 2, \"content\": \"t2\", "
                  "\"special\": true}, {\"id\": 3, \"content\": \"t3\", "
                  "\"special\": true}]}\n");
    assert_int_equal(fclose(file), 0);
    file = fopen("own/tokenizer_config.json", "w");
    fprintf(file, "{\"eos_token\": \"t2\", \"pad_token\": \"t3\"}\n");
    assert_int_equal(fclose(file), 0);
}

static void write_config(int pad)
{
    FILE *file = fopen("own/config.json", "w");
    fprintf(file,
            "{\"model_type\": \"gpt2\", \"architectures\": "
            "[\"GPT2LMHeadModel\"], \"n_embd\": 16, \"n_layer\": 1, "
            "\"n_head\": 2, \"n_positions\": 32, \"vocab_size\": 30, "
            "\"activation_function\": \"gelu_new\", \"eos_token_id\": 2, "
            "\"pad_token_id\": %d}\n",
            pad);
    assert_int_equal(fclose(file), 0);
}

#define OWN                                                                    \
    RM "run.output_dir: out\n"                                                 \
       "model: {config_path: own, init: random, tokenizer: own}\n"             \
       "data: {train: ids.jsonl, max_length: 32}\n"                            \
       "training.train_batch_size: 2\n"

static int scored_at_end(struct dt_run *run, void *arg)
{
    int before = 0;
    (void)arg;
    return scored(run, &before);
}

/* Where config.json calls the end padding, and the tokenizer does not. */
static void padding_of_the_tokenizer_leaves_the_end(void **state)
{
    FILE *file = fopen("ids.jsonl", "w");
    (void)state;
    for (int i = 0; i < 8; i++)
        fprintf(file,
                "{\"prompt_ids\": [5], \"chosen_ids\": [%d, 7, 2], "
                "\"rejected_ids\": [%d, 2]}\n",
                8 + i, 9 + i);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(mkdir("own", 0755), 0);
    write_tokenizer();
    for (int pad = 2; pad <= 3; pad++) {
        write_config(pad);
        pair_runs(OWN, scored_at_end);
        assert_saved_pad("\"pad_token_id\": 3");
    }
    pair_runs(OWN "rm.last_token: end\n", scored_at_end);
    assert_saved_pad("\"pad_token_id\": 3");
    assert_int_equal(dt_file_remove_tree("own", NULL), 0);
}

static void a_reward_model_is_not_trained_on_text(void **state)
{
    (void)state;
    small_runs(1, RM "training.train_batch_size: 8\n", pair_save, NULL);
    assert_int_equal(rename("out/checkpoints/checkpoint-0", "lm"), 0);
    pair_refused("algorithm: sft\n"
                 "run.output_dir: out\n"
                 "model: {path: lm, tokenizer: byte}\n"
                 "data: {train: train.txt, max_length: 32}\n"
                 "training.train_batch_size: 8\n",
                 "lm: a reward model, but algorithm sft trains a language "
                 "model");
    assert_int_equal(dt_file_remove_tree("lm", NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_reward_model_learns_a_rule, small_clean),
        cmocka_unit_test_teardown(it_learns_in_sixteen_bits, small_clean),
        cmocka_unit_test_teardown(a_resumed_run_is_the_same_bit_by_bit,
                                  small_clean),
        cmocka_unit_test_teardown(a_language_model_gets_a_new_head,
                                  small_clean),
        cmocka_unit_test_teardown(an_end_that_is_padding_is_scored_if_asked,
                                  small_clean),
        cmocka_unit_test_teardown(padding_of_the_tokenizer_leaves_the_end,
                                  small_clean),
        cmocka_unit_test_teardown(a_reward_model_is_not_trained_on_text,
                                  small_clean),
    };
    return cmocka_run_group_tests_name("rm", tests, pair_enter, small_leave);
}
