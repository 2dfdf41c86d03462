/* SPDX-License-Identifier: Apache-2.0 */
/* task_facts.c - collects facts about a task from Slurm and the node */
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"
#include "spank/task/task_impl.h"

enum {
    NODES_MAX = 65536,
    PLACES_MAX = 16, /* how many slots are tried for free ports */
};

static const struct number {
    const char *name; /* for messages */
    const char *from;
    size_t field;
} numbers[] = {
    {"RANK", "SLURM_PROCID", offsetof(struct dt_task_facts, rank)},
    {"WORLD_SIZE", "SLURM_STEP_NUM_TASKS",
     offsetof(struct dt_task_facts, world_size)},
    {"LOCAL_RANK", "SLURM_LOCALID", offsetof(struct dt_task_facts, local_rank)},
    {"NODE_RANK", "SLURM_NODEID", offsetof(struct dt_task_facts, node_rank)},
    {"GROUP_WORLD_SIZE", "SLURM_STEP_NUM_NODES",
     offsetof(struct dt_task_facts, nodes)},
};

static int read_numbers(spank_t spank, struct dt_task_facts *task,
                        struct dt_error *err)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (!dtspank_task_number(spank, numbers[i].from,
                                 (uint32_t *)((char *)task + numbers[i].field)))
            return dt_error_set(err, EX_SOFTWARE,
                                "%s: Slurm gave this task no number in %s",
                                numbers[i].name, numbers[i].from);
    spank_err_t rc =
        spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &task->local_size);
    if (rc != ESPANK_SUCCESS)
        return dt_error_set(err, EX_SOFTWARE,
                            "LOCAL_WORLD_SIZE: Slurm cannot tell the tasks on "
                            "this node: %s",
                            spank_strerror(rc));
    if (!dtspank_task_number(spank, "SLURM_RESTART_COUNT", &task->restarts))
        task->restarts = 0;
    return 0;
}

/* Copies a variable; an unset one becomes "". */
static bool copy_env(spank_t spank, const char *name,
                     char value[DTSPANK_HOST_BYTES])
{
    const char *text = dtspank_task_getenv(spank, name);
    snprintf(value, DTSPANK_HOST_BYTES, "%s", text ? text : "");
    return value[0] != '\0';
}

/* Whether this step spans components of a heterogeneous job: the environment
 * counts the tasks of all components, the item only those of one.
 */
static bool is_heterogeneous(spank_t spank, const struct dt_task_facts *task)
{
    uint32_t component = 0;
    return spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &component) ==
               ESPANK_SUCCESS &&
           task->world_size != component;
}

/* srun has asked the controller for the host of rank 0. If it got no answer,
 * the first host of the list is right except with --distribution=arbitrary and
 * the like. Then rank 0, which knows where it is, ends the step before the
 * others wait on the wrong host.
 */
static int find_master(spank_t spank, bool heterogeneous,
                       struct dtspank_facts *facts, struct dt_error *err)
{
    const char *list = dtspank_task_getenv(spank, DT_ENV_MASTER);
    if (!list && heterogeneous)
        list = dtspank_task_getenv(spank, "SLURM_JOB_NODELIST_PACK_GROUP_0");
    if (!list)
        list = dtspank_task_getenv(spank, "SLURM_STEP_NODELIST");
    int rc = dtspank_hostlist_nth(list ? list : "", 0, facts->rank0,
                                  sizeof(facts->rank0), err);
    if (copy_env(spank, "MASTER_ADDR", facts->master_addr))
        return 0;
    if (rc != 0)
        return dt_error_prefix(err, "MASTER_ADDR");
    if (facts->task.rank == 0 && facts->host[0] != '\0' &&
        strcmp(facts->host, facts->rank0) != 0)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "MASTER_ADDR: expected rank 0 on %s, but it is "
                            "on %.64s; set MASTER_ADDR to the host of rank 0 "
                            "before srun",
                            facts->rank0, facts->host);
    memcpy(facts->master_addr, facts->rank0, sizeof(facts->rank0));
    return 0;
}

