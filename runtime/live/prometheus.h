/* SPDX-License-Identifier: Apache-2.0 */
/* prometheus.h - a file for the textfile collector of node_exporter */
#ifndef DT_LIVE_PROMETHEUS_H
#define DT_LIVE_PROMETHEUS_H

#include <stdio.h>

#include "live/state.h"

/* Prints the state in the text format of Prometheus. */
void dt_prometheus_print(const struct dt_live_state *state, FILE *out);

/* Writes that as disttrain_JOB_STEP.prom in `dir`, which readers see whole or
 * not at all. -1: EX_CANTCREAT, EX_IOERR, EX_OSERR.
 */
int dt_prometheus_write(const struct dt_live_state *state, const char *dir,
                        struct dt_error *err);

/* Removes the files in `dir` of runs that were killed on this node, as far as
 * the directory allows it.
 */
void dt_prometheus_clean(const char *dir);

/* Removes the file, as the run has ended. */
void dt_prometheus_remove(const struct dt_live_state *state, const char *dir);

#endif /* DT_LIVE_PROMETHEUS_H */
