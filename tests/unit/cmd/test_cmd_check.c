/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_check.c - what `disttrain check` prints and its exit status */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cmd/cmd_impl.h"
#include "tests/unit/command.h"
#include "tests/unit/conf.h"
#include "contract/contract.h"

static int check(const char *args)
{
    return run_words(dt_cmd_check, args);
}

#define HINT " (see disttrain check --help)\n"

static void wrong_arguments_point_to_the_help(void **state)
{
    static const char *const cases[][2] = {
        {"", "disttrain check: expected one FILE" HINT},
        {"a b", "disttrain check: expected one FILE" HINT},
        {"--foo a", "disttrain check: unknown option '--foo'" HINT},
        {"--foo=b a", "disttrain check: unknown option '--foo=b'" HINT},
        {"--keys=b a",
         "disttrain check: '--keys=b': --keys takes no value" HINT},
        {"--keys -xy", "disttrain check: unknown option '-x'" HINT},
        {"-c", "disttrain check: unknown option '-c'" HINT},
        {"--resovled a", "disttrain check: unknown option '--resovled'; did "
                         "you mean --resolved?" HINT},
        {"a --world", "disttrain check: '--world' needs a value" HINT},
        {"--world two a", "disttrain check: --world: expected an integer from "
                          "1 to 1000000, got 'two'" HINT},
        {"--world 0 a", "disttrain check: --world: expected an integer from "
                        "1 to 1000000, got '0'" HINT},
        {"--world 1000001 a", "disttrain check: --world: expected an integer "
                              "from 1 to 1000000, got '1000001'" HINT},
        {"--allocation s a",
         "disttrain check: --allocation needs --contract" HINT},
        {"--keys a", "disttrain check: --keys takes no FILE" HINT},
        {"--outlives", "disttrain check: expected one FILE" HINT},
        {"--explain a", "disttrain check: --explain a: unknown key" HINT},
        {"--explain lr a b", "disttrain check: --explain takes one FILE" HINT},
        {"--explain", "disttrain check: '--explain' needs a value" HINT},
        {"--contract --resolved a", "disttrain check: --contract or "
                                    "--resolved, not both" HINT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(check(cases[i][0]), EX_USAGE);
        assert_string_equal(errors, cases[i][1]);
        assert_string_equal(out, "");
    }
    assert_int_equal(check("--help"), 0);
    assert_memory_equal(out, "usage: disttrain check [--resolved", 34);
    assert_non_null(strstr(out, "disttrain.yaml(5)"));
}

static void a_file_without_mistakes_passes(void **state)
{
    (void)state;
    write_file("t.yaml", LEAST);
    assert_int_equal(check("t.yaml"), 0);
    assert_string_equal(out, "t.yaml: no mistakes\n");
    assert_string_equal(errors, "");
    write_file("t.yaml", LEAST "mode: train\n");
    assert_int_equal(check("t.yaml --world 3 --resolved"), 0);
    assert_non_null(strstr(out, "\n  train_batch_size: 6  # worked out\n"));
    assert_string_equal(errors, "warning: t.yaml:5:7: mode: "
                                "the command decides: `disttrain train` "
                                "trains, `disttrain sbatch` writes a batch "
                                "script; only eval, which sets "
                                "training.eval_only, has an effect\n");
}

static void a_file_that_trains_nothing_needs_no_batch_size(void **state)
{
    (void)state;
    write_file("t.yaml", "launch: {nodes: 2, command: [\"true\"]}\n");
    assert_int_equal(check("t.yaml --world 8"), 0);
    assert_string_equal(out, "t.yaml: no mistakes; it launches programs and "
                             "trains nothing\n");
    assert_string_equal(errors, "");
}

static void mistakes_are_printed_with_their_place(void **state)
{
    char wanted[512];
    (void)state;
    write_file("t.yaml", LEAST "lr: fast\nepochs: -1\n");
    assert_int_equal(check("--contract t.yaml"), EX_CONFIG);
    assert_string_equal(out, "");
    assert_string_equal(errors,
                        "t.yaml:5:5: optimizer.lr: expected a number > 0, got "
                        "\"fast\"\n"
                        "t.yaml:6:9: training.epochs: expected a number in (0, "
                        "1000000], got -1\n");
    write_file("t.yaml", LEAST "train_batch_size: 8\n");
    assert_int_equal(check("--world 3 t.yaml"), EX_CONFIG);
    snprintf(wanted, sizeof(wanted),
             "%s/t.yaml:5:19: "
             "training.train_batch_size: E102 8 cannot be divided by 6 (per "
             "device * ranks); nearest are 6 and 12\n",
             test_directory);
    assert_string_equal(errors, wanted);
    assert_int_equal(check("none.yaml"), EX_CONFIG);
    assert_string_equal(errors, "none.yaml: cannot open: No such file or "
                                "directory\n");
}

static void overrides_are_checked_with_the_file(void **state)
{
    (void)state;
    write_file("t.yaml", LEAST "lr: 1\n");
    assert_int_equal(check("--set lr=fast t.yaml"), EX_CONFIG);
    assert_string_equal(errors, "--set: optimizer.lr: expected a number > 0, "
                                "got \"fast\"\n");
    assert_int_equal(check("t.yaml --set=lr=2 --set lr=3 --resolved"), 0);
    assert_non_null(strstr(out, "\n  lr: 3  # --set\n"));
    assert_int_equal(check("--world 3 --set train_batch_size=8 t.yaml"),
                     EX_CONFIG);
    assert_string_equal(errors,
                        "--set: training.train_batch_size: E102 8 cannot be "
                        "divided by 6 (per device * ranks); nearest are 6 and "
                        "12\n");
    assert_int_equal(
        check("--contract --set env.A=x --set lr=2 t.yaml -- -n2 -- x y"), 0);
    assert_non_null(strstr(out, "\nENV A=x\n"));
    assert_string_equal(errors, "warning: --set: lr=2: only disttrain reads "
                                "it, and the command is x\n");
    assert_int_equal(check("--contract --set launch.nodes=2 t.yaml -- -- x y"),
                     0);
    assert_string_equal(errors, "");
    assert_int_equal(
        check("--contract --set launch.keeper=on t.yaml -- -- x y"), 0);
    assert_string_equal(errors,
                        "warning: --set: launch.keeper: on keeps "
                        "launch.command only; write: disttrain keep x\n");
    assert_int_equal(check("--set lr t.yaml"), EX_USAGE);
    assert_string_equal(errors, "disttrain check: --set: expected KEY=VALUE, "
                                "such as optimizer.lr=1e-5, got 'lr'" HINT);
}

static void a_run_to_resume_from_is_a_checkpoint(void **state)
{
    (void)state;
    mkdir("run", 0777);
    write_file("t.yaml", "algorithm: sft\n"
                         "run: {output_dir: new}\n"
                         "data: {train: train.txt, max_length: 4}\n"
                         "training: {resume: run, train_batch_size: 8}\n"
                         "model: {n_embd: 8, n_layer: 1, n_head: 1}\n");
    assert_int_equal(check("t.yaml"), EX_CONFIG);
    assert_non_null(strstr(errors, "t.yaml:4:20: training.resume: "));
    assert_non_null(strstr(errors, "/run: not a checkpoint: there is no "
                                   "checksums.txt; training.resume: auto takes "
                                   "the newest whole one of run.output_dir\n"));
    rmdir("run");
}

#define BEST                                                                   \
    "training: {eval_strategy: steps, eval_steps: 1, train_batch_size: 8, "    \
    "early_stopping_patience: 2, metric_for_best_model: "

/* What evaluations have depends on the algorithm and its rewards. */
static void an_evaluation_has_the_metric_for_the_best_model(void **state)
{
    static const struct {
        const char *metric, *more, *has; /* NULL: it is one */
    } cases[] = {
        {"eval_reward", "", NULL},
        {"rewards/length/mean", "", NULL},
        {"rewards/other/mean", "", "but reward, reward_std, completions/mean_"},
        {"loss", "", "but reward, reward_std, "},
        {"frac_reward_zero_std", "", "but reward, reward_std, completions/"},
        {"frac_reward_zero_std", "rollout.eval_generations: 2\n", NULL},
    };
    char text[1024], says[256];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text),
                 "algorithm: grpo\n" BEST "%s}\n"
                 "data: {train: p.jsonl, eval: p.jsonl, max_length: 8,"
                 " max_prompt_length: 4}\n"
                 "rollout.max_completion_length: 4\n"
                 "reward.functions: [{type: regex, name: length, pattern: a}]\n"
                 "model: {n_embd: 8, n_layer: 1, n_head: 1}\n%s",
                 cases[i].metric, cases[i].more);
        write_file("t.yaml", text);
        write_file("p.jsonl", "{\"prompt\": \"a\"}\n");
        snprintf(says, sizeof(says),
                 "training.metric_for_best_model: an evaluation has no %s, %s",
                 cases[i].metric, cases[i].has ? cases[i].has : "");
        const int status = check("t.yaml");
        if (cases[i].has) {
            assert_int_equal(status, EX_CONFIG);
            assert_non_null(strstr(errors, says));
        } else {
            assert_string_equal(errors, "");
            assert_int_equal(status, EX_OK);
        }
    }
    unlink("p.jsonl");
}

