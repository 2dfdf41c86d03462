/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requeue_rule.h - whether a job goes back into the queue, as launch.requeue,
 * launch.max_requeues and launch.signal say: the same for srun, and for keepers
 * that have lost srun
 */
#ifndef DT_CONTRACT_REQUEUE_RULE_H
#define DT_CONTRACT_REQUEUE_RULE_H

#include <stdbool.h>

enum {
    DT_REQUEUE_SHORT_S = 60, /* a step that took less, in a job that was */
    DT_REQUEUE_SHORT_RESTARTS = 3, /* restarted so often, would go on so */
};

struct dt_requeue {
    /* the job, see dt_requeue_read */
    bool allowed;  /* launch.requeue: a run that asks for it goes back */
    long most;     /* launch.max_requeues: one that has crashed does, too, */
    long restarts; /* if its job was not restarted that often */
    /* the run that has ended */
    int status;     /* as a shell has it; EX_TEMPFAIL asks */
    bool late;      /* the signal of launch.signal came first */
    double seconds; /* that its step took */
    bool cancelled; /* the job was */
};

enum dt_requeue_verdict {
    DT_REQUEUE_NO,        /* nothing asks for it */
    DT_REQUEUE_DUE,       /* it goes back */
    DT_REQUEUE_SPENT,     /* launch.max_requeues allows no other restart */
    DT_REQUEUE_LOOPS,     /* it would go back for ever, see above */
    DT_REQUEUE_CANCELLED, /* Slurm would requeue even a cancelled job */
};

/* Fills in the job, from DT_ENV_REQUEUE and Slurm's count of its restarts; the
 * rest is zero.
 */
void dt_requeue_read(struct dt_requeue *requeue);

/* Whether the job goes back. A crash whose exit status shows a mistake of the
 * user in usage, data, input, permission or configuration, or that there is no
 * such program, would come again.
 */
enum dt_requeue_verdict dt_requeue_judge(const struct dt_requeue *requeue);

#endif /* DT_CONTRACT_REQUEUE_RULE_H */
