/* SPDX-License-Identifier: Apache-2.0 */
/* task_env.c - the environment that a task gets from srun and variables.c */
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

static const char *const hosts[] = {"n07", "n08", "n09"};
static const uint32_t two_by_eight[] = {8, 8};
const struct dt_task_facts rank_11 = {
    .rank = 11,
    .world_size = 16,
    .local_rank = 3,
    .local_size = 8,
    .node_rank = 1,
    .nodes = 2,
    .restarts = 2,
    .cpus = 12,
    .gpus = 8,
    .master_port = 61234,
    .jax_port = 62000,
    .tf_port = 64000,
    .ras_port = 63000,
    .master_addr = "n07",
    .host = "n08",
    .interface = "ib0",
    .hosts = hosts,
    .tasks = two_by_eight,
};

enum {
    ENV_MAX = 64,
    NOT_SET = -1,
};

/* What Slurm and the table have set in one task. */
static struct {
    char *entry[ENV_MAX];
    bool fixed[ENV_MAX];
    int count;
} env;

void forget_env(void)
{
    for (int i = 0; i < env.count; i++)
        free(env.entry[i]);
    env.count = 0;
}

static int find(const char *name)
{
    size_t len = strlen(name);
    for (int i = 0; i < env.count; i++)
        if (strncmp(env.entry[i], name, len) == 0 && env.entry[i][len] == '=')
            return i;
    return NOT_SET;
}

const char *get(const char *name)
{
    int i = find(name);
    return i == NOT_SET ? NULL : env.entry[i] + strlen(name) + 1;
}

/* Takes a variable as the plugin does, and each only once. */
int set(void *context, const char *name, const char *value, bool fixed,
        struct dt_error *err)
{
    (void)context;
    (void)err;
    assert_in_range(env.count, 0, ENV_MAX - 1);
    assert_int_equal(find(name), NOT_SET);
    assert_true(asprintf(&env.entry[env.count], "%s=%s", name, value) > 0);
    env.fixed[env.count++] = fixed;
    return 0;
}

static void set_number(const char *name, uint32_t number)
{
    char value[16];
    snprintf(value, sizeof(value), "%u", number);
    set(NULL, name, value, false, NULL);
}

int teardown(void **state)
{
    (void)state;
    forget_env();
    return 0;
}

/* The environment of a task under srun. */
void start(const struct dt_task_facts *facts, const char *frameworks)
{
    struct dt_error err;
    forget_env();
    set_number("SLURM_JOB_ID", 4711);
    set_number("SLURM_PROCID", facts->rank);
    set_number("SLURM_LOCALID", facts->local_rank);
    set_number("SLURM_NODEID", facts->node_rank);
    set_number("SLURM_NTASKS", facts->world_size);
    set_number("SLURM_NNODES", facts->nodes);
    set(NULL, "SLURM_STEP_NODELIST", "n[07-09]", false, NULL);
    if (dt_variables_each(facts, frameworks, set, NULL, &err) != 0)
        fail_msg("%s", err.text);
}

int env_count(void)
{
    return env.count;
}

void list_env(char *list, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < env.count; i++)
        used += (size_t)snprintf(list + used, size - used, "%s%s\n",
                                 env.entry[i], env.fixed[i] ? "!" : "");
    assert_true(used < size);
}
