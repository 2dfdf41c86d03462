/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_reward.c - reward.functions, with a place for each mistake */
#include "config.h"

#include <limits.h>
#include <sys/stat.h>

#include "tests/unit/conf.h"

static void functions_have_their_keys_and_defaults(void **state)
{
    struct dt_conf *conf = load_good(
        "reward:\n"
        "  functions:\n"
        "    - {type: exact, name: same, weight: -0.5, ignore_case: true}\n"
        "    - type: command\n"
        "      command: [python3, judge.py, '--fast']\n"
        "      channels: {helpful: 1, toxic: -2.5}\n"
        "      config: {device: cuda, k: 3, w: 1e-3, on: true, no: ,\n"
        "               list: [1, \"2\", \"a\\\"\\n\"], text: '7'}\n"
        "      timeout_s: 0.5\n"
        "      on_error: nan\n"
        "      where: all\n",
        "");
    const struct dt_conf_reward *same = &conf->reward.functions[0];
    const struct dt_conf_reward *judge = &conf->reward.functions[1];
    (void)state;
    assert_int_equal(conf->reward.count, 2);
    assert_false(conf->trains);
    assert_string_equal(same->name, "same");
    assert_true(same->weight == -0.5 && same->trim && same->ignore_case);
    assert_string_equal(same->answer_column, "answer");
    assert_int_equal(same->where, DT_CONF_RANK0);
    assert_string_equal(judge->name, "command");
    assert_int_equal(judge->command.count, 3);
    assert_string_equal(judge->command.text[2], "--fast");
    assert_string_equal(judge->channels.text[1], "toxic");
    assert_true(judge->channels.weight[1] == -2.5);
    assert_true(judge->timeout_s == 0.5 && judge->max_failed == 0.05);
    assert_int_equal(judge->retries, 1);
    assert_int_equal(judge->processes, 1);
    assert_int_equal(judge->batch_size, 0);
    assert_true(judge->nan_on_error == 1 && !judge->gpu);
    assert_int_equal(judge->where, DT_CONF_ALL);
    assert_string_equal(
        judge->config,
        "{\"device\": \"cuda\", \"k\": 3, \"w\": 0.001, \"on\": true, "
        "\"no\": null, \"list\": [1, \"2\", \"a\\\"\\u000a\"], "
        "\"text\": \"7\"}");
    assert_int_equal(judge->place.line, 4);
    dt_conf_destroy(conf);
}

/* A server may be started anew while a run goes on; a program may not. */
static void a_server_is_asked_more_often_unless_told(void **state)
{
    static const struct {
        const char *keys;
        long retries;
    } cases[] = {
        {"", 3},
        {", retries: null", 3},
        {", retries: 0", 0},
        {", retries: 1", 1}, /* what other types have by default */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text),
                 "reward.functions: [{type: http, url: ['http://a']%s}]\n",
                 cases[i].keys);
        struct dt_conf *conf = load_good(text, "");
        assert_int_equal(conf->reward.functions[0].retries, cases[i].retries);
        dt_conf_destroy(conf);
    }
}

/* Reading the dump gives the same functions, whatever is in their texts. */
static void a_dump_reads_back(void **state)
{
    static const char text[] =
        "reward.functions:\n"
        "  - {type: regex, pattern: '(?s).*\"\\d+\" \\\\.*'}\n"
        "  - {type: format, tags: [think, answer]}\n"
        "  - {type: command, command: [true], config: {a: [{b: "
        "\"\\u0001\"}]}}\n"
        "  - {type: length, shape: overlong, tokens: 20, cache_tokens: 5}\n";
    char *dump[2] = {NULL, NULL};
    size_t bytes;
    const char *now = text;
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct dt_conf *conf = load_good(now, "");
        FILE *out = open_memstream(&dump[i], &bytes);
        dt_conf_dump(conf, out);
        fclose(out);
        assert_int_equal(conf->reward.count, 4);
        assert_string_equal(conf->reward.functions[0].pattern,
                            "(?s).*\"\\d+\" \\\\.*");
        assert_string_equal(conf->reward.functions[2].config,
                            "{\"a\": [{\"b\": \"\\u0001\"}]}");
        dt_conf_destroy(conf);
        now = dump[0];
    }
    const char *first = strstr(dump[0], "functions: [");
    const char *second = strstr(dump[1], "functions: [");
    assert_non_null(first);
    assert_memory_equal(first, second, strcspn(first, "#"));
    free(dump[0]);
    free(dump[1]);
}

