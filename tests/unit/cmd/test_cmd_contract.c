/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_contract.c - what `disttrain check` tells the Slurm plugin */
#include "config.h"

#include <errno.h>
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

static void a_contract_names_the_file_and_its_variables(void **state)
{
    char wanted[512];
    (void)state;
    write_file("t.yaml", LEAST "env: {A: x, B: 'a\\b', C: \"1\\n2\", D: ''}\n");
    assert_int_equal(check("--contract t.yaml"), 0);
    snprintf(wanted, sizeof(wanted),
             "DISTTRAIN_CONTRACT=3\nCONFIG=%s/t.yaml\nRUNS=train\n"
             "SRUN SLURM_DISTTRAIN_KEEPER=3\nSRUN SLURM_DISTTRAIN_KEPT=1\n"
             "SRUN SLURM_DISTTRAIN_RUN=%s/outputs/run/logs\n"
             "ENV A=x\nENV B=a\\\\b\nENV C=1\\n2\nENV D=\n",
             test_directory, test_directory);
    assert_string_equal(out, wanted);
    assert_string_equal(errors, "");
}

/* But a command of the user's own is no keeper. */
static void a_step_of_keepers_has_its_spares_and_outlives_nodes(void **state)
{
    (void)state;
    write_file("t.yaml",
               LEAST "train_batch_size: 16\nlaunch: {nodes: 2, "
                     "ntasks_per_node: 2, spares: 1, min_ranks: 2}\n");
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_string_equal(errors, "");
    assert_non_null(strstr(out, "SRUN SLURM_JOB_NUM_NODES=3\n"));
    assert_non_null(strstr(out, "SRUN SLURM_DISTTRAIN_SPARES=1 2\n"
                                "SRUN SLURM_DISTTRAIN_OUTLIVES=1\n"));
    assert_int_equal(check("--contract t.yaml -- -- sh"), 0);
    assert_non_null(strstr(out, "SRUN SLURM_JOB_NUM_NODES=2\n"));
    assert_null(strstr(out, "OUTLIVES"));
    assert_int_equal(
        check("--contract --set launch.keeper=off --set launch.max_restarts=1 "
              "t.yaml"),
        0);
    assert_non_null(strstr(out, "SRUN SLURM_JOB_NUM_NODES=2\n"));
    assert_null(strstr(out, "OUTLIVES"));
}

/* sbatch has to know before it knows its options, so sizes are not compared,
 * and mistakes are left to --contract.
 */
static void outlives_is_the_status_and_nothing_else(void **state)
{
    static const struct {
        const char *launch, *set;
        int status;
    } cases[] = {
        {"nodes: 2, spares: 1", "", 0},
        {"nodes: 2, min_ranks: 1", "", 0},
        {"nodes: 2, min_ranks: 1, max_restarts: 1", "--set launch.keeper=off ",
         1},
        {"nodes: 2", "", 1},
        {"nodes: 2", "--set launch.spares=1 ", 0},
        {"nodes: 2, spares: 1, command: [sh], max_restarts: 1", "", 1},
        {"nodes: 2, spares: 1, command: [sh], keeper: on", "", 0},
    };
    (void)state;
    setenv("SLURM_JOB_ID", "7", 1); /* sizes are those of another job */
    setenv("SLURM_JOB_NUM_NODES", "1", 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512], args[128];
        snprintf(text, sizeof(text),
                 LEAST "train_batch_size: 16\nresume: auto\noutput_dir: "
                       "o-${SLURM_ARRAY_TASK_ID}\nlaunch: {%s}\n",
                 cases[i].launch);
        write_file("t.yaml", text);
        snprintf(args, sizeof(args), "--outlives %st.yaml --", cases[i].set);
        assert_int_equal(check(args), cases[i].status);
        assert_string_equal(errors, "");
        assert_string_equal(out, "");
    }
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_JOB_NUM_NODES");
}

