/* SPDX-License-Identifier: Apache-2.0 */
/* test_reward_rules.c - what each rule gives completions */
#include "config.h"

#include "tests/unit/reward/reward.h"

#include "base/log.h"

struct rule_case {
    const char *keys, *columns, *completion;
    double reward;
};

/* The reward of a completion; fails the test on an error. */
static double reward_of(const struct rule_case *c)
{
    struct dt_error err = {.text = ""};
    struct dt_conf *conf = one_function(c->keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    struct dt_reward_sample sample = sample_of(c->completion, c->columns);
    double value = -99;
    assert_string_equal(err.text, "");
    assert_int_equal(dt_rewards_submit(rewards, 1, &sample, 1, &err), 0);
    if (dt_rewards_collect(rewards, &value, 1, &err) < 0)
        fprintf(stderr, "%s: %s\n", c->keys, err.text);
    dt_rewards_close(rewards);
    sample_fini(&sample);
    dt_conf_destroy(conf);
    return value;
}

static void check_cases(const struct rule_case *cases, size_t count)
{
    int bad = 0;
    for (size_t i = 0; i < count; i++) {
        double got = reward_of(&cases[i]);
        if (fabs(got - cases[i].reward) <= 1e-12 ||
            (isnan(got) && isnan(cases[i].reward)))
            continue;
        fprintf(stderr, "%s, %s, \"%s\": wanted %g, got %g\n", cases[i].keys,
                cases[i].columns ? cases[i].columns : "-", cases[i].completion,
                cases[i].reward, got);
        bad++;
    }
    assert_int_equal(bad, 0);
}

#define CHECK_CASES(cases) check_cases(cases, sizeof(cases) / sizeof(*(cases)))

#define NUL "{\"answer\": null}"
#define FOO "{\"answer\": \" Foo\"}"
#define UMLAUT "{\"answer\": \"\\u00c4\"}"

static void texts_are_compared(void **state)
{
    static const struct rule_case cases[] = {
        {"type: exact", FOO, "Foo\n", 1},
        {"type: exact", FOO, "foo", 0},
        {"type: exact, ignore_case: true", FOO, "fOO", 1},
        {"type: exact, ignore_case: true", UMLAUT, "\xc3\xa4", 1},
        {"type: exact, trim: false", FOO, "Foo", 0},
        {"type: exact, trim: false", FOO, " Foo", 1},
        {"type: exact", FOO, "", 0},
        {"type: exact", "{\"answer\": \"\"}", " ", 1},
        {"type: exact", "{\"answer\": 7}", "7", 1},
        {"type: exact", "{\"answer\": 0.1}", "0.1", 1},
        {"type: exact", "{\"answer\": true}", "true", 1},
        {"type: exact", NUL, "Foo", NAN},
        {"type: exact, answer_column: a", "{\"a\": \"x\"}", "x", 1},
        {"type: exact, extract: '<a>(.*?)</a>'", FOO, "<a>x</a> <a>Foo</a>", 1},
        {"type: exact, extract: '<a>(.*?)</a>'", FOO, "<a>Foo</a> <a>x</a>", 0},
        {"type: exact, extract: '<a>(.*?)</a>'", FOO, "Foo", 0},
        {"type: exact, extract: '<a>(.*?)</a>'", "{\"answer\": \"\"}", "", 0},
        {"type: exact, extract: 'x*'", "{\"answer\": \"\"}", "ax", 1},
        {"type: contains", "{\"answer\": \"oo\"}", "Foo", 1},
        {"type: contains", "{\"answer\": \"OO\"}", "Foo", 0},
        {"type: contains, ignore_case: true", "{\"answer\": \"OO\"}", "Foo", 1},
        {"type: contains", "{\"answer\": [\"a\", 1]}", "1 a", 1},
        {"type: contains", "{\"answer\": [\"a\", 2]}", "1 a", 0},
        {"type: contains", "{\"answer\": []}", "", 1},
        {"type: contains, texts: [yes, 'no way']", NULL, "no way, yes", 1},
        {"type: contains, texts: [yes, 'no way']", NULL, "no way", 0},
        {"type: contains", NUL, "x", NAN},
    };
    (void)state;
    CHECK_CASES(cases);
}

static void patterns_match_as_a_whole(void **state)
{
    static const struct rule_case cases[] = {
        {"type: regex, pattern: 'a+'", NULL, "aaa", 1},
        {"type: regex, pattern: 'a+'", NULL, "aab", 0},
        {"type: regex, pattern: 'a|ab'", NULL, "ab", 1},
        {"type: regex, pattern: '.*'", NULL, "a\nb", 0},
        {"type: regex, pattern: '(?s).*'", NULL, "a\nb", 1},
        {"type: regex, pattern: '.'", NULL, "\xc3\xa4", 1},
        {"type: regex, pattern: '.*'", NULL, "", 1},
        /* A byte that is no character is U+FFFD. */
        {"type: regex, pattern: 'a.b'", NULL,
         "a\xff"
         "b",
         1},
        /* Years of backtracking: given up. */
        {"type: regex, pattern: '(a|aa)+'", NULL,
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", NAN},
    };
    (void)state;
    CHECK_CASES(cases);
}

#define IS(number) "{\"answer\": " number "}"

static void numbers_are_equal_by_value(void **state)
{
    static const struct rule_case cases[] = {
        {"type: number_equal", IS("42"), "so it is 42.", 1},
        {"type: number_equal", IS("42"), "42 or 43", 0},
        {"type: number_equal", IS("42"), "no number", 0},
        {"type: number_equal", IS("42"), "", 0},
        {"type: number_equal", IS("1234.5"), "$1,234.50!", 1},
        {"type: number_equal", IS("1234567"), "1,234,567", 1},
        {"type: number_equal", IS("2"), "1,2", 1},
        {"type: number_equal", IS("23"), "1,23", 1},
        {"type: number_equal", IS("2345"), "1,2345", 1},
        {"type: number_equal", IS("-7"), "x = -7", 1},
        {"type: number_equal", IS("3"), "7-3", 1},
        {"type: number_equal", IS("3"), "covid-3", 1},
        {"type: number_equal", IS("0.5"), ".5", 1},
        {"type: number_equal", IS("1e3"), "1E3", 1},
        {"type: number_equal", IS("2"), "1e+2e 2", 1},
        {"type: number_equal", IS("1"), "1e999", 0},
        {"type: number_equal", IS("\"so 6*7 = #### 1,042\""), "1042", 1},
        {"type: number_equal", IS("0.3333"), "0.33333", 0},
        {"type: number_equal, tolerance: 1.0e-3", IS("0.3333"), "0.33333", 1},
        {"type: number_equal, after: '####'", IS("4"), "3 #### 4 apples", 1},
        {"type: number_equal, after: '####'", IS("4"), "#### 3 #### 4", 1},
        {"type: number_equal, after: '####'", IS("4"), "4", 0},
        {"type: number_equal, after: '####'", IS("\"5 #### 4\""), "####4", 1},
        {"type: number_equal, extract: '\\{(.*?)\\}'", IS("4"), "{4} 5", 1},
        {"type: number_equal", NUL, "4", NAN},
    };
    (void)state;
    CHECK_CASES(cases);
}

#define PUZZLE "{\"answer\": 24, \"numbers\": [3, 3, 8, 8]}"

static void arithmetic_uses_each_number_once(void **state)
{
    static const struct rule_case cases[] = {
        {"type: expression", PUZZLE, " 8/(3-8/3) ", 1},
        {"type: expression", PUZZLE, "8/(3-8/3", 0},
        {"type: expression", PUZZLE, "8/(3-8/3))", 0},
        {"type: expression", PUZZLE, "8*3", 0},
        {"type: expression", PUZZLE, "8*3+8-8", 0},
        {"type: expression", PUZZLE, "8+8+3+3", 0},
        {"type: expression", PUZZLE, "8/(3-8/3) = 24", 0},
        {"type: expression", PUZZLE, "8/(3-8/3)x", 0},
        {"type: expression", PUZZLE, "8/0", 0},
        {"type: expression", PUZZLE, "", 0},
        {"type: expression", "{\"answer\": 1, \"numbers\": [2, 3]}", "-2+3", 1},
        {"type: expression", "{\"answer\": 1, \"numbers\": [2, 3]}", "3--2", 0},
        {"type: expression", "{\"answer\": -1, \"numbers\": [2, 3]}", "2-3", 1},
        {"type: expression", "{\"answer\": 0, \"numbers\": [2, 2]}", "2/(2-2)",
         0},
        {"type: expression", "{\"answer\": 0, \"numbers\": [1]}", "1/0", 0},
        {"type: expression, extract: '<a>(.*?)</a>'", PUZZLE,
         "well <a>8/(3-8/3)</a>", 1},
        {"type: expression, numbers_column: n, answer_column: t",
         "{\"t\": \"5\", \"n\": [2, 3]}", "2+3", 1},
        {"type: expression", "{\"answer\": null, \"numbers\": [1]}", "1", NAN},
        {"type: expression", "{\"answer\": 1, \"numbers\": null}", "1", NAN},
        {"type: expression", "{\"answer\": 1, \"numbers\": [1]}",
         "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
         "1"
         "))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))"
         ")",
         0},
    };
    (void)state;
    CHECK_CASES(cases);
}

static void json_is_checked(void **state)
{
    static const struct rule_case cases[] = {
        {"type: json_valid", NULL, " {\"a\": [1, null]} ", 1},
        {"type: json_valid", NULL, "3", 1},
        {"type: json_valid", NULL, "", 0},
        {"type: json_valid", NULL, "{\"a\": 1} {", 0},
        {"type: json_valid", NULL, "{\"a\": NaN}", 0},
        {"type: json_valid", NULL, "{\"a\": 1, \"a\": 2}", 0},
        {"type: json_valid, keys: [a, b]", NULL, "{\"b\": 1, \"a\": null}", 1},
        {"type: json_valid, keys: [a, b]", NULL, "{\"b\": 1}", 0},
        {"type: json_valid, keys: [a]", NULL, "[\"a\"]", 0},
        {"type: json_valid, extract: '(?s)```json\\n(.*?)```'", NULL,
         "Here:\n```json\n{}\n```", 1},
    };
    (void)state;
    CHECK_CASES(cases);
}

static void formats_have_their_tags(void **state)
{
    static const struct rule_case cases[] = {
        {"type: format", NULL, "<think>a\nb</think> rest", 1},
        {"type: format", NULL, "<think></think>", 1},
        {"type: format", NULL, " <think>a</think>", 0},
        {"type: format", NULL, "<think>a", 0},
        {"type: format", NULL, "a</think>", 0},
        {"type: format", NULL, "<think>a<think>b</think>", 0},
        {"type: format", NULL, "<think>a</think></think>", 0},
        {"type: format", NULL, "", 0},
        {"type: format, tags: [t, a]", NULL, "<t>x</t>\n<a>y</a>", 1},
        {"type: format, tags: [t, a]", NULL, "<t>x</t> so <a>y</a>", 0},
        {"type: format, tags: [t, a]", NULL, "<a>y</a><t>x</t>", 0},
        {"type: format, tags: [t, a]", NULL, "<t>x<a>y</a></t>", 0},
        {"type: format, tags: [t, a]", NULL, "<t>x</t>", 0},
    };
    (void)state;
    CHECK_CASES(cases);
}

/* Samples of these tests have three tokens. */
static void lengths_are_scored_by_shape(void **state)
{
    static const struct rule_case cases[] = {
        {"type: length, shape: overlong, tokens: 4", NULL, "", 0},
        {"type: length, shape: overlong, tokens: 3", NULL, "", 0},
        {"type: length, shape: overlong, tokens: 2", NULL, "", -1},
        {"type: length, shape: overlong, tokens: 4, cache_tokens: 1", NULL, "",
         0},
        {"type: length, shape: overlong, tokens: 4, cache_tokens: 4", NULL, "",
         -0.75},
        {"type: length, shape: overlong, tokens: 3, cache_tokens: 2", NULL, "",
         -1},
        {"type: length, shape: overlong, tokens: 2, cache_tokens: 2", NULL, "",
         -1},
        {"type: length, shape: target, tokens: 3", NULL, "", 1},
        {"type: length, shape: target, tokens: 4", NULL, "", 0.75},
        {"type: length, shape: target, tokens: 2", NULL, "", 0.5},
        {"type: length, shape: target, tokens: 1", NULL, "", -1},
        {"type: length, shape: cosine, tokens: 6", NULL, "", 0.5},
        {"type: length, shape: cosine, tokens: 2", NULL, "", 0},
    };
    (void)state;
    CHECK_CASES(cases);
}

/* Data that a rule cannot use is named with its prompt. */
static void unusable_data_ends_the_run(void **state)
{
    static const struct {
        const char *keys, *columns, *message;
    } cases[] = {
        {"type: exact, name: same", "{\"label\": 1, \"b\": 2}",
         "reward same: the line of prompt 17 has no key \"answer\", only: "
         "label, b (null there would mean no reward)"},
        {"type: number_equal", NULL,
         "reward number_equal: the line of prompt 17 has no key \"answer\", "
         "only: none (null there would mean no reward)"},
        {"type: exact", "{\"answer\": [1]}",
         "reward exact: the line of prompt 17: \"answer\": expected a string, "
         "a number or a boolean, got an array"},
        {"type: contains", "{\"answer\": [{}]}",
         "reward contains: the line of prompt 17: \"answer\": expected a list "
         "of strings, got an object"},
        {"type: number_equal", "{\"answer\": \"none\"}",
         "reward number_equal: the line of prompt 17: \"answer\": expected a "
         "number, or a string that has one, got a string"},
        {"type: expression", "{\"answer\": 1, \"numbers\": [\"1\"]}",
         "reward expression: the line of prompt 17: \"numbers\": expected a "
         "list of 1 to 64 numbers, got an array"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_error err = {.text = ""};
        struct dt_conf *conf = one_function(cases[i].keys);
        struct dt_rewards *rewards = open_rewards(conf, &err);
        struct dt_reward_sample sample = sample_of("1", cases[i].columns);
        double value;
        sample.prompt = 17;
        assert_int_equal(dt_rewards_submit(rewards, 1, &sample, 1, &err), 0);
        assert_int_equal(dt_rewards_collect(rewards, &value, 1, &err), -1);
        assert_string_equal(err.text, cases[i].message);
        assert_int_equal(err.status, EX_DATAERR);
        dt_rewards_close(rewards);
        sample_fini(&sample);
        dt_conf_destroy(conf);
    }
}

/* Columns keep the order of the file; those that run elsewhere are left out. */
static void functions_have_columns_at_their_place(void **state)
{
    struct dt_error err;
    struct dt_conf *conf =
        load_good("reward.functions:\n"
                  "  - {type: length, shape: target, tokens: 3, weight: 2}\n"
                  "  - {type: exact, where: all}\n"
                  "  - {type: contains, texts: [a], weight: -1, name: has_a}\n",
                  "");
    struct dt_rewards *rewards = open_rewards(conf, &err);
    struct dt_reward_sample samples[] = {sample_of("a", NULL),
                                         sample_of("b", NULL)};
    double values[6];
    size_t count;
    const struct dt_reward_column *columns =
        dt_rewards_columns(rewards, &count);
    (void)state;
    assert_int_equal(dt_reward_columns(conf), 3);
    assert_int_equal(count, 2);
    assert_string_equal(columns[0].name, "length");
    assert_string_equal(columns[1].name, "has_a");
    assert_true(columns[0].weight == 2 && columns[1].weight == -1);
    assert_true(columns[0].index == 0 && columns[1].index == 2);
    samples[1].count = 2;
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 2, &err), 0);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 1, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, 3, &err), 0);
    const double wanted[] = {1, 1, 2 / 3.0, 0, 1, 1};
    for (int i = 0; i < 6; i++)
        assert_true(fabs(values[i] - wanted[i]) < 1e-15);
    assert_int_equal(dt_rewards_collect(rewards, values, 3, &err), -1);
    assert_string_equal(err.text,
                        "0 samples were submitted, and 3 are collected");
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_compared),
        cmocka_unit_test(patterns_match_as_a_whole),
        cmocka_unit_test(numbers_are_equal_by_value),
        cmocka_unit_test(arithmetic_uses_each_number_once),
        cmocka_unit_test(json_is_checked),
        cmocka_unit_test(formats_have_their_tags),
        cmocka_unit_test(lengths_are_scored_by_shape),
        cmocka_unit_test(unusable_data_ends_the_run),
        cmocka_unit_test(functions_have_columns_at_their_place),
    };
    dt_log_init(0, DT_LOG_ERROR);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
