/* SPDX-License-Identifier: Apache-2.0 */
/*
 * composed.h - a run's model that is made of model.vision and model.language
 *
 * It is made once, in the directory that model.path names then. Until it is
 * there, configurations are checked and planned from the two directories.
 */
#ifndef DT_RUN_COMPOSED_H
#define DT_RUN_COMPOSED_H

#include <stdbool.h>

#include "compose/compose.h"
#include "conf/conf.h"
#include "model/model.h"

/* What the keys of the configuration ask for; the strings are theirs. */
struct dt_compose dt_run_compose(const struct dt_conf *conf);

/* Whether the model is still to be made: it is not there, or run.overwrite
 * replaces it. 1 or 0. -1: as dt_compose_find.
 */
int dt_run_needs_model(const struct dt_conf *conf, struct dt_error *err);

/* Makes the model if it is needed, and says of what. One process may do this at
 * a time. -1: as dt_compose_read and dt_compose_write.
 */
int dt_run_make_model(const struct dt_conf *conf, struct dt_error *err);

/* The config of a model that is still to be made. -1: as dt_compose_read.
 * dt_model_config_fini in any case.
 */
int dt_run_composed_config(const struct dt_conf *conf,
                           struct dt_model_config *config,
                           struct dt_error *err);

/* Checks that the two directories have the weights for it. -1: as
 * dt_compose_check.
 */
int dt_run_check_halves(const struct dt_conf *conf, struct dt_error *err);

#endif /* DT_RUN_COMPOSED_H */
