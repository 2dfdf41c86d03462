/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_check.c - the runtime's answer is read, or refused by name */
#include "config.h"

#include <errno.h>
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

#include "spank/srun/srun_impl.h"

static char runtime[] = "/tmp/test_spank_check.XXXXXX";

/* Makes `runtime` a shell script. */
static void script(const char *body)
{
    FILE *f = fopen(runtime, "w");
    assert_non_null(f);
    assert_true(fprintf(f, "#!/bin/sh\n%s\n", body) > 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(runtime, 0700), 0);
}

static int setup(void **state)
{
    (void)state;
    int fd = mkstemp(runtime);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(runtime);
}

/* The error text, less "RUNTIME check: ". */
static const char *run_fails(const char *body, int deadline_ms)
{
    static struct dt_error err;
    struct dtspank_contract contract;
    script(body);
    assert_int_equal(dtspank_check_run(runtime, "c.yaml", NULL, NULL, NULL,
                                       deadline_ms, &contract, &err),
                     -1);
    size_t len = strlen(runtime);
    if (strncmp(err.text, runtime, len) != 0)
        return err.text;
    assert_memory_equal(err.text + len, " check: ", 8);
    return err.text + len + 8;
}

static void the_answer_of_the_runtime_is_read(void **state)
{
    struct dtspank_contract contract;
    char *words[] = {"-n", "4 5", NULL};
    (void)state;
    script("[ \"$*/$#\" = 'check --contract a b.yaml -- -n 4 5/6' ] || exit 9\n"
           "echo DISTTRAIN_CONTRACT=3; echo CONFIG=/x/a b.yaml\n"
           "echo RUNS=command\n"
           "printf '%s\\n' 'SRUN S=1 2' 'ENV A=1' 'ENV _b2=x=y \\\\n\\nz' 'ENV "
           "C='");
    assert_int_equal(dtspank_check_run(runtime, "a b.yaml", NULL, words, NULL,
                                       10000, &contract, NULL),
                     0);
    assert_string_equal(contract.config, "/x/a b.yaml");
    assert_string_equal(contract.runs, "command");
    assert_int_equal(contract.srun_count, 1);
    assert_string_equal(contract.srun[0], "S=1 2");
    assert_int_equal(contract.env_count, 3);
    assert_string_equal(contract.env[0], "A=1");
    assert_string_equal(contract.env[1], "_b2=x=y \\n\nz");
    assert_string_equal(contract.env[2], "C=");
    dtspank_contract_fini(&contract);
    dtspank_contract_fini(&contract);
}

/* sbatch and salloc tell of their script, or that there is none. */
static void an_allocation_tells_the_runtime_of_its_script(void **state)
{
    struct dtspank_contract contract;
    char *words[] = {"-N2", NULL};
    (void)state;
    script(
        "[ \"$*/$#\" = 'check --contract --allocation a b c.yaml -- -N2/7' ] "
        "|| [ \"$*/$#\" = 'check --contract --allocation  c.yaml -- -N2/7' ] "
        "|| exit 9\n"
        "echo DISTTRAIN_CONTRACT=3; echo CONFIG=/x; echo RUNS=nothing\n");
    assert_int_equal(dtspank_check_run(runtime, "c.yaml", NULL, words, "a b",
                                       10000, &contract, NULL),
                     0);
    dtspank_contract_fini(&contract);
    assert_int_equal(dtspank_check_run(runtime, "c.yaml", NULL, words, "",
                                       10000, &contract, NULL),
                     0);
    dtspank_contract_fini(&contract);
}

static void a_hostile_file_name_reaches_the_runtime_intact(void **state)
{
    static char longest[100000];
    static const char *const names[] = {longest,     "%s%n", "a\nb", "\xff\xfe",
                                        "$(reboot)", "-x",   " "};
    (void)state;
    memset(longest, 'x', sizeof(longest) - 1);
    script("printf 'DISTTRAIN_CONTRACT=3\\nRUNS=train\\nCONFIG=/'\n"
           "printf %s \"$3\" | od -An -v -tx1 | tr -d ' \\n'; echo");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct dtspank_contract contract;
        assert_int_equal(dtspank_check_run(runtime, names[i], NULL, NULL, NULL,
                                           30000, &contract, NULL),
                         0);
        assert_int_equal(strlen(contract.config), 1 + 2 * strlen(names[i]));
        for (size_t b = 0; names[i][b]; b++) {
            char hex[3];
            snprintf(hex, sizeof(hex), "%02x", (unsigned char)names[i][b]);
            assert_memory_equal(contract.config + 1 + 2 * b, hex, 2);
        }
        dtspank_contract_fini(&contract);
    }
}

