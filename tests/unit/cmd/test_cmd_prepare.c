/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_prepare.c - what `disttrain prepare` prints, and its exit status */
#include "config.h"

#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include <cmocka.h>

#include "cmd/cmd_impl.h"
#include "tests/unit/command.h"
#include "tests/unit/scratch.h"

/* Runs in the scratch directory; fills out and errors. */
static int run(const char *const *args)
{
    char *argv[16] = {"prepare"};
    int argc = 1;
    for (; args[argc - 1]; argc++)
        argv[argc] = (char *)args[argc - 1];
    return run_command(dt_cmd_prepare, argc, argv);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void a_file_is_prepared_once_and_counted(void **state)
{
    static const char text[] = "{\"prompt\": \"ab\", \"completion\": \"c\"}\n"
                               "\n{}\n{\"prompt\": \"\", \"completion\": \"\"}";
    (void)state;
    scratch_write("a.jsonl", text, sizeof(text) - 1);
    assert_int_equal(RUN("--tokenizer", "byte", "--bad-lines", "0.5",
                         "--threads", "2", "--cache-dir", "c", "a.jsonl"),
                     EX_OK);
    assert_non_null(
        strstr(out, "a.jsonl: 2 examples, 5 tokens, 3 targets, 1 bad line; "));
    assert_non_null(strstr(out, " million tokens/s\n"));
    assert_string_equal(errors, "warning: a.jsonl:3: prompt and completion: "
                                "expected two strings or two arrays of "
                                "messages, got nothing and nothing\n");
    assert_int_equal(RUN("--tokenizer", "byte", "--bad-lines", "0.5",
                         "--cache-dir", "c", "a.jsonl"),
                     EX_OK);
    assert_string_equal(out, "a.jsonl: 2 examples, 5 tokens, 3 targets, 1 bad "
                             "line; prepared already\n");
    assert_int_equal(RUN("--tokenizer=byte", "--bad-lines=0.5", "--cache-dir=c",
                         "--loss-on=full", "--format=prompt_completion",
                         "a.jsonl"),
                     EX_OK);
    assert_non_null(strstr(out, "5 tokens, 5 targets"));
}

static void a_format_may_be_written_in_british_english(void **state)
{
    (void)state;
    scratch_write("i.jsonl", "{\"input_ids\": [1, 2]}", 21);
    assert_int_equal(RUN("--tokenizer=byte", "--format=tokenised", "i.jsonl"),
                     EX_OK);
    assert_non_null(strstr(out, "i.jsonl: 1 example, 2 tokens"));
}

static void preference_pairs_are_prepared_when_asked_for(void **state)
{
    static const char text[] =
        "{\"prompt\": \"ab\", \"chosen\": \"c\", \"rejected\": \"de\"}\n";
    (void)state;
    scratch_write("p.jsonl", text, sizeof(text) - 1);
    assert_int_equal(RUN("--tokenizer", "byte", "--format", "preference",
                         "--cache-dir", "c", "p.jsonl"),
                     EX_OK);
    assert_non_null(
        strstr(out, "p.jsonl: 1 example, 9 tokens, 5 targets, 0 bad lines; "));
    assert_int_equal(RUN("--tokenizer", "byte", "--cache-dir", "c", "p.jsonl"),
                     EX_DATAERR);
    assert_non_null(
        strstr(errors, "chosen and rejected are for preference training"));
}

/* The first failure is the status, and the others are done. */
static void a_failed_file_does_not_stop_the_others(void **state)
{
    (void)state;
    scratch_write("b.txt", "abc", 3);
    assert_int_equal(RUN("--tokenizer", "byte", "nothing", "b.txt"),
                     EX_NOINPUT);
    assert_string_equal(errors, "disttrain prepare: nothing: cannot open: No "
                                "such file or directory\n");
    assert_non_null(strstr(out, "b.txt: 1 example, 4 tokens, 4 targets, 0 "
                                "bad lines; "));
}

static void write_config(const char *data)
{
    char text[256];
    int n = snprintf(text, sizeof(text),
                     "algorithm: sft\n"
                     "model: {n_embd: 8, n_layer: 1, n_head: 1}\n"
                     "training: {train_batch_size: 8}\n%s\n",
                     data);
    scratch_write("c.yaml", text, (size_t)n);
}

static void a_configuration_and_its_options_share_a_cache(void **state)
{
    static const char line[] = "{\"text\": \"xyz\"}\n";
    (void)state;
    scratch_write("t.jsonl", line, sizeof(line) - 1);
    scratch_write("e.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}", 34);
    write_config("data: {train: e.jsonl, eval: t.jsonl,"
                 " cache_dir: k, loss_on: full}");
    assert_int_equal(RUN("--config=c.yaml", "--threads", "1"), EX_OK);
    assert_non_null(strstr(out, "/e.jsonl: 1 example, 3 tokens, 3 targets"));
    assert_non_null(strstr(out, "/t.jsonl: 1 example, 4 tokens, 4 targets"));
    assert_null(strstr(out, "prepared already"));
    assert_int_equal(
        RUN("--config=c.yaml", "--set", "data.loss_on=all", "--threads", "1"),
        EX_CONFIG);
    assert_non_null(strstr(errors, "--set: data.loss_on: expected one of"));
    dt_cmd_overrides_clear();
    assert_int_equal(
        RUN("--tokenizer=byte", "--loss-on=full", "--cache-dir=k", "e.jsonl"),
        EX_OK);
    assert_non_null(strstr(out, "prepared already"));
}

static void ids_are_prepared_for_the_model_of_a_configuration(void **state)
{
    static const char line[] = "{\"chosen_ids\": [5, 999], \"rejected_ids\": "
                               "[5, 7]}\n";
    static const char text[] = "algorithm: dpo\nrun.device: cpu\n"
                               "model: {n_embd: 32, n_layer: 1, n_head: 2, "
                               "vocab_size: 1000}\ntrain_batch_size: 2\n"
                               "data: {train: ids.jsonl, cache_dir: k}\n";
    (void)state;
    scratch_write("ids.jsonl", line, sizeof(line) - 1);
    scratch_write("c.yaml", text, sizeof(text) - 1);
    assert_int_equal(RUN("--config=c.yaml"), EX_OK);
    assert_non_null(strstr(out, "/ids.jsonl: 1 example, "));
    assert_int_equal(RUN("--tokenizer=byte", "--format=preference",
                         "--cache-dir=k", "ids.jsonl"),
                     EX_DATAERR);
    assert_non_null(strstr(errors, "ids.jsonl:1: chosen_ids[1]: expected an "
                                   "integer from 0 to 256"));
}

static void a_configuration_with_nothing_to_prepare_says_so(void **state)
{
    (void)state;
    scratch_write("b.txt", "abc", 3);
    write_config("data: {train: b.txt}");
    assert_int_equal(RUN("--config=c.yaml"), EX_OK);
    assert_string_equal(out, "c.yaml: nothing to prepare: data.train is read "
                             "as it is\n");
    scratch_write("c.yaml", "launch: {nodes: 1}\n", 19);
    assert_int_equal(RUN("--config=c.yaml"), EX_OK);
    assert_string_equal(out, "c.yaml: nothing to prepare: it trains nothing\n");
}

static void wrong_arguments_are_named_and_refused(void **state)
{
    static const struct {
        const char *args[4], *text;
        int status;
    } cases[] = {
        {{"--tokenizer", "byte"}, "expected a FILE", EX_USAGE},
        {{"a"}, "--tokenizer DIR is missing", EX_USAGE},
        {{"--tokenizer"}, "'--tokenizer' needs a value", EX_USAGE},
        {{"--toknizer=a"}, "unknown option '--toknizer=a'", EX_USAGE},
        {{"--format=jsonl", "a"},
         "--format: expected auto, text, prompt_completion, messages, "
         "tokenized or preference, got 'jsonl'",
         EX_USAGE},
        {{"--loss-on=all", "a"},
         "--loss-on: expected auto, full, completion or assistant, got 'all'",
         EX_USAGE},
        {{"--threads=0", "a"},
         "--threads: expected an integer from 1 to 4096, got '0'",
         EX_USAGE},
        {{"--bad-lines=x", "a"},
         "--bad-lines: expected a number from 0 to 1, got 'x'",
         EX_USAGE},
        {{"--config=c.yaml", "--loss-on=full", "--threads=1"},
         "--loss-on or --config, not both: the configuration has this setting",
         EX_USAGE},
        {{"--config=c.yaml", "a"},
         "--config names the files: unexpected 'a'",
         EX_USAGE},
        {{"--config=none.yaml"}, "none.yaml", EX_CONFIG},
        {{"--tokenizer=nowhere", "a"}, "nowhere", EX_NOINPUT},
        {{"--tokenizer=byte", "--chat-template=x", "m.jsonl"},
         "m.jsonl: no chat template 'x': expected a file",
         EX_CONFIG},
    };
    (void)state;
    scratch_write("m.jsonl", "{\"messages\": []}", 16);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(run(cases[i].args), cases[i].status);
        if (!strstr(errors, cases[i].text))
            fail_msg("'%s', not '%s'", errors, cases[i].text);
    }
}

