/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - RANK, WORLD_SIZE, MASTER_ADDR and the like, in each task */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "launch/contract.h"
#include "spank/hostlist.h"
#include "spank/options.h"
#include "spank/siteconf.h"
#include "spank/siteenv.h"
#include "spank/step.h"
#include "spank/task.h"

enum {
    VALUE_BYTES = DTSPANK_HOST_BYTES, /* a host is the longest value */
    CPU_SETS = 8,                     /* 8192 CPUs */
};

static struct {
    struct dtspank_siteconf conf;
    struct dt_error conf_error; /* empty text: none */
} step;

/* One way to a value: `from` is the row's second column. */
typedef int(value_f)(spank_t spank, const char *from, char *value,
                     struct dt_error *err);

static int from_number(spank_t spank, const char *from, char *value,
                       struct dt_error *err)
{
    uint32_t number;
    if (!dtspank_task_number(spank, from, &number))
        return dt_error_set(err, EX_SOFTWARE,
                            "Slurm gave this task no number in %s", from);
    snprintf(value, VALUE_BYTES, "%u", (unsigned)number);
    return 0;
}

static int local_tasks(spank_t spank, const char *from, char *value,
                       struct dt_error *err)
{
    uint32_t count = 0;
    spank_err_t rc = spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &count);
    if (rc != ESPANK_SUCCESS)
        return dt_error_set(err, EX_SOFTWARE, "cannot get the %s: %s", from,
                            spank_strerror(rc));
    snprintf(value, VALUE_BYTES, "%u", (unsigned)count);
    return 0;
}

/* Whether this step spans components of a heterogeneous job: the environment
 * counts the tasks of all of them, the item those of one.
 */
static bool is_heterogeneous(spank_t spank)
{
    uint32_t all = 0;
    uint32_t component = 0;
    return dtspank_task_number(spank, "SLURM_STEP_NUM_TASKS", &all) &&
           spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &component) ==
               ESPANK_SUCCESS &&
           all != component;
}

/* srun has asked for rank 0's host. If it could not, the first of the list is
 * right but for --distribution=arbitrary and the like: then rank 0, who knows
 * where it is, ends the step before the others wait at the wrong door.
 */
static int master_addr(spank_t spank, const char *from, char *value,
                       struct dt_error *err)
{
    const char *list = dtspank_task_getenv(spank, DT_ENV_MASTER);
    const char *here = dtspank_task_getenv(spank, "SLURMD_NODENAME");
    uint32_t rank;
    if (!list && is_heterogeneous(spank))
        list = dtspank_task_getenv(spank, "SLURM_JOB_NODELIST_PACK_GROUP_0");
    if (!list)
        list = dtspank_task_getenv(spank, from);
    if (dtspank_hostlist_nth(list ? list : "", 0, value, VALUE_BYTES, err) != 0)
        return -1;
    if (here && strcmp(here, value) != 0 &&
        dtspank_task_number(spank, "SLURM_PROCID", &rank) && rank == 0)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "taken for %s, but this is %.64s; set MASTER_ADDR "
                            "to the host of rank 0 before srun",
                            value, here);
    return 0;
}

/* Equal on all ranks, different for steps of one job, and, if Slurm reserves
 * ports for steps, reserved.
 */
static int master_port(spank_t spank, const char *from, char *value,
                       struct dt_error *err)
{
    uint32_t job;
    uint32_t id;
    const char *reserved = dtspank_task_getenv(spank, from);
    unsigned port = reserved ? (unsigned)strtoul(reserved, NULL, 10) : 0;
    if (port == 0 || port > UINT16_MAX) {
        if (!dtspank_task_number(spank, "SLURM_JOB_ID", &job) ||
            !dtspank_task_number(spank, "SLURM_STEP_ID", &id))
            return dt_error_set(err, EX_SOFTWARE,
                                "Slurm gave this task no job or step id");
        /* 2^64 over the golden ratio spreads neighbours far apart. */
        uint64_t hash =
            ((uint64_t)job << 32 | id) * UINT64_C(0x9E3779B97F4A7C15);
        port = step.conf.port_first +
               (unsigned)((hash >> 32) %
                          (step.conf.port_last - step.conf.port_first + 1));
    }
    snprintf(value, VALUE_BYTES, "%u", port);
    return 0;
}

