/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_spank_random.c - 10 000 random command lines, values and environments
 *
 * Whatever srun's command line, the option, plugstack.conf and the environment
 * hold: the plugin does not crash, and returns 0 with valid variables, or -1
 * with a message. A case is a function of the seed and its number:
 * DT_RANDOM_SEED and DT_RANDOM_CASE repeat one.
 */
#include "config.h"

#include <ctype.h>
#include <getopt.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "spank/options.h"
#include "spank/srun/submit.h"
#include "spank/task/task_step.h"
#include "tests/unit/spank/spank_stub.h"

enum {
    CASES = 2000,
    WORDS = 16,     /* of srun's command line */
    SITE_WORDS = 5, /* of plugstack.conf */
    VALUE_BYTES = 70000,
    ENTRIES = 16, /* variables put into an environment at random */
};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

/* How the cases ended, counted by all processes. */
enum { SUBMITTED, NOT_SUBMITTED, STARTED, NOT_STARTED, ENDS };
static int *ends;

static uint64_t seed = 20261120;
static uint64_t state;
static char **words;              /* main's argv, which the plugin has too */
static char scratch[VALUE_BYTES]; /* the value made last */
static char dir[] = "/tmp/test_spank_random.XXXXXX";
static char runtime_arg[128];
static char no_runtime[] = "runtime=/nonexistent/disttrain";
static char no_names[] = "off=net"; /* a name server would be asked */

/* xorshift64*, the upper half. */
static uint32_t draw(uint32_t below)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (uint32_t)((state * UINT64_C(0x2545F4914F6CDD1D)) >> 32) % below;
}

static const char *pick(const char *const *list, size_t count)
{
    return list[draw((uint32_t)count)];
}

/* A word of up to `most` characters of the alphabet. */
static const char *letters(const char *alphabet, uint32_t most)
{
    uint32_t len = draw(most + 1);
    for (uint32_t i = 0; i < len; i++)
        scratch[i] = alphabet[draw((uint32_t)strlen(alphabet))];
    scratch[len] = '\0';
    return scratch;
}

static const char *bytes(uint32_t most)
{
    uint32_t len = draw(most + 1);
    for (uint32_t i = 0; i < len; i++)
        scratch[i] = (char)(1 + draw(255));
    scratch[len] = '\0';
    return scratch;
}

static const char *const nasty[] = {
    "",
    "-1",
    "0x10",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "99999999999999999999999999",
    "%n%s%1000000d",
    "n[0-4294967295]",
    "n[3-1]",
    "[[[[",
    "a1,b[2-3],c",
    "n[00000000000000000001-2]",
    "4(x4294967295)",
    "12000-12004",
    "65536-1",
    "=",
    ",",
    "\n",
    "\x1b[2J\r",
    "\xff\xfe",
    "..",
    "none",
    "torch,jax,,x",
    "10@300",
};

/* Anything at all; lives until the next value is made. */
static const char *any_value(void)
{
    switch (draw(8)) {
    case 0:
        return bytes(40);
    case 1:
        return bytes(draw(50) == 0 ? VALUE_BYTES - 1 : 400);
    case 2:
        return letters("0123456789", 22);
    case 3:
        return letters("n0123[],-", 24);
    case 4:
        return letters("0123456789x(),", 24);
    default:
        return pick(nasty, COUNT(nasty));
    }
}

static const char *number_below(uint32_t below)
{
    snprintf(scratch, sizeof(scratch), "%u", (unsigned)draw(below));
    return scratch;
}

