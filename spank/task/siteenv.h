/* SPDX-License-Identifier: Apache-2.0 */
/* siteenv.h - sets the site's variables in tasks */
#ifndef DTSPANK_SITEENV_H
#define DTSPANK_SITEENV_H

#include <slurm/spank.h>

#include "base/error.h"
#include "spank/siteconf.h"

/* In task_init, after the config's `env:`: sets the variables of force=
 * whatever the task has (rank 0 tells the user if that changes a value), and
 * those of env= that the task does not have.
 */
int dtspank_siteenv_export(spank_t spank, const struct dtspank_siteconf *conf,
                           struct dt_error *err);

#endif /* DTSPANK_SITEENV_H */