static const struct broken broken[] = {
    {"reward.functions: exact\n",
     "t.yaml:1:19: reward.functions: expected a list of sections, each with a "
     "type, got \"exact\"\n"},
    {"reward: {functions: []}\n",
     "t.yaml:1:21: reward.functions: expected a list of sections, each with a "
     "type, got a list\n"},
    {"reward.functions: [exact]\n",
     "t.yaml:1:20: reward.functions: expected a section such as {type: "
     "exact}\n"},
    {"reward.functions: [{name: a}]\n",
     "t.yaml:1:20: reward.functions.type: required: what kind of function it "
     "is\n"},
    {"reward.functions: [{type: exactly}]\n",
     "t.yaml:1:27: reward.functions.type: expected one of exact, contains, "
     "regex, number_equal, expression, json_valid, format, length, command, "
     "model, http, got \"exactly\"\n"},
    {"reward.functions: [{type: library, path: ./judge.so, in_process: "
     "true}]\n",
     "t.yaml:1:27: reward.functions.type: shared objects are not loaded: make "
     "it a program that answers lines of JSON, as "
     "contrib/rewards/length_reward.c does, and write type: command, command: "
     "[./PROGRAM]\n"},
    {"reward.functions: [{type: model, path: /dev/null}, {type: model,\n"
     "                    path: /no, where: rank0, name: b}]\n",
     "t.yaml:1:40: reward.functions.path: /dev/null: not a directory\n"
     "t.yaml:2:27: reward.functions.path: /no: No such file or directory\n"
     "t.yaml:2:32: reward.functions.where: a function of type model does not "
     "use it\n"},
    {"reward.functions:\n"
     "  - {type: exact, weigth: 2}\n"
     "  - {type: exact, name: b, frobnicate: 2, weight: heavy}\n",
     "t.yaml:2:19: reward.functions.weigth: unknown key; did you mean "
     "weight?\n"
     "t.yaml:3:28: reward.functions.frobnicate: unknown key\n"
     "t.yaml:3:51: reward.functions.weight: expected a number, got "
     "\"heavy\"\n"},
    {"reward.functions: [{type: exact, pattern: a}, {type: regex}]\n",
     "t.yaml:1:34: reward.functions.pattern: a function of type exact does not "
     "use it\n"
     "t.yaml:1:47: reward.functions.pattern: required for type regex\n"},
    {"reward.functions: [{type: regex, pattern: 'a(b'}]\n",
     "t.yaml:1:43: reward.functions.pattern: at byte 4 of the regular "
     "expression: missing closing parenthesis\n"},
    {"reward.functions: [{type: exact, extract: '['}]\n",
     "t.yaml:1:43: reward.functions.extract: at byte 2 of the regular "
     "expression: missing terminating ] for character class\n"},
    {"reward.functions: [{type: exact}, {type: exact, weight: 2}]\n",
     "t.yaml:1:35: reward.functions.name: \"exact\" is the function in line 1, "
     "too: give each a name of its own\n"},
    {"reward.functions: [{type: command, command: ./judge}]\n",
     "t.yaml:1:45: reward.functions.command: expected a list of words, got "
     "\"./judge\"\n"},
    {"reward.functions: [{type: command, command: [/no/judge, -x]}]\n",
     "t.yaml:1:46: reward.functions.command: /no/judge: cannot be executed: it "
     "must exist and have the permission\n"},
    {"reward.functions: [{type: command, command: [a], timeout_s: 0,\n"
     "                    retries: 11, processes: 0, max_failed: 1.5,\n"
     "                    on_error: ignore, batch_size: }]\n",
     "t.yaml:1:61: reward.functions.timeout_s: expected a number in (0, 86400] "
     "(seconds), got 0\n"
     "t.yaml:2:30: reward.functions.retries: expected an integer from 0 to 10, "
     "got 11\n"
     "t.yaml:2:45: reward.functions.processes: expected an integer from 1 to "
     "256, got 0\n"
     "t.yaml:2:60: reward.functions.max_failed: expected a number in [0, 1], "
     "got 1.5\n"
     "t.yaml:3:31: reward.functions.on_error: expected one of abort, nan, got "
     "\"ignore\"\n"
     "t.yaml:3:39: reward.functions.batch_size: no value: write null for the "
     "default\n"},
    {"reward.functions: [{type: command, command: [a], channels: {a: b}}]\n",
     "t.yaml:1:64: reward.functions.channels: a: expected a number\n"},
    {"reward.functions: [{type: command, command: [a], channels: [a],\n"
     "                    config: 3}]\n",
     "t.yaml:1:60: reward.functions.channels: expected a section of names with "
     "a number each, got a list\n"
     "t.yaml:2:29: reward.functions.config: expected a section, got 3\n"},
    {"reward.functions: [{type: http, url: [http://a, 'b:80']}]\n",
     "t.yaml:1:38: reward.functions.url: b:80: expected http:// or "
     "https://\n"},
    {"reward.functions: [{type: length, shape: overlong, tokens: 4,\n"
     "                    cache_tokens: 5}]\n",
     "t.yaml:2:35: reward.functions.cache_tokens: 5 is more than tokens, 4\n"},
    {LEAST "reward.functions: [{type: exact}]\n",
     "t.yaml:5:19: reward.functions: only algorithms ppo and grpo use it\n"},
    {"custom_reward_function: {path: a.py}\n",
     "t.yaml:1:1: custom_reward_function: not supported yet: it needs a "
     "program "
     "of its own: reward.functions with type command, for which "
     "contrib/rewards has an example\n"},
};