/* What a real step of this size would have. */
static void set_real_task(void)
{
    static const char *const names[] = {
        "SLURM_PROCID",        "SLURM_LOCALID", "SLURM_NODEID",
        "SLURM_JOB_ID",        "SLURM_STEP_ID", "SLURM_CPUS_ON_NODE",
        "SLURM_CPUS_PER_TASK",
    };
    stub.local_tasks = draw(9);
    stub.component_tasks = draw(9);
    for (size_t i = 0; i < COUNT(names); i++)
        spank_setenv(NULL, names[i], number_below(8), 1);
    spank_setenv(NULL, "SLURM_STEP_NUM_TASKS", "8", 1);
    spank_setenv(NULL, "SLURM_STEP_NUM_NODES", "3", 1);
    spank_setenv(NULL, "SLURM_STEP_NODELIST", "n[07-09]", 1);
    spank_setenv(NULL, "SLURM_STEP_TASKS_PER_NODE", "3(x2),2", 1);
    spank_setenv(NULL, "SLURM_JOB_PARTITION", "main", 1);
    spank_setenv(NULL, "SLURMD_NODENAME", "n08", 1);
    spank_setenv(NULL, DT_ENV_CONFIG, "/c.yaml", 1);
}

/* All that the plugin reads, and some that it does not. */
static const char *const variables[] = {
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_RESV_PORTS",
    "SLURM_CPUS_ON_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_CPU_BIND_TYPE",
    "SLURM_CPU_BIND_LIST",
    "SLURM_RLIMIT_NOFILE",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_NODELIST_PACK_GROUP_0",
    "SLURM_HET_SIZE",
    "SLURM_RESTART_COUNT",
    "SLURM_GPUS_ON_NODE",
    "SLURM_STEP_GPUS",
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMP_NUM_THREADS",
    "DISTTRAIN_RUNTIME",
    "SLURM_MPI_TYPE",
    DTSPANK_PRESET,
    DT_ENV_MASTER,
    DT_ENV_EXPORTED,
    DT_ENV_CARRY,
    DT_ENV_CARRY "A",
    DT_ENV_CARRY "RANK",
    DT_ENV_FRAMEWORKS,
    DT_ENV_GPU_VISIBILITY,
    DT_ENV_CPU_BIND,
    DT_ENV_SIGNAL,
    DT_ENV_REQUEUE,
    DT_ENV_COMMAND,
    DT_ENV_CONSOLE_RANKS,
    DT_ENV_CONSOLE,
    DT_ENV_RANK_LOGS,
    DT_ENV_RUN,
    "_",
    "A",
};

static char *site_words(char **av, int *ac)
{
    static const char *const keys[] = {
        "port_range=",  "port_range=20000-", "env=",   "env=A=",
        "env[main]=B=", "force=A=",          "force[", "allow_runtime=/",
        "runtime=/",    "off=gpu,",          "off=",   "",
    };
    static const char *const good[] = {
        "port_range=20000-20010", "env=A=1",       "env[main]=A=2", "force=C=3",
        "allow_runtime=/tmp",     "off=net,ports",
    };
    char *text = malloc(SITE_WORDS * (VALUE_BYTES + 32));
    char *at = text;
    if (!text)
        abort();
    *ac = 0;
    av[(*ac)++] = draw(4) == 0 ? runtime_arg : no_runtime; /* it is slow */
    av[(*ac)++] = no_names;
    while (*ac < SITE_WORDS && draw(2) == 0) {
        av[(*ac)++] = at;
        if (draw(4) > 0)
            at += sprintf(at, "%s", pick(good, COUNT(good)));
        else
            at += sprintf(at, "%s%s", pick(keys, COUNT(keys)), any_value());
        at++;
    }
    return text;
}

/* One case has failed: what, and how to see it again. */
static void expect(bool condition, const char *what, int number)
{
    if (condition)
        return;
    dprintf(STDOUT_FILENO,
            "# DT_RANDOM_SEED=%llu DT_RANDOM_CASE=%d: %s; said: %s\n",
            (unsigned long long)seed, number, what, stub.said);
    _exit(1);
}

/* Lines without control characters, and at least one if the plugin failed. */
static void expect_words(int rc, int number)
{
    expect(rc == 0 || rc == -1, "neither 0 nor -1", number);
    expect(rc == 0 || stub.said[0] != '\0', "failed without a message", number);
}

