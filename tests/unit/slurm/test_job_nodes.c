/* SPDX-License-Identifier: Apache-2.0 */
/* test_job_nodes.c - when a node counts as lost */
#include "config.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/clock.h"
#include "contract/contract.h"
#include "slurm/job.h"
#include "slurm/job_nodes.h"
#include "tests/unit/scratch.h"

/* Nodes without an address, which were heard at these times. */
static struct dt_job_nodes make_nodes(const double *heard, int count)
{
    struct dt_job_nodes nodes = {.count = count, .silence_s = 16};
    nodes.node = calloc((size_t)count, sizeof(*nodes.node));
    assert_non_null(nodes.node);
    for (int i = 0; i < count; i++)
        nodes.node[i] = (struct dt_job_node){
            .name = strdup((const char[]){'a' + (char)i, '\0'}),
            .fd = -1,
            .heard = heard[i]};
    return nodes;
}

static void assert_left(const struct dt_job_nodes *nodes, const char *wanted)
{
    char *list = dt_job_nodes_list(nodes, nodes->count);
    assert_string_equal(list, wanted);
    free(list);
}

static void a_node_that_falls_silent_is_lost(void **state)
{
    (void)state;
    struct dt_job_nodes nodes =
        make_nodes((const double[]){100, 100.5, 0, 115}, 4);
    assert_int_equal(dt_job_nodes_judge(&nodes, 115.9), 0);
    assert_int_equal(dt_job_nodes_judge(&nodes, 116), 1);
    assert_left(&nodes, "b,c,d");
    assert_int_equal(dt_job_nodes_judge(&nodes, 116), 0);
    assert_int_equal(dt_job_nodes_judge(&nodes, 116.5), 1);
    assert_int_equal(dt_job_nodes_left(&nodes), 2);
    /* one that has never answered may be behind a firewall */
    assert_int_equal(dt_job_nodes_judge(&nodes, 1e6), 1);
    assert_left(&nodes, "c");
    dt_job_nodes_fini(&nodes);
}

static void a_step_waits_for_nodes_that_used_to_answer(void **state)
{
    (void)state;
    struct dt_job_nodes nodes = make_nodes((const double[]){0, 100, 104}, 3);
    assert_false(dt_job_nodes_known(&nodes, 103));
    nodes.node[1].lost = true;
    assert_true(dt_job_nodes_known(&nodes, 103));
    assert_true(dt_job_nodes_known(&nodes, 104));
    assert_false(dt_job_nodes_known(&nodes, 104.5));
    dt_job_nodes_fini(&nodes);
}

static void the_first_nodes_that_are_left_are_listed(void **state)
{
    (void)state;
    struct dt_job_nodes nodes = make_nodes((const double[]){0, 0, 0, 0}, 4);
    nodes.node[1].lost = true;
    char *list = dt_job_nodes_list(&nodes, 2);
    assert_string_equal(list, "a,c");
    free(list);
    assert_left(&nodes, "a,c,d");
    dt_job_nodes_fini(&nodes);
}

/* Nothing listens on the port, and the kernel says so. */
static void a_kernel_answers_for_its_node(void **state)
{
    (void)state;
    struct dt_job_nodes nodes = make_nodes((const double[]){0}, 1);
    assert_int_not_equal(dt_net_parse(&nodes.node[0].address, "127.0.0.9", 0),
                         0);
    const double until = dt_clock_now() + 30;
    while (nodes.node[0].heard == 0 && dt_clock_now() < until) {
        dt_job_nodes_ask(&nodes, 7);
        dt_clock_sleep(0.01);
        dt_job_nodes_take(&nodes, 7);
    }
    assert_true(nodes.node[0].heard == 7);
    dt_job_nodes_fini(&nodes);
}

/* In the place of Slurm's commands: each notes how it was called. */
static void write_command(const char *name, const char *body)
{
    char text[512];
    const int n =
        snprintf(text, sizeof(text),
                 "#!/bin/sh\necho \"${0##*/} $*\" >>$W/asked\n%s\n", body);
    assert_int_equal(chmod(scratch_write(name, text, (size_t)n), 0755), 0);
}

/* Ends job 12 from its step 0, where these steps run, and others once it has
 * said that it is over; and Slurm answers a requeue with this status. Returns
 * the commands that were to change anything.
 */