static void every_mistake_has_its_place(void **state)
{
    (void)state;
    CHECK_ALL(broken);
}

/* Metrics have room for so many; a function without channels is one. */
static void the_number_of_rewards_has_a_limit(void **state)
{
    char text[2048] = "algorithm: grpo\n"
                      "data.train: train.txt\n"
                      "model.n_embd: 96\n"
                      "training.per_device_batch_size: 2\n"
                      "reward.functions: [{type: exact}, {type: command, "
                      "command: [a], channels: {";
    const struct broken more[] = {
        {text, "t.yaml:5:19: reward.functions: 33 rewards of a completion, "
               "channels counted: at most 32\n"}};
    struct dt_conf *conf;
    (void)state;
    for (int i = 1; i < DT_CONF_REWARDS_MAX; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sc%d: 1",
                 i > 1 ? ", " : "", i);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "}}]\n");
    conf = load_good(text, "");
    assert_int_equal(conf->reward.count, 2);
    dt_conf_destroy(conf);
    strcpy(strstr(text, "}}]"), ", more: 2}}]\n");
    CHECK_ALL(more);
}

static void secrets_come_from_a_file_that_others_cannot_read(void **state)
{
#define FROM(from)                                                             \
    "reward.functions: [{type: http, url: ['http://a'], secrets_from: " from   \
    "}]\n"
#define AT_FROM "t.yaml:1:66: reward.functions.secrets_from: "
    char path[PATH_MAX], missing[PATH_MAX + 128], bad[PATH_MAX + 128];
    char open[2 * PATH_MAX + 128];
    const struct broken cases[] = {
        {FROM("no"), missing},
        {FROM("bad"), bad},
        {FROM("open"), open},
        {FROM("'env:A,'"), AT_FROM "expected env: and names of variables, such "
                                   "as env:JUDGE_TOKEN,OTHER\n"},
    };
    (void)state;
    write_file("good", "# a comment\n\nA=b c=d\r\nX_1=\n");
    write_file("bad", "A=b\n\nhidden\n");
    write_file("open", "A=b\n");
    assert_int_equal(
        chmod("good", 0600) | chmod("bad", 0600) | chmod("open", 0640), 0);
    struct dt_conf *conf = load_good(FROM("good"), "");
    char **secrets = conf->reward.functions[0].secrets;
    assert_string_equal(secrets[0], "A=b c=d");
    assert_string_equal(secrets[1], "X_1=");
    assert_null(secrets[2]);
    dt_conf_destroy(conf);
    assert_non_null(getcwd(path, sizeof(path)));
    sprintf(missing, AT_FROM "%s/no: No such file or directory\n", path);
    sprintf(bad, AT_FROM "%s/bad:3: expected NAME=value\n", path);
    sprintf(open,
            AT_FROM "%s/open: others than its owner may use it: chmod 600 "
                    "%s/open\n",
            path, path);
    CHECK_ALL(cases);
    unlink("good");
    unlink("bad");
    unlink("open");
}