static bool is_number(const char *text)
{
    return text && text[0] && strspn(text, "0123456789") == strlen(text) &&
           strtoull(text, NULL, 10) <= UINT32_MAX;
}

static void expect_task(int number)
{
    static const char *const names[] = {
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK",
    };
    for (size_t i = 0; i < COUNT(names); i++)
        expect(is_number(stub_getenv(names[i])), names[i], number);
    expect(strtoul(stub_getenv("RANK"), NULL, 10) ==
               strtoul(stub_getenv("SLURM_PROCID"), NULL, 10),
           "RANK is not SLURM_PROCID", number);
    expect(stub_getenv("MASTER_ADDR") != NULL, "MASTER_ADDR", number);
    expect(stub_getenv("MASTER_PORT") != NULL, "MASTER_PORT", number);
}

static void step_case(int number)
{
    char *av[SITE_WORDS];
    int ac;
    stub_reset();
    char *text = site_words(av, &ac);
    if (draw(8) > 0)
        set_real_task();
    for (uint32_t i = draw(ENTRIES); draw(3) > 0 && i > 0; i--)
        spank_setenv(NULL, pick(variables, COUNT(variables)), any_value(), 1);
    expect_words(dtspank_step_init(NULL, ac, av), number);
    dtspank_step_user_init(NULL);
    int rc = dtspank_step_task_init(NULL);
    expect_words(rc, number);
    ends[rc == 0 ? STARTED : NOT_STARTED] += stub_getenv(DT_ENV_CONFIG) != NULL;
    for (const char *c = stub.said; rc != 0 && *c; c++)
        expect(*c == '\n' || !iscntrl((unsigned char)*c),
               "a control character in a message", number);
    if (rc == 0 && stub_getenv(DT_ENV_CONFIG))
        expect_task(number);
    stub.exit_status = (int)draw(UINT32_MAX);
    expect_words(dtspank_step_task_exit(NULL), number);
    free(text);
}

/* The array keeps its length, as srun's does. */
static void draw_command_line(char **owned)
{
    static const char *const options[] = {
        "--disttrain=c.yaml",
        "--disttrain",
        "c.yaml",
        "--disttrain-set=a=1",
        "--disttrain-set",
        "-N2",
        "-n",
        "4",
        "--",
        ":",
        "--multi-prog",
        "-",
        "disttrain",
        "--mpi=none",
        "sh",
    };
    for (int i = 1; i < WORDS; i++) {
        const char *word =
            draw(8) > 0 ? pick(options, COUNT(options)) : any_value();
        owned[i] = strdup(word);
        if (!owned[i])
            abort();
        words[i] = owned[i];
    }
    optind = 1 + (int)draw(WORDS);
}

/* What `RUNTIME check` is going to say. */
static void draw_answer(void)
{
    static const char *const lines[] = {
        "CONFIG=/x/c.yaml",
        "RUNS=train",
        "RUNS=command",
        "SRUN SLURM_NNODES=2",
        "SRUN SLURM_DISTTRAIN_SIGNAL=10@300",
        "ENV A=1",
        "ENV B=a\\nb",
        "ENV A",
    };
    char path[64];
    snprintf(path, sizeof(path), "%s/answer", dir);
    FILE *f = fopen(path, "w");
    if (!f)
        abort();
    fprintf(f, "%s\nCONFIG=/c.yaml\nRUNS=train\n", DT_CONTRACT_VERSION_LINE);
    for (uint32_t i = draw(6); draw(2) > 0 && i > 0; i--)
        fprintf(f, "%s\n",
                draw(4) > 0 ? pick(lines, COUNT(lines)) : any_value());
    fclose(f);
}

