/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_submit.c - from the option to the environment, on the submit host
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "spank/options.h"
#include "tests/unit/spank/submit_scene.h"

static int srun_body(void)
{
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(is_set(DT_ENV_CONFIG, NULL));
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set(DT_ENV_CONFIG, "/abs/c.yaml"));
    const char *secret = getenv(DT_ENV_STEP_SECRET);
    EXPECT(secret && strspn(secret, "0123456789abcdef") == 32 && !secret[32]);
    EXPECT(is_set(DT_ENV_PORTS, "61000-65535"));
    EXPECT(is_set(DT_ENV_CARRY "FOO", "1"));
    EXPECT(is_set(DT_ENV_CARRY "BAR", "a b"));
    EXPECT(is_set("FOO", NULL));
    return 0;
}

static int last_wins_body(void)
{
    EXPECT(dtspank_submit_option("bad.yaml") == 0);
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set(DT_ENV_CONFIG, "/abs/c.yaml"));
    return 0;
}

static int components_body(void)
{
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(dtspank_submit_option("/abs/c.yaml") == 0); /* from sbatch */
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(dtspank_submit_option("d.yaml") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == -1);
    EXPECT(strcmp(stub.said,
                  "disttrain: the components of a job share one "
                  "config, but there are two: c.yaml and d.yaml\n") == 0);
    return 0;
}

static int refused_body(void)
{
    EXPECT(dtspank_submit_option("bad.yaml") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == -1);
    EXPECT(strcmp(stub.said, "disttrain: bad.yaml: nothing is submitted\n") ==
           0);
    EXPECT(is_set(DT_ENV_CONFIG, NULL));
    return 0;
}

static int empty_body(void)
{
    EXPECT(dtspank_submit_option("") == -1);
    EXPECT(strcmp(stub.said, "disttrain: --disttrain: expected a file, "
                             "\"env\" or \"none\", got nothing\n") == 0);
    return 0;
}

static int forgotten_body(void)
{
    EXPECT(dtspank_submit_option("--help") == -1);
    EXPECT(strcmp(stub.said, "disttrain: --disttrain needs a value: FILE.yaml "
                             "or env; here it is followed by --help\n") == 0);
    return 0;
}

static int off_body(void)
{
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(dtspank_submit_option("none") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set(DT_ENV_CONFIG, NULL));
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", NULL));
    EXPECT(is_set("SLURM_MPI_TYPE", NULL));
    return 0;
}

/* sbatch hands the absolute path on, and nothing else. */
static int allocator_body(void)
{
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(strcmp(stub.job_option, DTSPANK_JOB_OPTION "=/abs/c.yaml") == 0);
    EXPECT(is_set(DT_ENV_CONFIG, NULL));
    EXPECT(is_set(DT_ENV_CARRY "FOO", NULL));
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", NULL));
    return 0;
}

static int overrides_body(void)
{
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    for (int i = 0; i < 2; i++) { /* the options are read twice */
        EXPECT(dtspank_submit_override("lr=1") == 0);
        EXPECT(dtspank_submit_override("run.name=a b\n\\") == 0);
    }
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    if (stub.context == S_CTX_LOCAL)
        EXPECT(is_set(DT_ENV_OVERRIDES, "lr=1 run.name=a\\sb\\n\\\\"));
    else
        EXPECT(strcmp(stub.job_before, DTSPANK_JOB_OVERRIDES
                      "=lr=1 run.name=a\\sb\\n\\\\") == 0);
    return 0;
}

static int no_file_body(void)
{
    EXPECT(dtspank_submit_override("lr=1") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == -1);
    EXPECT(dtspank_submit_option("env") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == -1);
    EXPECT(strcmp(stub.said,
                  "disttrain: --disttrain-set lr=1: there is no file that it "
                  "is of: add --disttrain=FILE\n"
                  "disttrain: --disttrain-set lr=1: there is no file that it "
                  "is of: add --disttrain=FILE\n") == 0);
    return 0;
}

static int bad_override_body(void)
{
    EXPECT(dtspank_submit_override("-N2") == -1);
    EXPECT(strcmp(stub.said,
                  "disttrain: --disttrain-set: expected KEY=VALUE, such as "
                  "optimizer.lr=1e-5, got \"-N2\"\n") == 0);
    return 0;
}

