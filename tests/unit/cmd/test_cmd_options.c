/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_options.c - a table of options: values, errors and --help */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sysexits.h>

#include <cmocka.h>

#include "cmd/cmd_impl.h"
#include "tests/unit/command.h"
#include "tests/unit/scratch.h"

#define HINT " (see disttrain sample --help)\n"

struct values {
    bool loud, calm;
    const char *to;
    int ranks, form;
    unsigned dtype;
    long steps;
    size_t slots;
    double share;
};

static const struct dt_option table[] = {
    {"loud", NULL, "a flag", DT_INTO(struct values, loud), .excludes = "calm"},
    {"calm", NULL, "another one", DT_INTO(struct values, calm),
     .needs = "output", .excludes = "ranks", .because = "ranks are loud"},
    {"output", "PATH", "where to", DT_INTO(struct values, to), .letter = 'o'},
    {"ranks", "N", "a number", DT_INTO(struct values, ranks), .min = 2,
     .max = 4},
    {"dtype", DT_CMD_DTYPES,
     "the longest name and argument that have their text beside them",
     DT_INTO(struct values, dtype)},
    {"form", "a|b", "a word", DT_INTO(struct values, form)},
    {"steps", "N", "another number", DT_INTO(struct values, steps), .min = -3,
     .max = 1e15},
    {"slots", "=N",
     "the last one of its line stands at column 79 ________ "
     "and the next line begins with a word of one letter",
     DT_INTO(struct values, slots), .max = 1e15},
    {"share-of-the-whole", "SHARE", "one column more than beside the name",
     DT_INTO(struct values, share), .max = 1},
    {"gone", "X", "--gone is gone: use --form", .kind = DT_OPTION_GONE},
    {0},
};

static const struct dt_cmd_line line = {"sample", "usage: disttrain sample\n",
                                        table, "Notes.\n"};

static struct values values;

static int sample(int argc, char **argv)
{
    values = (struct values){0};
    int status = dt_cmd_parse(&line, argc, argv, &values);
    return status == DT_CMD_RUN ? 0 : status;
}

/* Parses words in this process, so that their values can be seen. */
static int parse(const char *words)
{
    static char text[256];
    char *argv[32] = {"sample"}, *rest = text;
    int argc = 1;
    snprintf(text, sizeof(text), "%s", words);
    while ((argv[argc] = strtok_r(rest, " ", &rest)))
        argc++;
    return sample(argc, argv);
}

static int enter(void **state)
{
    (void)state;
    return chdir(scratch_path(""));
}

static void values_are_stored_by_the_type_of_their_member(void **state)
{
    (void)state;
    assert_int_equal(parse("a --loud --ranks 4 b --dtype BF16 --form=B "
                           "--steps=-3 --slots 1000000000000000 "
                           "--share-of-the-whole 0.5 -o x -- --calm"),
                     0);
    assert_true(values.loud && !values.calm);
    assert_int_equal(values.ranks, 4);
    assert_int_equal(values.dtype, DT_BF16);
    assert_int_equal(values.form, 1);
    assert_int_equal(values.steps, -3);
    assert_int_equal(values.slots, 1000000000000000);
    assert_true(values.share == 0.5);
    assert_string_equal(values.to, "x");
    assert_int_equal(parse("--output=y --ranks 2 --share-of-the-whole 1"), 0);
    assert_string_equal(values.to, "y");
    assert_int_equal(values.ranks, 2);
    assert_int_equal(parse("-oz --calm"), 0);
    assert_string_equal(values.to, "z");
}

static void mistakes_are_named(void **state)
{
    static const char *const cases[][2] = {
        {"--ranks 1", "--ranks: expected an integer from 2 to 4, got '1'"},
        {"--ranks 5", "--ranks: expected an integer from 2 to 4, got '5'"},
        {"--ranks 2.5", "--ranks: expected an integer from 2 to 4, got '2.5'"},
        {"--ranks=", "--ranks: expected an integer from 2 to 4, got ''"},
        {"--ranks nan", "--ranks: expected an integer from 2 to 4, got 'nan'"},
        {"--share-of-the-whole 1.01",
         "--share-of-the-whole: expected a number from 0 to 1, got '1.01'"},
        {"--share-of-the-whole -0.01",
         "--share-of-the-whole: expected a number from 0 to 1, got '-0.01'"},
        {"--dtype fp3", "--dtype: expected fp32, bf16 or fp16, got 'fp3'"},
        {"--dtype fp322", "--dtype: expected fp32, bf16 or fp16, got 'fp322'"},
        {"--form c", "--form: expected a or b, got 'c'"},
        {"-o", "'-o' needs a value"},
        {"--loud=1", "'--loud=1': --loud takes no value"},
        {"--help=1", "'--help=1': --help takes no value"},
        {"--hlep", "unknown option '--hlep'; did you mean --help?"},
        {"--gone=1", "--gone is gone: use --form"},
        {"--gnoe", "unknown option '--gnoe'"},
        {"-vh", "unknown option '-v'"},
        {"--calm", "--calm needs --output"},
        {"--calm --loud -o x", "--loud or --calm, not both"},
        {"--calm -o x --ranks 2",
         "--calm or --ranks, not both: ranks are loud"},
    };
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), "disttrain sample: %s" HINT, cases[i][1]);
        assert_int_equal(run_words(sample, cases[i][0]), EX_USAGE);
        assert_string_equal(errors, text);
        assert_string_equal(out, "");
    }
}

static void help_is_the_table_in_columns(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_words(sample, i ? "-h" : "--loud --help"), 0);
        assert_string_equal(errors, "");
        assert_string_equal(
            out,
            "usage: disttrain sample\n\n"
            "  --loud                  a flag\n"
            "  --calm                  another one\n"
            "  -o, --output PATH       where to\n"
            "  --ranks N               a number\n"
            "  --dtype fp32|bf16|fp16  the longest name and argument that have "
            "their text\n"
            "                          beside them\n"
            "  --form a|b              a word\n"
            "  --steps N               another number\n"
            "  --slots=N               the last one of its line stands at "
            "column 79 ________\n"
            "                          and the next line begins with a word of "
            "one letter\n"
            "  --share-of-the-whole SHARE\n"
            "                          one column more than beside the name\n"
            "  --help                  this text\n\n"
            "Notes.\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_stored_by_the_type_of_their_member),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(help_is_the_table_in_columns),
    };
    return cmocka_run_group_tests_name("cmd options", tests, enter, NULL);
}
