/* SPDX-License-Identifier: Apache-2.0 */
/* sampling_impl.h - the parts of a generation: completions, scores, numbers */
#ifndef DT_SAMPLING_SAMPLING_IMPL_H
#define DT_SAMPLING_SAMPLING_IMPL_H

#include "ckpt/ckpt.h"
#include "sampling/sampling.h"

/* Samples completions of prompts [first, first + count) of the stream to e on
 * all ranks. 0; 1, a rank was told to stop; -1: the device or a peer failed.
 */
int dt_run_sample(struct dt_run *run, struct dt_experience *e, uint64_t first,
                  size_t count, struct dt_error *err);

/* The same, into the experience and with rewards. 0; 1: a rank was told to
 * stop; -1: as dt_run_next_samples.
 */
int dt_run_sample_scored(struct dt_run *run, uint64_t first, size_t count,
                         struct dt_error *err);

/* Completes the prompts of an experience that was begun, each on its rank,
 * gathers it, and scores it for this step. 0, 1 and -1 as dt_run_sample_scored.
 */
int dt_run_complete(struct dt_run *run, struct dt_rollout *rollout,
                    struct dt_experience *e, long step, struct dt_error *err);

/* Waits for the rewards of the generation sampled ahead, so that other
 * completions can be scored. 0; 1: a rank was told to stop; -1: as
 * dt_scoring_end.
 */
int dt_run_settle_ahead(struct dt_run *run, struct dt_error *err);

/* Replaces groups of the experience that teach nothing, and records the number
 * of prompts sampled in all. 0; 1: a rank was told to stop; -1: as
 * dt_run_next_samples.
 */
int dt_run_refill(struct dt_run *run, struct dt_error *err);

/* Computes the trainer's log-probabilities of a whole generation, before the
 * first update that uses it, in the micro-batches that will train; with a
 * critic also its values and the reference's log-probabilities; with
 * top_entropy_quantile also entropies. -1: the device or a peer failed.
 */
int dt_run_old_values(struct dt_run *run, struct dt_error *err);

/* Makes room for those of these values that the run needs. -1: EX_OSERR. */
int dt_run_old_room(struct dt_run *run, struct dt_error *err);

/* Begins to score completions for this step. The experience must not move
 * meanwhile. -1: EX_OSERR.
 */
int dt_scoring_begin(struct dt_run *run, struct dt_experience *of, long step,
                     struct dt_error *err);

/* Submits group g, which this rank has completed, to the functions that score
 * it here. -1: EX_OSERR.
 */
int dt_scoring_submit(struct dt_run *run, size_t g, struct dt_error *err);

/* After gathering, submits the groups of other ranks that are scored here; or
 * all groups that are. -1: EX_OSERR.
 */
int dt_scoring_submit_rest(struct dt_run *run, struct dt_error *err);
int dt_scoring_submit_all(struct dt_run *run, struct dt_error *err);

/* Waits for all rewards, and brings them to all ranks. No collective is open
 * while a reward runs: ranks ask each other a few times a second whether they
 * are done. 0; 1: a rank was told to stop, and the call can be repeated; -1: a
 * reward or a peer failed.
 */
int dt_scoring_end(struct dt_run *run, struct dt_error *err);

/* Forgets everything that was submitted. */
void dt_scoring_fini(struct dt_run *run);

/* Writes the first prompts of the generation with all their completions to
 * samples-<step>.jsonl. A failure is a warning.
 */
void dt_run_log_samples(const struct dt_run *run, long step);

/* --- the arrays of a generation, wherever they are --- */

enum { DT_GENERATION_ARRAYS = 10 };

/* Of an experience, as tensors of the host. */
struct dt_generation_arrays {
    struct dt_buffer buf[DT_GENERATION_ARRAYS];
    struct dt_ckpt_tensor tensor[DT_GENERATION_ARRAYS];
    size_t count;
};

/* Lists those of an experience, which must not move. */
void dt_generation_list(struct dt_experience *e,
                        struct dt_generation_arrays *arrays);

/* Reads the next `count` arrays of `from`. -1: it has not these. */
typedef int dt_generation_read_f(void *from,
                                 const struct dt_ckpt_tensor *tensors,
                                 size_t count, struct dt_error *err);

/* Fills an experience of the run with arrays that were listed. -1: EX_OSERR;
 * EX_DATAERR, they are wrong; as `read`.
 */
int dt_generation_fill(struct dt_run *run, struct dt_experience *e,
                       dt_generation_read_f *read, void *from,
                       struct dt_error *err);

/* Orders the rows of the generation; with a critic, which trains for several
 * epochs, once per epoch. -1: EX_OSERR.
 */
int dt_run_order_rows(struct dt_run *run, struct dt_error *err);

/* Computes what follows from a generation that is partly used. -1: as
 * dt_run_next_samples.
 */
int dt_generation_begin_again(struct dt_run *run, struct dt_error *err);

/* --- generations in memory that outlives the process --- */

/* Keeps generation `number` there, complete, or the completions of one that was
 * sampled ahead. Nothing without such memory.
 */
void dt_generation_put(struct dt_run *run, struct dt_experience *e,
                       uint64_t number);

/* Whether generation `number` is there; the same on all ranks once a run goes
 * on.
 */
bool dt_generation_is_kept(const struct dt_run *run, uint64_t number);

/* Fills an experience with it, and the numbers of prompts that were sampled for
 * it. -1: as dt_generation_fill.
 */
int dt_generation_get(struct dt_run *run, struct dt_experience *e,
                      uint64_t number, struct dt_error *err);

/* Names the numbers of generations. */
void dt_run_name_numbers(struct dt_run *run);

/* Computes the numbers of completions and their rewards that all algorithms
 * share: value(samples.own), NaN where there is none.
 */
void dt_run_measure(const struct dt_run *run,
                    const struct dt_experience *experience,
                    const struct dt_advantage_stats *stats, double *value);

/* The same numbers for a line of the report. */
struct dt_report_values dt_run_measured_values(const struct dt_run *run,
                                               const double *value);

/* Computes the numbers of the generation. */
void dt_run_make_numbers(struct dt_run *run);

/* Warns of a run that looks alive and learns nothing. */
void dt_run_warn_idle(struct dt_run *run);

#endif /* DT_SAMPLING_SAMPLING_IMPL_H */
