/* SPDX-License-Identifier: Apache-2.0 */
/* candidates.c - what a run would take with each strategy */
#include "config.h"

#include <stdlib.h>

#include "algo/candidates.h"
#include "forecast/cost.h"
#include "ops/workspace.h"

/* What is left of a GPU to CUDA, NCCL and pages that are not full: estimates.
 */
static const size_t RESERVE_BYTES = (size_t)512 << 20;
enum { RESERVE_PERCENT = 4 };

/* A GPU where there is none: plans ask nothing else of a device. */
static const struct dt_device planned_gpu = {.name = "cuda"};

const char *dt_candidate_name(int strategy)
{
    static const char *const names[] = {
        [DT_CONF_AUTO_STRATEGY] = "auto", [DT_CONF_DDP] = "ddp",
        [DT_CONF_ZERO1] = "zero1",        [DT_CONF_ZERO2] = "zero2",
        [DT_CONF_ZERO3] = "zero3",
    };
    return names[strategy];
}

/* Guide 004's rule. */
static int guide_strategy(double parameters)
{
    return parameters < 1e9    ? DT_CONF_DDP
           : parameters <= 7e9 ? DT_CONF_ZERO2
                               : DT_CONF_ZERO3;
}

static size_t rank_share(const struct dt_candidates *c)
{
    size_t memory = c->size.memory;
    if (memory == SIZE_MAX || !c->size.gpu)
        return memory == SIZE_MAX ? memory : memory / (size_t)c->size.ranks;
    return memory > c->reserve ? memory - c->reserve : 0;
}

/* --- time --- */

static int need_rate(const struct dt_rates *rates, enum dt_rate rate,
                     struct dt_error *err)
{
    if (dt_rates_has(rates, rate))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s has no rate '%s', which this job needs; measure it "
                        "with disttrain doctor --rates in a step of as many "
                        "nodes and ranks, or add a line 'like: NAME'",
                        rates->from, dt_rate_name(rate));
}

static int check_rates(const struct dt_candidates *c, struct dt_error *err)
{
    const struct dt_rates *rates = &c->size.rates;
    if (c->size.ranks > 1 && need_rate(rates, DT_RATE_NODE, err) < 0)
        return -1;
    return c->size.nodes > 1 ? need_rate(rates, DT_RATE_NETWORK, err) : 0;
}

static int predict_step(struct dt_candidates *c, struct dt_candidate *one,
                        const struct dt_run *run, struct dt_unit_seconds *units,
                        struct dt_error *err)
{
    const struct dt_rates rates = dt_rates_for(&c->size.rates, c->size.ranks);
    const struct dt_parallel_options parallel =
        dt_run_parallel_options(run, c->options.compute);
    struct dt_model_options options = c->options;
    options.B = run->B;
    dt_cost_units(&run->model_config, run->layout, &options, &rates, units);
    const struct dt_timeline_options timeline = {
        .layout = run->layout,
        .parallel = &parallel,
        .rates = &rates,
        .units = units,
        .micro_batches = run->A,
        .world = run->world,
        .node_size = c->size.ranks,
        .shard_size = parallel.hybrid ? parallel.group : run->world,
        .two_level = parallel.group > 0,
        .rings = c->size.gpu,
    };
    if (dt_timeline_make(&timeline, &one->step, err) < 0)
        return -1;
    one->tokens_a_second =
        (double)(run->B * run->T * run->A) * run->world / one->step.seconds;
    return 0;
}

/* --- bytes --- */

static int add_candidate(struct dt_candidates *c, int strategy,
                         struct dt_unit_seconds *units, struct dt_error *err)
{
    struct dt_candidate *one = &c->all[c->count++];
    struct dt_run run = c->run;
    struct dt_model_options options = c->options;
    run.conf.distributed.strategy = strategy;
    run.conf.distributed.shard_group =
        dt_plan_choose_group(&run, &options, c->share, 1);
    options.save_activations = dt_plan_can_save(&run, &options, c->share);
    *one = (struct dt_candidate){
        .strategy = strategy,
        .saves_activations = options.save_activations,
        .plan = dt_plan_make(&run, &options),
    };
    one->total = dt_plan_total(&one->plan);
    one->lacks = one->total > c->share ? one->total - c->share : 0;
    return predict_step(c, one, &run, units, err);
}

enum { MOST_ROWS = 1 << 20 };

static bool rows_fit(const struct dt_candidates *c, const struct dt_run *run,
                     size_t rows)
{
    struct dt_model_options options = c->options;
    options.B = rows;
    struct dt_plan plan = dt_plan_make(run, &options);
    return dt_plan_total(&plan) <= c->share;
}

/* The most rows that fit, by bisection. */
static size_t most_rows(const struct dt_candidates *c)
{
    struct dt_run run = c->run;
    size_t fit = 0, too_many = MOST_ROWS;
    run.conf.distributed.strategy = c->taken->strategy;
    if (c->share == SIZE_MAX)
        return SIZE_MAX;
    while (fit + 1 < too_many) {
        size_t rows = fit + (too_many - fit) / 2;
        if (rows_fit(c, &run, rows))
            fit = rows;
        else
            too_many = rows;
    }
    return fit;
}

static int add_all(struct dt_candidates *c, struct dt_error *err)
{
    struct dt_unit_seconds *units =
        calloc(c->run.layout->unit_count, sizeof(*units));
    int taken = dt_plan_choose(&c->run, &c->options, c->share, 1), rc = 0;
    bool alone = c->run.world == 1;
    int first = alone ? taken : DT_CONF_DDP;
    int last = alone ? taken : DT_CONF_ZERO3;
    if (!units)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (int s = first; rc == 0 && s <= last; s++) {
        rc = add_candidate(c, s, units, err);
        if (s == taken)
            c->taken = &c->all[c->count - 1];
    }
    free(units);
    return rc;
}

int dt_candidates_init(struct dt_candidates *c, const struct dt_conf *conf,
                       const struct dt_job_size *size, struct dt_error *err)
{
    *c = (struct dt_candidates){.size = *size};
    c->run.conf = *conf;
    c->run.world = size->nodes * size->ranks;
    c->run.nodes = (struct dt_nodes){
        .count = size->nodes, .least = size->ranks, .most = size->ranks};
    c->run.exec = size->gpu ? (struct dt_exec){.device = &planned_gpu,
                                               .ops = dt_ops_planned_gpu()}
                            : dt_exec_cpu();
    if (size->gpu && size->memory != SIZE_MAX)
        c->reserve = RESERVE_BYTES + size->memory / 100 * RESERVE_PERCENT;
    c->share = rank_share(c);
    if (dt_run_resolve(&c->run, &c->options, err) < 0 ||
        check_rates(c, err) < 0 || add_all(c, err) < 0)
        return -1;
    c->most_rows = most_rows(c);
    c->guide = guide_strategy((double)c->run.layout->param_total);
    return 0;
}

void dt_candidates_fini(struct dt_candidates *c)
{
    dt_layout_destroy(c->run.layout);
    dt_model_config_fini(&c->run.model_config);
}
