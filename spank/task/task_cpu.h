/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_cpu.h - which CPUs a task runs on
 *
 * Slurm's own binding stays. Where Slurm lets the tasks of a node share a set
 * of CPUs that no other job uses, each task gets its own part, near its GPU;
 * memory follows by first touch.
 */
#ifndef DTSPANK_TASK_CPU_H
#define DTSPANK_TASK_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include <slurm/spank.h>

#include "base/error.h"
#include "spank/task/topology.h"

/* What Slurm says about the CPUs of a task, and about those around it. */
struct dtspank_cpu_place {
    uint32_t local_rank;
    uint32_t tasks;     /* of the step on this node */
    uint32_t step_cpus; /* of the step on this node */
    uint32_t job_cpus;  /* of the job on this node, at least */
    uint32_t per_task;  /* SLURM_CPUS_PER_TASK, which may be the batch script's;
                           0: unset */
    const char *bind;   /* SLURM_CPU_BIND_TYPE and _LIST; NULL: no affinity */
    const char *masks;  /* plugin, or no binding was asked for */
    const char *gpus;   /* SLURM_STEP_GPUS; NULL: no GPUs */
    uint32_t gpu_count; /* of the step on this node */
    bool one_gpu;       /* local ranks are assigned to GPUs round-robin */
};

/* Reduces cpus, the mask of the task, to the task's own part. False, with cpus
 * unchanged, if they belong to this task alone or perhaps also to other jobs,
 * or if it is not certain which part is best. Reads below root.
 */
bool dtspank_cpu_choose(const struct dtspank_cpu_place *place, const char *root,
                        struct dtspank_cpus *cpus);

/* For the node's first task, whose mask is cpus: says in one line if it has
 * only a small part of what the job owns, and which option of srun helps.
 */
void dtspank_cpu_warn(spank_t spank, const struct dtspank_cpu_place *place,
                      const char *root, const struct dtspank_cpus *cpus);

/* Warns, and binds this process to its part unless DT_ENV_CPU_BIND is "none".
 * Returns 0.
 */
int dtspank_cpu_apply(spank_t spank, struct dt_error *err);

/* Returns how many CPUs the threads of this task may use, at least 1: those of
 * its mask, but at most its share, because without binding the mask is that of
 * all tasks.
 */
uint32_t dtspank_cpu_usable(spank_t spank);

#endif /* DTSPANK_TASK_CPU_H */