/* The CPUs that this task may use: its affinity mask, but no more than its
 * share, because without a task plugin every task of a node has the same mask.
 */
static int omp_threads(spank_t spank, const char *from, char *value,
                       struct dt_error *err)
{
    cpu_set_t mask[CPU_SETS];
    uint32_t cpus = 1;
    uint32_t share = 0;
    uint32_t on_node = 0;
    uint32_t tasks = 1;
    (void)err;
    memset(mask, 0, sizeof(mask));
    if (sched_getaffinity(0, sizeof(mask), mask) == 0)
        cpus = (uint32_t)CPU_COUNT_S(sizeof(mask), mask);
    if (!dtspank_task_number(spank, from, &share) &&
        dtspank_task_number(spank, "SLURM_CPUS_ON_NODE", &on_node) &&
        spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) ==
            ESPANK_SUCCESS &&
        tasks > 0)
        share = on_node > tasks ? on_node / tasks : 1;
    if (share > 0 && share < cpus)
        cpus = share;
    snprintf(value, VALUE_BYTES, "%u", (unsigned)cpus);
    return 0;
}

/* What every task gets. A `fixed` variable that the user has set to something
 * else is a contradiction; any other belongs to the user.
 */
static const struct variable {
    const char *name;
    const char *from;
    value_f *value;
    bool fixed;
} variables[] = {
    {"RANK", "SLURM_PROCID", from_number, true},
    {"WORLD_SIZE", "SLURM_STEP_NUM_TASKS", from_number, true},
    {"LOCAL_RANK", "SLURM_LOCALID", from_number, true},
    {"LOCAL_WORLD_SIZE", "tasks on this node", local_tasks, true},
    {"NODE_RANK", "SLURM_NODEID", from_number, true},
    {"GROUP_RANK", "SLURM_NODEID", from_number, true},
    {"MASTER_ADDR", "SLURM_STEP_NODELIST", master_addr, false},
    {"MASTER_PORT", "SLURM_STEP_RESV_PORTS", master_port, false},
    {"OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK", omp_threads, false},
};

/* Sets one variable, and adds it to the list of what we have set. */
static int export_variable(spank_t spank, const struct variable *var,
                           char *exported, size_t size, struct dt_error *err)
{
    char value[VALUE_BYTES];
    const char *users = dtspank_task_getenv(spank, var->name);
    bool is_set = users && users[0] != '\0';
    if (is_set && !var->fixed)
        return 0;
    if (var->value(spank, var->from, value, err) != 0)
        return dt_error_prefix(err, "%s", var->name);
    if (is_set && strcmp(users, value) == 0)
        return 0;
    if (is_set)
        return dt_error_set(err, EX_USAGE,
                            "the environment has %s=%.32s, but this task has "
                            "%s (%s); unset %s before srun",
                            var->name, users, value, var->from, var->name);
    size_t used = strlen(exported);
    snprintf(exported + used, size - used, "%s%s=%s", used ? " " : "",
             var->name, value);
    return dtspank_task_setenv(spank, var->name, value, err);
}

static int export_variables(spank_t spank, struct dt_error *err)
{
    enum { COUNT = sizeof(variables) / sizeof(*variables) };
    char exported[COUNT * (VALUE_BYTES + 32)] = "";
    for (int i = 0; i < COUNT; i++)
        if (export_variable(spank, &variables[i], exported, sizeof(exported),
                            err) != 0)
            return -1;
    return dtspank_task_setenv(spank, DT_ENV_EXPORTED, exported, err);
}

/* Moves one `env:` entry from its carrier to its own name. What the user has in
 * the environment stays; rank 0 says so, without the values: they may be
 * secret.
 */
static int unpack_entry(spank_t spank, char *entry, struct dt_error *err)
{
    char *equals = strchr(entry, '=');
    *equals = '\0';
    char *name = entry + strlen(DT_ENV_CARRY);
    const char *value = equals + 1;
    spank_err_t rc = spank_unsetenv(spank, entry);
    if (rc != ESPANK_SUCCESS)
        return dt_error_set(err, EX_OSERR, "cannot unset %.64s: %s", entry,
                            spank_strerror(rc));
    const char *users = dtspank_task_getenv(spank, name);
    if (!users)
        return dtspank_task_setenv(spank, name, value, err);
    uint32_t rank = 0;
    if (strcmp(users, value) != 0 &&
        dtspank_task_number(spank, "SLURM_PROCID", &rank) && rank == 0)
        slurm_spank_log("disttrain: env: %s of the config is not used: the "
                        "environment has another value",
                        dtspank_printable(name));
    return 0;
}

