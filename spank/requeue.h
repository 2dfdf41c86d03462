/* SPDX-License-Identifier: Apache-2.0 */
/* requeue.h - launch.requeue: the batch job goes back into the queue */
#ifndef DTSPANK_REQUEUE_H
#define DTSPANK_REQUEUE_H

#include <stdbool.h>

#include "base/error.h"

/* In srun, once, when the step exists: from now on srun puts its batch job back
 * into the queue at its own end, if a rank has ended with EX_TEMPFAIL (75:
 * saved, asks to be requeued) and none has failed, or if the status is not 0
 * after the signal of deadline.h. It says what it does, or why it cannot. A job
 * that has been restarted three times is left alone when the step ends within a
 * minute: it would never end. in_job: srun was started in a job, and has not
 * made its own.
 */
int dtspank_requeue_arm(bool in_job, struct dt_error *err);

#endif /* DTSPANK_REQUEUE_H */
