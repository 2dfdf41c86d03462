/* SPDX-License-Identifier: Apache-2.0 */
/*
 * algo.h - the algorithms, and the best evaluation of a run
 *
 * Each file that is named after an algorithm fills its table: the values that
 * it reads of a batch, the loss and its derivatives, the metrics.
 */
#ifndef DT_ALGO_ALGO_H
#define DT_ALGO_ALGO_H

#include <jansson.h>

#include "run/run.h"

extern const struct dt_algo dt_algo_rm, dt_algo_dpo, dt_algo_ppo, dt_algo_grpo;

/* The algorithm of a configuration. */
const struct dt_algo *dt_algo_of(const struct dt_conf *conf);

/* Checks the keys that only algorithms understand, before anything is opened or
 * removed. -1: EX_CONFIG with the place; out of memory.
 */
int dt_algo_check(const struct dt_conf *conf, struct dt_error *err);

/* --- the best evaluation --- */

/* Looks for training.metric_for_best_model among the metrics that evaluations
 * of this configuration will report, before there is a run. -1: EX_CONFIG with
 * the place, it is not one of them; out of memory.
 */
int dt_best_check(const struct dt_algo *algo, const struct dt_conf *conf,
                  struct dt_error *err);

/* Compares an evaluation with the earlier ones, on all ranks, and ends the run
 * with this step if training.early_stopping_patience evaluations in a row were
 * not better. `saved`: the step will be saved. Does nothing unless that key or
 * load_best_model_at_end is set. An evaluation without the metric is not
 * better.
 */
void dt_best_note(struct dt_run *run, const struct dt_report_eval *line,
                  bool saved);

/* After a save, on rank 0: updates the link to the best checkpoint. A failure
 * is a warning.
 */
void dt_best_link(const struct dt_run *run);

/* On rank 0, of a run that resumes and before other ranks have its progress:
 * forgets the best checkpoint, with a warning, if it is not in the run's output
 * directory: it was removed, or the run resumes from a checkpoint elsewhere.
 */
void dt_best_look(struct dt_run *run);

/* On rank 0, before anything is pruned: sets the link to the best checkpoint
 * that the progress names. A failure is a warning.
 */
void dt_best_link_again(const struct dt_run *run);

/* At the end of the run, on rank 0: logs which checkpoint is the best. */
void dt_best_tell(const struct dt_run *run);

/* Whether a run that was stopped early is at its end. */
bool dt_best_ended(const struct dt_run *run);

/* Writes to and reads from trainer_state.json. -1: out of memory; the state was
 * not written by dt_best_put.
 */
int dt_best_put(json_t *state, const struct dt_run *run);
int dt_best_get(const json_t *state, struct dt_run *run);

#endif /* DT_ALGO_ALGO_H */
