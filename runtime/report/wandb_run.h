/* SPDX-License-Identifier: Apache-2.0 */
/* wandb_run.h - what Weights & Biases is told of a run as a whole */
#ifndef DT_REPORT_WANDB_RUN_H
#define DT_REPORT_WANDB_RUN_H

#include <jansson.h>

#include "base/error.h"
#include "report/protobuf.h"

/* Appends a RunRecord to a Record: names, when it started, and the
 * configuration in run.json, in which secrets are left out already. Names are
 * those of logging.wandb, else of the variables that wandb itself reads
 * (WANDB_PROJECT ...). A run whose id is not that of run.json is in a group of
 * the latter. -1: EX_OSERR.
 */
int dt_wandb_run(struct dt_protobuf *record, const json_t *run, const char *id,
                 double start, struct dt_error *err);

/* Appends a google.protobuf.Timestamp of seconds since 1970. */
void dt_wandb_time(struct dt_protobuf *record, uint32_t field, double wall);

#endif /* DT_REPORT_WANDB_RUN_H */