/* Which steps have keepers, that the console hears of. */
static void tasks_are_kept_where_the_command_or_the_file_says_so(void **state)
{
    static const struct {
        const char *words;
        bool trains, keeps, off; /* where the file trains, runs a command with
                                  * keepers, or turns them off */
    } cases[] = {
        {"", true, true, false},
        {" -- -- disttrain", true, true, false},
        {" -- -- /a/disttrain train t.yaml", true, true, false},
        {" -- -- disttrain keep sh", true, true, true},
        {" -- -- disttrain doctor", false, false, false},
        {" -- -- sh keep", false, false, false},
    };
    char line[256], *own = program_invocation_short_name;
    (void)state;
    program_invocation_short_name = (char[]){"disttrain"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int file = 0; file < 3; file++) {
            const bool wanted = file == 0   ? cases[i].trains
                                : file == 1 ? cases[i].keeps
                                            : cases[i].off;
            write_file("t.yaml", file == 0 ? LEAST
                                 : file == 1
                                     ? "launch: {keeper: on, command: [a]}\n"
                                     : LEAST "launch: {keeper: off}\n");
            snprintf(line, sizeof(line), "--contract t.yaml%s", cases[i].words);
            assert_int_equal(check(line), 0);
            if (wanted != !!strstr(out, "SRUN SLURM_DISTTRAIN_KEPT=1\n"))
                fail_msg("%s, file %d: %s", line, file, out);
        }
    program_invocation_short_name = own;
}

static void srun_gets_the_settings_it_was_not_given(void **state)
{
    char wanted[2048];
    (void)state;
    write_file("t.yaml", "launch:\n"
                         "  nodes: 2\n  gpus_per_node: 4\n  partition: a\n"
                         "  time: 60\n  requeue: true\n  mem: 8G\n"
                         "  command: [sh, -c, 'a\\b', \"c\\nd\"]\n"
                         "  frameworks: jax\n  master_addr: n7\n"
                         "  hang_timeout: 600\n  hang_action: end\n"
                         "logging: {rank_logs: true, console_ranks: 0}\n");
    setenv("SLURM_MEM_PER_NODE", "4G", 1);
    assert_int_equal(check("--contract t.yaml -- -pb -Q --time=5"), 0);
    unsetenv("SLURM_MEM_PER_NODE");
    snprintf(wanted, sizeof(wanted),
             "DISTTRAIN_CONTRACT=3\nCONFIG=%s/t.yaml\nRUNS=command\n"
             "SRUN SLURM_JOB_NUM_NODES=2\nSRUN SLURM_NTASKS_PER_NODE=4\n"
             "SRUN SLURM_GPUS_PER_NODE=4\n"
             "SRUN SLURM_DISTTRAIN_FRAMEWORKS=jax\n"
             "SRUN SLURM_DISTTRAIN_COMMAND=sh\\n-c\\na\\\\\\\\b\\nc\\\\nd\n"
             "SRUN SLURM_DISTTRAIN_REQUEUE=0\n"
             "SRUN SLURM_DISTTRAIN_HANG=600 end\n"
             "SRUN SLURM_DISTTRAIN_CONSOLE_RANKS=0\n"
             "SRUN SLURM_DISTTRAIN_RANK_LOGS=%s/outputs/run/logs\n"
             "SRUN SLURM_DISTTRAIN_SIGNAL=10@120\nENV MASTER_ADDR=n7\n",
             test_directory, test_directory);
    assert_string_equal(out, wanted);
    assert_string_equal(errors, "");
    assert_int_equal(check("--contract t.yaml -- -n3 --nodes 1"), 0);
    assert_null(strstr(out, "SLURM_JOB_NUM_NODES"));
    assert_null(strstr(out, "SLURM_NTASKS_PER_NODE"));
    write_file("t.yaml", "launch: {hang_timeout: 0, command: [a], "
                         "job_comment: false}\n");
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_non_null(strstr(out, "SRUN SLURM_DISTTRAIN_JOB_COMMENT=no\n"));
    assert_non_null(strstr(out, "SRUN SLURM_DISTTRAIN_HANG=0\n"));
    assert_int_equal(check("--contract /dev/null"), 0);
    assert_string_equal(out, "DISTTRAIN_CONTRACT=3\nCONFIG=/dev/null\n"
                             "RUNS=nothing\n");
}

static void the_run_names_the_job_that_srun_makes(void **state)
{
    (void)state;
    write_file("t.yaml", LEAST "run.name: mine\n");
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_non_null(strstr(out, "SRUN SLURM_JOB_NAME=mine\n"));
    setenv("SLURM_JOB_NAME", "theirs", 1);
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_null(strstr(out, "SLURM_JOB_NAME"));
    unsetenv("SLURM_JOB_NAME");
    setenv("SLURM_JOB_ID", "77", 1);
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_null(strstr(out, "SLURM_JOB_NAME"));
    unsetenv("SLURM_JOB_ID");
    write_file("t.yaml", LEAST);
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_null(strstr(out, "SLURM_JOB_NAME"));
}

