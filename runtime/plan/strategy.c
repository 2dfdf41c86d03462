/* SPDX-License-Identifier: Apache-2.0 */
/* strategy.c - chooses the strategy and the group of a run */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "plan/strategy.h"
#include "run/sharing.h"

/* Bytes of a rank with another strategy. */
static size_t total_with(const struct dt_spec *spec,
                         const struct dt_model_options *options, int strategy)
{
    struct dt_spec other = *spec;
    other.conf.distributed.strategy = strategy;
    struct dt_plan plan = dt_plan_make(&other, options);
    return dt_plan_total(&plan);
}

/* --- the group --- */

long dt_plan_choose_group(const struct dt_spec *spec,
                          const struct dt_model_options *options, size_t left,
                          int local_size)
{
    struct dt_spec other = *spec;
    const struct dt_conf *conf = &spec->conf;
    if (conf->distributed.shard_group != DT_CONF_GROUP_AUTO)
        return conf->distributed.shard_group;
    if (conf->distributed.reduction == DT_CONF_FLAT ||
        !dt_nodes_are_even(&spec->nodes))
        return DT_CONF_GROUP_WORLD;
    other.conf.distributed.shard_group = DT_CONF_GROUP_NODE;
    return total_with(&other, options, other.conf.distributed.strategy) <=
                   dt_plan_rank_share(spec, left, local_size)
               ? DT_CONF_GROUP_NODE
               : DT_CONF_GROUP_WORLD;
}

/* --- the strategy --- */

/* The first strategy that supports the offload the file asks for. */
static int least_strategy(const struct dt_conf *conf)
{
    if (conf->distributed.offload_param.device != DT_CONF_OFFLOAD_NONE)
        return DT_CONF_ZERO3;
    return conf->distributed.offload_optimizer.device != DT_CONF_OFFLOAD_NONE
               ? DT_CONF_ZERO1
               : DT_CONF_DDP;
}

/* Seconds of a step with a strategy, in the group that the run would take. */
static int predict_with(const struct dt_spec *spec,
                        const struct dt_model_options *options,
                        const struct dt_predictor *predictor,
                        struct dt_ballot *ballot, int strategy,
                        struct dt_error *err)
{
    struct dt_spec other = *spec;
    struct dt_generation_plan generation;
    struct dt_timeline step;
    other.conf.distributed.strategy = strategy;
    other.conf.distributed.shard_group =
        dt_plan_choose_group(&other, options, ballot->left, ballot->local_size);
    const struct dt_parallel_options parallel =
        dt_spec_parallel_options(&other, options->compute);
    if (dt_predict_step(predictor, &other, options, &parallel, &step,
                        &generation, err) < 0)
        return -1;
    ballot->seconds[strategy] = step.seconds;
    return 0;
}

int dt_ballot_make(const struct dt_spec *spec,
                   const struct dt_model_options *options,
                   const struct dt_predictor *predictor,
                   struct dt_ballot *ballot, struct dt_error *err)
{
    const struct dt_conf *conf = &spec->conf;
    const size_t share =
        dt_plan_rank_share(spec, ballot->left, ballot->local_size);
    ballot->kind = DT_BALLOT_GIVEN;
    ballot->least = least_strategy(conf);
    if (conf->distributed.strategy != DT_CONF_AUTO_STRATEGY || spec->world == 1)
        return 0;
    ballot->kind = conf->distributed.strategy_auto_memory ? DT_BALLOT_OPEN
                                                          : DT_BALLOT_SIZE;
    if (ballot->kind == DT_BALLOT_SIZE)
        return 0;
    ballot->keeps = conf->launch.spares > 0;
    for (int s = ballot->least; s < DT_STRATEGIES; s++) {
        ballot->lacks[s] = total_with(spec, options, s) > share;
        if (predictor &&
            predict_with(spec, options, predictor, ballot, s, err) < 0)
            return -1;
    }
    return 0;
}

int dt_strategy_by_size(const struct dt_spec *spec)
{
    size_t parameters = dt_learner_model_layout(&spec->learner)->param_total;
    return parameters < 1000000000    ? DT_CONF_DDP
           : parameters <= 7000000000 ? DT_CONF_ZERO2
                                      : DT_CONF_ZERO3;
}

