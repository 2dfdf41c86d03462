/* SPDX-License-Identifier: Apache-2.0 */
/* test_variables.c - what is set, for whom, and what is not */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/task_env.h"

static void a_task_gets_all_variables_in_order(void **state)
{
    static const char expected[] =
        "RANK=11!\nWORLD_SIZE=16!\nLOCAL_RANK=3!\nLOCAL_WORLD_SIZE=8!\n"
        "NODE_RANK=1!\nMASTER_ADDR=n07\nMASTER_PORT=61234\n"
        "OMP_NUM_THREADS=12\nNCCL_SOCKET_IFNAME==ib0\nGLOO_SOCKET_IFNAME=ib0\n"
        "TP_SOCKET_IFNAME=ib0\nUCX_NET_DEVICES=ib0\n"
        "NCCL_RAS_ADDR=localhost:63000\nGROUP_RANK=1!\nGROUP_WORLD_SIZE=2\n"
        "ROLE_RANK=11\nROLE_WORLD_SIZE=16\nROLE_NAME=default\n"
        "TORCHELASTIC_RESTART_COUNT=2\nTORCH_NCCL_ASYNC_ERROR_HANDLING=1\n"
        "CROSS_RANK=1\nCROSS_SIZE=2\nLOCAL_SIZE=8\nSLURM_NTASKS_PER_NODE=8\n"
        "JAX_COORDINATOR_ADDRESS=n07:62000\nJAX_COORDINATOR_PORT=62000\n"
        "JAX_LOCAL_DEVICE_IDS=3\n"
        "TF_CONFIG={\"cluster\":{\"worker\":[\"n07:64000\",\"n07:64001\","
        "\"n07:64002\",\"n07:64003\",\"n07:64004\",\"n07:64005\","
        "\"n07:64006\",\"n07:64007\",\"n08:64000\",\"n08:64001\","
        "\"n08:64002\",\"n08:64003\",\"n08:64004\",\"n08:64005\","
        "\"n08:64006\",\"n08:64007\"]},"
        "\"task\":{\"type\":\"worker\",\"index\":11}}\n"
        "PYTHONUNBUFFERED=1\nPYTHONFAULTHANDLER=1\n";
    char list[4096] = "";
    struct dt_error err;
    (void)state;
    forget_env();
    assert_int_equal(dt_variables_each(&rank_11, NULL, set, NULL, &err), 0);
    list_env(list, sizeof(list));
    assert_string_equal(list, expected);
}

static void unknown_facts_set_no_variables(void **state)
{
    static const char *const absent[] = {
        "OMP_NUM_THREADS",    "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",   "UCX_NET_DEVICES",    "NCCL_RAS_ADDR",
        "HOROVOD_GLOO_IFACE", "HOROVOD_HOSTNAME",   "SLURM_NTASKS_PER_NODE",
        "TF_CONFIG",
    };
    struct dt_task_facts facts = rank_11;
    (void)state;
    facts.cpus = 0;
    facts.interface = NULL;
    facts.ras_port = 0;
    facts.host = NULL;
    facts.hosts = NULL;
    facts.tasks = NULL;
    start(&facts, "accelerate,composer,deepspeed,horovod,jax,lightning,"
                  "megatron,python,torch");
    for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++)
        assert_null(get(absent[i]));
    start(&facts, NULL);
    assert_null(get("TF_CONFIG"));
}

static void a_log_directory_turns_on_the_flight_recorder(void **state)
{
    struct dt_task_facts facts = rank_11;
    (void)state;
    facts.logs = "/out/logs";
    start(&facts, "torch");
    assert_string_equal(get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
                        "/out/logs/nccl-rank-");
    assert_string_equal(get("TORCH_NCCL_TRACE_BUFFER_SIZE"), "2000");
    assert_string_equal(get("TORCH_NCCL_DUMP_ON_TIMEOUT"), "1");
}

static void a_long_tf_config_is_only_for_tensorflow(void **state)
{
    static uint32_t tasks[2] = {8, 800};
    struct dt_task_facts facts = rank_11;
    (void)state;
    facts.tasks = tasks;
    start(&facts, NULL);
    assert_null(get("TF_CONFIG"));
    start(&facts, "tensorflow");
    assert_true(strlen(get("TF_CONFIG")) > 8192);
}

static void with_rdma_ucx_chooses_its_own_devices(void **state)
{
    struct dt_task_facts facts = rank_11;
    (void)state;
    facts.rdma = true;
    start(&facts, NULL);
    assert_null(get("UCX_NET_DEVICES"));
    assert_string_equal(get("NCCL_SOCKET_IFNAME"), "=ib0");
}

static void jax_gets_the_only_device_or_its_own(void **state)
{
    static const struct {
        int gpus;
        const char *id;
    } cases[] = {{-1, "3"}, {0, "3"}, {1, "0"}, {2, "3"}, {8, "3"}};
    struct dt_task_facts facts = rank_11;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        facts.gpus = cases[i].gpus;
        start(&facts, NULL);
        assert_string_equal(get("JAX_LOCAL_DEVICE_IDS"), cases[i].id);
    }
}

static void an_ipv6_address_gets_brackets_before_a_port(void **state)
{
    struct dt_task_facts facts = rank_11;
    (void)state;
    facts.master_addr = "fd00::5";
    start(&facts, NULL);
    assert_string_equal(get("MASTER_ADDR"), "fd00::5");
    assert_string_equal(get("JAX_COORDINATOR_ADDRESS"), "[fd00::5]:62000");
}

