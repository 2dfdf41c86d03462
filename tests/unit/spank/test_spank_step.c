/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_step.c - what a task gets, and what it is refused for */
#include "config.h"

#include <netinet/in.h>
#include <sched.h>
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
#include "spank/options.h"
#include "spank/task/task_step.h"
#include "tests/unit/spank/spank_stub.h"

enum {
    BATCH_STEP = 0xfffffffb,
    INTERACTIVE_STEP = 0xfffffffa,
    EXTERN_STEP = 0xfffffffc,
};

static void set(const char *name, const char *value)
{
    spank_setenv(NULL, name, value, 1);
}

/* Of plugstack.conf on the node. No names are looked up here. */
static char *no_net[] = {"off=net"};

/* Rank 5 of 8 on the second of three nodes, in an active step. */
static int setup(void **state)
{
    (void)state;
    stub_reset();
    stub.local_tasks = 3;
    stub.component_tasks = 8;
    set("SLURM_PROCID", "5");
    set("SLURM_STEP_NUM_TASKS", "8");
    set("SLURM_LOCALID", "2");
    set("SLURM_NODEID", "1");
    set("SLURM_STEP_NUM_NODES", "3");
    set("SLURM_STEP_NODELIST", "n[07-09]");
    set("SLURM_STEP_TASKS_PER_NODE", "3(x2),2");
    set("SLURM_JOB_ID", "4711");
    set("SLURM_STEP_ID", "3");
    set(DT_ENV_CONFIG, "/home/u/c.yaml");
    set(DT_ENV_MASTER, "n08");
    assert_int_equal(dtspank_step_init(NULL, 1, no_net), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stub_reset();
    return 0;
}

static void assert_set(const char *name, const char *value)
{
    assert_non_null(stub_getenv(name));
    assert_string_equal(stub_getenv(name), value);
}

static void assert_refused(const char *text)
{
    assert_int_equal(dtspank_step_task_init(NULL), -1);
    assert_string_equal(stub.said, text);
}

static void a_task_gets_its_rank_sizes_and_master(void **state)
{
    (void)state;
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("RANK", "5");
    assert_set("WORLD_SIZE", "8");
    assert_set("LOCAL_RANK", "2");
    assert_set("LOCAL_WORLD_SIZE", "3");
    assert_set("NODE_RANK", "1");
    assert_set("GROUP_RANK", "1");
    assert_set("MASTER_ADDR", "n08");
    assert_ptr_equal(strstr(stub_getenv(DT_ENV_EXPORTED),
                            "RANK=5 WORLD_SIZE=8 LOCAL_RANK=2 "
                            "LOCAL_WORLD_SIZE=3 NODE_RANK=1 MASTER_ADDR=n08 "
                            "MASTER_PORT=6"),
                     stub_getenv(DT_ENV_EXPORTED));
    assert_string_equal(stub.said, "");
}

/* Of a job whose steps have other shapes. */
static void a_stale_number_of_tasks_is_removed(void **state)
{
    static const char *const stale[] = {"4", "3", "x"};
    (void)state;
    for (int i = 0; i < 3; i++) { /* nodes have 3, 3 and 2 tasks */
        set("SLURM_NTASKS_PER_NODE", stale[i]);
        assert_int_equal(dtspank_step_task_init(NULL), 0);
        assert_null(stub_getenv("SLURM_NTASKS_PER_NODE"));
    }
}

static void a_stale_number_of_tasks_is_corrected(void **state)
{
    (void)state;
    stub.component_tasks = 9;
    set("SLURM_STEP_NUM_TASKS", "9");
    set("SLURM_STEP_TASKS_PER_NODE", "3(x3)");
    set("SLURM_NTASKS_PER_NODE", "4");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("SLURM_NTASKS_PER_NODE", "3");
    set(DT_ENV_FRAMEWORKS, "jax"); /* nobody asks for it */
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("SLURM_NTASKS_PER_NODE", "3");
    set("SLURM_NTASKS_PER_NODE", "4");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_null(stub_getenv("SLURM_NTASKS_PER_NODE"));
}

/* Without srun's answer the first node is taken. */
static void the_first_node_is_the_default_master(void **state)
{
    (void)state;
    spank_unsetenv(NULL, DT_ENV_MASTER);
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("MASTER_ADDR", "n07");
}

/* In a heterogeneous job the first node is that of its first component. */
static void the_first_component_has_the_master(void **state)
{
    (void)state;
    spank_unsetenv(NULL, DT_ENV_MASTER);
    set("SLURM_JOB_NODELIST_PACK_GROUP_0", "m[3-4]");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("MASTER_ADDR", "n07"); /* the step is in one component */
    spank_unsetenv(NULL, "MASTER_ADDR");
    stub.component_tasks = 6;
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("MASTER_ADDR", "m3");
}

/* Rank 0 knows better. */
static void rank_0_refuses_another_node_as_master(void **state)
{
    (void)state;
    set("SLURM_PROCID", "0");
    set("SLURMD_NODENAME", "n08");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    set("SLURMD_NODENAME", "n09");
    assert_int_equal(dtspank_step_task_init(NULL), 0); /* as it was */
    spank_unsetenv(NULL, "MASTER_ADDR");
    assert_refused(
        "disttrain: rank 0: MASTER_ADDR: expected rank 0 on n08, but it is on "
        "n09; set MASTER_ADDR to the host of rank 0 before srun\n");
}

static void a_malformed_node_list_is_refused(void **state)
{
    (void)state;
    spank_unsetenv(NULL, DT_ENV_MASTER);
    set("SLURM_STEP_NODELIST", "n[7");
    assert_refused("disttrain: rank 5: MASTER_ADDR: malformed host list at "
                   "\"n[7\"\n");
}

static void the_master_port_is_stable_and_in_range(void **state)
{
    char *av[] = {"off=net", "port_range=20000-20001"};
    char port[8];
    (void)state;
    assert_int_equal(dtspank_step_init(NULL, 2, av), 0);
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    snprintf(port, sizeof(port), "%s", stub_getenv("MASTER_PORT"));
    assert_true(strcmp(port, "20000") == 0 || strcmp(port, "20001") == 0);
    spank_unsetenv(NULL, "MASTER_PORT");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("MASTER_PORT", port);
}

/* Rank 0 tries its port, unless the site or torchelastic has it otherwise. */
static void rank_0_refuses_a_taken_master_port(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    char *no_ports[] = {"off=net,ports"};
    char port[8];
    char text[64];
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(port, sizeof(port), "%u", ntohs(address.sin_port));
    set("MASTER_PORT", port);
    assert_int_equal(dtspank_step_task_init(NULL), 0); /* as rank 5 */
    spank_unsetenv(NULL, "RANK");
    spank_unsetenv(NULL, "ROLE_RANK");
    set("SLURM_PROCID", "0");
    assert_int_equal(dtspank_step_task_init(NULL), -1);
    snprintf(text, sizeof(text), "rank 0: MASTER_PORT: port %s is taken", port);
    assert_non_null(strstr(stub.said, text));
    set("TORCHELASTIC_USE_AGENT_STORE", "True");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    spank_unsetenv(NULL, "TORCHELASTIC_USE_AGENT_STORE");
    assert_int_equal(dtspank_step_init(NULL, 1, no_ports), 0);
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    close(fd);
}

/* A mask of one CPU, or of all, and a share of the node. */
static void openmp_threads_fit_the_mask_and_the_share(void **state)
{
    cpu_set_t all;
    cpu_set_t one;
    char text[16];
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    snprintf(text, sizeof(text), "%d", CPU_COUNT(&all));
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("OMP_NUM_THREADS", text); /* Slurm says nothing */

    spank_unsetenv(NULL, "OMP_NUM_THREADS");
    set("SLURM_CPUS_ON_NODE", "3"); /* of three tasks */
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("OMP_NUM_THREADS", "1");

    spank_unsetenv(NULL, "OMP_NUM_THREADS");
    set("SLURM_CPUS_PER_TASK", "4096"); /* more than the mask */
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("OMP_NUM_THREADS", text);

    spank_unsetenv(NULL, "OMP_NUM_THREADS");
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_set("OMP_NUM_THREADS", "1");
}

/* What the user has set stays, and is not listed as ours. */
static void variables_set_by_the_user_stay(void **state)
{
    (void)state;
    set("MASTER_ADDR", "10.0.0.5");
    set("MASTER_PORT", "29500");
    set("OMP_NUM_THREADS", "7");
    set("RANK", "5");
    set("WORLD_SIZE", "");
    set("NCCL_RAS_ADDR", "localhost:1");
    set("PYTHONUNBUFFERED", "");
    set("PYTHONFAULTHANDLER", "0");
    set(DT_ENV_FRAMEWORKS, "python");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("MASTER_ADDR", "10.0.0.5");
    assert_set("MASTER_PORT", "29500");
    assert_set("OMP_NUM_THREADS", "7");
    assert_set("WORLD_SIZE", "8");
    assert_set("PYTHONFAULTHANDLER", "0");
    assert_set("PYTHONUNBUFFERED", "");
    assert_set(DT_ENV_EXPORTED, "WORLD_SIZE=8 LOCAL_RANK=2 LOCAL_WORLD_SIZE=3 "
                                "NODE_RANK=1");
}

static void a_variable_that_contradicts_slurm_is_refused(void **state)
{
#define TEXT(name, has)                                                        \
    "disttrain: rank 5: the environment has " name                             \
    "=77, but this task has " has "; unset " name " before srun\n"
    static const struct {
        const char *name;
        const char *text;
    } cases[] = {
        {"RANK", TEXT("RANK", "5")},
        {"WORLD_SIZE", TEXT("WORLD_SIZE", "8")},
        {"LOCAL_RANK", TEXT("LOCAL_RANK", "2")},
        {"LOCAL_WORLD_SIZE", TEXT("LOCAL_WORLD_SIZE", "3")},
        {"NODE_RANK", TEXT("NODE_RANK", "1")},
        {"GROUP_RANK", TEXT("GROUP_RANK", "1")},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        setup(state);
        set(cases[i].name, "77");
        assert_refused(cases[i].text);
    }
}

static void frameworks_are_chosen_by_their_known_names(void **state)
{
    (void)state;
    set(DT_ENV_FRAMEWORKS, "jax");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_non_null(stub_getenv("JAX_COORDINATOR_ADDRESS"));
    assert_null(stub_getenv("TF_CONFIG"));
    set(DT_ENV_FRAMEWORKS, "torch,tensorflwo");
    assert_refused("disttrain: rank 5: unknown framework \"tensorflwo\": "
                   "expected accelerate, composer, deepspeed, horovod, jax, "
                   "lightning, megatron, python, tensorflow or torch\n");
}

static void a_message_is_one_line_for_any_environment(void **state)
{
    (void)state;
    set("RANK", "5\nslurmd: fake\x1b[2J");
    assert_refused("disttrain: rank 5: the environment has RANK=5?slurmd: "
                   "fake?[2J, but this task has 5; unset RANK "
                   "before srun\n");
}

static void a_task_without_a_local_rank_is_refused(void **state)
{
    (void)state;
    spank_unsetenv(NULL, "SLURM_LOCALID");
    assert_refused("disttrain: rank 5: LOCAL_RANK: Slurm gave this task no "
                   "number in SLURM_LOCALID\n");
}

static void a_malformed_node_rank_is_refused(void **state)
{
    static const char *const values[] = {
        "", "-1", "5x", " 5", "4294967296", "99999999999999999999"};
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        setup(state);
        set("SLURM_NODEID", values[i]);
        assert_refused("disttrain: rank 5: NODE_RANK: Slurm gave this task no "
                       "number in SLURM_NODEID\n");
    }
}

