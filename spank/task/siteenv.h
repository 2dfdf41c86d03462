/* SPDX-License-Identifier: Apache-2.0 */
/* siteenv.h - the variables that the site sets in tasks */
#ifndef DTSPANK_SITEENV_H
#define DTSPANK_SITEENV_H

#include <slurm/spank.h>

#include "base/error.h"
#include "spank/siteconf.h"

/* In task_init, after the config's `env:`: sets force= whatever the task has,
 * of which rank 0 tells the user, and env= where the task has nothing.
 */
int dtspank_siteenv_export(spank_t spank, const struct dtspank_siteconf *conf,
                           struct dt_error *err);

#endif /* DTSPANK_SITEENV_H */