/* Parses "4(x2),3". False unless it has exactly that many nodes. */
static bool parse_tasks(const char *text, uint32_t nodes, uint32_t *tasks)
{
    uint32_t node = 0;
    for (;; text++) {
        unsigned count = 0;
        unsigned repeat = 1;
        int used = 0;
        if (sscanf(text, "%9u%n(x%9u)%n", &count, &used, &repeat, &used) < 1)
            return false;
        for (; repeat > 0; repeat--) {
            if (node == nodes)
                return false;
            tasks[node++] = count;
        }
        text += used;
        if (*text != ',')
            return *text == '\0' && node == nodes;
    }
}

/* Finds hosts and task counts of all nodes. Failure is harmless: the task does
 * not need them.
 */
static int find_nodes(spank_t spank, struct dtspank_facts *facts)
{
    uint32_t nodes = facts->task.nodes;
    const char *list = dtspank_task_getenv(spank, "SLURM_STEP_NODELIST");
    const char *tasks = dtspank_task_getenv(spank, "SLURM_STEP_TASKS_PER_NODE");
    if (!list || !tasks || nodes > NODES_MAX)
        return -1;
    facts->tasks = calloc(nodes, sizeof(*facts->tasks));
    facts->hosts = calloc(nodes, sizeof(*facts->hosts));
    if (!facts->tasks || !facts->hosts ||
        !parse_tasks(tasks, nodes, facts->tasks) ||
        dtspank_hostlist_expand(list, nodes, facts->hosts) != 0)
        return -1;
    facts->task.hosts = (const char *const *)facts->hosts;
    facts->task.tasks = facts->tasks;
    return 0;
}

/* How many slots of its port ranges this step skips because their ports are
 * taken. Set in slurmstepd; all of the step's tasks are its children.
 */
static uint32_t skipped;

/* Whether the step's ports are free, with those of so many TensorFlow workers.
 */
static bool are_free(const struct dtspank_ports *ports, uint32_t workers)
{
    for (uint32_t i = 0; i < workers && ports->tf > 0; i++)
        if (!dtspank_port_is_free(ports->tf + i))
            return false;
    return dtspank_port_is_free(ports->master) &&
           dtspank_port_is_free(ports->jax) && dtspank_port_is_free(ports->ras);
}

/* Finds the first slot with free ports. */
static bool find_slot(const struct dtspank_siteconf *conf, uint32_t job,
                      uint32_t id, uint32_t tasks, uint32_t workers)
{
    for (uint32_t i = 0; i < PLACES_MAX; i++) {
        struct dtspank_ports ports;
        dtspank_port_choose(conf->port_first, conf->port_last, job, id + i,
                            tasks, &ports);
        if (are_free(&ports, workers)) {
            skipped = i;
            return true;
        }
    }
    return false;
}

void dtspank_facts_skip_taken_ports(spank_t spank,
                                    const struct dtspank_siteconf *conf)
{
    uint32_t job;
    uint32_t id;
    uint32_t here;
    uint32_t world;
    skipped = 0;
    if (!dtspank_task_number(spank, "SLURM_JOB_ID", &job) ||
        !dtspank_task_number(spank, "SLURM_STEP_ID", &id) ||
        !dtspank_task_number(spank, "SLURM_STEP_NUM_TASKS", &world) ||
        spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &here) !=
            ESPANK_SUCCESS ||
        here != world || dtspank_task_getenv(spank, "MASTER_PORT") ||
        dtspank_task_getenv(spank, "SLURM_STEP_RESV_PORTS"))
        return;
    /* most steps have no TensorFlow, and need the other ports nevertheless */
    if (!find_slot(conf, job, id, here, here))
        find_slot(conf, job, id, here, 0);
}