/* What a rank says of the file argv[1]. */
static int warn(int argc, char **argv)
{
    struct dt_conf_problems problems, warnings;
    struct dt_conf *conf = dt_conf_load(argv[1], NULL, &problems, &warnings);
    (void)argc;
    dt_cmd_warn_once(argv[1], &warnings);
    dt_conf_destroy(conf);
    return 0;
}

#define OF_STEPS "scheduler.warmup_steps: E110 longer than the run of 3 steps\n"

static void a_rank_does_not_repeat_what_the_check_has_warned_of(void **state)
{
    static const char name[] = "SRUN " DT_ENV_WARNED "=";
    char path[128];
    (void)state;
    snprintf(path, sizeof(path), "%s/t.yaml", test_directory);
    write_file("t.yaml", LEAST "max_steps: 3\nwarmup_steps: 5\n");
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_string_equal(errors, "warning: t.yaml:6:15: " OF_STEPS);
    char *sum = strstr(out, name);
    assert_non_null(sum);
    sum += strlen(name);
    sum[strcspn(sum, "\n")] = '\0';
    setenv(DT_ENV_WARNED, sum, 1);
    assert_int_equal(run_words(warn, path), 0);
    assert_string_equal(errors, "");
    /* another file, or a file that has changed */
    write_file("t.yaml", LEAST "\nmax_steps: 3\nwarmup_steps: 5\n");
    assert_int_equal(run_words(warn, "t.yaml"), 0);
    assert_string_equal(errors, "warning: t.yaml:7:15: " OF_STEPS);
    /* whoever asks for a check gets an answer */
    write_file("t.yaml", LEAST "max_steps: 3\nwarmup_steps: 5\n");
    assert_int_equal(check("t.yaml"), 0);
    assert_string_equal(errors, "warning: t.yaml:6:15: " OF_STEPS);
    unsetenv(DT_ENV_WARNED);
    assert_int_equal(run_words(warn, "t.yaml"), 0);
    assert_string_equal(errors, "warning: t.yaml:6:15: " OF_STEPS);
    write_file("t.yaml", LEAST);
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_null(strstr(out, DT_ENV_WARNED));
}

