/* SPDX-License-Identifier: Apache-2.0 */
/* same.h - is it the same run that goes on (private to algo/) */
#ifndef DT_ALGO_SAME_H
#define DT_ALGO_SAME_H

#include <jansson.h>

#include "algo/run.h"

/* The settings that shape the result, as trainer_state.json keeps them: an
 * object of texts by key. Before dt_conf_resolve_steps, so that ratios of the
 * run's length are still as given. The caller decrefs; NULL and err: EX_OSERR.
 */
json_t *dt_same_settings(const struct dt_conf *conf, struct dt_error *err);

/* Compares the run with the checkpoint `dir`, that has the settings `was` (NULL:
 * an old one has none) and `samples` a step. One line of the log lists what may
 * differ. -1: EX_CONFIG, the key with both values, if its model computes
 * something else or its data have another order; config.json cannot be read.
 */
int dt_same_run(const struct dt_run *run, const char *dir, const json_t *was,
                long samples, struct dt_error *err);

#endif /* DT_ALGO_SAME_H */
