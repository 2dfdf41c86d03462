/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_overrides.c - keys that are set beside the file, with --set */
#include "config.h"

#include "tests/unit/conf.h"

/* Loads `text` with the overrides of a NULL-terminated list. */
static struct dt_conf *load_with(const char *text, const char *const *words,
                                 char **problems, char **warnings)
{
    struct dt_conf_problems found, warned;
    struct dt_conf_overrides overrides = {0};
    struct dt_error err;
    write_file("t.yaml", text);
    for (; *words; words++)
        assert_int_equal(dt_conf_overrides_add(&overrides, *words, &err), 0);
    struct dt_conf *conf = dt_conf_load("t.yaml", &overrides, &found, &warned);
    dt_conf_overrides_fini(&overrides);
    *problems = joined(&found);
    *warnings = joined(&warned);
    dt_conf_problems_fini(&found);
    dt_conf_problems_fini(&warned);
    return conf;
}

static struct dt_conf *load_set_words(const char *text,
                                      const char *const *words)
{
    char *problems, *warnings;
    struct dt_conf *conf = load_with(text, words, &problems, &warnings);
    assert_string_equal(problems, "");
    assert_string_equal(warnings, "");
    assert_non_null(conf);
    free(problems);
    free(warnings);
    return conf;
}

#define LOAD(text, ...)                                                        \
    load_set_words(text, (const char *const[]){__VA_ARGS__, NULL})

static void expect_problems(const char *text, const char *const *words,
                            const char *wanted)
{
    char *problems, *warnings;
    assert_null(load_with(text, words, &problems, &warnings));
    assert_string_equal(problems, wanted);
    free(problems);
    free(warnings);
}

#define REFUSE(text, wanted, ...)                                              \
    expect_problems(text, (const char *const[]){__VA_ARGS__, NULL}, wanted)

static void an_override_takes_the_place_of_the_value_in_the_file(void **state)
{
    (void)state;
    struct dt_conf *conf =
        LOAD(LEAST "lr: wrong\nbf16: true\n", "optimizer.lr=1e-3",
             "precision.compute=fp32", "run.name=a: #b");
    assert_true(conf->optimizer.lr == 1e-3);
    assert_int_equal(conf->precision.compute, DT_CONF_FP32);
    assert_string_equal(conf->run.name, "a: #b");
    assert_true(dt_conf_given(conf, "optimizer.lr"));
    assert_int_equal(conf->overrides.count, 3);
    assert_string_equal(conf->overrides.text[2], "run.name=a: #b");
    dt_conf_destroy(conf);
}

/* Aliases, switches, sections, and names of DeepSpeed. */
static void any_name_and_form_of_the_file_can_be_set(void **state)
{
    (void)state;
    struct dt_conf *conf =
        LOAD(LEAST "training: {epochs: 2}\nlogging: {steps: 7}\n",
             "learning_rate=2e-3", "grad_accum=4",
             "logging={first_step: true, report_to: [tensorboard]}",
             "zero_optimization.stage=2", "optimizer.betas=[0.8, 0.9]",
             "data.train=['train.txt']", "eval_steps=0.5");
    assert_true(conf->optimizer.lr == 2e-3);
    assert_int_equal(conf->training.gradient_accumulation_steps, 4);
    assert_int_equal(conf->logging.steps, 7);
    assert_true(conf->logging.first_step && conf->logging.to_tensorboard);
    assert_int_equal(conf->distributed.strategy, DT_CONF_ZERO2);
    assert_true(conf->optimizer.beta1 == 0.8 && conf->optimizer.beta2 == 0.9);
    assert_int_equal(conf->data.train.count, 1);
    assert_true(conf->training.eval_steps_ratio == 0.5);
    dt_conf_destroy(conf);
}

static void the_last_override_of_a_key_wins(void **state)
{
    (void)state;
    struct dt_conf *conf =
        LOAD(LEAST, "lr=1", "optimizer={lr: 2, eps: 1e-6}", "learning_rate=3",
             "env.A=1", "env.B=2", "env.A=3");
    assert_true(conf->optimizer.lr == 3 && conf->optimizer.eps == 1e-6);
    assert_int_equal(conf->env_count, 2);
    assert_string_equal(conf->env[0].value, "3");
    dt_conf_destroy(conf);
}

