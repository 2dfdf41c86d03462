/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pmix.c - finds out whether Slurm can start a step with PMIx
 *
 * Slurm does not tell plugins its PluginDir, but srun has already loaded
 * plugins of its own from there (auth, hash), so we look in the directory of
 * every loaded object. Debian and others keep libslurmfull.so there as well,
 * but Slurm 26.05 can be built without that library.
 */
#include "config.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "spank/srun/pmix.h"

/* Called for each loaded object; a result other than 0 ends the search. */
static int look_beside(struct dl_phdr_info *object, size_t size, void *unused)
{
    char path[PATH_MAX];
    const char *slash = strrchr(object->dlpi_name, '/');
    (void)size;
    (void)unused;
    if (!slash)
        return 0;
    int n = snprintf(path, sizeof(path), "%.*s/mpi_pmix.so",
                     (int)(slash - object->dlpi_name), object->dlpi_name);
    return n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0;
}

bool dtspank_pmix_is_there(void)
{
    return dl_iterate_phdr(look_beside, NULL) != 0;
}
