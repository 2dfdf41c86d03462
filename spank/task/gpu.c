/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - sets which GPUs a task sees, and warns of problems */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"
#include "spank/task/task_impl.h"

/* Slurm sets those that gres.conf asks for, all of them to the same list. */
static const char *const lists[] = {
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "GPU_DEVICE_ORDINAL",
};

enum { LISTS = sizeof(lists) / sizeof(*lists) };

/* Returns the length of the entry at the start of list: an index or the name of
 * a GPU or of a part of one. 0 at the end or at an entry that is not a device,
 * because the drivers read no further.
 */
static size_t entry_length(const char *list)
{
    if (list[0] == '-' || strncmp(list, "NoDevFiles", 10) == 0)
        return 0;
    return strcspn(list, ",");
}

static const char *next_entry(const char *list, size_t length)
{
    list += length;
    return *list == ',' ? list + 1 : list;
}

static uint32_t entry_count(const char *list)
{
    size_t length;
    uint32_t count = 0;
    for (; (length = entry_length(list)) > 0; count++)
        list = next_entry(list, length);
    return count;
}

static const char *first_list(spank_t spank)
{
    const char *list = NULL;
    for (int i = 0; i < LISTS && !list; i++)
        list = dtspank_task_getenv(spank, lists[i]);
    return list;
}

/* CUDA shows a program at most one MIG device. */
static bool is_mig(const char *list)
{
    return strncmp(list, "MIG", 3) == 0;
}

int dtspank_gpu_visible(spank_t spank)
{
    const char *list = first_list(spank);
    if (!list)
        return -1;
    return is_mig(list) ? 1 : (int)entry_count(list);
}

static void warn_few(const char *node, const char *list, uint32_t gpus)
{
    uint32_t visible = entry_count(list);
    if (is_mig(list) && visible > 1)
        slurm_spank_log("disttrain: %s: CUDA shows each task the same first "
                        "MIG device of %u; use launch.gpu_visibility: one",
                        node, visible);
    else if (visible > 0 && visible < gpus)
        slurm_spank_log("disttrain: %s: each task sees %u of the step's %u "
                        "GPUs: LOCAL_RANK is no device index there, and GPUs "
                        "may not reach each other (P2P, IPC); use "
                        "--gpus-per-node=%u without --gpus-per-task and "
                        "--gpu-bind, or launch.gpu_visibility: one for "
                        "programs that take device 0",
                        node, visible, gpus, gpus);
}

static void warn_user(spank_t spank, bool one, uint32_t gpus, uint32_t tasks)
{
    const char *node = dtspank_task_node(spank);
    const char *list = first_list(spank);
    if (!list && one)
        slurm_spank_log("disttrain: %s: launch.gpu_visibility: one changes "
                        "nothing, because Slurm does not say which GPUs the "
                        "step has; drop --gpu-bind=none",
                        node);
    else if (tasks > gpus)
        slurm_spank_log(
            "disttrain: %s: %u tasks share %u GPU%s: %sNCCL "
            "refuses two ranks on one; use --ntasks-per-node=%u",
            node, tasks, gpus, gpus == 1 ? "" : "s",
            one ? "" : "LOCAL_RANK is not always the index of one, and ", gpus);
    else if (list && !one)
        warn_few(node, list, gpus);
}

/* Reduces one list to the entry of this task; a list of one entry stays. */
static int leave_one(spank_t spank, const char *name, uint32_t local_rank,
                     struct dt_error *err)
{
    const char *list = dtspank_task_getenv(spank, name);
    uint32_t count = list ? entry_count(list) : 0;
    if (count < 2)
        return 0;
    for (uint32_t skip = local_rank % count; skip > 0; skip--)
        list = next_entry(list, entry_length(list));
    char *own = strndup(list, entry_length(list));
    if (!own)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = dtspank_task_setenv(spank, name, own, err);
    free(own);
    return rc;
}

int dtspank_gpu_apply(spank_t spank, struct dt_error *err)
{
    uint32_t rank = 0;
    uint32_t tasks = 1;
    uint32_t gpus = 0;
    const char *policy = dtspank_task_getenv(spank, DT_ENV_GPU_VISIBILITY);
    bool one = policy && strcmp(policy, "one") == 0;
    if (!dtspank_task_local(spank, &rank, &tasks))
        return 0;
    if (rank == 0 && tasks > 1 &&
        dtspank_task_number(spank, "SLURM_GPUS_ON_NODE", &gpus) && gpus > 0)
        warn_user(spank, one, gpus, tasks);
    for (int i = 0; one && i < LISTS; i++)
        if (leave_one(spank, lists[i], rank, err) != 0)
            return -1;
    return 0;
}
