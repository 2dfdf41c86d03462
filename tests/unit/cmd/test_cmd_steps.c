/* SPDX-License-Identifier: Apache-2.0 */
/* test_cmd_steps.c - the steps of a batch job, with scripts in place of Slurm
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/file.h"
#include "cmd/cmd.h"
#include "tests/unit/command.h"
#include "tests/unit/conf.h"

/* Each srun takes the next line of `ends`, runs it, and notes its words and
 * what it was told of the steps before.
 */
static const char srun[] =
    "#!/bin/sh\n"
    "echo \"${TORCHELASTIC_RESTART_COUNT:-none}" /* count and loop */
    " ${SLURM_DISTTRAIN_LAUNCH#*.} $*\" >>steps\n"
    "echo \"${SLURM_DISTTRAIN_LAUNCH%.*}\" >>loops\n"
    "line=$(head -n 1 ends); sed -i 1d ends; eval \"$line\"\n";
static const char scontrol[] = "#!/bin/sh\n"
                               "case $1 in\n"
                               "show) echo \"$3\" | tr , '\\n' ;;\n"
                               "update) echo \"$*\" >>updates\n"
                               "    >slurm_job_12_resize.sh; "
                               ">slurm_job_12_resize.csh; exit $(cat code) ;;\n"
                               "esac\n";
static const char squeue[] = "#!/bin/sh\ncat left\n";

static const char *const files[] = {"srun",  "scontrol", "squeue",
                                    "steps", "updates",  "ends",
                                    "left",  "code",     "loops"};

static void write_program(const char *name, const char *text)
{
    write_file(name, text);
    assert_int_equal(chmod(name, 0755), 0);
}

