/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_sbatch.c - batch scripts, previews, and what is refused */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "tests/unit/command.h"
#include "tests/unit/conf.h"

/* Runs `sbatch` with the words of a NULL-terminated list. */
static int run(const char *const *words)
{
    char *argv[16] = {"sbatch"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    return run_command(dt_cmd_sbatch, argc, argv);
}

#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

#define JOB                                                                    \
    "run: {name: my run}\n"                                                    \
    "launch: {nodes: 2, ntasks_per_node: 2, time: 1-00, partition: gpu,\n"     \
    "  requeue: true, exclude: 'n[1-2]', command: [python3, t.py, 'a b']}\n"

static void the_script_merges_the_file_and_the_options(void **state)
{
    char wanted[2048];
    (void)state;
    write_file("t.yaml", JOB);
    assert_int_equal(RUN("t.yaml", "--", "--nodes=4", "--comment=it's", "-H"),
                     64);
    assert_int_equal(
        RUN("t.yaml", "--", "--nodes=4", "--comment=it's", "--hold"), 0);
    snprintf(wanted, sizeof(wanted),
             "#!/bin/bash\n"
             "# " PACKAGE_STRING ": disttrain sbatch %s/t.yaml\n"
             "#SBATCH --job-name='my run'\n"
             "#SBATCH --ntasks-per-node=2\n"
             "#SBATCH --partition=gpu\n"
             "#SBATCH --time=1-00\n"
             "#SBATCH --exclude='n[1-2]'\n"
             "#SBATCH --output='my run-%%j.out'\n"
             "#SBATCH --open-mode=append\n"
             "#SBATCH --requeue\n"
             "#SBATCH --nodes=4\n"
             "#SBATCH '--comment=it'\\''s'\n"
             "#SBATCH --hold\n"
             "\n"
             "srun --nodes=4 --disttrain=%s/t.yaml\n",
             test_directory, test_directory);
    assert_string_equal(out, wanted);
    assert_string_equal(errors, "");
}

static void the_script_of_a_run_with_restarts_runs_steps(void **state)
{
    char wanted[2048], self[512] = "";
    (void)state;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    write_file("t.yaml", JOB "max_restarts: 3\n");
    assert_int_equal(RUN("--set=run.name=a b", "t.yaml", "--", "--hold",
                         "--ntasks-per-node=4"),
                     0);
    snprintf(wanted, sizeof(wanted),
             "\nexec %s steps --set 'run.name=a b' %s/t.yaml -- "
             "--ntasks-per-node=4\n",
             self, test_directory);
    assert_non_null(strstr(out, wanted));
    assert_non_null(strstr(out, "#SBATCH --nodes=2\n"));
}

static void spares_are_nodes_of_the_job(void **state)
{
    (void)state;
    write_file("t.yaml",
               LEAST "launch: {nodes: 2, spares: 1, max_restarts: 3}\n"
                     "resume: auto\ntrain_batch_size: 4\n");
    assert_int_equal(RUN("t.yaml"), 0);
    assert_non_null(strstr(out, "#SBATCH --nodes=3\n"));
    /* three of four nodes have to divide the batch, then two of three */
    assert_int_equal(RUN("t.yaml", "--", "--nodes=4"), 78);
    assert_non_null(strstr(errors, "E102 4 cannot be divided by 6"));
    assert_int_equal(RUN("t.yaml", "--", "--nodes=3"), 0);
    assert_non_null(strstr(out, "#SBATCH --nodes=3\n"));
    assert_non_null(strstr(out, "/t.yaml -- --nodes=3\n"));
}

/* Where keepers end the job; a script that restarts steps has to end with it.
 */
static void a_job_that_outlives_its_nodes_is_not_killed_with_one(void **state)
{
    (void)state;
    write_file("t.yaml", LEAST "launch: {nodes: 2, spares: 1}\n");
    assert_int_equal(RUN("t.yaml"), 0);
    assert_non_null(strstr(out, "#SBATCH --no-kill\n"));
    assert_int_equal(RUN("--dry-run", "t.yaml"), 0);
    assert_non_null(strstr(out, "srun --nodes=3 --disttrain="));
    assert_int_equal(RUN("t.yaml", "--", "--no-kill=off"), 0);
    assert_null(strstr(out, "#SBATCH --no-kill\n"));
    assert_non_null(strstr(out, "#SBATCH --no-kill=off\n"));
    assert_int_equal(RUN("--set=launch.keeper=off",
                         "--set=launch.max_restarts=1", "--set=resume=auto",
                         "t.yaml"),
                     0);
    assert_null(strstr(out, "--no-kill"));
}

/* sbatch, its script and each srun in it read the same values. */
static void overrides_are_part_of_the_script(void **state)
{
    (void)state;
    write_file("t.yaml", LEAST "launch: {nodes: 1}\n");
    assert_int_equal(
        RUN("--set", "launch.nodes=3", "--set=run.name=a b", "t.yaml"), 0);
    assert_non_null(strstr(out, "/t.yaml --set launch.nodes=3 --set "
                                "'run.name=a b'\n#SBATCH --job-name='a b'\n"
                                "#SBATCH --nodes=3\n"));
    assert_non_null(strstr(out, "/t.yaml --disttrain-set=launch.nodes=3 "
                                "--disttrain-set='run.name=a b'\n"));
    assert_int_equal(RUN("--dry-run", "--set=launch.nodes=2", "t.yaml"), 0);
    assert_non_null(strstr(out, "srun --nodes=2 --disttrain="));
    assert_non_null(strstr(out, "/t.yaml --disttrain-set=launch.nodes=2\n"));
    assert_int_equal(RUN("--array=0-1", "--set",
                         "output_dir=o/${SLURM_ARRAY_TASK_ID}", "t.yaml"),
                     0);
}

static void jobs_of_an_array_share_no_directory(void **state)
{
    (void)state;
    write_file("t.yaml", LEAST "launch: {nodes: 1}\n");
    assert_int_equal(RUN("--array=0-3%2", "t.yaml"), 78);
    assert_string_equal(errors,
                        "t.yaml:1:1: run.output_dir: the same for all jobs of "
                        "the array: make ${SLURM_ARRAY_TASK_ID} part of it\n");
    write_file("t.yaml", LEAST
               "output_dir: out/${SLURM_ARRAY_TASK_ID}\nlaunch: {nodes: 1}\n");
    assert_int_equal(RUN("--array=0-3%2", "t.yaml"), 0);
    assert_non_null(strstr(out, "#SBATCH --array=0-3%2\n"));
    assert_non_null(strstr(out, "#SBATCH --output=run-%A_%a.out\n"));
    assert_non_null(strstr(out, "#SBATCH --no-requeue\n"));
    assert_int_equal(RUN("t.yaml", "--", "--array=3"), 0);
    assert_int_equal(RUN("--array=a", "t.yaml"), 64);
    assert_int_equal(RUN("t.yaml"), 78);
    assert_string_equal(errors, "t.yaml:5:13: run.output_dir: the environment "
                                "variable SLURM_ARRAY_TASK_ID is not set: set "
                                "it, or write "
                                "${SLURM_ARRAY_TASK_ID:-default}\n");
}

/* Inside a job its own number is not that of the next one. */
static void what_only_the_job_knows_is_no_part_of_its_name(void **state)
{
    static const char *const names[][2] = {
        {"x-${SLURM_JOB_ID}", "x"},
        {"x_${SLURM_JOB_ID}-y", "x"},
        {"${SLURM_JOB_ID}", "disttrain"},
        {"x$ y", "'x$ y'"},
    };
    char text[256];
    (void)state;
    setenv("SLURM_JOB_ID", "77", 1);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(text, sizeof(text),
                 LEAST "run: {name: '%s', output_dir: 'o/${SLURM_JOB_ID}'}\n",
                 names[i][0]);
        write_file("t.yaml", text);
        assert_int_equal(RUN("t.yaml"), 0);
        snprintf(text, sizeof(text), "#SBATCH --job-name=%s\n", names[i][1]);
        assert_non_null(strstr(out, text));
        assert_null(strstr(out, "77"));
    }
    unsetenv("SLURM_JOB_ID");
}

