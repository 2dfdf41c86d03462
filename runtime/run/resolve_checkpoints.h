/* SPDX-License-Identifier: Apache-2.0 */
/* resolve_checkpoints.h - finds the checkpoints that a configuration names */
#ifndef DT_RUN_RESOLVE_CHECKPOINTS_H
#define DT_RUN_RESOLVE_CHECKPOINTS_H

#include <stdbool.h>

#include "conf/conf.h"

/* Where the configuration names the output directory of a run as a model, puts
 * its newest checkpoint in the place; a line of the log for each if it `says`
 * so.
 */
void dt_models_find(struct dt_conf *conf, bool says);

#endif /* DT_RUN_RESOLVE_CHECKPOINTS_H */
