/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_console.c - what srun and its console tell each other */
#include "config.h"

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

#include "contract/contract.h"
#include "spank/srun/srun_impl.h"
#include "spank/task/task_impl.h"
#include "tests/unit/scratch.h"
#include "tests/unit/spank/spank_stub.h"

/* Tells how the run has ended. */
static void tell_run(int status, void *unused)
{
    (void)unused;
    const int run = dtspank_console_finish(&status);
    FILE *file = fopen(scratch_path("run"), "w");
    fprintf(file, "srun %d, run %d", status, run);
    fclose(file);
}

/* srun, which ends with status 3, and a console that is a script. */
static int run_srun(const char *script)
{
    static char *argv[] = {"srun", "true", NULL};
    const struct dtspank_console_step step = {.job = 4, .step = 2, .tasks = 1};
    const char *path = scratch_write("console", script, strlen(script));
    int status;
    assert_int_equal(chmod(path, 0755), 0);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        dtspank_console_prepare(2, argv);
        dtspank_console_start(path, &step);
        on_exit(tell_run, NULL);
        exit(3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* At the same time, in any order: neither overwrites the other. */
static void both_write_below_the_facts(void **state)
{
    char text[1024] = "", run[64] = "";
    (void)state;
    scratch_path("facts"); /* makes the directory */
    setenv("W", scratch_root, 1);
    assert_int_equal(run_srun("#!/bin/sh\n"
                              "echo VERDICT=7 >&0\n"
                              "echo RUN=75 >&0\n"
                              "until grep -q ^STATUS=3 /proc/self/fd/0; do\n"
                              "    sleep 0.02\n"
                              "done\n"
                              "cat /proc/self/fd/0 >$W/facts\n"),
                     7);
    FILE *file = fopen(scratch_path("facts"), "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    assert_ptr_equal(strstr(text, DT_CONSOLE_VERSION_LINE "\n"), text);
    assert_non_null(strstr(text, "\nSTEP=4.2\n"));
    assert_non_null(strstr(text, "\nVERDICT=7\n"));
    assert_non_null(strstr(text, "\nSTATUS=3\n"));
    file = fopen(scratch_path("run"), "r");
    assert_non_null(file);
    assert_true(fread(run, 1, sizeof(run) - 1, file) > 0);
    fclose(file);
    assert_string_equal(run, "srun 7, run 75");
}

static void env_of_the_config_does_not_reach_the_console(void **state)
{
    (void)state;
    setenv(DT_ENV_CARRY "TOKEN", "hidden", 1);
    setenv("OTHER", "seen", 1);
    assert_int_equal(run_srun("#!/bin/sh\n"
                              "[ \"$OTHER$" DT_ENV_CARRY "TOKEN\" = seen ]\n"
                              "echo VERDICT=$((7 + $?)) >&0\n"),
                     7);
    unsetenv(DT_ENV_CARRY "TOKEN");
}

static bool has_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    const bool found = file && fgets(text, (int)size, file);
    if (file)
        fclose(file);
    return found;
}

static void the_watch_of_a_large_step_gets_all_hosts(void **state)
{
    static const char *const variables[][2] = {
        {"SLURM_PROCID", "0"},          {"SLURM_STEP_NUM_NODES", "5000"},
        {"SLURMD_NODENAME", "n1"},      {"SLURM_STEP_NODELIST", "n[1-5000]"},
        {DT_ENV_CONSOLE, "0af9 label"}, {"MASTER_PORT", "61000"},
    };
    char script[1024], text[64] = "";
    (void)state;
    stub_reset();
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        spank_setenv(NULL, variables[i][0], variables[i][1], 1);
    snprintf(script, sizeof(script),
             "#!/bin/bash\necho $# ${!#} >%s/new && mv %s/new %s/words\n",
             scratch_root, scratch_root, scratch_root);
    const char *path = scratch_write("watch", script, strlen(script));
    assert_int_equal(chmod(path, 0755), 0);
    dtspank_watch_start(NULL, path);
    for (int i = 0; i < 3000 && !has_text(scratch_path("words"), text, 64); i++)
        usleep(10000);
    assert_string_equal(text, "5007 n5000\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_write_below_the_facts),
        cmocka_unit_test(env_of_the_config_does_not_reach_the_console),
        cmocka_unit_test(the_watch_of_a_large_step_gets_all_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