static const char *end_job(bool requeue, const char *steps, const char *later,
                           int status)
{
    static char asked[4096];
    char body[512], line[512];
    struct dt_error err;
    size_t used = 0;
    snprintf(body, sizeof(body),
             "steps='%s'\n"
             "! grep -q StepId $W/asked || steps='%s'\n"
             "case $* in *--steps*) printf \"$steps\";;\n"
             "*%%T*) echo RUNNING;; esac",
             steps, later);
    write_command("squeue", body);
    snprintf(body, sizeof(body), "[ $1 != requeue ] || exit %d", status);
    write_command("scontrol", body);
    write_command("scancel", "");
    scratch_write("asked", "", 0);
    dt_job_end(requeue, "why", &err);
    snprintf(line, sizeof(line), "%s/asked", scratch_root);
    FILE *file = fopen(line, "r");
    assert_non_null(file);
    asked[0] = '\0';
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "squeue", 6) != 0)
            used += (size_t)snprintf(asked + used, sizeof(asked) - used, "%s",
                                     line);
    fclose(file);
    return asked;
}

#define CANCELLED                                                              \
    "scontrol update JobId=12 Comment=disttrain: why: cancelled\nscancel "     \
    "--state=RUNNING 12\n"
#define REQUEUED                                                               \
    "scontrol update JobId=12 Comment=disttrain: why: requeued\n"              \
    "scontrol requeue 12\n"
#define OVER "scontrol update StepId=12.0 TimeLimit=1\n"
#define OWN "12.0 UNLIMITED n[1-2]\\n"
#define BESIDE "12.1 UNLIMITED n[1-2]\\n"
#define BESIDE_OVER "12.1 1:00 n[1-2]\\n"

static int enter_job(void **state)
{
    char path[PATH_MAX];
    (void)state;
    write_command("squeue", "");
    snprintf(path, sizeof(path), "%s:%s", scratch_root, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("W", scratch_root, 1);
    setenv("SLURM_JOB_ID", "12", 1);
    setenv("SLURM_STEP_ID", "0", 1);
    return 0;
}

static void a_job_is_ended_when_no_other_step_runs(void **state)
{
    (void)state;
    const char *own = OWN "12.batch UNLIMITED n1\\n12.extern 1:00 n[1-2]\\n";
    assert_string_equal(end_job(false, own, "", 0), CANCELLED);
    assert_string_equal(end_job(true, own, "", 0), REQUEUED);
    assert_string_equal(end_job(false, "", "", 0), CANCELLED);
}

/* Slurm lists it as long as the lost host has not told of its end. */
static void the_last_step_that_is_over_ends_its_job(void **state)
{
    (void)state;
    assert_string_equal(end_job(true, BESIDE OWN, BESIDE OWN, 0), OVER);
    assert_string_equal(
        end_job(false, "12.10 9:00 n3\\n", "12.10 9:00 n3\\n", 0), OVER);
    assert_string_equal(end_job(true, BESIDE_OVER OWN, "", 0), REQUEUED);
    assert_string_equal(end_job(true, BESIDE_OVER BESIDE, BESIDE, 0), OVER);
    /* both are over at once */
    assert_string_equal(end_job(true, BESIDE OWN, BESIDE_OVER OWN, 0),
                        OVER REQUEUED);
}

static void a_step_on_the_lost_host_alone_is_over(void **state)
{
    (void)state;
    const char *step = "12.1 UNLIMITED n1\\n" OWN;
    assert_string_equal(end_job(false, step, step, 0), OVER);
    setenv(DT_ENV_SRUN_NODE, "n1", 1);
    assert_string_equal(end_job(false, step, "", 0), CANCELLED);
    assert_string_equal(end_job(false, BESIDE, BESIDE, 0), OVER);
    setenv(DT_ENV_SRUN_NODE, "n", 1);
    assert_string_equal(end_job(false, step, step, 0), OVER);
    unsetenv(DT_ENV_SRUN_NODE);
}

/* As with --no-requeue: nobody would end it. */
static void a_job_is_cancelled_that_cannot_be_requeued(void **state)
{
    (void)state;
    assert_string_equal(
        end_job(true, OWN, "", 1), REQUEUED
        "scontrol update JobId=12 Comment=disttrain: why: cancelled, "
        "as Slurm refuses to requeue the job\nscancel --state=RUNNING 12\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_falls_silent_is_lost),
        cmocka_unit_test(a_step_waits_for_nodes_that_used_to_answer),
        cmocka_unit_test(the_first_nodes_that_are_left_are_listed),
        cmocka_unit_test(a_kernel_answers_for_its_node),
        cmocka_unit_test(a_job_is_ended_when_no_other_step_runs),
        cmocka_unit_test(the_last_step_that_is_over_ends_its_job),
        cmocka_unit_test(a_step_on_the_lost_host_alone_is_over),
        cmocka_unit_test(a_job_is_cancelled_that_cannot_be_requeued),
    };
    return cmocka_run_group_tests_name("job_nodes", tests, enter_job, NULL);
}
