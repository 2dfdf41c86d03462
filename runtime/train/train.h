/* SPDX-License-Identifier: Apache-2.0 */
/* train.h - the parts of the training loop */
#ifndef DT_TRAIN_TRAIN_H
#define DT_TRAIN_TRAIN_H

#include "run/run.h"

/* Fills run up to the loader. Before, run is zeroed except for stop. This node
 * has `local_size` ranks. dt_run_fini releases everything that was created.
 */
int dt_run_init(struct dt_run *run, const struct dt_conf *conf,
                const struct dt_exec *exec, struct dt_comm *comm,
                int local_size, struct dt_error *err);
void dt_run_fini(struct dt_run *run);

/* Queues the next optimizer step. `stop` tells all ranks that this one was told
 * to stop. At most one step may be in flight. 0; 1: a rank was told to stop
 * while completions were sampled, and nothing is queued; -1: data, the device
 * or a peer failed.
 */
int dt_run_queue_step(struct dt_run *run, bool stop, struct dt_error *err);

/* Waits for the oldest step in flight and adds its results to progress and
 * `line`. *stop_asked becomes true if any rank was told to stop. Returns 1, or
 * 0 if no step is in flight. -1: the device or a peer failed, or continuing
 * would be useless (EX_DATAERR).
 */
int dt_run_collect(struct dt_run *run, struct dt_report_step *line,
                   bool *stop_asked, struct dt_error *err);

/* Computes the mean loss on the held-out rows, over all ranks, the number of
 * tokens or pairs in it, and the metrics of pairs. No step may be in flight.
 */
int dt_run_evaluate(struct dt_run *run, double *loss, double *count,
                    struct dt_metrics *metrics, struct dt_error *err);

#endif /* DT_TRAIN_TRAIN_H */
