/* SPDX-License-Identifier: Apache-2.0 */
/* srun_slurm.c - looks up values of Slurm that it does not promise to plugins
 */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "spank/hostlist.h"
#include "spank/srun/srun_impl.h"

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

/* Slurm's own plugins read slurm.conf in this variable, so srun has it in all
 * releases: in libslurmfull.so or, without that library, in srun itself.
 */
static const char *plugin_dirs(void)
{
    const slurm_conf_t *conf = dlsym(RTLD_DEFAULT, "slurm_conf");
    return conf ? conf->plugindir : NULL;
}

bool dtspank_pmix_is_there(void)
{
    const char *dir = plugin_dirs();
    while (dir) {
        char path[PATH_MAX];
        size_t len = strcspn(dir, ":");
        int n = snprintf(path, sizeof(path), "%.*s/mpi_pmix.so", (int)len, dir);
        if (n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0)
            return true;
        dir = dir[len] ? dir + len + 1 : NULL;
    }
    return false;
}
