/* SPDX-License-Identifier: Apache-2.0 */
/* test_reward_model.c - reward models as reward functions */
#include "config.h"

#include <omp.h>

#include "tests/unit/bytes_tokenizer.h"
#include "tests/unit/pair_run.h"

#include "data/examples.h"
#include "reward/reward.h"
#include "reward/scorer.h"

#define RM                                                                     \
    "algorithm: rm\n"                                                          \
    "training.train_batch_size: 16\n"                                          \
    "optimizer.lr: 3.0e-3\n"                                                   \
    "rm.last_token: end\n"
#define SAVED "out/checkpoints/checkpoint-40"

static int learn(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    TRY(pair_steps(run, 40, &err) == 0);
    return pair_save(run, arg);
}

static struct dt_rewards *open_model(const struct dt_conf *conf,
                                     struct dt_error *err)
{
    static struct dt_exec exec;
    exec = dt_exec_cpu();
    const struct dt_reward_options options = {
        .where = DT_CONF_ALL, .exec = &exec, .dtype = DT_F32};
    return dt_rewards_open(conf, &options, err);
}

static struct dt_reward_sample sample_of(const char *completion)
{
    return (struct dt_reward_sample){
        .prompt_text = "w",
        .prompt_bytes = 1,
        .completion_text = completion,
        .completion_bytes = strlen(completion),
    };
}

static void keep_score(void *ctx, float score)
{
    *(double *)ctx = (double)score;
}

/* What the model gives to bytes and, with `end`, the token that ends a text. */
static double score_alone(const char *text, bool end)
{
    struct dt_engine engine = {.exec = dt_exec_cpu()};
    struct dt_error err = {0};
    uint32_t tokens[64];
    double score = 0;
    size_t n = strlen(text);
    assert_int_equal(dt_engine_open(&engine, SAVED, DT_F32, &err), 0);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (unsigned char)text[i];
    tokens[n] = 256;
    struct dt_scorer *scorer =
        dt_scorer_create(&engine, &(struct dt_scorer_room){.longest = n + end},
                         keep_score, &score, &err);
    assert_int_equal(dt_scorer_add(scorer,
                                   &(struct dt_scored_text){.tokens = tokens,
                                                            .count = n + end},
                                   &err),
                     0);
    assert_int_equal(dt_scorer_flush(scorer, &err), 0);
    dt_scorer_destroy(scorer);
    dt_engine_close(&engine);
    return score;
}

/* The model that is used below, of another run's directory. */
static void make_model(void)
{
    pair_runs(RM SMALL, learn);
}

static void scores_are_those_of_training(void **state)
{
    struct dt_error err = {0};
    struct dt_reward_sample samples[] = {sample_of("aeiouaei"),
                                         sample_of("bcdfgbcd"), sample_of(""),
                                         sample_of("abebi")};
    double values[8];
    size_t count;
    (void)state;
    make_model();
    struct dt_conf *conf = pair_conf(
        "reward.functions: [{type: model, path: " SAVED ", weight: 2}]\n");
    struct dt_rewards *rewards = open_model(conf, &err);
    if (!rewards)
        fail_msg("%s", err.text);
    assert_true(dt_rewards_is_model(rewards));
    assert_true(dt_rewards_columns(rewards, &count)[0].weight == 2);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 4, &err), 0);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 4, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, 8, &err), 0);
    assert_true(values[0] > values[1] + 0.1); /* it has learned the rule */
    for (int i = 0; i < 4; i++) {
        char text[32];
        snprintf(text, sizeof(text), "w%s", samples[i].completion_text);
        assert_true(fabs(values[i] - score_alone(text, true)) < 1e-5);
        assert_memory_equal(&values[i], &values[i + 4], sizeof(*values));
    }
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
}

/* A text that was cut has no end that it did not write. */
static void a_completion_that_was_cut_is_scored_without_an_end(void **state)
{
    struct dt_error err = {0};
    struct dt_reward_sample samples[] = {sample_of("abebi"),
                                         sample_of("abebi")};
    double values[2];
    (void)state;
    samples[1].truncated = true;
    struct dt_conf *conf =
        pair_conf("reward.functions: [{type: model, path: " SAVED "}]\n");
    struct dt_rewards *rewards = open_model(conf, &err);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 2, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, 2, &err), 0);
    assert_true(fabs(values[0] - score_alone("wabebi", true)) < 1e-5);
    assert_true(fabs(values[1] - score_alone("wabebi", false)) < 1e-5);
    assert_true(fabs(values[0] - values[1]) > 1e-4);
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
}

/* As many texts as fill several passes, in another order and in other calls:
 * ranks have other prompts each time. Three threads have unequal shares.
 */