/* The first that fits, or zero3. */
static int first_of(const struct dt_ballot *ballot)
{
    int s = ballot->least;
    while (s < DT_CONF_ZERO3 && ballot->lacks[s])
        s++;
    return s;
}

/* Whether ddp is taken for its copies, however fast others are. */
static bool is_kept(const struct dt_ballot *ballot)
{
    return ballot->keeps && first_of(ballot) == DT_CONF_DDP;
}

/* The first that fits and is as fast as the fastest that does. */
static int fastest_of(const struct dt_ballot *ballot)
{
    const int first = first_of(ballot);
    if (is_kept(ballot))
        return first;
    double best = ballot->seconds[first];
    for (int s = first; s < DT_STRATEGIES; s++)
        if (!ballot->lacks[s] && ballot->seconds[s] < best)
            best = ballot->seconds[s];
    for (int s = first; s < DT_STRATEGIES; s++)
        if (!ballot->lacks[s] &&
            ballot->seconds[s] <= best * (1 + DT_STRATEGY_TIE))
            return s;
    return first;
}

int dt_ballot_take(const struct dt_spec *spec, const struct dt_ballot *ballot)
{
    const struct dt_conf *conf = &spec->conf;
    int strategy = DT_CONF_DDP;
    if (ballot->kind == DT_BALLOT_OPEN)
        return fastest_of(ballot);
    if (conf->distributed.strategy != DT_CONF_AUTO_STRATEGY)
        return conf->distributed.strategy;
    if (ballot->kind == DT_BALLOT_SIZE)
        strategy = dt_strategy_by_size(spec);
    return strategy < ballot->least ? ballot->least : strategy;
}

/* --- why --- */

/* Writes why the strategy of an open ballot was taken. */
static void write_why(const struct dt_ballot *ballot, char why[192])
{
    const int first = first_of(ballot), taken = fastest_of(ballot);
    int fit = 0;
    for (int s = ballot->least; s < DT_STRATEGIES; s++)
        fit += !ballot->lacks[s];
    if (fit == 0)
        snprintf(why, 192, "none fits");
    else if (fit == 1)
        snprintf(why, 192, "the only one that fits");
    else if (is_kept(ballot))
        snprintf(why, 192,
                 "fits, and a spare node has all that a lost one had");
    else if (ballot->seconds[taken] <= 0)
        snprintf(why, 192, "the first that fits; %s", ballot->unknown);
    else if (taken == first)
        snprintf(why, 192,
                 "fits, and no other that does is predicted to be more than "
                 "%.0f %% faster",
                 100 * DT_STRATEGY_TIE);
    else
        snprintf(why, 192, "fits, predicted %.0f %% faster than %s",
                 100 * (ballot->seconds[first] / ballot->seconds[taken] - 1),
                 dt_conf_strategy_name(first));
}

const char *dt_ballot_text(const struct dt_spec *spec,
                           const struct dt_ballot *ballot, char text[256])
{
    char why[192] = "by the number of parameters";
    const int taken = dt_ballot_take(spec, ballot);
    text[0] = '\0';
    if (ballot->kind == DT_BALLOT_GIVEN)
        return text;
    if (ballot->kind == DT_BALLOT_OPEN)
        write_why(ballot, why);
    snprintf(text, 256, "%s (auto: %s)", dt_conf_strategy_name(taken), why);
    return text;
}

/* --- in a run --- */

int dt_strategy_rates(const struct dt_conf *conf, bool gpu,
                      struct dt_rates *rates, struct dt_error *err)
{
    const char *path = conf->distributed.rates;
    if (!path)
        return 0;
    if (dt_rates_load(path, rates, err) < 0)
        return dt_error_prefix(err, "distributed.rates");
    if (rates->gpu == gpu)
        return 1;
    return dt_conf_error_set(
        conf, "distributed.rates", err, "%s is of %s, and the run is on %s",
        path, rates->gpu ? "GPUs" : "CPUs", gpu ? "GPUs" : "CPUs");
}

/* Finds the rates of this run's devices without measuring. Returns whether they
 * are known; if not, writes why. -1: as dt_strategy_rates.
 */
