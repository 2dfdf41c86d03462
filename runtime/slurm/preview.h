/* SPDX-License-Identifier: Apache-2.0 */
/* preview.h - what a job would be, without one */
#ifndef DT_CMD_PREVIEW_H
#define DT_CMD_PREVIEW_H

#include "conf/conf.h"

/* Prints on stdout the srun line that launch: stands for, the variables that
 * all ranks have in common, and for each rank those of its own. Hosts and ports
 * are examples. Returns an exit status.
 */
int dt_preview(const struct dt_conf *conf);

#endif /* DT_CMD_PREVIEW_H */