/* A step larger than its job, and ranks that do not fit the batch. */
static void a_step_larger_than_its_job_is_refused(void **state)
{
    (void)state;
    write_file("t.yaml", LEAST "launch: {nodes: 2, ntasks_per_node: 3}\n"
                               "train_batch_size: 8\n");
    assert_int_equal(check("--contract t.yaml"), EX_CONFIG);
    assert_non_null(strstr(errors, "E102 8 cannot be divided by 12"));
    write_file("t.yaml", "launch:\n  nodes: 3\n  gpus_per_node: 8\n"
                         "  cpus_per_task: 4\n  partition: a\n");
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_JOB_NUM_NODES", "2", 1);
    setenv("SLURM_GPUS_ON_NODE", "4", 1);
    setenv("SLURM_JOB_CPUS_PER_NODE", "32(x2),16", 1);
    setenv("SLURM_JOB_PARTITION", "b", 1);
    assert_int_equal(check("--contract t.yaml"), EX_CONFIG);
    assert_string_equal(out, "");
    assert_string_equal(
        errors,
        "t.yaml:2:10: launch.nodes: 3 nodes, but job 77 has 2\n"
        "t.yaml:3:18: launch.gpus_per_node: 8 GPUs a node, but job 77 has 4\n"
        "t.yaml:4:18: launch.cpus_per_task: 8 ranks of 4 CPUs are 32 a node, "
        "but job 77 has 16\n"
        "warning: t.yaml:5:14: launch.partition: a, but job 77 is in b\n");
    assert_int_equal(check("--contract t.yaml -- -N2 --gpus-per-node=4 -n 4"),
                     0);
    assert_null(strstr(out, "SLURM_PARTITION"));
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_JOB_NUM_NODES");
    unsetenv("SLURM_GPUS_ON_NODE");
    unsetenv("SLURM_JOB_CPUS_PER_NODE");
    unsetenv("SLURM_JOB_PARTITION");
}

static void the_spares_are_nodes_of_a_job(void **state)
{
    (void)state;
    write_file("job.sh", "#!/bin/sh\n");
    write_file("t.yaml", LEAST "launch: {nodes: 2, spares: 1}\n");
    assert_int_equal(check("--contract --allocation job.sh t.yaml -- -N3 -n3"),
                     0);
    assert_string_equal(errors, "");
    assert_int_equal(check("--contract --allocation job.sh t.yaml -- -N2 -n2"),
                     EX_CONFIG);
    assert_non_null(strstr(errors, "3 nodes with launch.spares, but this job "
                                   "has 2\n"));
    assert_int_equal(check("--contract --allocation job.sh t.yaml"), EX_CONFIG);
    assert_non_null(strstr(errors, "3 nodes with launch.spares, but this job "
                                   "asks for one: add --nodes=3\n"));
    unlink("job.sh");
    /* nodes of srun that are to have ranks would be spares */
    assert_int_equal(check("--contract t.yaml -- -N2"), EX_CONFIG);
    assert_non_null(strstr(
        errors,
        "launch.spares: 1 of the 2 nodes of --nodes, so that ranks have 1, and "
        "not the 2 of launch.nodes: give --nodes=3, or "
        "--disttrain-set=launch.spares=0\n"));
    assert_int_equal(check("--contract t.yaml -- -N3"), 0);
    assert_int_equal(check("--contract t.yaml -- -N4"), 0);
    assert_int_equal(check("--contract --set launch.spares=0 t.yaml -- -N2"),
                     0);
    /* a command that is no keeper runs on whatever the job has */
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_JOB_NUM_NODES", "3", 1);
    assert_int_equal(check("--contract t.yaml -- -- sh"), 0);
    setenv("SLURM_JOB_NUM_NODES", "2", 1);
    assert_int_equal(check("--contract t.yaml -- -- sh"), 0);
    assert_string_equal(errors, "");
    assert_int_equal(check("--contract t.yaml"), EX_CONFIG);
    setenv("SLURM_JOB_NUM_NODES", "4", 1);
    assert_int_equal(check("--contract t.yaml -- -- sh"), EX_CONFIG);
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_JOB_NUM_NODES");
}

#define NODES(n) "t.yaml:1:17: launch.nodes: 2 nodes, but this job has " #n "\n"
#define RANKS(n)                                                               \
    "t.yaml:1:37: launch.ntasks_per_node: 3 ranks a node, but this job "       \
    "has " #n "\n"

