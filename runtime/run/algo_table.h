/* SPDX-License-Identifier: Apache-2.0 */
/*
 * algo_table.h - the table that defines an algorithm
 *
 * The loop, the passes through the model, saving and resuming are the same for
 * all algorithms. An algorithm is a table: the values it reads of a batch,
 * their derivatives in the loss, and the metrics it reports. Each file of algo/
 * named after an algorithm fills one.
 *
 * The step (step.c) computes values of the tokens that `pick` names: their
 * log-probabilities, or scores (model.h). On the host, `loss` turns them into
 * the derivative of the loss by each value, and only this goes back into the
 * model. An algorithm without `pick` and `loss` has the loss of the next token,
 * which the model computes by itself without waiting for the host.
 *
 * The data are rows, preference pairs, or, with `advantages`, prompts whose
 * completions the model samples itself (samples.h).
 */
#ifndef DT_RUN_ALGO_TABLE_H
#define DT_RUN_ALGO_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"
#include "conf/conf.h"
#include "model/model.h"

struct dt_run;

/* How the values of steps and ranks are combined into one. */
enum dt_metric_kind { DT_METRIC_MEAN, DT_METRIC_MIN, DT_METRIC_MAX };

struct dt_metric {
    const char *name; /* in metrics.jsonl; NULL: an intermediate sum */
    enum dt_metric_kind kind;
    bool shown; /* on the console, too */
};

enum { DT_METRICS_MAX = 20 };

/* Sums over the pairs, or completions, of micro-batches. */
struct dt_metrics {
    double loss, pairs;
    double tokens;                /* that were computed, with prompts */
    double value[DT_METRICS_MAX]; /* a sum, a minimum or a maximum */
};

/* A micro-batch on the host, between the two halves of the last unit. */
struct dt_picked {
    const struct dt_batch *batch;
    const float *value, *collision, *entropy, *mean,
        *top;               /* (batch->picked_count), as in model.h */
    const float *reference; /* the same values of the frozen model, 0
                               without one */
    double pairs_per_token; /* pairs of the step for each token of its chosen
                               completions */
    float *weight; /* (batch->picked_count), to be filled: the derivative of
                      the sum of the losses of the pairs */
    float *entropy_weight;      /* the same by the entropy, of completions */
    struct dt_metrics *metrics; /* to which loss and value are added */
};

struct dt_algo {
    const char *name;
    bool scores; /* the model is a reward model */
    /* Whether a frozen model computes the same values; NULL: no. */
    bool (*needs_reference)(const struct dt_conf *conf);
    /* Checks the algorithm's own keys against each other; may be NULL. -1:
     * EX_CONFIG with the place.
     */
    int (*check)(const struct dt_conf *conf, struct dt_error *err);
    const struct dt_metric *metrics;
    size_t metric_count;
    /* Whether a run reports a metric; NULL: all that have a name. */
    bool (*reports)(const struct dt_conf *conf, size_t metric);
    /* Before the run's weights are read; may be NULL. -1: EX_CONFIG. */
    int (*begin)(struct dt_run *run, struct dt_error *err);
    /* Frees what it holds, once begun; may be NULL. */
    void (*fini)(struct dt_run *run);
    /* After the weights are read; may be NULL. -1: the device or a peer failed,
     * or as the algorithm says.
     */
    int (*prepare)(struct dt_run *run, struct dt_error *err);
    /* Writes the positions of the tokens of a batch whose values the loss
     * needs; returns how many. NULL: none, and data are no pairs.
     */
    size_t (*pick)(const struct dt_run *run, const struct dt_batch *batch,
                   int32_t *picked);
    /* Of completions: fills the advantages of a generation from its rewards,
     * the same on all ranks. -1: EX_DATAERR. NULL: nothing is sampled.
     */
    int (*advantages)(struct dt_run *run, struct dt_error *err);
    /* More numbers of a generation to report, with their names; returns how
     * many. NULL: none.
     */
    size_t (*numbers)(const struct dt_run *run, const char *const **names,
                      const double **values);
    /* The name, among metrics and numbers, of the KL divergence from the
     * reference; NULL: none.
     */
    const char *kl;
    /* Of completions: sets samples.denominator, by which the sum of the losses
     * of a step is divided, the same on every rank. -1: EX_OSERR.
     */
    int (*denominator)(struct dt_run *run, struct dt_error *err);
    void (*loss)(const struct dt_run *run, const struct dt_picked *picked);
    /* The loss of a critic, a second trained model that scores the same tokens;
     * NULL: there is none.
     */
    void (*critic_loss)(const struct dt_run *run,
                        const struct dt_picked *picked);
    /* After the passes of a step are queued, with its metrics of this rank; may
     * be NULL. -1: a peer failed.
     */
    int (*passed)(struct dt_run *run, struct dt_metrics *step,
                  struct dt_error *err);
    /* The numbers to report, if they are no means over pairs; may be NULL. */
    void (*results)(const struct dt_metrics *metrics,
                    double results[DT_METRICS_MAX]);
};

/* Whether a run reports a metric. Intermediate sums are not reported. */
bool dt_algo_reports(const struct dt_algo *algo, const struct dt_conf *conf,
                     size_t metric);

/* Gives a model the head that the algorithm trains. -1: EX_CONFIG, the model in
 * `dir` is of another kind.
 */
int dt_algo_adapt(const struct dt_algo *algo, struct dt_model_config *config,
                  const char *dir, struct dt_error *err);

/* The most positions that a document may have: fewer than the model's if it
 * cannot continue longer ones and the algorithm samples.
 */
size_t dt_algo_positions(const struct dt_algo *algo,
                         const struct dt_model_config *config);

/* --- metrics --- */

/* Sets metrics to those of no pair. */
void dt_metrics_clear(const struct dt_algo *algo, struct dt_metrics *metrics);

/* Adds a pair: its loss, and a value for each metric. */
void dt_metrics_add_pair(const struct dt_algo *algo, struct dt_metrics *to,
                         double loss, const double *values);

/* Adds the metrics of other pairs. */
void dt_metrics_add(const struct dt_algo *algo, struct dt_metrics *to,
                    const struct dt_metrics *from);

/* Adds up those of all ranks, the same on all. -1: a peer failed. */
int dt_metrics_reduce(const struct dt_algo *algo, struct dt_metrics *metrics,
                      struct dt_comm *comm, struct dt_error *err);

/* The numbers to report; NaN without a pair. */
void dt_metrics_results(const struct dt_algo *algo,
                        const struct dt_metrics *metrics,
                        double results[DT_METRICS_MAX]);

#endif /* DT_RUN_ALGO_TABLE_H */