static void help_prints_the_usage(void **state)
{
    (void)state;
    assert_int_equal(RUN("--help"), EX_OK);
    assert_non_null(strstr(out, "usage: disttrain prepare "));
    assert_non_null(
        strstr(out, "none, or chatml,\n                        qwen2.5, "));
    for (const char *line = out, *end; (end = strchr(line, '\n'));
         line = end + 1)
        assert_in_range(end - line, 0, 79);
}

static int on_terminal(int argc, char **argv)
{
    int slave = open(getenv("TERMINAL"), O_RDWR | O_NOCTTY);
    if (slave < 0 || dup2(slave, STDERR_FILENO) < 0)
        return 99;
    return dt_cmd_prepare(argc, argv);
}

static void a_terminal_shows_progress_until_the_end(void **state)
{
    char shown[256];
    char *argv[] = {"prepare", "--tokenizer=byte", "--cache-dir=p", "b.txt"};
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    (void)state;
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    setenv("TERMINAL", ptsname(master), 1);
    assert_int_equal(run_command(on_terminal, 4, argv), EX_OK);
    shown[read(master, shown, sizeof(shown) - 1)] = '\0';
    close(master);
    assert_non_null(strstr(shown, "\rb.txt: 100 % of 0.0 MB\r\033[K"));
}

