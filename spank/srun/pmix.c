/* SPDX-License-Identifier: Apache-2.0 */
/* pmix.c - finds out whether Slurm can start a step with PMIx */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>

#include "spank/srun/pmix.h"

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