static void keys_are_listed_with_ranges_and_defaults(void **state)
{
    (void)state;
    assert_int_equal(check("--keys"), 0);
    assert_non_null(strstr(out, "\noptimizer.lr\ta number > 0\t2e-5\tlr "
                                "learning_rate optimizer.params.lr\t"
                                "learning rate; the default is 1e-4 "));
    assert_non_null(strstr(out, "\ndistributed.timeout_s\tan integer >= 1 "
                                "(seconds)\t1800\tddp_timeout\t"
                                "longest wait for another rank\n"));
    assert_non_null(
        strstr(out, "\ndata.sampler\tlater\t-\t-\tmore samplers\n"));
}

static void output_to_a_full_disk_is_an_error(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        char *argv[] = {"check", "--keys"};
        if (!freopen("/dev/full", "w", stdout) ||
            !freopen("errors", "w", stderr))
            _exit(99);
        status = dt_cmd_check(2, argv);
        fflush(stderr);
        _exit(status);
    }
    assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EX_IOERR);
    read_back("errors", errors, sizeof(errors));
    assert_string_equal(errors, "disttrain check: stdout: No space left on "
                                "device\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_arguments_point_to_the_help),
        cmocka_unit_test(a_file_without_mistakes_passes),
        cmocka_unit_test(a_file_that_trains_nothing_needs_no_batch_size),
        cmocka_unit_test(mistakes_are_printed_with_their_place),
        cmocka_unit_test(overrides_are_checked_with_the_file),
        cmocka_unit_test(a_run_to_resume_from_is_a_checkpoint),
        cmocka_unit_test(an_evaluation_has_the_metric_for_the_best_model),
        cmocka_unit_test(a_rank_does_not_repeat_what_the_check_has_warned_of),
        cmocka_unit_test(keys_are_listed_with_ranges_and_defaults),
        cmocka_unit_test(output_to_a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests_name("cmd check", tests, enter_directory,
                                       leave_directory);
}