/* A heterogeneous step has one reservation per component, so it uses none. */
static int find_ports(spank_t spank, const struct dtspank_siteconf *conf,
                      bool heterogeneous, struct dt_task_facts *task,
                      struct dt_error *err)
{
    uint32_t job;
    uint32_t id;
    uint32_t tasks = 1;
    struct dtspank_ports ports;
    const char *reserved = dtspank_task_getenv(spank, "SLURM_STEP_RESV_PORTS");
    if (!dtspank_task_number(spank, "SLURM_JOB_ID", &job) ||
        !dtspank_task_number(spank, "SLURM_STEP_ID", &id))
        return dt_error_set(err, EX_SOFTWARE,
                            "MASTER_PORT: Slurm gave this task no job or step "
                            "id");
    for (uint32_t i = 0; task->tasks && i < task->nodes; i++)
        if (task->tasks[i] > tasks)
            tasks = task->tasks[i];
    dtspank_port_choose(conf->port_first, conf->port_last, job, id + skipped,
                        tasks, &ports);
    if (reserved && !heterogeneous)
        dtspank_port_reserve(reserved, tasks, &ports);
    const char *users = dtspank_task_getenv(spank, "MASTER_PORT");
    if (users && users[0] != '\0' &&
        !dtspank_task_number(spank, "MASTER_PORT", &ports.master))
        ports.master = 0;
    task->master_port = ports.master;
    task->jax_port = ports.jax;
    task->tf_port = ports.tf;
    task->ras_port = ports.ras;
    return 0;
}

/* Only steps of several nodes communicate over a network. */
static void find_interface(struct dtspank_facts *facts)
{
    struct dt_error err;
    struct dt_task_facts *task = &facts->task;
    const char *other = NULL;
    if (task->nodes < 2)
        return;
    if (task->hosts && strcmp(facts->host, facts->rank0) == 0)
        other = task->hosts[strcmp(task->hosts[0], facts->host) == 0];
    if (dtspank_net_interface(facts->master_addr, other, facts->interface,
                              &err) == 0) {
        task->interface = facts->interface;
        task->rdma = dtspank_net_has_rdma("/sys/class/infiniband");
    } else if (task->local_rank == 0) {
        struct dt_error why = err;
        dt_error_set(&err, why.status,
                     "%s: NCCL_SOCKET_IFNAME and the like are not set, because "
                     "%s",
                     facts->host, why.text);
        slurm_spank_log("disttrain: %s", dtspank_printable(err.text));
    }
}

int dtspank_facts_collect(spank_t spank, const struct dtspank_siteconf *conf,
                          struct dtspank_facts *facts, struct dt_error *err)
{
    struct dt_task_facts *task = &facts->task;
    memset(facts, 0, sizeof(*facts));
    if (read_numbers(spank, task, err) != 0)
        return -1;
    bool heterogeneous = is_heterogeneous(spank, task);
    if (copy_env(spank, "SLURMD_NODENAME", facts->host))
        task->host = facts->host;
    if (find_master(spank, heterogeneous, facts, err) != 0)
        return -1;
    task->master_addr = facts->master_addr;
    if (heterogeneous || find_nodes(spank, facts) != 0)
        dtspank_facts_fini(facts);
    if (find_ports(spank, conf, heterogeneous, task, err) != 0) {
        dtspank_facts_fini(facts);
        return -1;
    }
    if (!dtspank_siteconf_off(conf, DTSPANK_NET))
        find_interface(facts);
    const char *logs = dtspank_task_getenv(spank, DT_ENV_RANK_LOGS);
    if (logs && strlen(logs) < sizeof(facts->logs))
        task->logs = strcpy(facts->logs, logs);
    task->cpus = dtspank_cpu_usable(spank);
    task->gpus = dtspank_gpu_visible(spank);
    return 0;
}

void dtspank_facts_fini(struct dtspank_facts *facts)
{
    for (uint32_t i = 0; facts->hosts && i < facts->task.nodes; i++)
        free(facts->hosts[i]);
    free(facts->hosts);
    free(facts->tasks);
    facts->hosts = NULL;
    facts->tasks = NULL;
}