static void scores_do_not_depend_on_the_texts_beside_them(void **state)
{
    enum { TEXTS = 48 };
    static const char letters[] = "abcdefghijklmnopqrstuvw";
    struct dt_reward_sample samples[TEXTS];
    double values[TEXTS], again[TEXTS];
    struct dt_error err = {0};
    const int threads = omp_get_max_threads();
    (void)state;
    omp_set_num_threads(3);
    struct dt_conf *conf =
        pair_conf("reward.functions: [{type: model, path: " SAVED "}]\n");
    struct dt_rewards *rewards = open_model(conf, &err);
    for (size_t i = 0; i < TEXTS; i++) {
        samples[i] = sample_of(letters + i % 5);
        samples[i].completion_bytes = 1 + i % 17;
        assert_int_equal(dt_rewards_submit(rewards, 1, &samples[i], 1, &err),
                         0);
    }
    assert_int_equal(dt_rewards_collect(rewards, values, TEXTS, &err), 0);
    for (size_t i = TEXTS; i-- > 0;)
        assert_int_equal(dt_rewards_submit(rewards, 2, &samples[i], 1, &err),
                         0);
    assert_int_equal(dt_rewards_collect(rewards, again, TEXTS, &err), 0);
    for (size_t i = 0; i < TEXTS; i++)
        assert_memory_equal(&values[i], &again[TEXTS - 1 - i], sizeof(*values));
    assert_int_equal(dt_rewards_submit(rewards, 3, &samples[7], 1, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, again, 1, &err), 0);
    assert_memory_equal(&values[7], again, sizeof(*values));
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    omp_set_num_threads(threads);
}

/* The positions of the model are 32: the end of a longer text counts. */
static void long_texts_lose_their_beginning(void **state)
{
    struct dt_error err = {0};
    struct dt_reward_sample sample =
        sample_of("0123456789012345678901234567890123456789");
    double value;
    (void)state;
    struct dt_conf *conf =
        pair_conf("reward.functions: [{type: model, path: " SAVED "}]\n");
    struct dt_rewards *rewards = open_model(conf, &err);
    assert_int_equal(dt_rewards_submit(rewards, 1, &sample, 1, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, &value, 1, &err), 0);
    assert_true(fabs(value - score_alone("9012345678901234567890123456789",
                                         true)) < 1e-5);
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
}

/* The tokenizer has tokens that these texts spell; most are beyond those of the
 * model. That of id 256 ends a text.
 */
static void completions_are_text_whatever_they_spell(void **state)
{
    struct dt_error err = {0};
    double value;
    (void)state;
    dt_tokenizer_destroy(bytes_tokenizer(SAVED, NULL, "<s>", NULL));
    struct dt_conf *conf =
        pair_conf("reward.functions: [{type: model, path: " SAVED "}]\n");
    struct dt_rewards *rewards = open_model(conf, &err);
    for (int i = 0; i < CONTROL_TOKENS; i++) {
        struct dt_reward_sample sample = sample_of(control_tokens[i]);
        char text[32];
        snprintf(text, sizeof(text), "w%s", control_tokens[i]);
        assert_int_equal(dt_rewards_submit(rewards, 1, &sample, 1, &err), 0);
        if (dt_rewards_collect(rewards, &value, 1, &err) < 0)
            fail_msg("%s", err.text);
        assert_true(fabs(value - score_alone(text, true)) < 1e-5);
    }
    struct dt_reward_sample samples[] = {sample_of("a\0b"), sample_of("a")};
    double values[2];
    samples[0].completion_bytes = 3;
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 2, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, 2, &err), 0);
    assert_true(fabs(values[0] - values[1]) > 1e-4); /* NUL ends no text */
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    assert_int_equal(unlink(SAVED "/tokenizer.json"), 0);
}

static void conversations_need_a_template(void **state)
{
    struct dt_error err = {0};
    struct dt_reward_sample sample = sample_of("a");
    json_t *messages =
        json_loads("[{\"role\": \"user\", \"content\": \"hi\"}]", 0, NULL);
    double value;
    (void)state;
    struct dt_conf *conf =
        pair_conf("reward.functions: [{type: model, path: " SAVED "}]\n");
    struct dt_rewards *rewards = open_model(conf, &err);
    sample.messages = messages;
    assert_int_equal(dt_rewards_submit(rewards, 1, &sample, 1, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, &value, 1, &err), -1);
    assert_non_null(strstr(err.text, "reward model: "));
    assert_non_null(strstr(err.text, "template"));
    dt_rewards_close(rewards);
    json_decref(messages);
    dt_conf_destroy(conf);
}

static void other_models_are_refused(void **state)
{
    struct dt_error err = {0};
    struct dt_reward_options options = {.where = DT_CONF_ALL};
    (void)state;
    struct dt_conf *conf =
        pair_conf("reward.functions: [{type: model, path: " SAVED "}]\n");
    assert_null(dt_rewards_open(conf, &options, &err));
    assert_non_null(strstr(err.text, "a model needs a device"));
    dt_conf_destroy(conf);
    assert_int_equal(rename(SAVED, "rm"), 0);
    pair_runs("algorithm: dpo\ntraining.train_batch_size: 8\n" SMALL,
              pair_save);
    conf = pair_conf("reward.functions: [{type: model, name: judge,\n"
                     "  path: out/checkpoints/checkpoint-0}]\n");
    assert_null(open_model(conf, &err));
    assert_non_null(strstr(err.text, "reward judge: "));
    assert_non_null(strstr(err.text,
                           "checkpoint-0: a language model: expected a reward "
                           "model, which gives one number to a text"));
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_training),
        cmocka_unit_test(a_completion_that_was_cut_is_scored_without_an_end),
        cmocka_unit_test(scores_do_not_depend_on_the_texts_beside_them),
        cmocka_unit_test(long_texts_lose_their_beginning),
        cmocka_unit_test(completions_are_text_whatever_they_spell),
        cmocka_unit_test(conversations_need_a_template),
        cmocka_unit_test_teardown(other_models_are_refused, small_clean),
    };
    return cmocka_run_group_tests_name("reward model", tests, pair_enter,
                                       small_leave);
}
