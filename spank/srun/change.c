/* SPDX-License-Identifier: Apache-2.0 */
/* change.c - warns of a config that was edited while its job waited */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

#include "contract/contract.h"
#include "spank/srun/change.h"

static char *submitted; /* NULL: nothing is known */

void dtspank_change_keep(void)
{
    const char *sum = getenv(DT_ENV_SUM);
    free(submitted);
    submitted = sum ? strdup(sum) : NULL;
}

void dtspank_change_leave(const struct dtspank_contract *contract)
{
    static const char name[] = DT_ENV_SUM "=";
    size_t len = strlen(name);
    for (size_t i = 0; i < contract->srun_count; i++)
        if (strncmp(contract->srun[i], name, len) == 0)
            setenv(DT_ENV_SUM, contract->srun[i] + len, 1);
}

void dtspank_change_tell(void)
{
    const char *now = getenv(DT_ENV_SUM);
    const char *path = now ? strchr(now, ':') : NULL;
    const char *then = submitted ? strchr(submitted, ':') : NULL;
    if (path && then && strcmp(path, then) == 0 && strcmp(now, submitted) != 0)
        slurm_spank_log("disttrain: warning: %s has changed since the job "
                        "was submitted: this step uses it as it is now",
                        path + 1);
}
