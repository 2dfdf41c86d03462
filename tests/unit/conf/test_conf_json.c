/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_json.c - how the text of a DeepSpeed file is read */
#include "config.h"

#include <sys/stat.h>

#include "tests/unit/conf_pair.h"

static const struct {
    const char *json, *problem;
} broken_json[] = {
    {"", "1:1: the file is empty"},
    {"// only this\n", "2:1: the file is empty"},
    {"[1, 2]", "1:1: expected { and keys"},
    {"{\"a\": 1", "1:8: JSON: expected , or }, got the end of the file"},
    {"{\"a\": 1 \"b\": 2}", "1:9: JSON: expected , or }, got \""},
    {"{\"wandb\": [1 2]}", "1:14: JSON: expected , or ], got 2"},
    {"{a: 1}", "1:2: JSON: expected a key in double quotes or }, got a"},
    {"{\"a\" 1}", "1:6: JSON: expected : after a key, got 1"},
    {"{\"a\": True}", "1:7: JSON: expected true, got True"},
    {"{\"a\": False}", "1:7: JSON: expected false, got False"},
    {"{\"a\": None}", "1:7: JSON: expected null, got None"},
    {"{\"a\": 'x'}", "1:7: JSON: expected a string in double quotes, got 'x'"},
    {"{\"a\": 0x10}",
     "1:7: JSON: expected a value: a string in double quotes, a number, true, "
     "false, null, [ or {, got 0x10"},
    {"{\"a\": }",
     "1:7: JSON: expected a value: a string in double quotes, a number, true, "
     "false, null, [ or {, got }"},
    {"{\"a\": 1} {", "1:10: JSON: expected the end of the file, got {"},
    {"{\"a\": \"x\n\"}", "1:7: JSON: a string begins here and does not end"},
    {"{\"a\": \"x", "1:7: JSON: a string begins here and does not end"},
    {"{\"a\": \"\\x41\"}",
     "1:8: JSON: expected an escape such as \\n, \\\" or \\u00e4, got \\x41"},
    {"{\"a\": \"\\ud800!\"}",
     "1:14: JSON: expected an escape such as \\n, \\\" or \\u00e4, got !"},
    {"{\"a\": \"\\u0000\"}",
     "1:14: JSON: expected an escape such as \\n, \\\" or \\u00e4, got \""},
    {"{\"a\": \"\xc3\xa4\xff\"}", "1:9: not UTF-8"},
    {"{\"a\": \"\xed\xa0\x80\"}", "1:8: not UTF-8"},
    {"{\"a\": \"\xe0\x9f\xbf\"}", "1:8: not UTF-8"},
    {"{\"a\": \"\xf0\x8f\xbf\xbf\"}", "1:8: not UTF-8"},
    {"{\"a\": \"\xf4\x90\x80\x80\"}", "1:8: not UTF-8"},
    {"{\"a\": \"\x01\"}", "1:8: control character 0x01 in a string"},
    {"{\"a\": 1} /* x", "1:10: JSON: a comment begins here and does not end"},
    {"{\"a\": {\"b\": 1,\n\"b\": 2}}",
     "2:1: b: given twice in one section, first in line 1"},
    {"{\"wandb\": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}",
     "1:26: nested deeper than 16 levels"},
};

static void broken_json_is_refused_at_its_place(void **state)
{
    int bad = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(broken_json) / sizeof(broken_json[0]); i++) {
        char wanted[256];
        const struct pair pair = {"deepspeed: ds.json\n", broken_json[i].json,
                                  wanted, ""};
        char *problems, *warnings;
        snprintf(wanted, sizeof(wanted), "ds.json:%s\n",
                 broken_json[i].problem);
        struct dt_conf *conf = load_pair(&pair, &problems, &warnings);
        assert_null(conf);
        if (strcmp(problems, wanted) != 0) {
            fprintf(stderr, "%s\nwanted:\n%s\ngot:\n%s\n", pair.json, wanted,
                    problems);
            bad++;
        }
        free(problems);
        free(warnings);
    }
    assert_int_equal(bad, 0);
}

static void json_is_read_as_deepspeed_reads_it(void **state)
{
    struct dt_conf *conf = load_good_pair(
        "deepspeed: ds.json\n",
        "\xef\xbb\xbf# one\n{// two\n/* three\n * */ " BF16 ", # \"bf16\": 3\n"
        "\"zero_optimization\": {\"stage\": 2e0,\n"
        " \"offload_optimizer\": {\"device\": \"n\\u0076me\",\n"
        "  \"nvme_path\": "
        "\"/\\u00e4\\ud83d\\ude00\xf0\x9f\x98\x80\\/\\\"\\\\x\",},},\n"
        "\"optimizer\": {\"params\": {\"betas\": [0.9, 0.95,],}},}\n// end");
    (void)state;
    assert_int_equal(conf->distributed.strategy, DT_CONF_ZERO2);
    assert_string_equal(conf->distributed.offload_optimizer.path,
                        "/\xc3\xa4\xf0\x9f\x98\x80\xf0\x9f\x98\x80/\"\\x");
    assert_true(conf->optimizer.beta2 == 0.95);
    dt_conf_destroy(conf);
}

static void a_file_that_cannot_be_read_is_named_in_the_yaml(void **state)
{
    static const struct pair pairs[] = {
        {"deepspeed: sub/none.json\n", "", "", ""},
        {"deepspeed: sub\n", "", "", ""},
    };
    static const char *const ends[] = {
        "/sub/none.json: cannot open: No such file or directory\n",
        "/sub: not a regular file\n",
    };
    (void)state;
    assert_int_equal(mkdir("sub", 0700), 0);
    for (size_t i = 0; i < 2; i++) {
        char *problems, *warnings;
        assert_null(load_pair(&pairs[i], &problems, &warnings));
        assert_int_equal(
            strncmp(problems,
                    "t.yaml:5:12: distributed.deepspeed_config: ", 43),
            0);
        assert_non_null(strstr(problems, ends[i]));
        free(problems);
        free(warnings);
    }
}

static void messages_name_the_file_as_the_yaml_was_named(void **state)
{
    struct dt_conf_problems problems, warnings;
    const char text[] = LEAST "deepspeed: ds.json\n";
    (void)state;
    write_file("ds.json", "{\"bf16\": {\"enabled\": 3}}");
    assert_null(dt_conf_load_text("./t.yaml", text, strlen(text), &problems,
                                  &warnings));
    assert_int_equal(problems.count, 1);
    assert_string_equal(problems.text[0], "./ds.json:1:22: bf16.enabled: "
                                          "expected true or false, got 3");
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_json_is_refused_at_its_place),
        cmocka_unit_test(json_is_read_as_deepspeed_reads_it),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named_in_the_yaml),
        cmocka_unit_test(messages_name_the_file_as_the_yaml_was_named),
    };
    return cmocka_run_group_tests_name("conf json", tests, enter_directory,
                                       leave_pair);
}
