/* SPDX-License-Identifier: Apache-2.0 */
/* dpo_run.h - runs of direct preference optimization on pair_run.h's pairs */
#ifndef TESTS_UNIT_DPO_RUN_H
#define TESTS_UNIT_DPO_RUN_H

#include "train/train.h"
#include "tests/unit/pair_run.h"

#define DPO "algorithm: dpo\n"
#define FEW                                                                    \
    DPO "training: {train_batch_size: 8, max_steps: 9}\n"                      \
        "optimizer.lr: 1.0e-3\n"

enum { CHOSEN, REJECTED, ACCURACY, MARGIN, LOGP_CHOSEN, LOGP_REJECTED };

static inline int evaluate(struct dt_run *run, double results[DT_METRICS_MAX],
                           double *loss, struct dt_error *err)
{
    struct dt_metrics metrics;
    double count;
    if (dt_run_evaluate(run, loss, &count, &metrics, err) < 0)
        return -1;
    dt_metrics_results(run->spec.algo, &metrics, results);
    return count == HELD_OUT ? 0 : -1;
}

#define FROM(model, more)                                                      \
    DPO "run.output_dir: out\n"                                                \
        "model: {" model "}\n"                                                 \
        "data: {train: train.jsonl, eval: eval.jsonl, max_length: 32}\n"       \
        "scheduler.name: constant\n"                                           \
        "optimizer.lr: 1.0e-3\n"                                               \
        "logging.report_to: jsonl\n"                                           \
        "training: {train_batch_size: 8, max_steps: 9}\n" more
#define SHAPE "n_positions: 32, n_embd: 32, n_layer: 1, n_head: 2"

/* Saves a model after some steps as ref/. */
static inline int make_other(struct dt_run *run, void *arg)
{
    struct dt_error err = {0};
    TRY(pair_steps(run, 5, &err) == 0);
    return pair_save(run, arg);
}

static inline void leave_other(const char *name)
{
    small_clean(NULL);
    pair_runs(FROM(SHAPE, ""), make_other);
    assert_int_equal(rename("out/checkpoints/checkpoint-5", name), 0);
}

#endif /* TESTS_UNIT_DPO_RUN_H */