#define ASKS                                                                   \
    "t.yaml:1:17: launch.nodes: 2 nodes, but this job asks for one: "          \
    "add --nodes=2\n"
#define TOTAL(n)                                                               \
    "t.yaml:1:37: launch.ntasks_per_node: 3 ranks a node are 6 on 2 nodes, "   \
    "but this job has " #n "\n"

/* Checks t.yaml for a job of these words and this script. */
static void request(const char *words, const char *script, const char *says)
{
    char args[256], line[1024];
    write_file("job.sh", script);
    snprintf(args, sizeof(args), "--contract --allocation job.sh t.yaml -- %s",
             words);
    snprintf(line, sizeof(line), "%s", says);
    int status = check(args);
    assert_string_equal(errors, line);
    bool fails = line[0] && strncmp(line, "warning", strlen("warning")) != 0;
    assert_int_equal(status, fails ? EX_CONFIG : 0);
}

/* What sbatch asks for is what the job has, and what the shell says of another
 * job is nothing. Of each option the last one counts, on the command line
 * before the script.
 */
static void launch_must_match_what_sbatch_asks_for(void **state)
{
    static const struct {
        const char *words, *script, *says;
    } cases[] = {
        {"", "", ASKS},
        {"-N2 -n 6", "", ""},
        {"-N 4", "", NODES(4)},
        {"--nodes=4", "", NODES(4)},
        {"--nodes 4", "", NODES(4)},
        {"-HN4", "", NODES(4)},
        {"-N4-4", "", NODES(4)},
        {"-w n1,n[2-3,07]", "", NODES(4)},
        {"--nodel n[1-2]", "", ""},
        {"-N2 -N4", "", NODES(4)},
        {"-N4 -N2", "", ""},
        {"-N", "", ASKS},
        {"--nodesx=4 -N2", "", ""},
        {"-J -N4 -N2 --comment --nodes=2", "", ""},
        {"-N1-4", "", ""},
        {"-N4 : -N2", "", ""},
        {"-N2 -n4", "", RANKS(2)},
        {"-N2 -n5", "", TOTAL(5)},
        {"-N2 -n3 --ntasks-per-node=3", "", TOTAL(3)},
        {"--ntasks-per-n=2 -N2", "", RANKS(2)},
        {"", "#!/bin/sh\n#SBATCH -N 4 # why\n", NODES(4)},
        {"-N2", "#!/bin/sh\n#SBATCH -c1 # -N 4\n", ""},
        {"", "#!/bin/sh\n\n# x\n#SBATCH --nodes='4'\n", NODES(4)},
        {"", "#!/bin/sh\n \n  # x\n#SBATCH -N\\4#x\n", NODES(4)},
        {"", "#!/bin/sh\n#SBATCH -N2 --comment \"a -N4 #\"\n", ""},
        {"", "#!/bin/sh\ntrue\n#SBATCH -N4\n", ASKS},
        {"", "#!/bin/sh\n#SBATCH -N4\n#SBATCH -N2\n", ""},
        {"-N2", "#!/bin/sh\n#SBATCH -N4\n", ""},
        {"", "#!/bin/sh\n#SBATCH -N4\n#SBATCH hetjob\n#SBATCH -N1\n", ""},
    };
    char words[128];
    (void)state;
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_JOB_NUM_NODES", "9", 1);
    setenv("SLURM_GPUS_ON_NODE", "9", 1);
    write_file("t.yaml", "launch: {nodes: 2, ntasks_per_node: 3, "
                         "gpus_per_node: 3}\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(words, sizeof(words), "--exclusive %s", cases[i].words);
        request(words, cases[i].script, cases[i].says);
    }
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_JOB_NUM_NODES");
    unsetenv("SLURM_GPUS_ON_NODE");
    assert_int_equal(check("--allocation x t.yaml"), EX_USAGE);
    assert_int_equal(unlink("job.sh"), 0);
}

#define SHARED                                                                 \
    "warning: t.yaml:1:1: run.output_dir: the same for all jobs of the "       \
    "array: make ${SLURM_ARRAY_TASK_ID} part of it\n"

