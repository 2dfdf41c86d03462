/* SPDX-License-Identifier: Apache-2.0 */
/* test_facts.c - what a task knows, from what Slurm says and what it does not
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "spank/siteconf.h"
#include "spank/task/task_impl.h"
#include "tests/unit/spank/spank_stub.h"

static struct dtspank_siteconf conf;
static struct dtspank_facts facts;

static void set(const char *name, const char *value)
{
    spank_setenv(NULL, name, value, 1);
}

/* Rank 5 of 8 on the second of three nodes; no names are looked up. */
static int setup(void **state)
{
    static char *av[] = {"off=net"};
    (void)state;
    stub_reset();
    stub.local_tasks = 3;
    stub.component_tasks = 8;
    set("SLURM_PROCID", "5");
    set("SLURM_STEP_NUM_TASKS", "8");
    set("SLURM_STEP_NUM_NODES", "3");
    set("SLURM_LOCALID", "2");
    set("SLURM_NODEID", "1");
    set("SLURM_STEP_NODELIST", "n[07-09]");
    set("SLURM_STEP_TASKS_PER_NODE", "3(x2),2");
    set("SLURM_JOB_ID", "4711");
    set("SLURM_STEP_ID", "3");
    set("SLURMD_NODENAME", "n08");
    assert_int_equal(dtspank_siteconf_parse(1, av, &conf, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dtspank_facts_fini(&facts);
    stub_reset();
    return 0;
}

static const struct dt_task_facts *collect(void)
{
    struct dt_error err;
    dtspank_facts_fini(&facts);
    if (dtspank_facts_collect(NULL, &conf, &facts, &err) != 0)
        fail_msg("%s", err.text);
    return &facts.task;
}

static void slurm_variables_tell_the_place_of_a_task(void **state)
{
    const struct dt_task_facts *task = collect();
    (void)state;
    assert_int_equal(task->rank, 5);
    assert_int_equal(task->world_size, 8);
    assert_int_equal(task->local_rank, 2);
    assert_int_equal(task->local_size, 3);
    assert_int_equal(task->node_rank, 1);
    assert_int_equal(task->nodes, 3);
    assert_int_equal(task->restarts, 0);
    assert_string_equal(task->master_addr, "n07");
    assert_string_equal(task->host, "n08");
    assert_null(task->interface);
    assert_string_equal(task->hosts[0], "n07");
    assert_string_equal(task->hosts[2], "n09");
    assert_int_equal(task->tasks[0], 3);
    assert_int_equal(task->tasks[1], 3);
    assert_int_equal(task->tasks[2], 2);
}

static void the_restart_count_comes_from_slurm(void **state)
{
    (void)state;
    set("SLURM_RESTART_COUNT", "2");
    assert_int_equal(collect()->restarts, 2);
}

static void gpus_are_counted_from_the_visible_devices(void **state)
{
    (void)state;
    assert_int_equal(collect()->gpus, -1);
    set("CUDA_VISIBLE_DEVICES", "");
    assert_int_equal(collect()->gpus, 0);
    set("CUDA_VISIBLE_DEVICES", "3");
    assert_int_equal(collect()->gpus, 1);
    set("CUDA_VISIBLE_DEVICES", "0,1,GPU-5");
    assert_int_equal(collect()->gpus, 3);
}

static void inconsistent_or_malformed_lists_are_not_used(void **state)
{
    static const struct {
        const char *name;
        const char *value;
    } cases[] = {
        {"SLURM_STEP_TASKS_PER_NODE", "3(x2)"},
        {"SLURM_STEP_TASKS_PER_NODE", "3(x2),2,1"},
        {"SLURM_STEP_TASKS_PER_NODE", "3(x2),"},
        {"SLURM_STEP_TASKS_PER_NODE", "x"},
        {"SLURM_STEP_TASKS_PER_NODE", ""},
        {"SLURM_STEP_TASKS_PER_NODE", "3(x999999999),2"},
        {"SLURM_STEP_TASKS_PER_NODE", "3(x2),2]"},
        {"SLURM_STEP_NODELIST", "n[07-08]"},
        {"SLURM_STEP_NUM_NODES", "4294967295"},
        {"SLURM_STEP_NUM_NODES", "0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        setup(state);
        set(cases[i].name, cases[i].value);
        assert_null(collect()->hosts);
        assert_null(facts.task.tasks);
    }
    setup(state);
    spank_unsetenv(NULL, "SLURM_STEP_TASKS_PER_NODE");
    assert_null(collect()->hosts);
}

/* The user's address counts, but rank 0's node stays what it is. */
static void the_master_set_by_the_user_is_kept(void **state)
{
    (void)state;
    set("MASTER_ADDR", "10.0.0.5");
    set("MASTER_PORT", "29500");
    assert_string_equal(collect()->master_addr, "10.0.0.5");
    assert_int_equal(facts.task.master_port, 29500);
    assert_string_equal(facts.rank0, "n07");
    set("MASTER_PORT", "http");
    assert_int_equal(collect()->master_port, 0);
    set("MASTER_PORT", "");
    assert_in_range(collect()->master_port, 61000, 65535);
    set("SLURM_STEP_NODELIST", "n[7");
    assert_string_equal(collect()->master_addr, "10.0.0.5");
}

static void ports_reserved_by_slurm_are_used(void **state)
{
    (void)state;
    set("SLURM_STEP_RESV_PORTS", "12003-12006");
    assert_int_equal(collect()->master_port, 12003);
    assert_int_equal(facts.task.jax_port, 12004);
    assert_int_equal(facts.task.tf_port, 12004);
    assert_in_range(facts.task.ras_port, 61000, 65535);
}

/* Listens on port; the descriptor. */
static int hold(uint32_t port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/* Whichever of its ports is taken, a step of one node has the next place; one
 * of several nodes stays, as do ports of the user's or Slurm's.
 */
static void a_step_of_one_node_avoids_taken_ports(void **state)
{
    (void)state;
    struct dt_task_facts free = *collect();
    const uint32_t taken[] = {free.master_port, free.jax_port, free.ras_port};
    dtspank_facts_fini(&facts);
    for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
        int fd = hold(taken[i]);
        stub.local_tasks = 3;
        dtspank_facts_skip_taken_ports(NULL, &conf);
        assert_int_equal(collect()->master_port, free.master_port);
        dtspank_facts_fini(&facts);
        stub.local_tasks = 8;
        dtspank_facts_skip_taken_ports(NULL, &conf);
        assert_int_equal(collect()->master_port, free.master_port + 1);
        assert_int_equal(facts.task.jax_port, free.jax_port + 1);
        assert_int_equal(facts.task.ras_port, free.ras_port + 1);
        dtspank_facts_fini(&facts);
        set("MASTER_PORT", "7000");
        dtspank_facts_skip_taken_ports(NULL, &conf);
        assert_int_equal(collect()->jax_port, free.jax_port);
        dtspank_facts_fini(&facts);
        spank_unsetenv(NULL, "MASTER_PORT");
        close(fd);
    }
    dtspank_facts_skip_taken_ports(NULL, &conf);
    assert_int_equal(collect()->master_port, free.master_port);
}

/* A reservation and a node list belong to one component only. */
static void heterogeneous_steps_ignore_lists_of_one_component(void **state)
{
    (void)state;
    stub.component_tasks = 4;
    set("SLURM_STEP_RESV_PORTS", "12003-12006");
    set("SLURM_JOB_NODELIST_PACK_GROUP_0", "m[3-4]");
    assert_in_range(collect()->master_port, 61000, 65535);
    assert_null(facts.task.hosts);
    assert_string_equal(facts.task.master_addr, "m3");
}

static void a_task_without_a_step_id_is_refused(void **state)
{
    struct dt_error err;
    (void)state;
    spank_unsetenv(NULL, "SLURM_STEP_ID");
    assert_int_equal(dtspank_facts_collect(NULL, &conf, &facts, &err), -1);
    assert_string_equal(err.text, "MASTER_PORT: Slurm gave this task no job or "
                                  "step id");
}

/* One line from the first task of a node, and no interface. */
static void a_missing_interface_is_reported_once_per_node(void **state)
{
    (void)state;
    assert_int_equal(dtspank_siteconf_parse(0, NULL, &conf, NULL), 0);
    set("MASTER_ADDR", "localhost");
    assert_null(collect()->interface);
    assert_string_equal(stub.said, "");
    set("SLURM_LOCALID", "0");
    assert_null(collect()->interface);
    assert_string_equal(
        stub.said, "disttrain: n08: NCCL_SOCKET_IFNAME and the like are not "
                   "set, because this node cannot find MASTER_ADDR: "
                   "localhost: the name resolves to this node itself\n");
    stub.said[0] = '\0';
    set("SLURMD_NODENAME", "n\n8");
    set("MASTER_ADDR", "\x1b");
    assert_null(collect()->interface);
    assert_non_null(strstr(stub.said, "disttrain: n?8: "));
    assert_non_null(strstr(stub.said, "MASTER_ADDR: ?: "));
    stub.said[0] = '\0';
    set("SLURM_STEP_NUM_NODES", "1");
    assert_null(collect()->interface);
    assert_string_equal(stub.said, "");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(slurm_variables_tell_the_place_of_a_task),
        TEST(the_restart_count_comes_from_slurm),
        TEST(gpus_are_counted_from_the_visible_devices),
        TEST(inconsistent_or_malformed_lists_are_not_used),
        TEST(the_master_set_by_the_user_is_kept),
        TEST(ports_reserved_by_slurm_are_used),
        TEST(heterogeneous_steps_ignore_lists_of_one_component),
        TEST(a_task_without_a_step_id_is_refused),
        TEST(a_missing_interface_is_reported_once_per_node),
        TEST(a_step_of_one_node_avoids_taken_ports),
    };
    return cmocka_run_group_tests_name("facts", tests, NULL, NULL);
}
