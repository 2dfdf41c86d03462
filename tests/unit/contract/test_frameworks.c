/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_frameworks.c - each framework finds its place, by its own rules
 *
 * The functions called like a framework restate what its documentation and its
 * code say about the environment: which variables, in which order.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/unit/task_env.h"

enum {
    NOT_SET = -1,
};

/* What a program concludes. */
struct place {
    long rank, size, local_rank, local_size, node_rank, nodes;
    char master[64];
};

static long number(const char *name)
{
    const char *value = get(name);
    char *end;
    if (!value || !*value)
        return NOT_SET;
    long result = strtol(value, &end, 10);
    assert_int_equal(*end, '\0');
    return result;
}

/* The first that is set. */
static long first_number(const char *const *names)
{
    for (; *names; names++)
        if (number(*names) != NOT_SET)
            return number(*names);
    return NOT_SET;
}

static void assert_place(const struct place *place,
                         const struct dt_task_facts *facts)
{
    assert_int_equal(place->rank, facts->rank);
    assert_int_equal(place->size, facts->world_size);
    assert_int_equal(place->local_rank, facts->local_rank);
    if (place->local_size != NOT_SET)
        assert_int_equal(place->local_size, facts->local_size);
    if (place->node_rank != NOT_SET)
        assert_int_equal(place->node_rank, facts->node_rank);
    if (place->nodes != NOT_SET)
        assert_int_equal(place->nodes, facts->nodes);
}

static void join_master(struct place *place)
{
    assert_non_null(get("MASTER_ADDR"));
    assert_in_range(number("MASTER_PORT"), 1, 65535);
    snprintf(place->master, sizeof(place->master), "%s:%ld", get("MASTER_ADDR"),
             number("MASTER_PORT"));
}

/* env://: four variables; the agent's store only if the agent says so. */
static struct place torch(void)
{
    struct place place = {number("RANK"),
                          number("WORLD_SIZE"),
                          number("LOCAL_RANK"),
                          number("LOCAL_WORLD_SIZE"),
                          number("GROUP_RANK"),
                          number("GROUP_WORLD_SIZE"),
                          ""};
    assert_null(get("TORCHELASTIC_USE_AGENT_STORE"));
    assert_int_equal(number("ROLE_RANK"), place.rank);
    assert_int_equal(number("ROLE_WORLD_SIZE"), place.size);
    assert_string_equal(get("ROLE_NAME"), "default");
    join_master(&place);
    return place;
}

/* Distributed if LOCAL_RANK is there; MPI's variables after torch's. */
static struct place accelerate(void)
{
#define NAMES (const char *const[])
    struct place place = {
        first_number(NAMES{"RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK",
                           "MV2_COMM_WORLD_RANK", NULL}),
        first_number(NAMES{"WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE",
                           "MV2_COMM_WORLD_SIZE", NULL}),
        first_number(NAMES{"LOCAL_RANK", "MPI_LOCALRANKID",
                           "OMPI_COMM_WORLD_LOCAL_RANK",
                           "MV2_COMM_WORLD_LOCAL_RANK", NULL}),
        first_number(NAMES{"LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS",
                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "MV2_COMM_WORLD_LOCAL_SIZE", NULL}),
        NOT_SET,
        NOT_SET,
        ""};
#undef NAMES
    assert_int_not_equal(number("LOCAL_RANK"), NOT_SET);
    join_master(&place);
    return place;
}

/* One of the five missing, and it goes looking for mpi4py. */
static struct place deepspeed(void)
{
    static const char *const required[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR",
                                           "MASTER_PORT", "LOCAL_RANK"};
    struct place place = {number("RANK"),
                          number("WORLD_SIZE"),
                          number("LOCAL_RANK"),
                          number("LOCAL_SIZE"),
                          number("CROSS_RANK"),
                          number("CROSS_SIZE"),
                          ""};
    for (size_t i = 0; i < sizeof(required) / sizeof(*required); i++)
        assert_non_null(get(required[i]));
    join_master(&place);
    return place;
}

/* All of them, or it takes itself for a single process. */
static struct place composer(void)
{
    static const char *const required[] = {
        "RANK",        "LOCAL_RANK",       "NODE_RANK",  "WORLD_SIZE",
        "MASTER_ADDR", "LOCAL_WORLD_SIZE", "MASTER_PORT"};
    struct place place = {number("RANK"),
                          number("WORLD_SIZE"),
                          number("LOCAL_RANK"),
                          number("LOCAL_WORLD_SIZE"),
                          number("NODE_RANK"),
                          NOT_SET,
                          ""};
    for (size_t i = 0; i < sizeof(required) / sizeof(*required); i++)
        assert_non_null(get(required[i]));
    join_master(&place);
    return place;
}

/* TorchElastic, then Slurm, then LSF and MPI; Slurm insists on a number of
 * tasks per node. Version 1 took HOROVOD_RANK for horovodrun, whatever the
 * strategy.
 */
static struct place lightning(bool uniform)
{
    struct place place = {number("SLURM_PROCID"),
                          number("SLURM_NTASKS"),
                          number("SLURM_LOCALID"),
                          NOT_SET,
                          number("SLURM_NODEID"),
                          number("SLURM_NNODES"),
                          ""};
    assert_null(get("TORCHELASTIC_RUN_ID"));
    assert_null(get("OMPI_COMM_WORLD_RANK"));
    assert_null(get("HOROVOD_RANK"));
    assert_int_not_equal(number("SLURM_NTASKS"), NOT_SET);
    if (uniform)
        place.local_size = number("SLURM_NTASKS_PER_NODE");
    assert_true(place.size == 1 || !uniform || place.local_size != NOT_SET);
    join_master(&place);
    return place;
}

