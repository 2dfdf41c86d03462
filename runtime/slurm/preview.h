/* SPDX-License-Identifier: Apache-2.0 */
/* preview.h - prints what a job would run, without running it */
#ifndef DT_SLURM_PREVIEW_H
#define DT_SLURM_PREVIEW_H

#include "conf/conf.h"

/* Prints on stdout the srun line that launch: stands for, the variables that
 * all ranks have in common, and those of each rank. Hosts and ports are
 * examples. Returns an exit status.
 */
int dt_preview(const struct dt_conf *conf);

#endif /* DT_SLURM_PREVIEW_H */
