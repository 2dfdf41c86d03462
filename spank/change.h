/* SPDX-License-Identifier: Apache-2.0 */
/* change.h - a config that is edited while its job waits in the queue */
#ifndef DTSPANK_CHANGE_H
#define DTSPANK_CHANGE_H

#include "spank/srun/check.h"

/* Keeps what sbatch has left in the environment of its job, before it goes. */
void dtspank_change_keep(void);

/* In sbatch and salloc: leaves DT_ENV_SUM of the config to the job. */
void dtspank_change_leave(const struct dtspank_contract *contract);

/* In srun, which has the config's DT_ENV_SUM by now: says if it is another one
 * than sbatch has left. Another file is no change.
 */
void dtspank_change_tell(void);

#endif /* DTSPANK_CHANGE_H */
