/* SPDX-License-Identifier: Apache-2.0 */
/* best.h - the best evaluation of a run (private to algo/) */
#ifndef DT_ALGO_BEST_H
#define DT_ALGO_BEST_H

#include <jansson.h>

#include "run/run.h"

/* Looks for training.metric_for_best_model among the names that evaluations of
 * the configuration will have, before there is a run. -1: EX_CONFIG with the
 * place, there is none; out of memory.
 */
int dt_best_check(const struct dt_conf *conf, struct dt_error *err);

/* Compares an evaluation with those before it, on all ranks, and ends the run
 * with this step if training.early_stopping_patience of them in a row were not
 * better. `saved`: the step will be. Nothing if neither this nor
 * load_best_model_at_end asks for it. An evaluation without the metric is not
 * better.
 */
void dt_best_note(struct dt_run *run, const struct dt_report_eval *line,
                  bool saved);

/* After a save, on rank 0: the link to the best checkpoint. What fails is a
 * warning.
 */
void dt_best_link(const struct dt_run *run);

/* On rank 0, of a run that resumes and before other ranks have its progress:
 * forgets the best checkpoint with a warning if it is not in the run's output,
 * where somebody has removed it, or which is another than it resumes from.
 */
void dt_best_look(struct dt_run *run);

/* On rank 0, before anything is pruned: the link to the best checkpoint as the
 * progress has it. What fails is a warning.
 */
void dt_best_link_again(const struct dt_run *run);

/* At the end, on rank 0: says which checkpoint is the best. */
void dt_best_tell(const struct dt_run *run);

/* Whether a run that was stopped early is at its end. */
bool dt_best_ended(const struct dt_run *run);

/* To and from trainer_state.json. -1: out of memory; it is not what dt_best_put
 * writes.
 */
int dt_best_put(json_t *state, const struct dt_run *run);
int dt_best_get(const json_t *state, struct dt_run *run);

#endif /* DT_ALGO_BEST_H */