/* Unless one comes after the other, and continues what that has done. */
static void jobs_of_an_array_write_to_one_directory_with_a_warning(void **state)
{
    static const struct {
        const char *words, *script, *says;
    } cases[] = {
        {"", "", ""},
        {"-a 3", "", ""},
        {"-a 0-3", "", SHARED},
        {"--array=0,2", "", SHARED},
        {"--array=0-3%1", "", ""},
        {"--array=0-3%10", "", SHARED},
        {"", "#!/bin/sh\n#SBATCH --array=0-3%2\n", SHARED},
    };
    (void)state;
    write_file("t.yaml", LEAST);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        request(cases[i].words, cases[i].script, cases[i].says);
    write_file("t.yaml", LEAST "output_dir: 'o${SLURM_ARRAY_TASK_ID}'\n");
    request("-a 0-3", "", "");
    write_file("t.yaml", LEAST "output_dir: 'o${SLURM_JOB_ID}'\n");
    request("-a 0-3", "", "");
    write_file("t.yaml", "launch: {command: [a]}\n");
    request("-a 0-3", "", "");
    assert_int_equal(unlink("job.sh"), 0);
}

#define GPUS(n)                                                                \
    "t.yaml:1:45: launch.gpus_per_node: 4 GPUs a node, but this job has " #n   \
    "\n"

static void gpus_are_counted_however_they_are_asked_for(void **state)
{
    static const struct {
        const char *words, *says;
    } cases[] = {
        {"--gpus-per-node=a100:4", ""},
        {"--gpus-per-node=a100:3,h100:1", ""},
        {"--gpus-per-node=a100:3", GPUS(3)},
        {"-G 8", ""},
        {"-G 4", GPUS(2)},
        {"--gpus=a100:7", "t.yaml:1:45: launch.gpus_per_node: 4 GPUs a node "
                          "are 8 on 2 nodes, but this job has 7\n"},
        {"--gres=tmp:5G,gpu:a100:4", ""},
        {"--gres=gpu", GPUS(1)},
        {"--gres=gres/gpu:2,gpux:4", GPUS(2)},
        {"--gpus-per-task=1", ""},
    };
    char words[128];
    (void)state;
    write_file("t.yaml", "launch: {ntasks_per_node: 1, gpus_per_node: 4, "
                         "nodes: 2}\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(words, sizeof(words), "-N2 %s", cases[i].words);
        request(words, "#!/bin/sh\n", cases[i].says);
    }
    setenv("SALLOC_GPUS_PER_NODE", "3", 1);
    setenv("SBATCH_GPUS_PER_NODE", "2", 1);
    request("-N2", "#!/bin/sh\n#SBATCH --gpus-per-node=4\n", GPUS(2));
    request("-N2 --gpus-per-node=4", "#!/bin/sh\n", "");
    unsetenv("SALLOC_GPUS_PER_NODE");
    unsetenv("SBATCH_GPUS_PER_NODE");
    assert_int_equal(unlink("job.sh"), 0);
}

#define MORE                                                                   \
    "but this job does not ask for them: unless it gets whole nodes, add "

/* One node is certain. The rest is there where jobs get whole nodes. */
static void what_nothing_asks_for_is_named(void **state)
{
    char script[512];
    static const char ranks[] =
        "warning: t.yaml:1:37: launch.ntasks_per_node: 2 ranks a "
        "node, " MORE "--ntasks-per-node=2\n"
        "warning: t.yaml:1:55: launch.cpus_per_task: 3 CPUs a "
        "rank, " MORE "--cpus-per-task=3\n"
        "warning: t.yaml:1:73: launch.gpus_per_node: 2 GPUs a "
        "node, " MORE "--gpus-per-node=2\n";
    (void)state;
    write_file("t.yaml", "launch: {nodes: 2, ntasks_per_node: 2, "
                         "cpus_per_task: 3, gpus_per_node: 2}\n");
    request("-N2", "#!/bin/sh\n", ranks);
    request("-N2 --exclusive", "#!/bin/sh\n", "");
    request("-N2 --ntasks-per-gpu=1 --tres-per-task=cpu:3,gres/gpu:1",
            "#!/bin/sh\n", "");
    request("-n4 -c3 -G4", "#!/bin/sh\n",
            "warning: t.yaml:1:17: launch.nodes: 2 nodes, but this job may get "
            "another number: add --nodes=2\n");
    /* a script that only sbatch can read says what is not known here */
    assert_int_equal(check("--contract --allocation no.sh t.yaml"), 0);
    assert_string_equal(errors, "");
    assert_int_equal(check("--contract --allocation no.sh t.yaml -- -N3"),
                     EX_CONFIG);
    /* a script in PATH is found as sbatch finds it */
    assert_int_equal(mkdir("bin", 0755), 0);
    write_file("bin/there.sh", "#!/bin/sh\n#SBATCH -N3 --exclusive\n");
    snprintf(script, sizeof(script), "%s", getenv("PATH"));
    setenv("PATH", "/nowhere::bin", 1);
    assert_int_equal(check("--contract --allocation there.sh t.yaml"),
                     EX_CONFIG);
    assert_string_equal(errors, NODES(3));
    setenv("PATH", script, 1);
    assert_int_equal(unlink("bin/there.sh") | rmdir("bin") | unlink("job.sh"),
                     0);
}

