/* SPDX-License-Identifier: Apache-2.0 */
/* prepare_reference.h - computes log-probabilities of a run's pairs under its
 * reference
 */
#ifndef DT_CMD_PREPARE_REFERENCE_H
#define DT_CMD_PREPARE_REFERENCE_H

#include "conf/conf.h"

/* Makes the file that a run of `conf` would make before its first step, unless
 * it is there. -1: EX_CONFIG, the configuration asks for none; as
 * dt_trainer_prepare.
 */
int dt_prepare_reference(const struct dt_conf *conf, struct dt_error *err);

#endif /* DT_CMD_PREPARE_REFERENCE_H */
