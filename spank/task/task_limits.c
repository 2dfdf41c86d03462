/* SPDX-License-Identifier: Apache-2.0 */
/* task_limits.c - warns of resource limits that break a step obscurely */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "spank/task/task_impl.h"

enum {
    MANY_RANKS = 64,
    TEXT_BYTES = 1024,
};

#define MIB ((rlim_t)1024 * 1024)

static const struct limit {
    const char *name; /* in Slurm and systemd */
    const char *says;
    const char *why;
    rlim_t least;
    rlim_t unit; /* unit in which it is shown */
    int resource;
    char option;    /* of ulimit */
    bool zero_good; /* 0 is not a mistake */
    bool rdma;      /* matters only with RDMA; false: only with many ranks */
} limits[] = {
    {"MEMLOCK", "MiB of locked memory", "RDMA locks its buffers", 1024 * MIB,
     MIB, RLIMIT_MEMLOCK, 'l', false, true},
    {"CORE", "MiB for a core file", "a larger one is cut", 1024 * MIB, MIB,
     RLIMIT_CORE, 'c', true, true},
    {"NOFILE", "open files", "every rank talks to all others", 4096, 1,
     RLIMIT_NOFILE, 'n', false, false},
};

/* Returns the limit that the task will have. Slurm applies the limits of the
 * submit host after task_init, from variables that it removes only then. A
 * limit that the user asked for (U) fails instead of being lowered to the
 * node's.
 */
static rlim_t effective_limit(spank_t spank, const struct limit *limit,
                              const struct rlimit *node)
{
    char name[32];
    snprintf(name, sizeof(name), "SLURM_RLIMIT_%s", limit->name);
    const char *text = dtspank_task_getenv(spank, name);
    bool asked = text && text[0] == 'U';
    char *end = NULL;
    if (!text)
        return node->rlim_cur;
    rlim_t value = strtoul(text + asked, &end, 10);
    if (end == text + asked || *end != '\0')
        return node->rlim_cur;
    if (value <= node->rlim_max)
        return value;
    return asked ? node->rlim_cur : node->rlim_max;
}

/* Writes the simplest way to get a larger limit. */
static void describe_fix(const struct limit *limit, const struct rlimit *node,
                         char *fix, size_t size)
{
    if (node->rlim_cur >= limit->least)
        snprintf(fix, size,
                 "srun --propagate=NONE, or PropagateResourceLimitsExcept=%s "
                 "in slurm.conf",
                 limit->name);
    else if (node->rlim_max >= limit->least)
        snprintf(fix, size, "ulimit -%c %s before srun", limit->option,
                 limit->rdma ? "unlimited" : "65536");
    else
        snprintf(fix, size, "Limit%s=infinity in slurmd.service", limit->name);
}

/* Adds a limit to the text if it is too small. */
static void check_limit(spank_t spank, const struct limit *limit, char *text)
{
    char fix[128];
    struct rlimit node;
    size_t used = strlen(text);
    if (getrlimit(limit->resource, &node) != 0)
        return;
    rlim_t value = effective_limit(spank, limit, &node);
    if (value >= limit->least || (value == 0 && limit->zero_good))
        return;
    describe_fix(limit, &node, fix, sizeof(fix));
    snprintf(text + used, TEXT_BYTES - used, "%s%ju %s, and %s (%s)",
             used > 0 ? "; " : "", (uintmax_t)(value / limit->unit),
             limit->says, limit->why, fix);
}

void dtspank_limits_report(spank_t spank, const char *rdma)
{
    char text[TEXT_BYTES] = "";
    uint32_t local_rank = 0;
    uint32_t tasks = 0;
    uint32_t ranks = 0;
    if (!dtspank_task_local(spank, &local_rank, &tasks) || local_rank > 0 ||
        !dtspank_task_number(spank, "SLURM_STEP_NUM_TASKS", &ranks))
        return;
    bool has_rdma = dtspank_net_has_rdma(rdma);
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        if (limits[i].rdma ? has_rdma : ranks > MANY_RANKS)
            check_limit(spank, &limits[i], text);
    if (text[0] != '\0')
        slurm_spank_log("disttrain: %s: a task may have %s",
                        dtspank_task_node(spank), text);
}

int dtspank_limits_apply(spank_t spank, struct dt_error *err)
{
    (void)err;
    dtspank_limits_report(spank, "/sys/class/infiniband");
    return 0;
}
