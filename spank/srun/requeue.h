/* SPDX-License-Identifier: Apache-2.0 */
/* requeue.h - launch.requeue: puts the batch job back into the queue */
#ifndef DTSPANK_REQUEUE_H
#define DTSPANK_REQUEUE_H

#include <stdbool.h>

#include "base/error.h"

/* In srun, once, when the step exists: from now on srun requeues its batch job
 * when it exits, if a rank has exited with EX_TEMPFAIL (75: state saved,
 * requeue requested) and none has failed, or if the status is not 0 after the
 * signal of deadline.h. It says what it does, or why it cannot. A job that has
 * been restarted three times is not requeued if the step ended within a minute,
 * because it might be requeued forever. in_job: srun was started in a job and
 * has not made its own allocation.
 */
int dtspank_requeue_arm(bool in_job, struct dt_error *err);

#endif /* DTSPANK_REQUEUE_H */