static void submit_case(int number)
{
    static const spank_context_t contexts[] = {S_CTX_LOCAL, S_CTX_ALLOCATOR};
    char *owned[WORDS];
    char *av[SITE_WORDS];
    int ac;
    stub_reset();
    stub.context = contexts[draw(2)];
    clearenv();
    setenv("PATH", "/usr/bin:/bin", 1);
    for (uint32_t i = draw(ENTRIES); draw(3) > 0 && i > 0; i--)
        setenv(pick(variables, COUNT(variables)), any_value(), 1);
    char *text = site_words(av, &ac);
    draw_command_line(owned);
    draw_answer();
    int rc = dtspank_submit_init(NULL, ac, av);
    expect_words(rc, number);
    if (rc == 0)
        rc = dtspank_submit_prepare();
    expect_words(rc, number);
    if (rc == 0 && getenv(DTSPANK_PRESET)) /* Slurm asks for it first */
        rc = dtspank_submit_option(getenv(DTSPANK_PRESET));
    expect_words(rc, number);
    for (uint32_t i = draw(3); rc == 0 && i > 0; i--)
        rc = dtspank_submit_option(draw(2) == 0 ? "c.yaml" : any_value());
    expect_words(rc, number);
    if (rc == 0)
        rc = dtspank_submit_post_opt(NULL);
    expect_words(rc, number);
    ends[rc == 0 ? SUBMITTED : NOT_SUBMITTED]++;
    dtspank_submit_step_created(NULL);
    expect_words(0, number);
    for (int i = 1; i < WORDS; i++) {
        expect(words[i] != NULL, "a hole in the command line", number);
        free(owned[i]);
    }
    free(text);
}

/* Each in a process of its own: the plugin keeps state for the life of srun. */
static void run_case(int number)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (size_t i = 0; i < COUNT(deadly); i++)
            signal(deadly[i], SIG_DFL); /* cmocka would go on */
        /* tasks tell srun's console something there */
        if (!getenv("DT_RANDOM_CASE") && !freopen("/dev/null", "w", stderr))
            _exit(1);
        state = seed * CASES + (uint64_t)number + 1;
        draw(1);
        submit_case(number);
        step_case(number);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fprintf(stderr, "# DT_RANDOM_SEED=%llu DT_RANDOM_CASE=%d: status %#x\n",
                (unsigned long long)seed, number, (unsigned)status);
    assert_int_equal(status, 0);
}

static void random_input_gives_valid_variables_or_a_message(void **unused)
{
    const char *one = getenv("DT_RANDOM_CASE");
    (void)unused;
    printf("# seed %llu\n", (unsigned long long)seed);
    if (one)
        run_case(atoi(one));
    for (int number = 0; !one && number < CASES; number++)
        run_case(number);
    for (int i = 0; !one && i < ENDS; i++)
        assert_in_range(ends[i], CASES / 10, CASES);
}

/* A runtime that says what is in the file beside it. */
static int setup(void **unused)
{
    char path[64];
    (void)unused;
    ends = mmap(NULL, sizeof(*ends) * ENDS, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ends == MAP_FAILED || !mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/disttrain", dir);
    snprintf(runtime_arg, sizeof(runtime_arg), "runtime=%s", path);
    FILE *f = fopen(path, "w");
    if (!f)
        return -1;
    fprintf(f, "#!/bin/sh\nwhile read -r line; do echo \"$line\"\n"
               "done <${0%%/*}/answer\n");
    return fclose(f) == 0 ? chmod(path, 0755) : -1;
}

static int teardown(void **unused)
{
    static const char *const names[] = {"disttrain", "answer", ""};
    char path[64];
    (void)unused;
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        remove(path);
    }
    return 0;
}

/* The plugin knows main's arguments, whose number is fixed by then: start again
 * with enough of them.
 */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            random_input_gives_valid_variables_or_a_message, setup, teardown),
    };
    const char *wish = getenv("DT_RANDOM_SEED");
    if (argc != WORDS) {
        char *again[WORDS + 1] = {NULL};
        for (int i = 0; i < WORDS; i++)
            again[i] = argv[0];
        execv("/proc/self/exe", again);
        return 1;
    }
    words = argv;
    if (wish)
        seed = strtoull(wish, NULL, 10);
    return cmocka_run_group_tests_name("spank_random", tests, NULL, NULL);
}