static int find_rates(const struct dt_spec *spec,
                      struct dt_predictor *predictor, struct dt_rates *rates,
                      char unknown[128], struct dt_error *err)
{
    const char *device = spec->exec.device->describe();
    struct dt_error missing;
    int found = dt_strategy_rates(&spec->conf, predictor->gpu, rates, err);
    if (found < 0)
        return -1;
    if (!found && !dt_rates_of_device(device, predictor->gpu, rates)) {
        snprintf(unknown, 128, "no rates are known of %.*s",
                 (int)strcspn(device, ","), device);
        return 0;
    }
    if (spec->nodes.least != spec->nodes.most) {
        snprintf(unknown, 128, "nodes have %d to %d ranks", spec->nodes.least,
                 spec->nodes.most);
        return 0;
    }
    predictor->rates = rates;
    if (dt_predict_check(predictor, &spec->conf, &missing) == 0)
        return 1;
    snprintf(unknown, 128, "%.127s", missing.text);
    return 0;
}

/* Rank 0 predicts for all, as other ranks may know other rates. */
static int make_ballot(const struct dt_spec *spec,
                       const struct dt_model_options *options,
                       struct dt_ballot *ballot, struct dt_error *err)
{
    struct dt_rates rates;
    struct dt_predictor predictor = {
        .nodes = spec->nodes.count,
        .ranks = spec->nodes.most,
        .gpu = !spec->exec.device->is_host,
    };
    int known = 0;
    if (spec->rank == 0 && spec->world > 1 &&
        spec->conf.distributed.strategy == DT_CONF_AUTO_STRATEGY)
        known = find_rates(spec, &predictor, &rates, ballot->unknown, err);
    return known < 0 ? -1
                     : dt_ballot_make(spec, options, known ? &predictor : NULL,
                                      ballot, err);
}

/* Settles everything that follows from the strategy. */
static int settle_rest(struct dt_spec *spec, struct dt_model_options *options,
                       const struct dt_ballot *ballot, struct dt_error *err)
{
    long *group = &spec->conf.distributed.shard_group;
    *group = spec->given->distributed.shard_group;
    *group =
        dt_plan_choose_group(spec, options, ballot->left, ballot->local_size);
    dt_plan_spend(spec, options, ballot->left);
    return dt_plan_check(spec, options, ballot->left, ballot->local_size, err);
}

int dt_strategy_settle(struct dt_spec *spec, struct dt_model_options *options,
                       struct dt_ballot *ballot, struct dt_error *err)
{
    if (make_ballot(spec, options, ballot, err) < 0)
        return -1;
    spec->conf.distributed.strategy = dt_ballot_take(spec, ballot);
    return settle_rest(spec, options, ballot, err);
}

/* Makes all ballots equal: a strategy that does not fit on one rank fits on
 * none, and the seconds are those of rank 0.
 */
static int agree_ballot(struct dt_comm *comm, struct dt_ballot *ballot,
                        struct dt_error *err)
{
    double all[2 * DT_STRATEGIES];
    for (int s = 0; s < DT_STRATEGIES; s++) {
        all[s] = ballot->lacks[s];
        all[DT_STRATEGIES + s] = ballot->seconds[s];
    }
    if (dt_comm_reduce_scalars(comm, all, 2 * DT_STRATEGIES, DT_MAX, err) < 0)
        return -1;
    for (int s = 0; s < DT_STRATEGIES; s++) {
        ballot->lacks[s] = all[s] > 0;
        ballot->seconds[s] = all[DT_STRATEGIES + s];
    }
    return 0;
}

int dt_strategy_agree(struct dt_spec *spec, struct dt_comm *comm,
                      struct dt_model_options *options,
                      struct dt_ballot *ballot, struct dt_error *err)
{
    struct dt_conf *conf = &spec->conf;
    const int mine = conf->distributed.strategy;
    if (spec->world == 1)
        return 0;
    if (ballot->kind == DT_BALLOT_OPEN) {
        if (agree_ballot(comm, ballot, err) < 0)
            return -1;
        conf->distributed.strategy = dt_ballot_take(spec, ballot);
    }
    if (conf->distributed.strategy != mine &&
        settle_rest(spec, options, ballot, err) < 0)
        return -1;
    dt_ballot_text(spec, ballot, spec->strategy);
    double world = conf->distributed.shard_group == DT_CONF_GROUP_WORLD;
    if (dt_comm_reduce_scalars(comm, &world, 1, DT_MAX, err) < 0)
        return -1;
    if (world > 0)
        conf->distributed.shard_group = DT_CONF_GROUP_WORLD;
    return 0;
}