static void variables_of_the_config_reach_the_task(void **state)
{
    (void)state;
    set(DT_ENV_CARRY "A", "one two=three");
    set(DT_ENV_CARRY "B", "");
    set(DT_ENV_CARRY "MASTER_PORT", "31000");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("A", "one two=three");
    assert_set("B", "");
    assert_set("MASTER_PORT", "31000");
    assert_null(stub_getenv(DT_ENV_CARRY "A"));
    assert_null(stub_getenv(DT_ENV_CARRY "B"));
    assert_string_equal(stub.said, "");
}

/* The environment wins; rank 0 says it, unless the two agree. */
static void the_environment_wins_over_the_config(void **state)
{
    (void)state;
    set("A", "mine");
    set("B", "same");
    set(DT_ENV_CARRY "A", "config's");
    set(DT_ENV_CARRY "B", "same");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("A", "mine");
    assert_null(stub_getenv(DT_ENV_CARRY "A"));
    assert_string_equal(stub.said, "");

    spank_unsetenv(NULL, "RANK");
    set("SLURM_PROCID", "0");
    set(DT_ENV_CARRY "A", "config's");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_string_equal(
        stub.said, "disttrain: env: A of the configuration is not used: the "
                   "environment has another value\n");
}

/* No option, no variables; but the preset goes. */
static void without_a_config_nothing_is_set(void **state)
{
    (void)state;
    spank_unsetenv(NULL, DT_ENV_CONFIG);
    set("RANK", "77");
    set(DTSPANK_PRESET, "c.yaml");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("RANK", "77");
    assert_null(stub_getenv("WORLD_SIZE"));
    assert_null(stub_getenv(DTSPANK_PRESET));
}

