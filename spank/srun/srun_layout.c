/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_layout.c - asks the controller which tasks of a step run on which node
 */
#include "config.h"

#include <dlfcn.h>

#include "spank/hostlist.h"
#include "spank/srun/srun_layout.h"

slurm_step_layout_t *dtspank_layout_get(uint32_t job, uint32_t step)
{
    slurm_step_id_t id = {
        .job_id = job, .step_id = step, .step_het_comp = NO_VAL};
    slurm_step_layout_t *(*get)(slurm_step_id_t *);
    *(void **)&get = dlsym(RTLD_DEFAULT, "slurm_job_step_layout_get");
    return get ? get(&id) : NULL;
}

void dtspank_layout_release(slurm_step_layout_t *layout)
{
    void (*release)(slurm_step_layout_t *);
    *(void **)&release = dlsym(RTLD_DEFAULT, "slurm_job_step_layout_free");
    if (layout && release)
        release(layout);
}

int dtspank_layout_rank0(const slurm_step_layout_t *layout, char *host,
                         size_t size)
{
    for (uint32_t node = 0; node < layout->node_cnt; node++)
        for (uint16_t i = 0; i < layout->tasks[node]; i++)
            if (layout->tids[node][i] == 0)
                return dtspank_hostlist_nth(layout->node_list, node, host, size,
                                            NULL);
    return -1;
}