/* An entry that is taken away makes room for the next at the same index. */
static int unpack_env(spank_t spank, struct dt_error *err)
{
    char **env = NULL;
    size_t i = 0;
    while (spank_get_item(spank, S_JOB_ENV, &env) == ESPANK_SUCCESS && env &&
           env[i]) {
        if (strncmp(env[i], DT_ENV_CARRY, strlen(DT_ENV_CARRY)) != 0 ||
            !strchr(env[i], '=')) {
            i++;
            continue;
        }
        char *entry = strdup(env[i]);
        if (!entry)
            return dt_error_set(err, EX_OSERR, "out of memory");
        int rc = unpack_entry(spank, entry, err);
        free(entry);
        if (rc != 0)
            return -1;
    }
    return 0;
}

int dtspank_step_init(spank_t spank, int ac, char **av)
{
    if (dtspank_siteconf_parse(ac, av, &step.conf, &step.conf_error) != 0)
        slurm_error("disttrain: %s", dtspank_printable(step.conf_error.text));
    return dtspank_options_register(spank);
}

/* Not the step of a batch script, an interactive shell or adopted processes. */
static bool is_srun_step(spank_t spank)
{
    uint32_t id = 0;
    return spank_get_item(spank, S_JOB_STEPID, &id) == ESPANK_SUCCESS &&
           id <= SLURM_MAX_NORMAL_STEP_ID;
}

static int export_site_env(spank_t spank, struct dt_error *err)
{
    return dtspank_siteenv_export(spank, &step.conf, err);
}

/* What is done in each task of an active step, in this order; the first failure
 * ends the task.
 */
static int (*const task_steps[])(spank_t spank, struct dt_error *err) = {
    unpack_env,
    export_site_env,
    export_variables,
};

static int run_task_steps(spank_t spank, struct dt_error *err)
{
    for (size_t i = 0; i < sizeof(task_steps) / sizeof(*task_steps); i++)
        if (task_steps[i](spank, err) != 0)
            return -1;
    return 0;
}

int dtspank_step_task_init(spank_t spank)
{
    struct dt_error err = step.conf_error;
    if (!is_srun_step(spank))
        return 0;
    /* Batch and interactive steps keep it, for the sruns that they start; a
     * task must not hand it on to the sruns that it starts.
     */
    spank_unsetenv(spank, DTSPANK_PRESET);
    if (!dtspank_task_getenv(spank, DT_ENV_CONFIG))
        return 0;
    if (err.text[0] == '\0' && run_task_steps(spank, &err) == 0)
        return 0;
    const char *rank = dtspank_task_getenv(spank, "SLURM_PROCID");
    dt_error_prefix(&err, "rank %.16s", rank ? rank : "?");
    slurm_error("disttrain: %s", dtspank_printable(err.text));
    return -1;
}

/* A rank that reports its own failure exits; only of a killed one nobody else
 * can say why. SIGTERM is how Slurm ends a step, and SIGINT how the user does.
 */
int dtspank_step_task_exit(spank_t spank)
{
    static bool told; /* what Slurm then does to the others is no news */
    int status = 0;
    uint32_t task = 0;
    char host[HOST_NAME_MAX + 1] = "?";
    if (told || !is_srun_step(spank) ||
        !dtspank_task_getenv(spank, DT_ENV_CONFIG) ||
        spank_get_item(spank, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS ||
        !WIFSIGNALED(status) || WTERMSIG(status) == SIGTERM ||
        WTERMSIG(status) == SIGINT ||
        spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS)
        return 0;
    told = true;
    gethostname(host, sizeof(host) - 1);
    /* S_TASK_GLOBAL_ID counts within a component of a het job */
    const char *what =
        dtspank_task_getenv(spank, "SLURM_HET_SIZE") ? "task" : "rank";
    slurm_spank_log("disttrain: %s %u on %s was killed by signal %d (%s)", what,
                    (unsigned)task, host, WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
    return 0;
}