/* srun has found a bad node, and has said so. */
static void a_failed_preflight_ends_tasks_silently(void **state)
{
    (void)state;
    set(DT_ENV_PREFLIGHT, "1");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    set(DT_ENV_PREFLIGHT, DT_PREFLIGHT_FAILED);
    stub.said[0] = '\0';
    assert_int_equal(dtspank_step_task_init(NULL), -1);
    assert_string_equal(stub.said, "");
}

static void the_range_of_ports_is_that_of_srun(void **state)
{
    (void)state;
    set(DT_ENV_PORTS, "2000-2000");
    assert_int_equal(dtspank_step_task_init(NULL), 0);
    assert_set("MASTER_PORT", "2000");
    setup(state);
    set(DT_ENV_PORTS, "20-30");
    assert_refused(
        "disttrain: rank 5: port_range: expected A-B with 1024 <= A <= B <= "
        "65535, got \"20-30\"\n");
}

static void batch_interactive_and_extern_steps_are_left_alone(void **state)
{
    static const uint32_t ids[] = {BATCH_STEP, INTERACTIVE_STEP, EXTERN_STEP};
    (void)state;
    set(DTSPANK_PRESET, "c.yaml");
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
        stub.step_id = ids[i];
        assert_int_equal(dtspank_step_task_init(NULL), 0);
        assert_null(stub_getenv("RANK"));
        assert_set(DTSPANK_PRESET, "c.yaml");
    }
}

