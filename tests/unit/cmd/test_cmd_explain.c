/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_explain.c - what `disttrain check --explain` prints of a key */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "tests/unit/command.h"
#include "tests/unit/conf.h"

static int explain(const char *key)
{
    char *argv[] = {"check", "--explain", (char *)key, NULL};
    return run_command(dt_cmd_check, 3, argv);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void a_key_has_meaning_values_default_and_other_names(void **state)
{
    static const char lr[] = "optimizer.lr\n"
                             "    Learning rate; the default is 1e-4 for "
                             "algorithm rm, 1e-6 for dpo and grpo,\n"
                             "    3e-6 for ppo.\n"
                             "    A number > 0; default 2e-5.\n"
                             "    Also: lr, learning_rate, "
                             "optimizer.params.lr.\n";
    (void)state;
    assert_int_equal(explain("optimizer.lr"), 0);
    assert_string_equal(out, lr);
    assert_int_equal(explain("training.learning_rate"), 0);
    assert_string_equal(out, lr);
    assert_int_equal(explain("launch.command"), 0);
    assert_string_equal(out, "launch.command\n"
                             "    Program and arguments that every rank runs "
                             "instead of training.\n"
                             "    A list of words.\n");
    assert_string_equal(errors, "");
}

static void every_name_that_a_file_may_have_is_known(void **state)
{
    (void)state;
    assert_int_equal(explain("bf16"), 0);
    assert_true(begins(out, "bf16: true means precision.compute: bf16\n\n"
                            "precision.compute\n    "));
    assert_int_equal(explain("logging.wandb"), 0);
    assert_int_equal(explain("zero_optimization.overlap_comm"), 0);
    assert_string_equal(out, "zero_optimization.overlap_comm (DeepSpeed)\n"
                             "    No effect: every unit is reduced while the "
                             "next one computes.\n");
    assert_int_equal(explain("distributed"), 0);
    assert_true(begins(out, "distributed.strategy\n    State "));
    assert_int_equal(explain("env"), 0);
    assert_true(begins(out, "env\n    Variables "));
}

static void a_section_lists_its_keys(void **state)
{
    (void)state;
    assert_int_equal(explain("checkpoint"), 0);
    assert_true(begins(out, "checkpoint.strategy\n    "));
    assert_non_null(strstr(out, "\ncheckpoint.max_shard_size\n    "));
    assert_null(strstr(out, "default"));
    assert_non_null(strstr(out, "\ncheckpoint.on_signal\n"
                                "    Not supported yet: it needs a choice of "
                                "signals (those of launch.signal\n"
                                "    always save).\n"));
    assert_int_equal(explain("dataloader"), 0);
    assert_non_null(strstr(out, "data.num_workers\n"));
    assert_null(strstr(out, "data.train\n"));
}

static void a_deepspeed_file_is_explained(void **state)
{
    (void)state;
    write_file("ds.json", "{\"bf16\": {\"enabled\": true}}\n");
    assert_int_equal(explain("ds.json"), 0);
    assert_string_equal(out, "ds.json:1:22: bf16.enabled: becomes "
                             "precision.compute: bf16\n");
    write_file("ds.json", "{\"amp\": {\"enabled\": true}}\n");
    assert_int_equal(explain("ds.json"), EX_CONFIG);
    assert_string_equal(errors, "disttrain check: ds.json: has keys that "
                                "cannot be used\n");
    assert_int_equal(unlink("ds.json"), 0);
    assert_int_equal(explain("ds.json"), EX_NOINPUT);
    assert_string_equal(errors, "disttrain check: ds.json: cannot open: No "
                                "such file or directory\n");
}

#define HINT " (see disttrain check --help)\n"

static void a_wrong_key_gets_the_nearest_one(void **state)
{
    (void)state;
    assert_int_equal(explain("optimizr.lr"), EX_USAGE);
    assert_string_equal(errors, "disttrain check: --explain optimizr.lr: "
                                "unknown key; did you mean optimizer.lr?" HINT);
    assert_int_equal(explain("sceduler"), EX_USAGE);
    assert_string_equal(errors, "disttrain check: --explain sceduler: unknown "
                                "key; did you mean scheduler?" HINT);
    assert_string_equal(out, "");
}

#define LAUNCH "launch: {nodes: 2, ntasks_per_node: 2}\n"

/* What is printed after the meaning of a key. */
static const char *value_of(const char *key, const char *lines)
{
    char args[128], text[512];
    snprintf(text, sizeof(text), LEAST "%s", lines);
    write_file("t.yaml", text);
    snprintf(args, sizeof(args), "--explain %s t.yaml", key);
    if (run_words(dt_cmd_check, args) != 0)
        fail_msg("%s", errors);
    return strstr(out, "\n\n") + 2;
}

static void a_key_has_its_value_in_a_file(void **state)
{
    static const char why[] =
        "t.yaml: distributed.strategy: auto  # default\n"
        "t.yaml: strategy: ddp (auto: fits, and no other that does is "
        "predicted to be more than 3 % faster)\n";
    (void)state;
    assert_string_equal(value_of("optimizer.lr", ""),
                        "t.yaml: optimizer.lr: 2e-05  # default\n");
    assert_string_equal(value_of("optimizer.lr", "lr: 0.5\n"),
                        "t.yaml: optimizer.lr: 0.5\n");
    assert_string_equal(value_of("distributed.strategy", LAUNCH), why);
    assert_string_equal(value_of("distributed.strategy", ""),
                        "t.yaml: distributed.strategy: auto  # default\n");
    assert_string_equal(
        value_of("distributed.strategy", LAUNCH "zero_stage: 1\n"),
        "t.yaml: distributed.strategy: zero1\n");
    write_file("rates", "like: cpu\nblocks_fp32: 1\n");
    write_file("t.yaml", LEAST LAUNCH "distributed.rates: rates\n");
    assert_int_equal(
        run_words(dt_cmd_check, "--explain distributed.strategy t.yaml"),
        EX_DATAERR);
    assert_non_null(strstr(errors, "/rates:2:"));
    unlink("rates");
    assert_int_equal(run_words(dt_cmd_check, "--explain lr t.yaml"), EX_USAGE);
    assert_string_equal(errors,
                        "disttrain check: --explain lr t.yaml: expected the "
                        "full name of a key that this file's run looks "
                        "at" HINT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_meaning_values_default_and_other_names),
        cmocka_unit_test(every_name_that_a_file_may_have_is_known),
        cmocka_unit_test(a_section_lists_its_keys),
        cmocka_unit_test(a_deepspeed_file_is_explained),
        cmocka_unit_test(a_wrong_key_gets_the_nearest_one),
        cmocka_unit_test(a_key_has_its_value_in_a_file),
    };
    return cmocka_run_group_tests_name("cmd explain", tests, enter_directory,
                                       leave_directory);
}