/* Open MPI, then Slurm, by five variables; the address is overridden. */
static struct place jax(void)
{
    static const char *const required[] = {
        "SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID",
        "SLURM_LOCALID"};
    struct place place = {number("SLURM_PROCID"),
                          number("SLURM_NTASKS"),
                          number("SLURM_LOCALID"),
                          NOT_SET,
                          NOT_SET,
                          NOT_SET,
                          ""};
    char port[16];
    assert_null(get("OMPI_MCA_orte_hnp_uri"));
    for (size_t i = 0; i < sizeof(required) / sizeof(*required); i++)
        assert_non_null(get(required[i]));
    snprintf(place.master, sizeof(place.master), "%s",
             get("JAX_COORDINATOR_ADDRESS"));
    snprintf(port, sizeof(port), ":%ld", number("JAX_COORDINATOR_PORT"));
    assert_string_equal(strrchr(place.master, ':'), port);
    return place;
}

/* cluster.worker[task.index] is this task's own address, among all. */
static void tensorflow(const struct dt_task_facts *facts, bool *seen)
{
    json_error_t error;
    char own[64];
    json_t *config =
        json_loads(get("TF_CONFIG"), JSON_REJECT_DUPLICATES, &error);
    json_t *workers;
    const char *type;
    int index;
    assert_non_null(config);
    assert_int_equal(json_unpack(config, "{s:{s:o!},s:{s:s,s:i!}!}", "cluster",
                                 "worker", &workers, "task", "type", &type,
                                 "index", &index),
                     0);
    assert_string_equal(type, "worker");
    assert_int_equal(json_array_size(workers), facts->world_size);
    snprintf(own, sizeof(own), "%s:%u", facts->hosts[facts->node_rank],
             facts->tf_port + facts->local_rank);
    assert_string_equal(
        json_string_value(json_array_get(workers, (size_t)index)), own);
    assert_false(seen[index]);
    seen[index] = true;
    json_decref(config);
}

/* What horovodrun gives its workers, but for its server. */
static struct place horovod(void)
{
    struct place place = {number("HOROVOD_RANK"),
                          number("HOROVOD_SIZE"),
                          number("HOROVOD_LOCAL_RANK"),
                          number("HOROVOD_LOCAL_SIZE"),
                          number("HOROVOD_CROSS_RANK"),
                          number("HOROVOD_CROSS_SIZE"),
                          ""};
    assert_null(get("HOROVOD_CONTROLLER"));
    assert_null(get("HOROVOD_GLOO_RENDEZVOUS_ADDR"));
    assert_null(get("HOROVOD_GLOO_RENDEZVOUS_PORT"));
    return place;
}

static void check_all(const struct dt_task_facts *facts, bool uniform)
{
    struct place (*const readers[])(void) = {torch, accelerate, deepspeed,
                                             composer};
    char master[64];
    start(facts, NULL);
    snprintf(master, sizeof(master), "%s:%u", facts->master_addr,
             facts->master_port);
    for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++) {
        struct place place = readers[i]();
        assert_place(&place, facts);
        assert_string_equal(place.master, master);
    }
    struct place place = lightning(uniform);
    assert_place(&place, facts);
    assert_string_equal(place.master, master);
    place = jax();
    assert_place(&place, facts);
    snprintf(master, sizeof(master), "%s:%u", facts->master_addr,
             facts->jax_port);
    assert_string_equal(place.master, master);
    start(facts, "horovod");
    place = horovod();
    assert_place(&place, facts);
}

static void every_framework_finds_its_place_with_one_task(void **state)
{
    static const uint32_t tasks[] = {1};
    bool seen[1] = {false};
    struct dt_task_facts facts = {
        .world_size = 1,
        .local_size = 1,
        .nodes = 1,
        .gpus = -1,
        .master_addr = "n07",
        .master_port = 61234,
        .jax_port = 62000,
        .tf_port = 64000,
        .hosts = rank_11.hosts,
        .tasks = tasks,
    };
    (void)state;
    check_all(&facts, true);
    start(&facts, NULL);
    tensorflow(&facts, seen);
}

static void every_framework_finds_its_place_on_two_nodes(void **state)
{
    bool seen[16] = {false};
    (void)state;
    check_all(&rank_11, true);
    start(&rank_11, NULL);
    tensorflow(&rank_11, seen);
    assert_true(seen[11]);
}

/* Dealt out in turn over nodes of 3, 1 and 2 tasks: ranks do not follow nodes.
 */
static void every_framework_finds_its_place_on_uneven_nodes(void **state)
{
    static const uint32_t tasks[] = {3, 1, 2};
    static const struct {
        uint32_t node;
        uint32_t local;
    } ranks[] = {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {2, 1}, {0, 2}};
    bool seen[6] = {false};
    (void)state;
    for (uint32_t rank = 0; rank < 6; rank++) {
        struct dt_task_facts facts = rank_11;
        facts.rank = rank;
        facts.world_size = 6;
        facts.node_rank = ranks[rank].node;
        facts.nodes = 3;
        facts.local_rank = ranks[rank].local;
        facts.local_size = tasks[facts.node_rank];
        facts.tasks = tasks;
        check_all(&facts, false);
        start(&facts, NULL);
        assert_null(get("SLURM_NTASKS_PER_NODE"));
        tensorflow(&facts, seen);
    }
    for (int i = 0; i < 6; i++)
        assert_true(seen[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_framework_finds_its_place_with_one_task,
                                  teardown),
        cmocka_unit_test_teardown(every_framework_finds_its_place_on_two_nodes,
                                  teardown),
        cmocka_unit_test_teardown(
            every_framework_finds_its_place_on_uneven_nodes, teardown),
    };
    return cmocka_run_group_tests_name("frameworks", tests, NULL, NULL);
}
