/* SPDX-License-Identifier: Apache-2.0 */
/* algo_table.c - asks the table of an algorithm, and adds up its metrics */
#include "config.h"

#include <math.h>

#include "run/algo_table.h"

bool dt_algo_reports(const struct dt_algo *algo, const struct dt_conf *conf,
                     size_t metric)
{
    return algo->metrics[metric].name &&
           (!algo->reports || algo->reports(conf, metric));
}

size_t dt_algo_positions(const struct dt_algo *algo,
                         const struct dt_model_config *config)
{
    return algo->advantages ? dt_model_room(config) : config->n_positions;
}

int dt_algo_adapt(const struct dt_algo *algo, struct dt_model_config *config,
                  const char *dir, struct dt_error *err)
{
    if (config->scores && !algo->scores)
        return dt_error_set(err, EX_CONFIG,
                            "%s: a reward model, but algorithm %s trains a "
                            "language model",
                            dir, algo->name);
    if (algo->scores && dt_model_check_scores(config, err) < 0)
        return dt_error_prefix(err, "%s", dir);
    config->scores = algo->scores;
    return 0;
}

/* --- metrics --- */

void dt_metrics_clear(const struct dt_algo *algo, struct dt_metrics *metrics)
{
    *metrics = (struct dt_metrics){0};
    for (size_t i = 0; i < algo->metric_count; i++) {
        if (algo->metrics[i].kind == DT_METRIC_MIN)
            metrics->value[i] = INFINITY;
        if (algo->metrics[i].kind == DT_METRIC_MAX)
            metrics->value[i] = -INFINITY;
    }
}

void dt_metrics_add(const struct dt_algo *algo, struct dt_metrics *to,
                    const struct dt_metrics *from)
{
    to->loss += from->loss;
    to->pairs += from->pairs;
    to->tokens += from->tokens;
    for (size_t i = 0; i < algo->metric_count; i++) {
        double *value = &to->value[i];
        switch (algo->metrics[i].kind) {
        case DT_METRIC_MEAN:
            *value += from->value[i];
            break;
        case DT_METRIC_MIN:
            *value = fmin(*value, from->value[i]);
            break;
        case DT_METRIC_MAX:
            *value = fmax(*value, from->value[i]);
            break;
        }
    }
}

void dt_metrics_add_pair(const struct dt_algo *algo, struct dt_metrics *to,
                         double loss, const double *values)
{
    struct dt_metrics one = {.loss = loss, .pairs = 1};
    for (size_t i = 0; i < algo->metric_count; i++)
        one.value[i] = values[i];
    dt_metrics_add(algo, to, &one);
}

void dt_metrics_results(const struct dt_algo *algo,
                        const struct dt_metrics *metrics,
                        double results[DT_METRICS_MAX])
{
    if (algo->results) {
        algo->results(metrics, results);
        return;
    }
    for (size_t i = 0; i < algo->metric_count; i++) {
        results[i] = metrics->pairs > 0 ? metrics->value[i] : NAN;
        if (algo->metrics[i].kind == DT_METRIC_MEAN)
            results[i] /= metrics->pairs;
    }
}

/* Reduces sums, and maxima. A minimum is the maximum with the opposite sign. */
int dt_metrics_reduce(const struct dt_algo *algo, struct dt_metrics *metrics,
                      struct dt_comm *comm, struct dt_error *err)
{
    enum { TOTALS = 3, COUNT = TOTALS + DT_METRICS_MAX };
    const struct dt_metric *of = algo->metrics;
    double sums[COUNT] = {metrics->loss, metrics->pairs, metrics->tokens};
    double most[DT_METRICS_MAX] = {0};
    size_t count = algo->metric_count;
    for (size_t i = 0; i < count; i++) {
        double value = metrics->value[i];
        if (of[i].kind == DT_METRIC_MEAN)
            sums[TOTALS + i] = value;
        else
            most[i] = of[i].kind == DT_METRIC_MAX ? value : -value;
    }
    if (dt_comm_size(comm) > 1 &&
        (dt_comm_reduce_scalars(comm, sums, TOTALS + count, DT_SUM, err) < 0 ||
         dt_comm_reduce_scalars(comm, most, count, DT_MAX, err) < 0))
        return -1;
    metrics->loss = sums[0];
    metrics->pairs = sums[1];
    metrics->tokens = sums[2];
    for (size_t i = 0; i < count; i++)
        metrics->value[i] = of[i].kind == DT_METRIC_MEAN  ? sums[TOTALS + i]
                            : of[i].kind == DT_METRIC_MAX ? most[i]
                                                          : -most[i];
    return 0;
}
