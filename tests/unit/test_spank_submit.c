/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_submit.c - from the option to the environment, on the submit host
 */
#include "config.h"

#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/contract.h"
#include "spank/options.h"
#include "spank/submit.h"
#include "tests/unit/spank_stub.h"

static char runtime_arg[] = "runtime=/tmp/test_spank_submit.XXXXXX";
static char *const runtime = runtime_arg + sizeof("runtime=") - 1;

/* A runtime that accepts every config that is not called bad. */
static int setup(void **state)
{
    (void)state;
    int fd = mkstemp(runtime);
    if (fd < 0)
        return -1;
    dprintf(fd, "#!/bin/sh\n"
                "case $3 in *bad*) exit 78; esac\n"
                "echo DISTTRAIN_CONTRACT=2; echo RUNS=train\n"
                "echo CONFIG=/abs/$3\n"
                "echo ENV FOO=1; echo 'ENV BAR=a b'\n");
    return fchmod(fd, 0700) == 0 ? close(fd) : -1;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(runtime);
}

/* The plugin keeps state for the life of srun: one process for each case. */
static void run_case(spank_context_t context, int (*body)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *av[] = {runtime_arg};
        stub_reset();
        stub.context = context;
        optind = 0; /* as if there were a command behind the options */
        int line = dtspank_submit_init(NULL, 1, av) == 0 ? body() : __LINE__;
        if (line != 0)
            fprintf(stderr, "%s:%d, said: %s\n", __FILE__, line, stub.said);
        _exit(line != 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define EXPECT(condition)                                                      \
    do {                                                                       \
        if (!(condition))                                                      \
            return __LINE__;                                                   \
    } while (0)

static int is_set(const char *name, const char *value)
{
    const char *now = getenv(name);
    return value ? now && strcmp(now, value) == 0 : !now;
}

static int srun_body(void)
{
    EXPECT(dtspank_submit_option("c.yaml") == 0);
    EXPECT(is_set(DT_ENV_CONFIG, NULL));
    EXPECT(dtspank_submit_post_opt(NULL) == 0);
    EXPECT(is_set(DT_ENV_CONFIG, "/abs/c.yaml"));
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
    EXPECT(strcmp(stub.said, "disttrain: --disttrain: expected a file or "
                             "\"none\", got nothing\n") == 0);
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

static void test_no_command(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, no_command_body);
}

static void test_srun(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, srun_body);
}

static void test_last_wins(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, last_wins_body);
}

static void test_components(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, components_body);
}

static void test_refused(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, refused_body);
    run_case(S_CTX_ALLOCATOR, refused_body);
}

static void test_empty(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, empty_body);
}

static void test_off(void **state)
{
    (void)state;
    run_case(S_CTX_LOCAL, off_body);
    setenv(DTSPANK_PRESET, "none", 1);
    run_case(S_CTX_LOCAL, off_body);
    unsetenv(DTSPANK_PRESET);
}

static void test_allocator(void **state)
{
    (void)state;
    run_case(S_CTX_ALLOCATOR, allocator_body);
}

static int kill_body(void)
{
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", "1"));
    return 0;
}

static int users_kill_body(void)
{
    EXPECT(is_set("SLURM_KILL_BAD_EXIT", "0"));
    return 0;
}

static void test_preset(void **state)
{
    (void)state;
    setenv(DTSPANK_PRESET, "c.yaml", 1);
    run_case(S_CTX_LOCAL, kill_body);
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
static void test_nested(void **state)
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
    EXPECT(dtspank_submit_option("c.yaml") == -1);
    EXPECT(strstr(stub.said, "disttrain: DISTTRAIN_RUNTIME: this site allows "
                             "no runtime but its own: /tmp/test_") != NULL);
    return 0;
}

/* Refused where it would be used, and only there. */
static void test_users_runtime(void **state)
{
    (void)state;
    setenv("DISTTRAIN_RUNTIME", "/bin/sh", 1);
    run_case(S_CTX_LOCAL, users_runtime_body);
    run_case(S_CTX_ALLOCATOR, users_runtime_body);
    unsetenv("DISTTRAIN_RUNTIME");
}

static void test_siteconf(void **state)
{
    char *av[] = {"runtime=x"};
    (void)state;
    stub_reset();
    stub.context = S_CTX_LOCAL;
    assert_int_equal(dtspank_submit_init(NULL, 1, av), -1);
    assert_string_equal(stub.said, "disttrain: plugstack.conf: runtime: "
                                   "expected an absolute path, got \"x\"\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_srun),       cmocka_unit_test(test_last_wins),
        cmocka_unit_test(test_components), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_empty),      cmocka_unit_test(test_off),
        cmocka_unit_test(test_allocator),  cmocka_unit_test(test_preset),
        cmocka_unit_test(test_nested),     cmocka_unit_test(test_no_command),
        cmocka_unit_test(test_siteconf),   cmocka_unit_test(test_users_runtime),
    };
    return cmocka_run_group_tests_name("spank_submit", tests, setup, teardown);
}
