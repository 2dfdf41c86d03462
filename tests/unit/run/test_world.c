/* SPDX-License-Identifier: Apache-2.0 */
/* test_world.c - batch sizes that do not fit the ranks are found by whoever is
 * asked first
 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/cmd.h"
#include "tests/unit/command.h"
#include "tests/unit/conf.h"

/* 12 rows of 2 a rank: 1, 2, 3 and 6 ranks fit, and of others the message has
 * the number twice.
 */
#define ROWS LEAST "train_batch_size: 12\n"

struct case_of {
    const char *launch; /* keys of launch: */
    const char *words;
    int rows; /* that do not divide 12; 0: no mistake is found */
};

/* Whether E102 is what is said, of so many rows, or nothing. */
static void expect(int status, int rows)
{
    char wanted[128];
    snprintf(wanted, sizeof(wanted),
             "t.yaml:5:19: training.train_batch_size: E102 12 cannot be "
             "divided by %d (per device * ranks); ",
             rows);
    assert_int_equal(status, rows > 0 ? EX_CONFIG : 0);
    if (rows > 0)
        assert_non_null(strstr(errors, wanted));
    else
        assert_null(strstr(errors, "E102"));
}

static void write_launch(const char *keys)
{
    char text[256];
    snprintf(text, sizeof(text), ROWS "launch: {%s}\n", keys);
    write_file("t.yaml", text);
}

static void each_case(const struct case_of *cases, size_t count,
                      int (*command)(int argc, char **argv), const char *before)
{
    char args[128];
    for (size_t i = 0; i < count; i++) {
        write_launch(cases[i].launch);
        snprintf(args, sizeof(args), "%s t.yaml%s", before, cases[i].words);
        expect(run_words(command, args), cases[i].rows);
    }
}

#define EACH(cases, command, before)                                           \
    each_case(cases, sizeof(cases) / sizeof((cases)[0]), command, before)

static void check_takes_the_ranks_of_launch(void **state)
{
    static const struct case_of cases[] = {
        {"", "", 0},
        {"nodes: 2", "", 0},
        {"nodes: 4", "", 8},
        {"ntasks_per_node: 4", "", 8},
        {"nodes: 2, ntasks_per_node: 4", "", 16},
        {"nodes: 2, gpus_per_node: 4", "", 16},
        {"num_processes: 4", "", 8},
        {"nodes: 4", " --world 6", 0},
        {"nodes: 2", " --world 4", 8},
    };
    (void)state;
    EACH(cases, dt_cmd_check, "");
}

static void srun_is_refused_before_the_job_has_its_nodes(void **state)
{
    static const struct case_of cases[] = {
        {"", "", 0},
        {"", " -- -n4", 8},
        {"", " -- -n 4", 8},
        {"", " -- -lQn4", 8},
        {"", " -- --ntasks=4", 8},
        {"", " -- --ntasks 4", 8},
        {"", " -- -W -n4", 0},
        {"", " -- -n4 -n3", 0},
        {"", " -- -N1 -n6", 0},
        {"", " -- -N4", 8},
        {"", " -- -N2 --ntasks-per-node=4", 16},
        {"", " -- -N2-4", 0},
        {"", " -- -n4 : -n2", 0},
        {"", " -- --ntasks-per-gpu=4", 0},
        {"nodes: 4", "", 8},
        {"nodes: 4", " -- -n3", 0},
        {"nodes: 2", " -- --ntasks-per-node=4", 16},
        {"ntasks_per_node: 2", " -- -N4", 16},
        {"ntasks_per_node: 4", " -- -w n[1-2]", 0},
    };
    (void)state;
    EACH(cases, dt_cmd_check, "--contract");
}

