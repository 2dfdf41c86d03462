/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_ports.c - a port of a framework that somebody else has */
#include "config.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "spank/task/task_step.h"
#include "tests/unit/spank/spank_stub.h"

/* No names are looked up here. */
static char *no_net[] = {"off=net"};

static void set(const char *name, const char *value)
{
    spank_setenv(NULL, name, value, 1);
}

/* Listens on a port; the descriptor. */
static int listen_on(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* The number at the end of a variable. */
static unsigned port_in(const char *name)
{
    const char *text = stub_getenv(name);
    assert_non_null(text);
    return (unsigned)strtoul(strrchr(text, ':') ? strrchr(text, ':') + 1 : text,
                             NULL, 10);
}

/* A second life of the task, after the first has said which ports it has. */
static void again(const char *frameworks)
{
    stub_reset();
    stub.local_tasks = 2;
    stub.component_tasks = 4;
    set("SLURM_PROCID", "0");
    set("SLURM_STEP_NUM_TASKS", "4");
    set("SLURM_LOCALID", "0");
    set("SLURM_NODEID", "0");
    set("SLURM_STEP_NUM_NODES", "2");
    set("SLURM_STEP_NODELIST", "n[07-08]");
    set("SLURM_STEP_TASKS_PER_NODE", "2(x2)");
    set("SLURM_JOB_ID", "4711");
    set("SLURM_STEP_ID", "3");
    set("SLURMD_NODENAME", "n07");
    set(DT_ENV_CONFIG, "/home/u/c.yaml");
    assert_int_equal(dtspank_step_init(NULL, 1, no_net), 0);
    if (frameworks)
        set(DT_ENV_FRAMEWORKS, frameworks);
}

static void a_taken_port_stops_only_its_framework(void **state)
{
    static const struct {
        const char *variable, *framework, *says;
    } cases[] = {
        {"JAX_COORDINATOR_PORT", "torch,jax", "rank 0: JAX_COORDINATOR_PORT: "},
        {"NCCL_RAS_ADDR", NULL, "rank 0: NCCL_RAS_ADDR: "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[128];
        again(NULL);
        assert_int_equal(dtspank_step_task_init(NULL), 0);
        assert_string_equal(stub.said, "");
        unsigned port = port_in(cases[i].variable);
        int fd = listen_on(port);
        snprintf(text, sizeof(text), "disttrain: warning: %sport %u is taken",
                 cases[i].says, port);
        again(NULL);
        assert_int_equal(dtspank_step_task_init(NULL), 0);
        assert_ptr_equal(strstr(stub.said, text), stub.said);
        if (cases[i].framework) {
            again(cases[i].framework);
            assert_int_equal(dtspank_step_task_init(NULL), -1);
            assert_non_null(strstr(stub.said, cases[i].says));
            again("torch");
            assert_int_equal(dtspank_step_task_init(NULL), 0);
            assert_string_equal(stub.said, "");
        }
        again(NULL);
        set(cases[i].variable, "localhost:1");
        assert_int_equal(dtspank_step_task_init(NULL), 0);
        assert_string_equal(stub.said, "");
        again(NULL);
        set("SLURM_PROCID", "1"); /* not this task's to test */
        set("SLURM_LOCALID", "1");
        assert_int_equal(dtspank_step_task_init(NULL), 0);
        assert_string_equal(stub.said, "");
        close(fd);
    }
}

/* Each task is a worker with a port of its own; TF_CONFIG has the first host's
 * first.
 */
static void a_taken_tensorflow_port_stops_one_worker(void **state)
{
    (void)state;
    again("tensorflow");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    const char *config = stub_getenv("TF_CONFIG");
    assert_non_null(config);
    unsigned port =
        (unsigned)strtoul(strchr(strstr(config, "n07"), ':') + 1, NULL, 10);
    int fd = listen_on(port + 1);
    again("tensorflow");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    again("tensorflow");
    set("SLURM_PROCID", "1");
    set("SLURM_LOCALID", "1");
    assert_int_equal(dtspank_step_task_init(NULL), -1);
    assert_non_null(strstr(stub.said, "rank 1: TF_CONFIG: port "));
    assert_non_null(strstr(stub.said, ", or set TF_CONFIG yourself"));
    again("torch");
    set("SLURM_PROCID", "1");
    set("SLURM_LOCALID", "1");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_string_equal(stub.said, "");
    close(fd);
}

/* One node can agree on others, for all of its workers. */
static void one_node_uses_the_next_tensorflow_ports(void **state)
{
    unsigned port[2];
    int fd = -1;
    (void)state;
    for (int i = 0; i < 2; i++) {
        again("tensorflow");
        set("SLURM_STEP_NUM_TASKS", "2");
        set("SLURM_STEP_NUM_NODES", "1");
        set("SLURM_STEP_NODELIST", "n07");
        set("SLURM_STEP_TASKS_PER_NODE", "2");
        stub.component_tasks = 2;
        dtspank_step_user_init(NULL);
        set("SLURM_PROCID", "1");
        set("SLURM_LOCALID", "1");
        assert_int_equal(dtspank_step_task_init(NULL), 0);
        const char *config = stub_getenv("TF_CONFIG");
        assert_non_null(config);
        port[i] =
            (unsigned)strtoul(strchr(strstr(config, "n07"), ':') + 1, NULL, 10);
        if (i == 0)
            fd = listen_on(port[0] + 1);
    }
    assert_true(port[1] > port[0] + 1 || port[1] + 1 < port[0]);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_taken_port_stops_only_its_framework),
        cmocka_unit_test(a_taken_tensorflow_port_stops_one_worker),
        cmocka_unit_test(one_node_uses_the_next_tensorflow_ports),
    };
    return cmocka_run_group_tests_name("spank_ports", tests, NULL, NULL);
}