static void a_refused_configuration_is_not_submitted(void **state)
{
    (void)state;
    assert_string_equal(run_fails("exit 78", 10000),
                        "c.yaml: nothing is submitted");
    assert_string_equal(run_fails("echo garbage; exit 1", 10000),
                        "c.yaml: nothing is submitted");
}

static void a_broken_runtime_is_refused_with_the_reason(void **state)
{
    struct dtspank_contract contract;
    struct dt_error err;
    char host[256] = "", text[512];
    (void)state;
    assert_string_equal(run_fails("kill -9 $$", 10000), "killed by signal 9");
    assert_int_equal(dtspank_check_run("/nonexistent", "c", NULL, NULL, NULL,
                                       1000, &contract, &err),
                     -1);
    gethostname(host, sizeof(host) - 1);
    snprintf(text, sizeof(text),
             "/nonexistent check: No such file or directory (runtime= in "
             "plugstack.conf): install disttrain on %s",
             host);
    assert_string_equal(err.text, text);
    assert_string_equal(run_fails("sleep 60", 100), "no answer in time");
    /* it has to close its stdout before the deadline */
    assert_string_equal(run_fails("exec >/dev/null; sleep 60", 2000),
                        "it did not end");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left */
    assert_int_equal(errno, ECHILD);
    assert_string_equal(run_fails("yes DISTTRAIN_CONTRACT=3", 10000),
                        "the answer is longer than 1048576 bytes");
    assert_string_equal(
        run_fails("printf 'DISTTRAIN_CONTRACT=3\\nCONFIG=/a\\0b\\n'", 10000),
        "the answer has a NUL byte");
}

#define HEAD "DISTTRAIN_CONTRACT=3\nCONFIG=/c\n"

static void an_answer_with_a_wrong_line_is_refused(void **state)
{
    static const struct {
        const char *answer;
        const char *text;
    } cases[] = {
        {"", "expected \"DISTTRAIN_CONTRACT=3\", got \"\": plugin and runtime "
             "are not of the same release"},
        {"DISTTRAIN_CONTRACT=1\n",
         "expected \"DISTTRAIN_CONTRACT=3\", got \"DISTTRAIN_CONTRACT=1\": "
         "plugin and runtime are not of the same release"},
        {"DISTTRAIN_CONTRACT=3\n", "no line \"CONFIG=/...\""},
        {"DISTTRAIN_CONTRACT=3\nCONFIG=c\n", "unexpected line \"CONFIG=c\""},
        {HEAD, "no line \"RUNS=...\""},
        {HEAD "RUNS=away\n", "unexpected line \"RUNS=away\""},
        {HEAD "SRUN 1=1\n", "unexpected line \"SRUN 1=1\""},
        {HEAD "CONFIG=/d\n", "unexpected line \"CONFIG=/d\""},
        {HEAD "\n", "unexpected line \"\""},
        {HEAD "SLURM=1\n", "unexpected line \"SLURM=1\""},
        {HEAD "ENV A=1", "unexpected line \"ENV A=1\""},
        {HEAD "ENV A\n", "unexpected line \"ENV A\""},
        {HEAD "ENV =1\n", "unexpected line \"ENV =1\""},
        {HEAD "ENV 1A=1\n", "unexpected line \"ENV 1A=1\""},
        {HEAD "ENV A-B=1\n", "unexpected line \"ENV A-B=1\""},
        {HEAD "ENV A=\\t\n", "unexpected line \"ENV A=\\t\""},
        {HEAD "ENV A=\\\n", "unexpected line \"ENV A=\\\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dtspank_contract contract;
        struct dt_error err;
        char *text = strdup(cases[i].answer);
        assert_non_null(text);
        assert_int_equal(dtspank_contract_parse(text, &contract, &err), -1);
        assert_string_equal(err.text, cases[i].text);
        dtspank_contract_fini(&contract);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_of_the_runtime_is_read),
        cmocka_unit_test(an_allocation_tells_the_runtime_of_its_script),
        cmocka_unit_test(a_hostile_file_name_reaches_the_runtime_intact),
        cmocka_unit_test(a_refused_configuration_is_not_submitted),
        cmocka_unit_test(a_broken_runtime_is_refused_with_the_reason),
        cmocka_unit_test(an_answer_with_a_wrong_line_is_refused),
    };
    return cmocka_run_group_tests_name("spank_check", tests, setup, teardown);
}