static int enter_job(void **state)
{
    char path[512];
    if (enter_directory(state) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s:%s", test_directory, getenv("PATH"));
    setenv("PATH", path, 1);
    write_program("srun", srun);
    write_program("scontrol", scontrol);
    write_program("squeue", squeue);
    return 0;
}

static int leave_job(void **state)
{
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        unlink(files[i]);
    return leave_directory(state);
}

#define NODES "127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4"

/* A job of four nodes that all answer, of which Slurm has `left`. */
static int fresh(void **state)
{
    (void)state;
    setenv("SLURM_JOB_ID", "12", 1);
    setenv("SLURM_JOB_NODELIST", NODES, 1);
    setenv("SLURM_NTASKS_PER_NODE", "2", 1);
    setenv("SLURMD_NODENAME", "127.0.0.1", 1);
    unsetenv("SLURM_ARRAY_JOB_ID");
    unsetenv("SLURM_ARRAY_TASK_ID");
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    for (size_t i = 3; i < sizeof(files) / sizeof(files[0]); i++)
        write_file(files[i], "");
    write_file("left", NODES "\n");
    write_file("code", "0");
    return 0;
}

/* The steps of a command, or of a run of eight rows, under more keys of launch,
 * one shell line a step.
 */
static int run_steps(const char *keys, bool trains, const char *ends)
{
    char text[512];
    snprintf(text, sizeof(text), "%slaunch: {%s%s}\n",
             trains ? LEAST "resume: auto\ntrain_batch_size: 16\n" : "", keys,
             trains ? "" : ", command: [true]");
    write_file("t.yaml", text);
    write_file("ends", ends);
    return run_words(dt_cmd_steps, "t.yaml -- --container-image=x");
}

static void assert_file(const char *name, const char *wanted)
{
    char *text = dt_file_read(name, 1 << 20, NULL), all[4096], *end = all;
    assert_non_null(text);
    for (const char *c = text; *c; c++) /* %: the directory of the test */
        if (strncmp(c, test_directory, strlen(test_directory)) == 0) {
            *end++ = '%';
            c += strlen(test_directory) - 1;
        } else {
            *end++ = *c;
        }
    *end = '\0';
    free(text);
    assert_string_equal(all, wanted);
}

#define PLAIN "--container-image=x --disttrain=%/t.yaml\n"
#define AGAIN "--container-image=x --overlap --disttrain=%/t.yaml\n"

static void a_failed_step_is_restarted(void **state)
{
    (void)state;
    assert_int_equal(run_steps("max_restarts: 3", false,
                               "exit 1\nkill -9 $$\nexit 0\nexit 9\n"),
                     0);
    assert_file("steps", "none 0 " PLAIN "1 1 " AGAIN "2 2 " AGAIN);
    assert_string_equal(errors, "disttrain: exit status 1: restart 1 of 3\n"
                                "disttrain: exit status 137: restart 2 of 3\n");
    assert_file("updates", "");
    char *loops = dt_file_read("loops", 4096, NULL);
    assert_non_null(loops);
    assert_int_equal(strlen(loops), 3 * 17);
    assert_memory_equal(loops, loops + 17, 17);
    free(loops);
}

static void the_last_status_is_that_of_the_job(void **state)
{
    (void)state;
    assert_int_equal(run_steps("max_restarts: 1", false, "exit 1\nexit 2\n"),
                     2);
    assert_int_equal(run_steps("max_restarts: 1", false, "exit 75\nexit 0\n"),
                     75);
    assert_string_equal(errors, "");
}

static void the_end_of_the_job_ends_the_loop(void **state)
{
    (void)state;
    assert_int_equal(run_steps("max_restarts: 1", false,
                               "kill -TERM $PPID; exec sleep 60\nexit 0\n"),
                     143);
    assert_string_equal(errors, "");
    /* the ranks may save, and end with another status */
    assert_int_equal(run_steps("max_restarts: 1", false,
                               "trap 'exit 75' USR1; kill -USR1 $PPID;"
                               " while :; do sleep 0.01; done\nexit 0\n"),
                     75);
}

#define LOST "127.0.0.1,127.0.0.3,127.0.0.4"

static void a_spare_takes_the_place_of_a_lost_node(void **state)
{
    (void)state;
    write_file("left", LOST "\n");
    assert_int_equal(run_steps("nodes: 3, max_restarts: 1, spares: 1", false,
                               "exit 1\nexit 0\n"),
                     0);
    assert_file("steps",
                "none 0 --container-image=x --nodes=3 --ntasks=6 "
                "--nodelist=127.0.0.1,127.0.0.2,127.0.0.3 "
                "--disttrain=%/t.yaml\n"
                "1 1 --container-image=x --nodes=3 --ntasks=6 "
                "--nodelist=" LOST " --overlap --disttrain=%/t.yaml\n");
    assert_file("updates", "update JobId=12 NodeList=" LOST "\n");
    assert_string_equal(errors, "disttrain: node 127.0.0.2 is lost\n"
                                "disttrain: exit status 1: restart 1 of 1\n");
    assert_int_equal(access("slurm_job_12_resize.sh", F_OK), -1);
    assert_int_equal(access("slurm_job_12_resize.csh", F_OK), -1);
}

static void success_without_a_node_is_none(void **state)
{
    (void)state;
    write_file("left", LOST "\n");
    assert_int_equal(run_steps("nodes: 3, max_restarts: 1, spares: 1", false,
                               "exit 0\nexit 0\n"),
                     0);
    assert_string_equal(errors, "disttrain: node 127.0.0.2 is lost\n"
                                "disttrain: exit status 69: restart 1 of 1\n");
    fresh(NULL);
    write_file("left", "127.0.0.1,127.0.0.2,127.0.0.3\n");
    assert_int_equal(run_steps("nodes: 3, max_restarts: 1, spares: 1", false,
                               "exit 0\nexit 9\n"),
                     0); /* only the spare */
    assert_string_equal(errors, "");
}

static void a_job_that_cannot_shrink_goes_on(void **state)
{
    (void)state;
    setenv("SLURM_JOB_ID", "11", 1); /* the last one of an array */
    setenv("SLURM_ARRAY_JOB_ID", "11", 1);
    setenv("SLURM_ARRAY_TASK_ID", "3", 1);
    write_file("left", LOST "\n");
    write_file("code", "1");
    assert_int_equal(run_steps("nodes: 3, max_restarts: 1, spares: 1", false,
                               "exit 1\nexit 0\n"),
                     0);
    assert_file("updates", "update JobId=11_3 NodeList=" LOST "\n");
    assert_non_null(
        strstr(errors, "disttrain: warning: the job cannot be reduced to the "
                       "nodes that are left (scontrol update NodeList= is "
                       "refused): Slurm ends it when it finds a lost node "
                       "down, unless it was submitted with --no-kill\n"));
}

static void too_few_nodes_end_the_job(void **state)
{
    static const struct {
        const char *keys;
        bool trains;
        const char *why;
    } cases[] = {
        {"nodes: 4, max_restarts: 1", false,
         "set launch.spares, or launch.min_ranks to restart with fewer ranks"},
        {"nodes: 4, max_restarts: 1, min_ranks: 7", false,
         "launch.min_ranks is 7"},
        {"nodes: 4, max_restarts: 1, min_ranks: 5", true,
         "train_batch_size 16 fits no number of ranks that is at least "
         "launch.min_ranks, 5"},
    };
    char wanted[512];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fresh(NULL);
        write_file("left", LOST "\n");
        assert_int_equal(
            run_steps(cases[i].keys, cases[i].trains, "exit 1\nexit 0\n"), 69);
        snprintf(wanted, sizeof(wanted),
                 "disttrain: node 127.0.0.2 is lost\n"
                 "disttrain: a step needs 4 nodes of 2 ranks, and 3 are left: "
                 "%s\n",
                 cases[i].why);
        assert_string_equal(errors, wanted);
    }
}