/* A wrong plugstack.conf on a node stops the tasks, not slurmstepd. */
static void a_wrong_site_configuration_stops_only_tasks(void **state)
{
    char *av[] = {"prot_range=1-2"};
    (void)state;
    assert_int_equal(dtspank_step_init(NULL, 1, av), 0);
    stub.said[0] = '\0';
    assert_refused("disttrain: rank 5: plugstack.conf: unknown argument "
                   "\"prot_range=1-2\": expected runtime=PATH, "
                   "port_range=A-B, env=NAME=VALUE, force=NAME=VALUE, "
                   "allow_runtime=DIR or off=PART\n");
    stub.said[0] = '\0';
    spank_unsetenv(NULL, DT_ENV_CONFIG);
    assert_int_equal(dtspank_step_task_init(NULL), 0);
}

/* Whatever the user puts into the variables that the plugin reads. */
static void hostile_values_pass_or_get_a_short_message(void **state)
{
    static char longest[100000];
    static const char *const values[] = {
        longest, "%n%s%999999d",    "a\nb\r\x1b[31m", "\xff\xfe\x80", "[[[[",
        "=",     "n[0-4294967295]",
    };
    static const char *const names[] = {
        DT_ENV_CONFIG,
        DT_ENV_MASTER,
        DT_ENV_EXPORTED,
        DT_ENV_FRAMEWORKS,
        DT_ENV_PORTS,
        "SLURM_STEP_NUM_NODES",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURMD_NODENAME",
        "SLURM_RESTART_COUNT",
        "MASTER_PORT",
        "CUDA_VISIBLE_DEVICES",
        DT_ENV_CARRY,
        DT_ENV_CARRY "X",
        "SLURM_STEP_NODELIST",
        "SLURM_PROCID",
        "SLURM_STEP_RESV_PORTS",
        "SLURM_CPUS_PER_TASK",
        "RANK",
        "MASTER_ADDR",
        DTSPANK_PRESET,
    };
    memset(longest, 'x', sizeof(longest) - 1);
    for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++)
        for (size_t v = 0; v < sizeof(values) / sizeof(*values); v++) {
            setup(state);
            set(names[n], values[v]);
            int rc = dtspank_step_task_init(NULL);
            assert_true(rc == 0 || strlen(stub.said) > 0);
            assert_true(strlen(stub.said) < 1200 ||
                        strncmp(names[n], DT_ENV_CARRY, 10) == 0);
        }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_task_gets_its_rank_sizes_and_master),
        TEST(a_stale_number_of_tasks_is_removed),
        TEST(a_stale_number_of_tasks_is_corrected),
        TEST(the_first_node_is_the_default_master),
        TEST(the_first_component_has_the_master),
        TEST(rank_0_refuses_another_node_as_master),
        TEST(a_malformed_node_list_is_refused),
        TEST(the_master_port_is_stable_and_in_range),
        TEST(rank_0_refuses_a_taken_master_port),
        TEST(openmp_threads_fit_the_mask_and_the_share),
        TEST(variables_set_by_the_user_stay),
        TEST(a_variable_that_contradicts_slurm_is_refused),
        TEST(frameworks_are_chosen_by_their_known_names),
        TEST(a_message_is_one_line_for_any_environment),
        TEST(a_task_without_a_local_rank_is_refused),
        TEST(a_malformed_node_rank_is_refused),
        TEST(variables_of_the_config_reach_the_task),
        TEST(the_environment_wins_over_the_config),
        TEST(a_failed_preflight_ends_tasks_silently),
        TEST(without_a_config_nothing_is_set),
        TEST(the_range_of_ports_is_that_of_srun),
        TEST(batch_interactive_and_extern_steps_are_left_alone),
        TEST(a_wrong_site_configuration_stops_only_tasks),
        TEST(hostile_values_pass_or_get_a_short_message),
    };
    return cmocka_run_group_tests_name("spank_step", tests, NULL, NULL);
}