/* In a job whose file is c.yaml. */
static int job_overrides_body(void)
{
    EXPECT(dtspank_submit_override("lr=1 run.name=x") == 0); /* from Slurm */
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(dtspank_submit_override("lr=2") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set(DT_ENV_OVERRIDES, "lr=1 run.name=x lr=2"));
    return 0;
}

static int other_file_body(void)
{
    EXPECT(dtspank_submit_override("lr=1 run.name=x") == 0);
    EXPECT(dtspank_submit_option("d.yaml") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set(DT_ENV_OVERRIDES, NULL));
    return 0;
}

static void overrides_reach_the_tasks_and_the_job(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, overrides_body);
    run_case(S_CTX_ALLOCATOR, overrides_body);
}

static void overrides_of_a_job_belong_to_its_file(void **state)
{
    (void)state;
    setenv(DTSPANK_PRESET, "c.yaml", 1);
    setenv(DTSPANK_PRESET_OVERRIDES, "lr=1 run.name=x", 1);
    run_case(S_CTX_LOCAL, job_overrides_body);
    run_case(S_CTX_LOCAL, other_file_body);
    unsetenv(DTSPANK_PRESET_OVERRIDES);
    unsetenv(DTSPANK_PRESET);
}

static void overrides_without_a_file_are_refused(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, no_file_body);
    run_case(S_CTX_ALLOCATOR, no_file_body);
    run_case(S_CTX_LOCAL, bad_override_body);
}

/* `srun` alone in a batch job: srun ends with a message, we say why. */
static int no_command_body(void)
{
    optind = 1;
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(strcmp(stub.said, "disttrain: --disttrain=c.yaml comes from the "
                             "job, and leaves no place for a command: write "
                             "\"srun disttrain\"\n") == 0);
    return 0;
}

static void a_missing_command_is_explained(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, no_command_body);
}

static void srun_puts_the_config_into_the_environment(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, srun_body);
}

static void the_last_of_two_configs_wins(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, last_wins_body);
}

static void components_of_a_job_share_one_config(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, components_body);
}

static void a_refused_config_submits_nothing(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, refused_body);
    run_case(S_CTX_ALLOCATOR, refused_body);
}

static void an_option_without_a_value_is_refused(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, empty_body);
    run_case(S_CTX_LOCAL, forgotten_body);
    run_case(S_CTX_ALLOCATOR, forgotten_body);
}

static void none_or_no_option_sets_nothing(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, off_body);
    setenv(DTSPANK_PRESET, "none", 1);
    run_case(S_CTX_LOCAL, off_body);
    unsetenv(DTSPANK_PRESET);
}

static void sbatch_hands_on_only_the_absolute_path(void **state)
{
    (void)state;
    run_case(S_CTX_ALLOCATOR, allocator_body);
}

static int kill_body(void)
{
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", "1"));
    return 0;
}

static int kill_forgotten_body(void)
{
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", "1"));
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", NULL));
    return 0;
}

static int input_forgotten_body(void)
{
    EXPECT(dtspank_submit_option("nodes") == 0);
    EXPECT(is_set("SLURM_JOB_NUM_NODES", "2"));
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SLURM_JOB_NUM_NODES", NULL));
    EXPECT(!is_set(DT_ENV_FRAMEWORKS, NULL));
    return 0;
}

static int users_kill_body(void)
{
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", "0"));
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", "0"));
    return 0;
}