static void a_reference_is_computed_for_later_runs(void **state)
{
    static const char text[] =
        "algorithm: dpo\n"
        "data.train: pairs.jsonl\n"
        "model: {n_positions: 16, n_embd: 8, n_layer: 1, n_head: 1}\n"
        "data.max_length: 16\n"
        "data.cache_dir: refs\n"
        "run.device: cpu\n"
        "training.train_batch_size: 2\n";
    char more[512];
    struct stat st;
    glob_t found;
    (void)state;
    static const char pairs[] =
        "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n"
        "{\"prompt\": \"d\", \"chosen\": \"e\", \"rejected\": \"f\"}\n";
    scratch_write("pairs.jsonl", pairs, strlen(pairs));
    scratch_write("c.yaml", text, strlen(text));
    assert_int_equal(RUN("--config=c.yaml", "--reference"), EX_CONFIG);
    assert_non_null(strstr(errors, "dpo.reference.mode: --reference is for "
                                   "algorithm dpo with precompute"));
    snprintf(more, sizeof(more), "%sdpo.reference.mode: precompute\n", text);
    scratch_write("c.yaml", more, strlen(more));
    assert_int_equal(RUN("--config=c.yaml", "--reference"), EX_OK);
    assert_int_equal(glob("refs/reference-*.safetensors", 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    globfree(&found);
    assert_int_equal(stat("outputs", &st), -1); /* nothing else is written */
    assert_int_equal(RUN("--tokenizer=byte", "--reference", "pairs.jsonl"),
                     EX_USAGE);
    assert_non_null(strstr(errors, "--reference needs --config"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_prepared_once_and_counted),
        cmocka_unit_test(a_format_may_be_written_in_british_english),
        cmocka_unit_test(preference_pairs_are_prepared_when_asked_for),
        cmocka_unit_test(a_failed_file_does_not_stop_the_others),
        cmocka_unit_test(wrong_arguments_are_named_and_refused),
        cmocka_unit_test(help_prints_the_usage),
        cmocka_unit_test(a_terminal_shows_progress_until_the_end),
        cmocka_unit_test(a_configuration_and_its_options_share_a_cache),
        cmocka_unit_test(ids_are_prepared_for_the_model_of_a_configuration),
        cmocka_unit_test(a_configuration_with_nothing_to_prepare_says_so),
        cmocka_unit_test(a_reference_is_computed_for_later_runs),
    };
    scratch_path("");
    if (chdir(scratch_root) < 0)
        return 1;
    return cmocka_run_group_tests_name("prepare", tests, NULL, NULL);
}