/* Six ranks cannot have sixteen rows of two, but four can. */
static void fewer_ranks_train_with_the_same_batch(void **state)
{
    (void)state;
    write_file("left", LOST "\n");
    assert_int_equal(run_steps("nodes: 4, max_restarts: 1, min_ranks: 4, "
                               "keeper: off",
                               true, "exit 1\nexit 0\n"),
                     0);
    assert_file("steps",
                "none 0 " PLAIN "1 1 --container-image=x --nodes=2 --ntasks=4 "
                "--nodelist=127.0.0.1,127.0.0.3 --overlap "
                "--disttrain=%/t.yaml --disttrain-set="
                "training.train_batch_size=16\n");
    fresh(NULL);
    write_file("left", LOST "\n");
    assert_int_equal(run_steps("nodes: 4, max_restarts: 1, min_ranks: 6", false,
                               "exit 1\nexit 0\n"),
                     0);
    assert_file("steps",
                "none 0 " PLAIN "1 1 --container-image=x --nodes=3 --ntasks=6 "
                "--nodelist=" LOST " --overlap --disttrain=%/t.yaml\n");
}

/* They tell how it has ended, whatever nodes it has lost. */
static void a_step_of_keepers_has_its_spares(void **state)
{
    (void)state;
    write_file("left", LOST "\n");
    assert_int_equal(
        run_steps("nodes: 3, max_restarts: 1, spares: 1", true, "exit 0\n"), 0);
    assert_file("steps", "none 0 " PLAIN);
    fresh(NULL);
    write_file("left", LOST "\n");
    assert_int_equal(run_steps("nodes: 2, max_restarts: 1, spares: 2", true,
                               "exit 1\nexit 0\n"),
                     0);
    assert_file("steps",
                "none 0 " PLAIN "1 1 --container-image=x --nodes=3 --ntasks=6 "
                "--nodelist=" LOST " --overlap --disttrain=%/t.yaml "
                "--disttrain-set=launch.spares=1\n");
    fresh(NULL);
    write_file("left", LOST "\n");
    assert_int_equal(run_steps("nodes: 4, max_restarts: 1, min_ranks: 4", true,
                               "exit 1\nexit 0\n"),
                     0);
    assert_file("steps",
                "none 0 " PLAIN "1 1 --container-image=x --nodes=3 --ntasks=6 "
                "--nodelist=" LOST " --overlap --disttrain=%/t.yaml "
                "--disttrain-set=launch.spares=1 "
                "--disttrain-set=training.train_batch_size=16\n");
}

static void what_is_no_job_is_refused(void **state)
{
    (void)state;
    assert_int_equal(
        run_steps("nodes: 4, max_restarts: 1, spares: 4", false, ""), 78);
    assert_string_equal(errors,
                        "disttrain steps: launch.spares: 4 of the 4 nodes of "
                        "the job leave none for a step\n");
    unsetenv("SLURM_JOB_NODELIST");
    assert_int_equal(run_steps("max_restarts: 1", false, ""), 64);
    assert_string_equal(errors, "disttrain steps: only in a batch job: submit "
                                "the script of `disttrain sbatch`\n");
    assert_int_equal(run_words(dt_cmd_steps, ""), 64);
    assert_file("steps", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_failed_step_is_restarted, fresh),
        cmocka_unit_test_setup(the_last_status_is_that_of_the_job, fresh),
        cmocka_unit_test_setup(the_end_of_the_job_ends_the_loop, fresh),
        cmocka_unit_test_setup(a_spare_takes_the_place_of_a_lost_node, fresh),
        cmocka_unit_test_setup(success_without_a_node_is_none, fresh),
        cmocka_unit_test_setup(a_job_that_cannot_shrink_goes_on, fresh),
        cmocka_unit_test_setup(too_few_nodes_end_the_job, fresh),
        cmocka_unit_test_setup(fewer_ranks_train_with_the_same_batch, fresh),
        cmocka_unit_test_setup(a_step_of_keepers_has_its_spares, fresh),
        cmocka_unit_test_setup(what_is_no_job_is_refused, fresh),
    };
    return cmocka_run_group_tests_name("cmd_steps", tests, enter_job,
                                       leave_job);
}
