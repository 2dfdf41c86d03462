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
static bool is_vain(int status)
{
    static const int mistakes[] = {2,         EX_USAGE,  EX_DATAERR, EX_NOINPUT,
                                   EX_NOPERM, EX_CONFIG, 126,        127};
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
        if (status == mistakes[i])
            return true;
    return false;
}

enum dt_requeue_verdict dt_requeue_judge(const struct dt_requeue *requeue)
{
    const struct dt_requeue *r = requeue;
    const bool asks = r->status == EX_TEMPFAIL || r->late;
    if (!r->allowed || r->status == EX_OK)
        return DT_REQUEUE_NO;
    if (!asks && (r->most == 0 || is_vain(r->status)))
        return DT_REQUEUE_NO;
    if (!asks && r->restarts >= r->most)
        return DT_REQUEUE_SPENT;
    if (r->seconds < DT_REQUEUE_SHORT_S &&
        r->restarts >= DT_REQUEUE_SHORT_RESTARTS)
        return DT_REQUEUE_LOOPS;
    return r->cancelled ? DT_REQUEUE_CANCELLED : DT_REQUEUE_DUE;
}
