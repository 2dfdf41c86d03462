/* SPDX-License-Identifier: Apache-2.0 */
/* models.h - finds the checkpoints of runs that a configuration names */
#ifndef DT_ALGO_MODELS_H
#define DT_ALGO_MODELS_H

#include <stdbool.h>

#include "conf/conf.h"

/* Where the configuration names the output directory of a run as a model, puts
 * its newest checkpoint in the place; a line of the log for each if it `says`
 * so.
 */
void dt_models_find(struct dt_conf *conf, bool says);

#endif /* DT_ALGO_MODELS_H */
