/* SPDX-License-Identifier: Apache-2.0 */
/* change.h - warns of a config that was edited while its job waited */
#ifndef DTSPANK_CHANGE_H
#define DTSPANK_CHANGE_H

#include "spank/srun/srun_check.h"

/* Keeps the DT_ENV_SUM that sbatch left in the environment of its job; call it
 * before our private variables are removed.
 */
void dtspank_change_keep(void);

/* In sbatch and salloc: leaves the config's DT_ENV_SUM in the job's
 * environment.
 */
void dtspank_change_leave(const struct dtspank_contract *contract);

/* In srun, once DT_ENV_SUM describes the config as it is now: warns if sbatch
 * left another sum for the same file. A different file is not a change.
 */
void dtspank_change_tell(void);

#endif /* DTSPANK_CHANGE_H */