static int outlives_body(void)
{
    EXPECT(is_set("SLURM_NO_KILL", "set"));
    EXPECT(is_set("SLURM_WAIT", "0"));
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", "0"));
    EXPECT(is_set("SLURM_OOM_KILL_STEP", "0"));
    EXPECT(dtspank_submit_option("outlives") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SLURM_NO_KILL", NULL));
    EXPECT(is_set("SLURM_OOM_KILL_STEP", NULL));
    EXPECT(is_set("SLURM_WAIT", NULL));
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", NULL));
    EXPECT(is_set(DT_ENV_OUTLIVES, "1")); /* srun gets it when it starts */
    return 0;
}

static int apart_body(void)
{
    EXPECT(is_set("SLURM_NO_KILL", NULL));
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", "1"));
    EXPECT(is_set(DT_ENV_OUTLIVES, NULL));
    EXPECT(is_set(DT_ENV_KEPT, NULL));
    EXPECT(is_set("SLURM_OOM_KILL_STEP", "0")); /* as keepers there are */
    EXPECT(strstr(stub.said, "the step ends when it loses a node"));
    return 0;
}

static void srun_waits_for_no_lost_node_if_the_console_ends_it(void **state)
{
    (void)state;
    setenv(DTSPANK_PRESET, "outlives", 1);
    run_case(S_CTX_LOCAL, outlives_body);
    setenv("SLURM_STDOUTMODE", "log", 1);
    run_case(S_CTX_LOCAL, apart_body);
    unsetenv("SLURM_STDOUTMODE");
    unsetenv(DTSPANK_PRESET);
}

static int kept_body(void)
{
    EXPECT(is_set("SLURM_OOM_KILL_STEP", "0"));
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", "1"));
    EXPECT(is_set("SLURM_NO_KILL", NULL));
    EXPECT(is_set("SLURM_WAIT", NULL));
    EXPECT(dtspank_submit_option("kept") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SLURM_OOM_KILL_STEP", NULL));
    EXPECT(is_set(DT_ENV_KEPT, "1"));
    return 0;
}

static int users_oom_body(void)
{
    EXPECT(dtspank_submit_option("kept") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set("SLURM_OOM_KILL_STEP", "1"));
    return 0;
}

static int unkept_body(void)
{
    EXPECT(is_set("SLURM_OOM_KILL_STEP", NULL));
    return 0;
}

/* Slurm 24.11 and later. */
static void only_a_step_of_keepers_survives_that_memory_runs_out(void **state)
{
    (void)state;
    setenv(DTSPANK_PRESET, "kept", 1);
    run_case(S_CTX_LOCAL, kept_body);
    setenv("SLURM_OOM_KILL_STEP", "1", 1);
    run_case(S_CTX_LOCAL, users_oom_body);
    unsetenv("SLURM_OOM_KILL_STEP");
    setenv(DTSPANK_PRESET, "c.yaml", 1);
    run_case(S_CTX_LOCAL, unkept_body);
    unsetenv(DTSPANK_PRESET);
}

static void variables_for_srun_are_removed_after_use(void **state)
{
    (void)state;
    setenv(DTSPANK_PRESET, "c.yaml", 1);
    run_case(S_CTX_LOCAL, kill_body);
    run_case(S_CTX_LOCAL, kill_forgotten_body);
    setenv(DTSPANK_PRESET, "nodes", 1);
    run_case(S_CTX_LOCAL, input_forgotten_body);
    setenv(DTSPANK_PRESET, "c.yaml", 1);
    setenv("SLURM_KILL_BAD_EXIT", "0", 1);
    run_case(S_CTX_LOCAL, users_kill_body);
    unsetenv("SLURM_KILL_BAD_EXIT");
    unsetenv(DTSPANK_PRESET);
}

static int nested_body(void)
{
    EXPECT(is_set("RANK", NULL));
    EXPECT(is_set("MASTER_PORT", "1234"));
    EXPECT(is_set("WORLD_SIZE", NULL));
    EXPECT(is_set(DT_ENV_EXPORTED, NULL));
    EXPECT(is_set(DT_ENV_CONFIG, NULL));
    EXPECT(is_set(DT_ENV_CARRY "X", NULL));
    EXPECT(is_set("OTHER", "1"));
    return 0;
}

/* Inside a task: what the plugin had set goes, what was changed stays. */
static void a_nested_submission_forgets_the_outer_task(void **state)
{
    (void)state;
    setenv(DT_ENV_EXPORTED, "RANK=3 WORLD_SIZE=8 MASTER_PORT=61000 junk =", 1);
    setenv(DT_ENV_CONFIG, "/c.yaml", 1);
    setenv(DT_ENV_CARRY "X", "1", 1);
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "8", 1);
    setenv("MASTER_PORT", "1234", 1);
    setenv("OTHER", "1", 1);
    run_case(S_CTX_LOCAL, nested_body);
    run_case(S_CTX_ALLOCATOR, nested_body);
}

static int users_runtime_body(void)
{
    EXPECT(dtspank_submit_option("none") == 0);
    EXPECT(stub.said[0] == '\0');
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(dtspank_submit_post_opt(NULL) == -1);
    EXPECT(strstr(stub.said, "disttrain: DISTTRAIN_RUNTIME: this site allows "
                             "no runtime except its own: /tmp/test_") != NULL);
    return 0;
}

static void a_users_runtime_is_refused_only_where_used(void **state)
{
    (void)state;
    setenv("DISTTRAIN_RUNTIME", "/bin/sh", 1);
    run_case(S_CTX_LOCAL, users_runtime_body);
    run_case(S_CTX_ALLOCATOR, users_runtime_body);
    unsetenv("DISTTRAIN_RUNTIME");
}

static void a_relative_path_to_the_runtime_is_refused(void **state)
{
    char *av[] = {"runtime=x"};
    (void)state;
    stub_reset();
    stub.context = S_CTX_LOCAL;
    assert_int_equal(dtspank_submit_init(NULL, 1, av), -1);
    assert_string_equal(stub.said, "disttrain: plugstack.conf: runtime: "
                                   "expected an absolute path, got \"x\"\n");
}

/* Plays srun with this process's own command line, of which the words up to
 * `command` are srun's: reads the option from the environment and then from
 * there. Says what came of it.
 */
static int play_srun(int argc, char **argv, int command)
{
    char arg[128];
    snprintf(arg, sizeof(arg), "runtime=%s", getenv("TEST_RUNTIME"));
    char *av[] = {arg};
    stub_reset();
    stub.context = S_CTX_LOCAL;
    int rc = dtspank_submit_init(NULL, 1, av);
    rc = rc == 0 ? dtspank_submit_prepare() : rc;
    optind = command;
    const char *preset = getenv(DTSPANK_PRESET);
    if (rc == 0 && preset)
        rc = dtspank_submit_option(preset);
    for (int i = 1; rc == 0 && i < command; i++)
        if (strncmp(argv[i], "--disttrain=", 12) == 0)
            rc = dtspank_submit_option(argv[i] + 12);
    for (int i = 1; rc == 0 && i < command; i++)
        if (strncmp(argv[i], "--disttrain-set=", 16) == 0)
            rc = dtspank_submit_override(argv[i] + 16);
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    if (rc == 0)
        rc = dtspank_submit_post_opt(NULL);
    const char *told = getenv(DT_ENV_FRAMEWORKS);
    const char *set = getenv(DT_ENV_OVERRIDES);
    const char *config = getenv(DT_ENV_CONFIG);
    printf("%s", stub.said);
    if (rc == 0)
        printf("config %s, told %s, nodes %s:", config ? config : "-",
               told ? told : "-", nodes ? nodes : "-");
    if (rc == 0 && set)
        printf(" set %s:", set);
    for (int i = 1; rc == 0 && i < argc; i++)
        printf(" %s",
               strcmp(argv[i], getenv("TEST_RUNTIME")) ? argv[i] : "RUN");
    return 0;
}

static void srun_says(const char *line, int command, const char *want)
{
    char words[128];
    char number[16];
    char got[1024] = "";
    char *argv[16];
    int argc = 0;
    int fd[2];
    snprintf(words, sizeof(words), "%s", line);
    snprintf(number, sizeof(number), "%d", command);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    argv[argc] = NULL;
    setenv("TEST_COMMAND", number, 1);
    setenv("TEST_RUNTIME", runtime, 1);
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fd[1], STDOUT_FILENO);
        execv("/proc/self/exe", argv);
        _exit(1);
    }
    close(fd[1]);
    for (size_t used = 0; used < sizeof(got) - 1;) {
        ssize_t n = read(fd[0], got + used, sizeof(got) - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    close(fd[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_string_equal(got, want);
}

static void only_options_before_the_command_count(void **state)
{
    (void)state;
    srun_says("srun -n2 --disttrain=c", 3,
              "config /abs/c, told -n2, nodes -: -n2 RUN");
    srun_says("srun --disttrain=nodes -n 2 x --disttrain=y", 4,
              "config /abs/nodes, told -n 2 -- x --disttrain=y, nodes 2: "
              "--disttrain=nodes -n 2 x --disttrain=y");
    srun_says(
        "srun --disttrain=c --disttrain=d x", 3,
        "config /abs/d, told -- x, nodes -: --disttrain=c --disttrain=d x");
    srun_says("srun --disttrain=none x", 2,
              "config -, told -, nodes -: --disttrain=none x");
    srun_says("srun x --disttrain=bad", 1,
              "config -, told -, nodes -: x --disttrain=bad");
    srun_says("srun --disttrain=env x", 2,
              "config /abs//dev/null, told -- x, nodes -: --disttrain=env x");
    srun_says("srun --disttrain=nothing x", 2,
              "config /abs/nothing, told -- x, nodes -: --disttrain=nothing x");
}

static void overrides_are_checked_with_the_file(void **state)
{
    (void)state;
    srun_says("srun --disttrain=c --disttrain-set=a=1 --disttrain-set=b=2 -l",
              5,
              "config /abs/c, told a=1 b=2 -l, nodes -: set a=1 b=2: "
              "--disttrain-set=a=1 --disttrain-set=b=2 -l RUN");
    srun_says("srun --disttrain=c --disttrain-set=a=1 x --disttrain-set=b=2", 3,
              "config /abs/c, told a=1 -- x --disttrain-set=b=2, nodes -: set "
              "a=1: --disttrain=c "
              "--disttrain-set=a=1 x --disttrain-set=b=2");
}

static void a_command_line_that_cannot_run_is_refused(void **state)
{
    (void)state;
    srun_says("srun --disttrain=bad x", 2,
              "disttrain: bad: nothing is submitted\n");
    srun_says("srun --disttrain=nothing -n2", 3,
              "disttrain: nothing trains nothing (no algorithm:) and names no "
              "launch.command: give srun a command\n");
    srun_says("srun --disttrain=env -n2", 3,
              "disttrain: --disttrain=env needs a command, because there is "
              "no file to name one\n");
    srun_says("srun --disttrain -N2 hostname", 3,
              "disttrain: --disttrain needs a value: FILE.yaml or env; here it "
              "is followed by -N2\n");
    srun_says("srun --disttrain=", 2,
              "disttrain: --disttrain: expected a file, \"env\" or \"none\", "
              "got nothing\n");
}

/* An option of srun that is not known, and has no value, before the command. */
static void options_of_the_command_are_ignored_or_refused(void **state)
{
    (void)state;
    srun_says("srun --new x --disttrain=c", 2,
              "config -, told -, nodes -: --new x --disttrain=c");
    srun_says("srun --new x --disttrain=nodes", 2,
              "disttrain: --disttrain=nodes is an argument of the command x, "
              "but srun read it as an option of its own: write \"--\" before "
              "the command, or give srun's long options as --name=value\n");
    setenv(DTSPANK_PRESET, "c", 1);
    srun_says("srun --new x --disttrain=d", 2,
              "config /abs/c, told --new -- x --disttrain=d, nodes -: --new x "
              "--disttrain=d");
    setenv(DTSPANK_PRESET, "nodes", 1);
    srun_says("srun --new x --disttrain=d", 2,
              "disttrain: --disttrain=nodes comes too late for what the file "
              "sets in launch: write it before the command, as the first and "
              "only --disttrain\n");
    unsetenv(DTSPANK_PRESET);
}

int main(int argc, char **argv)
{
    const char *command = getenv("TEST_COMMAND");
    if (command)
        return play_srun(argc, argv, atoi(command));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(srun_puts_the_config_into_the_environment),
        cmocka_unit_test(the_last_of_two_configs_wins),
        cmocka_unit_test(components_of_a_job_share_one_config),
        cmocka_unit_test(a_refused_config_submits_nothing),
        cmocka_unit_test(an_option_without_a_value_is_refused),
        cmocka_unit_test(none_or_no_option_sets_nothing),
        cmocka_unit_test(sbatch_hands_on_only_the_absolute_path),
        cmocka_unit_test(srun_waits_for_no_lost_node_if_the_console_ends_it),
        cmocka_unit_test(only_a_step_of_keepers_survives_that_memory_runs_out),
        cmocka_unit_test(variables_for_srun_are_removed_after_use),
        cmocka_unit_test(a_nested_submission_forgets_the_outer_task),
        cmocka_unit_test(a_missing_command_is_explained),
        cmocka_unit_test(a_relative_path_to_the_runtime_is_refused),
        cmocka_unit_test(only_options_before_the_command_count),
        cmocka_unit_test(overrides_are_checked_with_the_file),
        cmocka_unit_test(overrides_reach_the_tasks_and_the_job),
        cmocka_unit_test(overrides_of_a_job_belong_to_its_file),
        cmocka_unit_test(overrides_without_a_file_are_refused),
        cmocka_unit_test(a_command_line_that_cannot_run_is_refused),
        cmocka_unit_test(options_of_the_command_are_ignored_or_refused),
        cmocka_unit_test(a_users_runtime_is_refused_only_where_used),
    };
    return cmocka_run_group_tests_name("spank_submit", tests, setup, teardown);
}