/* A null that an override has overridden is nobody's. */
static void null_that_is_a_value_elsewhere_is_told_where_it_counts(void **state)
{
    static const struct {
        const char *text, *words[3], *warned;
    } cases[] = {
        {LEAST "max_grad_norm: 0.5\n",
         {"max_grad_norm=null"},
         "--set: max_grad_norm: null turns clipping off in transformers, but "
         "is the default here: write 0\n"},
        {LEAST,
         {"training.max_length=null"},
         "--set: training.max_length: null cuts no example in TRL, but is the "
         "default here: write the length of the longest\n"},
        {LEAST "max_grad_norm: null\n", {"max_grad_norm=0.5"}, ""},
        {LEAST, {"max_grad_norm=null", "max_grad_norm=0.5"}, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *problems, *warnings;
        dt_conf_destroy(
            load_with(cases[i].text, cases[i].words, &problems, &warnings));
        assert_string_equal(problems, "");
        assert_string_equal(warnings, cases[i].warned);
        free(problems);
        free(warnings);
    }
}

static void null_is_the_default(void **state)
{
    (void)state;
    struct dt_conf *conf = LOAD(LEAST "lr: 0.5\nmax_steps: 3\n",
                                "optimizer.lr=null", "max_steps=~");
    assert_false(dt_conf_given(conf, "optimizer.lr"));
    assert_int_equal(conf->training.max_steps, -1);
    dt_conf_destroy(conf);
}

static void variables_are_set_beside_those_of_the_file(void **state)
{
    (void)state;
    struct dt_conf *conf =
        LOAD(LEAST "env: {A: 1, B: 2}\n", "env.B=x y", "env.C=z");
    assert_int_equal(conf->env_count, 3);
    assert_string_equal(conf->env[0].name, "C");
    assert_string_equal(conf->env[1].value, "x y");
    assert_string_equal(conf->env[2].name, "A");
    dt_conf_destroy(conf);
}

/* What is another name of the key, or would hide it. */
static void rivals_of_an_override_in_the_file_are_dropped(void **state)
{
    (void)state;
    struct dt_conf *conf =
        LOAD(LEAST "zero_stage: 2\nmax_steps: 9\nwarmup_steps: 5\n",
             "distributed.strategy=zero3", "epochs=1", "warmup_ratio=0.1");
    assert_int_equal(conf->distributed.strategy, DT_CONF_ZERO3);
    assert_int_equal(conf->training.max_steps, -1);
    assert_true(conf->scheduler.warmup_steps == 0);
    dt_conf_destroy(conf);
    conf = LOAD(LEAST, "max_steps=5", "epochs=1");
    assert_int_equal(conf->training.max_steps, 5);
    dt_conf_destroy(conf);
}

static void an_override_wins_over_a_deepspeed_file(void **state)
{
    (void)state;
    write_file("ds.json",
               "{\"zero_optimization\": {\"stage\": 2},\n"
               " \"gradient_clipping\": 0.5, \"bf16\": {\"enabled\": true},\n"
               " \"tensorboard\": {\"enabled\": true}}\n");
    struct dt_conf *conf = LOAD(LEAST, "deepspeed_config=ds.json",
                                "max_grad_norm=2", "distributed.strategy=zero1",
                                "report_to=none", "scheduler.name=linear");
    assert_true(conf->training.max_grad_norm == 2);
    assert_int_equal(conf->distributed.strategy, DT_CONF_ZERO1);
    assert_false(conf->logging.to_tensorboard);
    assert_int_equal(conf->precision.compute, DT_CONF_BF16);
    dt_conf_destroy(conf);
    unlink("ds.json");
}

static void the_algorithm_can_be_set(void **state)
{
    (void)state;
    struct dt_conf *conf =
        LOAD("data.train: train.jsonl\nmodel.n_embd: 96\n"
             "training.per_device_batch_size: 2\nalgorithm: sft\n",
             "algorithm=dpo", "beta=0.3");
    assert_int_equal(conf->algorithm, DT_CONF_DPO);
    assert_true(conf->dpo.beta == 0.3);
    dt_conf_destroy(conf);
}

static void mistakes_are_those_of_the_file_at_set(void **state)
{
    (void)state;
    REFUSE(LEAST, "--set: optimizer.lr: expected a number > 0, got \"fast\"\n",
           "lr=fast");
    REFUSE(LEAST "b: 1\n",
           "t.yaml:5:1: b: unknown key\n"
           "--set: optimizer.lrr: unknown key; did you mean optimizer.lr?\n",
           "optimizer.lrr=1");
    REFUSE(LEAST, "--set: env.A-B: not a name of a variable\n", "env.A-B=1");
    REFUSE(LEAST, "--set: optimizer.lr: no value: write null for the default\n",
           "lr=");
    REFUSE(LEAST,
           "--set: data.train: YAML: did not find expected ',' or ']' while "
           "parsing a flow sequence in line 1\n",
           "data.train=[a");
    REFUSE(LEAST "chat_template_kwargs: {a: 1}\n",
           "--set: data.chat_template_kwargs.b: set the whole section: "
           "data.chat_template_kwargs={b: VALUE}\n",
           "data.chat_template_kwargs.b=1");
    REFUSE(LEAST, "--set: optimizer.lr: 0.1 here (lr), but 0.2 in --set\n",
           "optimizer={learning_rate: 0.2, lr: 0.1}");
    REFUSE(LEAST "optimizer: {betas: [0.9, 0.95]}\n",
           "--set: optimizer.beta1: given twice: optimizer.betas is in "
           "t.yaml:5:20\n",
           "optimizer.beta1=0.8");
    REFUSE(LEAST,
           "--set: scheduler.warmup_ratio: E107 warmup_steps is given too: "
           "remove one of them\n",
           "warmup_ratio=0.1", "warmup_steps=3");
}

static void only_words_with_a_key_are_overrides(void **state)
{
    static const char *const cases[] = {"",      "lr",    "=1",   "--x=1",
                                        ".lr=1", "lr.=1", "a b=1"};
    struct dt_conf_overrides overrides = {0};
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(dt_conf_overrides_add(&overrides, cases[i], &err), -1);
    assert_string_equal(err.text, "expected KEY=VALUE, such as "
                                  "optimizer.lr=1e-5, got 'a b=1'");
    assert_int_equal(err.status, EX_USAGE);
    assert_int_equal(overrides.count, 0);
    assert_int_equal(dt_conf_overrides_decode(
                         &overrides, "run.name=a\\sb\\nc\\\\ lr=1", &err),
                     0);
    assert_int_equal(overrides.count, 2);
    assert_string_equal(overrides.text[0], "run.name=a b\nc\\");
    dt_conf_overrides_fini(&overrides);
}

static void the_dump_names_the_source(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    (void)state;
    struct dt_conf *conf = LOAD(LEAST, "lr=0.25");
    FILE *out = open_memstream(&text, &bytes);
    dt_conf_dump(conf, out);
    fclose(out);
    assert_non_null(strstr(text, "\n  lr: 0.25  # --set\n"));
    free(text);
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_override_takes_the_place_of_the_value_in_the_file),
        cmocka_unit_test(any_name_and_form_of_the_file_can_be_set),
        cmocka_unit_test(the_last_override_of_a_key_wins),
        cmocka_unit_test(null_is_the_default),
        cmocka_unit_test(
            null_that_is_a_value_elsewhere_is_told_where_it_counts),
        cmocka_unit_test(variables_are_set_beside_those_of_the_file),
        cmocka_unit_test(rivals_of_an_override_in_the_file_are_dropped),
        cmocka_unit_test(an_override_wins_over_a_deepspeed_file),
        cmocka_unit_test(the_algorithm_can_be_set),
        cmocka_unit_test(mistakes_are_those_of_the_file_at_set),
        cmocka_unit_test(only_words_with_a_key_are_overrides),
        cmocka_unit_test(the_dump_names_the_source),
    };
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