static void no_script_is_written_for_a_mistake(void **state)
{
    (void)state;
    write_file("t.yaml", "launch: {nodes: 2}\n");
    assert_int_equal(RUN("t.yaml"), 78);
    assert_string_equal(errors, "t.yaml:1:1: launch.command: nothing to run: "
                                "the file has no algorithm either\n");
    write_file("t.yaml", "launch: {nods: 2}\n");
    assert_int_equal(RUN("t.yaml"), 78);
    assert_string_equal(errors, "t.yaml:1:10: launch.nods: unknown key; did "
                                "you mean launch.nodes?\n");
    write_file("t.yaml", LEAST "launch: {nodes: 2, ntasks_per_node: 3}\n"
                               "train_batch_size: 8\n");
    assert_int_equal(RUN("t.yaml"), 78);
    assert_non_null(strstr(errors, "E102 8 cannot be divided by 12"));
    assert_int_equal(RUN("--submit", "--dry-run", "t.yaml"), 64);
    assert_int_equal(RUN("--array"), 64);
    assert_int_equal(RUN("--what", "t.yaml"), 64);
    assert_int_equal(RUN("--submit"), 64);
    assert_string_equal(out, "");
}

static void a_dry_run_shows_every_rank_and_variable(void **state)
{
    (void)state;
    write_file("t.yaml", JOB "env: {MASTER_PORT: 1234, A: 'x y'}\n");
    setenv("HOME", test_directory, 1);
    write_file(".nccl.conf", "");
    assert_int_equal(RUN("--dry-run", "t.yaml"), 0);
    unlink(".nccl.conf");
    assert_non_null(strstr(out, "srun --nodes=2 --ntasks-per-node=2 "
                                "--partition=gpu --time=1-00 "
                                "--exclude='n[1-2]' --disttrain="));
    assert_non_null(strstr(out, "/t.yaml python3 t.py 'a b'\n"));
    assert_non_null(strstr(out, "# NCCL also reads "));
    assert_non_null(strstr(out, "\n    A='x y'\n"));
    assert_non_null(strstr(out, "\n    MASTER_PORT=1234\n"));
    assert_non_null(strstr(out, "\n    WORLD_SIZE=4\n"));
    assert_non_null(strstr(out, "\nrank 3 on node1: RANK=3 LOCAL_RANK=1 "
                                "NODE_RANK=1 "));
    /* the list of all ranks once */
    assert_non_null(strstr(out, " TF_CONFIG='{\"cluster\":{\"worker\":["
                                "\"node0:61002\",\"node0:61003\","
                                "\"node1:61002\",\"node1:61003\"]},"
                                "\"task\":{\"type\":\"worker\","
                                "\"index\":0}}'\nrank 1"));
    assert_non_null(strstr(out, " TF_CONFIG=...',\"task\":{\"type\":"
                                "\"worker\",\"index\":3}}'\n"));
    assert_null(strstr(out, "rank 4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_script_merges_the_file_and_the_options),
        cmocka_unit_test(the_script_of_a_run_with_restarts_runs_steps),
        cmocka_unit_test(spares_are_nodes_of_the_job),
        cmocka_unit_test(a_job_that_outlives_its_nodes_is_not_killed_with_one),
        cmocka_unit_test(overrides_are_part_of_the_script),
        cmocka_unit_test(jobs_of_an_array_share_no_directory),
        cmocka_unit_test(what_only_the_job_knows_is_no_part_of_its_name),
        cmocka_unit_test(no_script_is_written_for_a_mistake),
        cmocka_unit_test(a_dry_run_shows_every_rank_and_variable),
    };
    return cmocka_run_group_tests_name("cmd_sbatch", tests, enter_directory,
                                       leave_directory);
}