/* Another password gives the same result, and checkpoints keep what is here. */
static void results_have_no_secrets(void **state)
{
    static const char *const texts[] = {
        "reward.functions: [{type: command, command: [a, --token, b1], config: "
        "{api_key: c1}}]\n",
        "reward.functions: [{type: command, command: [a, --token, b2], config: "
        "{api_key: c2}}]\n"};
    uint64_t hash[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        char *text = NULL;
        size_t bytes;
        struct dt_conf *conf = load_good(texts[i], "");
        FILE *out = open_memstream(&text, &bytes);
        dt_conf_print_results(conf, out);
        fclose(out);
        hash[i] = conf->fingerprint;
        assert_non_null(strstr(text, "command: [\"a\", \"--token\", "
                                     "\"(removed)\"], on_error: abort, config: "
                                     "{\"api_key\": \"(removed)\"}}]"));
        free(text);
        dt_conf_destroy(conf);
    }
    assert_true(hash[0] == hash[1]);
}

/* What may change without another result is not in the fingerprint. */
static void results_leave_out_how_programs_run(void **state)
{
    char *text = NULL;
    size_t bytes;
    struct dt_conf *conf = load_good(
        "reward.functions: [{type: command, command: [a], timeout_s: 3}]\n",
        "");
    FILE *out = open_memstream(&text, &bytes);
    (void)state;
    dt_conf_rewards_print(&conf->reward, true, out);
    fclose(out);
    assert_string_equal(
        text,
        "[{type: command, name: \"command\", weight: 1, command: [\"a\"], "
        "on_error: abort}]");
    free(text);
    dt_conf_destroy(conf);
}

static void keys_are_explained(void **state)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    (void)state;
    assert_int_equal(dt_conf_explain("reward.functions.after", out, NULL), 0);
    fflush(out);
    assert_non_null(
        strstr(text, "reward.functions.after\n    Text whose last"));
    assert_non_null(strstr(text, "for type number_equal.\n"));
    assert_int_equal(dt_conf_explain("reward.functions", out, NULL), 0);
    fclose(out);
    assert_non_null(strstr(text, "reward.functions.timeout_s\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_have_their_keys_and_defaults),
        cmocka_unit_test(a_server_is_asked_more_often_unless_told),
        cmocka_unit_test(a_dump_reads_back),
        cmocka_unit_test(every_mistake_has_its_place),
        cmocka_unit_test(the_number_of_rewards_has_a_limit),
        cmocka_unit_test(secrets_come_from_a_file_that_others_cannot_read),
        cmocka_unit_test(results_have_no_secrets),
        cmocka_unit_test(results_leave_out_how_programs_run),
        cmocka_unit_test(keys_are_explained),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}
