/* SPDX-License-Identifier: Apache-2.0 */
/* test_job_nodes.c - when a node counts as lost */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "slurm/job_nodes.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_falls_silent_is_lost),
        cmocka_unit_test(a_step_waits_for_nodes_that_used_to_answer),
        cmocka_unit_test(the_first_nodes_that_are_left_are_listed),
        cmocka_unit_test(a_kernel_answers_for_its_node),
    };
    return cmocka_run_group_tests_name("job_nodes", tests, NULL, NULL);
}
