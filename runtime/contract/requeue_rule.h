/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requeue_rule.h - whether a job goes back into the queue, as launch.requeue
 * and launch.max_requeues say: the same for the console in srun, and for
 * keepers that have lost srun
 */
#ifndef DT_CONTRACT_REQUEUE_RULE_H
#define DT_CONTRACT_REQUEUE_RULE_H

#include <stdbool.h>

struct dt_requeue {
    bool allowed;  /* launch.requeue: a run that asks for it goes back */
    long most;     /* launch.max_requeues: one that has crashed does, too, */
    long restarts; /* if its job was not restarted that often */
};

/* From DT_ENV_REQUEUE and Slurm's count of the restarts of this job. */
void dt_requeue_read(struct dt_requeue *requeue);

/* Whether a restart would end with the same exit status: it shows a mistake of
 * the user in usage, data, input, permission or configuration, or that there is
 * no such program.
 */
bool dt_requeue_is_vain(int status);

/* Whether a job goes back whose run has ended with this exit status. */
bool dt_requeue_is_due(const struct dt_requeue *requeue, int status);

#endif /* DT_CONTRACT_REQUEUE_RULE_H */