static void a_file_keeps_its_sum_inside_the_job(void **state)
{
    char sum[512];
    (void)state;
    write_file("t.yaml", "launch: {nodes: 2}\n");
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_null(strstr(out, "SLURM_DISTTRAIN_SUM"));
    assert_int_equal(check("--contract --allocation job.sh t.yaml"), 0);
    char *line = strstr(out, "SRUN SLURM_DISTTRAIN_SUM=");
    assert_non_null(line);
    snprintf(sum, sizeof(sum), "%.*s", (int)strcspn(line, "\n"), line);
    assert_non_null(strstr(sum, "/t.yaml"));
    assert_int_equal(
        check("--contract --allocation job.sh t.yaml -- -N1 : -N1"),
        0); /* a heterogeneous job */
    assert_non_null(strstr(out, sum));
    setenv("SLURM_JOB_ID", "77", 1);
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_non_null(strstr(out, sum));
    write_file("t.yaml", "launch: {nodes: 3}\n");
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_null(strstr(out, sum));
    unsetenv("SLURM_JOB_ID");
}

/* What is wrong in the shell that srun is started from. */
static void mistakes_in_the_environment_are_warned_of(void **state)
{
    (void)state;
    write_file("t.yaml", "launch: {nodes: 2, exclude: n3}\n");
    setenv("NCCL_TIMEOUT", "3600", 1);
    setenv("MASTER_ADDR", "localhost", 1);
    assert_int_equal(check("--contract t.yaml"), 0);
    assert_non_null(strstr(errors,
                           "warning: environment: NCCL_TIMEOUT: nothing "
                           "reads it: "));
    assert_non_null(strstr(errors, "warning: environment: MASTER_ADDR: is a "
                                   "different host on each node"));
    assert_non_null(strstr(errors, "warning: t.yaml:1:29: launch.exclude: no "
                                   "effect on srun: give it --exclude=n3\n"));
    unsetenv("NCCL_TIMEOUT");
    unsetenv("MASTER_ADDR");
}

/* A value whose newlines double in the contract, beyond its limit. */
static void a_contract_beyond_its_limit_is_refused(void **state)
{
    (void)state;
    FILE *file = fopen("t.yaml", "w");
    assert_non_null(file);
    fputs(LEAST "env:\n", file);
    for (int entry = 0; entry < 8; entry++) { /* of 120 KiB at most */
        fprintf(file, "  A%d: '", entry);
        for (int i = 0; i < 100000; i++)
            putc('\\', file); /* the contract has two */
        fputs("'\n", file);
    }
    fclose(file);
    assert_int_equal(check("--contract t.yaml"), EX_CONFIG);
    assert_non_null(strstr(errors, "t.yaml: env: more than 1048576 bytes\n"));
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contract_names_the_file_and_its_variables),
        cmocka_unit_test(a_step_of_keepers_has_its_spares_and_outlives_nodes),
        cmocka_unit_test(outlives_is_the_status_and_nothing_else),
        cmocka_unit_test(tasks_are_kept_where_the_command_or_the_file_says_so),
        cmocka_unit_test(srun_gets_the_settings_it_was_not_given),
        cmocka_unit_test(the_run_names_the_job_that_srun_makes),
        cmocka_unit_test(a_step_larger_than_its_job_is_refused),
        cmocka_unit_test(the_spares_are_nodes_of_a_job),
        cmocka_unit_test(launch_must_match_what_sbatch_asks_for),
        cmocka_unit_test(
            jobs_of_an_array_write_to_one_directory_with_a_warning),
        cmocka_unit_test(gpus_are_counted_however_they_are_asked_for),
        cmocka_unit_test(what_nothing_asks_for_is_named),
        cmocka_unit_test(a_file_keeps_its_sum_inside_the_job),
        cmocka_unit_test(mistakes_in_the_environment_are_warned_of),
        cmocka_unit_test(a_contract_beyond_its_limit_is_refused),
    };
    return cmocka_run_group_tests_name("cmd contract", tests, enter_directory,
                                       leave_directory);
}