/* The torch-like set stays; the rest is that of the named ones. */
static void named_frameworks_narrow_the_variables(void **state)
{
    (void)state;
    start(&rank_11, "jax");
    assert_non_null(get("RANK"));
    assert_non_null(get("NCCL_SOCKET_IFNAME"));
    assert_non_null(get("JAX_COORDINATOR_ADDRESS"));
    assert_null(get("ROLE_RANK"));
    assert_null(get("TF_CONFIG"));
    assert_null(get("CROSS_RANK"));
    assert_null(get("PYTHONUNBUFFERED"));
    start(&rank_11, "");
    assert_non_null(get("RANK"));
    assert_null(get("JAX_COORDINATOR_ADDRESS"));
    start(&rank_11, "composer,tensorflow");
    assert_string_equal(get("PYTHONUNBUFFERED"), "1");
    assert_null(get("PYTHONFAULTHANDLER"));
    assert_non_null(get("TF_CONFIG"));
    start(&rank_11, "accelerate");
    assert_non_null(get("GROUP_RANK"));
}

/* What would mislead another framework waits for its name. */
static void a_misleading_variable_waits_for_its_framework(void **state)
{
    (void)state;
    start(&rank_11, NULL);
    assert_null(get("CUDA_DEVICE_MAX_CONNECTIONS"));
    assert_null(get("HOROVOD_RANK"));
    start(&rank_11, "megatron,horovod");
    assert_string_equal(get("CUDA_DEVICE_MAX_CONNECTIONS"), "1");
    assert_string_equal(get("HOROVOD_HOSTNAME"), "n08");
    assert_string_equal(get("HOROVOD_GLOO_IFACE"), "ib0");
}

static void known_frameworks_are_taken_and_others_refused(void **state)
{
    struct dt_error err;
    (void)state;
    for (int i = 0; dt_variables_frameworks[i]; i++) {
        start(&rank_11, dt_variables_frameworks[i]);
        assert_non_null(get("RANK"));
    }
    static const char *const wrong[] = {"pytorch", "Torch", "jax torch", ""};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        char list[64];
        char text[256];
        snprintf(list, sizeof(list), "torch,%s,jax", wrong[i]);
        snprintf(text, sizeof(text),
                 "unknown framework \"%s\": expected accelerate, composer, "
                 "deepspeed, horovod, jax, lightning, megatron, python, "
                 "tensorflow or torch",
                 wrong[i]);
        forget_env();
        assert_int_equal(dt_variables_each(&rank_11, list, set, NULL, &err),
                         -1);
        assert_string_equal(err.text, text);
        assert_int_equal(err.status, EX_CONFIG);
        assert_int_equal(env_count(), 0);
    }
}

/* Left out, or an error for those who have asked for it. */
static void an_oversized_tf_config_is_omitted_or_refused(void **state)
{
    enum { NODES = 1000 };
    static const char *names[NODES];
    static uint32_t tasks[NODES];
    struct dt_task_facts facts = rank_11;
    struct dt_error err;
    (void)state;
    for (int i = 0; i < NODES; i++) {
        names[i] = "a-node-with-a-name";
        tasks[i] = 8;
    }
    facts.nodes = NODES;
    facts.world_size = 8 * NODES;
    facts.hosts = names;
    facts.tasks = tasks;
    start(&facts, NULL);
    assert_null(get("TF_CONFIG"));
    assert_non_null(get("PYTHONUNBUFFERED"));
    forget_env();
    assert_int_equal(dt_variables_each(&facts, "tensorflow", set, NULL, &err),
                     -1);
    assert_string_equal(err.text,
                        "TF_CONFIG is not possible, because the step is "
                        "heterogeneous, has too many tasks, or port_range is "
                        "too small for them; take tensorflow out of "
                        "launch.frameworks");
    facts.nodes = 400;
    start(&facts, "tensorflow");
    assert_non_null(get("TF_CONFIG"));
}

static int refuse(void *context, const char *name, const char *value,
                  bool fixed, struct dt_error *err)
{
    int *calls = context;
    (void)fixed;
    return ++*calls < 3 ? 0 : dt_error_set(err, EX_OSERR, "%s=%s", name, value);
}

static void the_first_failing_variable_stops_the_rest(void **state)
{
    struct dt_error err;
    int calls = 0;
    (void)state;
    assert_int_equal(dt_variables_each(&rank_11, NULL, refuse, &calls, &err),
                     -1);
    assert_string_equal(err.text, "LOCAL_RANK=3");
    assert_int_equal(calls, 3);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, teardown)
    const struct CMUnitTest tests[] = {

        TEST(a_task_gets_all_variables_in_order),
        TEST(a_log_directory_turns_on_the_flight_recorder),
        TEST(a_long_tf_config_is_only_for_tensorflow),
        TEST(unknown_facts_set_no_variables),
        TEST(with_rdma_ucx_chooses_its_own_devices),
        TEST(jax_gets_the_only_device_or_its_own),
        TEST(an_ipv6_address_gets_brackets_before_a_port),
        TEST(named_frameworks_narrow_the_variables),
        TEST(a_misleading_variable_waits_for_its_framework),
        TEST(known_frameworks_are_taken_and_others_refused),
        TEST(an_oversized_tf_config_is_omitted_or_refused),
        TEST(the_first_failing_variable_stops_the_rest),
    };
    return cmocka_run_group_tests_name("variables", tests, NULL, NULL);
}