static void a_step_of_a_job_has_the_ranks_of_the_job(void **state)
{
    static const struct case_of of_ranks[] = {
        {"", "", 8},
        {"", " -- -n6", 0},
        {"", " -- -N1", 0},
    };
    static const struct case_of of_nodes[] = {
        {"", "", 0},
        {"ntasks_per_node: 4", "", 16},
        {"", " -- --ntasks-per-node=2", 8},
    };
    (void)state;
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_JOB_NUM_NODES", "2", 1);
    EACH(of_nodes, dt_cmd_check, "--contract");
    setenv("SLURM_NTASKS", "4", 1);
    EACH(of_ranks, dt_cmd_check, "--contract");
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_JOB_NUM_NODES");
    unsetenv("SLURM_NTASKS");
}

/* What else runs in a step is of no concern. */
static void only_what_trains_has_batch_sizes(void **state)
{
    static const struct case_of cases[] = {
        {"", " -- -n4 -- disttrain", 8},
        {"", " -- -n4 -- /opt/bin/disttrain train", 8},
        {"", " -- -n4 -- disttrain train t.yaml", 8},
        {"", " -- -n4 -- disttrain train other.yaml", 0},
        {"", " -- -n4 -- disttrain generate t.yaml", 0},
        {"", " -- -n4 -- python3 t.py", 0},
        {"command: [a]", " -- -n3 -- -n4", 0},
    };
    (void)state;
    EACH(cases, dt_cmd_check, "--contract");
}

static void sbatch_is_refused_for_the_ranks_that_it_asks_for(void **state)
{
    static const struct case_of cases[] = {
        {"", "", 0},
        {"", " -- -n4", 8},
        {"", " -- -N2 --ntasks-per-node=4", 16},
        {"", " -- --ntasks-per-node=4", 8},
        {"", " -- -N4", 0}, /* the script says what srun starts there */
        {"", " -- -N2-4 --ntasks-per-node=4", 0},
        {"ntasks_per_node: 2", " -- -N4", 16},
        {"", " -- -n4 : -n2", 0},
        {"nodes: 4, spares: 1", " -- -N5 --ntasks-per-node=1", 8},
        {"nodes: 4, spares: 1", " -- -N5 -n5", 8},
        {"nodes: 4, spares: 1", " -- -n5", 8},
        {"nodes: 3, spares: 1", " -- -N4 -n4", 0},
        {"nodes: 2, spares: 1, ntasks_per_node: 2", " -- -N3", 8},
    };
    (void)state;
    write_file("job.sh", "#!/bin/sh\n");
    EACH(cases, dt_cmd_check, "--contract --allocation job.sh");
    unlink("job.sh");
}

static void a_script_is_written_for_ranks_that_fit(void **state)
{
    static const struct case_of cases[] = {
        {"", "", 0},
        {"nodes: 2", " -- --nodes=4", 8},
        {"nodes: 4", " -- --nodes=2", 0},
        {"nodes: 2, ntasks_per_node: 2", "", 8},
        {"nodes: 2, ntasks_per_node: 2", " -- --ntasks-per-node=4", 16},
        {"", " -- --ntasks=4", 8},
    };
    (void)state;
    EACH(cases, dt_cmd_sbatch, "");
}

static void a_script_is_written_for_files_that_are_there(void **state)
{
    (void)state;
    write_file("t.yaml", LEAST "model.path: no-model\n");
    assert_int_equal(run_words(dt_cmd_check, "t.yaml"), EX_CONFIG);
    char *said = strdup(errors);
    assert_non_null(strstr(said, "no-model"));
    assert_int_equal(run_words(dt_cmd_sbatch, "t.yaml"), EX_CONFIG);
    assert_string_equal(errors, said);
    free(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_takes_the_ranks_of_launch),
        cmocka_unit_test(srun_is_refused_before_the_job_has_its_nodes),
        cmocka_unit_test(a_step_of_a_job_has_the_ranks_of_the_job),
        cmocka_unit_test(only_what_trains_has_batch_sizes),
        cmocka_unit_test(sbatch_is_refused_for_the_ranks_that_it_asks_for),
        cmocka_unit_test(a_script_is_written_for_ranks_that_fit),
        cmocka_unit_test(a_script_is_written_for_files_that_are_there),
    };
    program_invocation_short_name = (char *)"disttrain";
    return cmocka_run_group_tests_name("world", tests, enter_directory,
                                       leave_directory);
}
