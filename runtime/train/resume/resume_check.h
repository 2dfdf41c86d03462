/* SPDX-License-Identifier: Apache-2.0 */
/* resume_check.h - checks that a checkpoint belongs to the same run */
#ifndef DT_TRAIN_RESUME_RESUME_CHECK_H
#define DT_TRAIN_RESUME_RESUME_CHECK_H

#include <jansson.h>

#include "run/run.h"

/* The settings that affect the result, as stored in trainer_state.json: an
 * object of texts by key. Before dt_conf_resolve_steps, so that ratios of the
 * run's length are still as given. The caller decrefs; NULL and err: EX_OSERR.
 */
json_t *dt_same_settings(const struct dt_conf *conf, struct dt_error *err);

/* The saved run, as described in trainer_state.json. */
struct dt_same_state {
    const json_t *settings; /* NULL: an old one has none */
    long samples;           /* of a step */
    const char *data_hash;  /* of the rows, 16 hex digits */
    size_t max_length;
    uint64_t data_seed;
};

/* Compares the run with the one that saved the checkpoint `dir`. Logs harmless
 * differences in one line. -1: EX_CONFIG, the key with both values, if the
 * model, the data or its order differs; or config.json cannot be read.
 */
int dt_same_run(const struct dt_run *run, const char *dir,
                const struct dt_same_state *was, struct dt_error *err);

#endif /* DT_TRAIN_RESUME_RESUME_CHECK_H */
