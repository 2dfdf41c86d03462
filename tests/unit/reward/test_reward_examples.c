/* SPDX-License-Identifier: Apache-2.0 */
/* test_reward_examples.c - the reward programs of contrib/rewards */
#include "config.h"

#include "tests/unit/reward/reward.h"

#include "base/log.h"

static char source[512]; /* root of the sources */
static char length[512]; /* length_reward.c, as a program */

static bool has_python(void)
{
    return system("python3 -c 'import json' 2>/dev/null") == 0;
}

/* Scores two completions of 3 tokens, and one of none. */
static void the_program_in_c_prefers_short_completions(void **state)
{
    struct dt_reward_sample samples[3];
    struct dt_error err = {.text = ""};
    double values[3];
    char keys[1024];
    (void)state;
    snprintf(keys, sizeof(keys), "type: command, command: [%s]", length);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    assert_string_equal(err.text, "");
    for (int i = 0; i < 3; i++)
        samples[i] = sample_of(i ? "abc" : "a\0c", "{}");
    samples[0].completion_bytes = 3;
    samples[2].count = 0;
    for (int step = 1; step <= 2; step++) {
        assert_int_equal(dt_rewards_submit(rewards, step, samples, 3, &err), 0);
        assert_int_equal(dt_rewards_collect(rewards, values, 3, &err), 0);
        assert_true(values[0] == 0.25 && values[1] == 0.25 && values[2] == 1);
    }
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    for (int i = 0; i < 3; i++)
        sample_fini(&samples[i]);
}

static void the_program_in_python_judges_numbers(void **state)
{
    static const struct {
        const char *columns, *completion;
        double reward;
    } cases[] = {
        {"{\"answer\": 42}", "so it is 42.", 1},
        {"{\"answer\": \"6*7 = #### 42\"}", "#### 42", 1},
        {"{\"answer\": \"0.5\"}", "Thus \\boxed{\\frac{1}{2}}.", 1},
        {"{\"answer\": \"1/2\"}", "50%", 1},
        {"{\"answer\": \"1234.5\"}", "$1,234.50", 1},
        {"{\"answer\": 42}", "\\boxed{41} or 42", 0},
        {"{\"answer\": -3}", "-3", 1},
        {"{\"answer\": 3}", "none", 0},
        {"{\"answer\": 3}", "", 0},
        {"{\"answer\": null}", "3", NAN},
    };
    enum { CASES = sizeof(cases) / sizeof(*cases) };
    struct dt_reward_sample samples[CASES];
    struct dt_error err = {.text = ""};
    double values[CASES];
    char keys[1024];
    (void)state;
    if (!has_python())
        skip();
    snprintf(keys, sizeof(keys),
             "type: command, command: [python3, %s/contrib/rewards/"
             "math_reward.py]",
             source);
    struct dt_conf *conf = one_function(keys);
    struct dt_rewards *rewards = open_rewards(conf, &err);
    assert_string_equal(err.text, "");
    for (int i = 0; i < CASES; i++)
        samples[i] = sample_of(cases[i].completion, cases[i].columns);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, CASES, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, CASES, &err), 0);
    for (int i = 0; i < CASES; i++) {
        bool same = isnan(cases[i].reward)
                        ? isnan(values[i])
                        : fabs(values[i] - cases[i].reward) < 1e-12;
        if (!same)
            fail_msg("%s: got %g", cases[i].completion, values[i]);
    }
    sample_fini(&samples[0]);
    samples[0].columns = json_loads("{\"answer\": \"x\"}", 0, NULL);
    assert_int_equal(dt_rewards_submit(rewards, 1, samples, 1, &err), 0);
    assert_int_equal(dt_rewards_collect(rewards, values, 1, &err), -1);
    assert_string_equal(err.text, "reward command: it says: ValueError: prompt "
                                  "0: the answer has no number");
    dt_rewards_close(rewards);
    dt_conf_destroy(conf);
    for (int i = 0; i < CASES; i++)
        sample_fini(&samples[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_in_c_prefers_short_completions),
        cmocka_unit_test(the_program_in_python_judges_numbers),
    };
    const char *root = getenv("DT_SRCDIR");
    if (!realpath(root ? root : ".", source))
        return 1;
    const char *build = getenv("DT_BUILDDIR");
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/unit/reward/length_reward",
             build ? build : ".");
    if (!realpath(path, length))
        return 1;
    dt_log_init(0, DT_LOG_ERROR);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
