/* SPDX-License-Identifier: Apache-2.0 */
/* requeue_rule.c - whether a job goes back into the queue */
#include "config.h"

#include <stddef.h>
#include <stdlib.h>
#include <sysexits.h>

#include "contract/contract.h"
#include "contract/requeue_rule.h"

void dt_requeue_read(struct dt_requeue *requeue)
{
    const char *most = getenv(DT_ENV_REQUEUE);
    const char *restarts = getenv("SLURM_RESTART_COUNT");
    *requeue = (struct dt_requeue){
        .allowed = most != NULL,
        .most = most ? strtol(most, NULL, 10) : 0,
        .restarts = restarts ? strtol(restarts, NULL, 10) : 0,
    };
}

/* 2 is the exit status of shells, of Python's argparse and, for a program that
 * does not exist, of Slurm.
 */
bool dt_requeue_is_vain(int status)
{
    static const int mistakes[] = {2,         EX_USAGE,  EX_DATAERR, EX_NOINPUT,
                                   EX_NOPERM, EX_CONFIG, 126,        127};
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
        if (status == mistakes[i])
            return true;
    return false;
}

bool dt_requeue_is_due(const struct dt_requeue *requeue, int status)
{
    if (!requeue->allowed || status == EX_OK || dt_requeue_is_vain(status))
        return false;
    return status == EX_TEMPFAIL || requeue->restarts < requeue->most;
}
