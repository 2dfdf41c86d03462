/* SPDX-License-Identifier: Apache-2.0 */
/* candidates.c - what a run would take with each strategy */
#include "config.h"

#include <stdlib.h>
#include <string.h>

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

const char *dt_candidate_tier(int offload)
{
    static const char *const names[] = {[DT_CONF_OFFLOAD_NONE] = "none",
                                        [DT_CONF_OFFLOAD_CPU] = "cpu",
                                        [DT_CONF_OFFLOAD_NVME] = "nvme"};
    return names[offload];
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

/* What is offloaded moves at these rates. */
static int check_offload(const struct dt_rates *rates, int state,
                         struct dt_error *err)
{
    static const enum dt_rate gpu[] = {DT_RATE_PCIE_UP, DT_RATE_PCIE_DOWN,
                                       DT_RATE_HOST_MEMORY};
    static const enum dt_rate drive[] = {DT_RATE_DRIVE_READ,
                                         DT_RATE_DRIVE_WRITE};
    if (state == DT_CONF_OFFLOAD_NONE)
        return 0;
    for (int i = 0; rates->gpu && i < 3; i++)
        if (need_rate(rates, gpu[i], err) < 0)
            return -1;
    for (int i = 0; state == DT_CONF_OFFLOAD_NVME && i < 2; i++)
        if (need_rate(rates, drive[i], err) < 0)
            return -1;
    return 0;
}

static int check_rates(const struct dt_candidates *c, struct dt_error *err)
{
    const struct dt_conf *conf = &c->run.conf;
    const struct dt_rates *rates = &c->size.rates;
    if ((c->size.ranks > 1 && need_rate(rates, DT_RATE_NODE, err) < 0) ||
        (c->size.nodes > 1 && need_rate(rates, DT_RATE_NETWORK, err) < 0))
        return -1;
    return check_offload(rates, conf->distributed.offload_optimizer.device,
                         err);
}

/* Seconds of the units of a learner in a micro-batch. */
static void fill_units(const struct dt_candidates *c, const struct dt_run *run,
                       const struct dt_learner *learner,
                       const struct dt_rates *rates,
                       struct dt_unit_seconds *units)
{
    const struct dt_step_shape shape = dt_step_shape_of(run);
    const enum dt_dtype compute = c->options.compute;
    struct dt_model_options options = c->options;
    options.B = shape.rows;
    options.T = shape.T;
    dt_cost_units(&learner->model_config, dt_learner_model_layout(learner),
                  &options, rates, units);
    if (learner != &run->learner)
        return;
    if (shape.values > 0) /* logits of values are computed twice */
        units[learner->layout->unit_count - 1].backward =
            dt_cost_head(&learner->model_config, 1, shape.values) * 8 / 6 /
            dt_rates_head(rates, compute);
    if (shape.references)
        units[0].forward += dt_forward_seconds(
            learner, rates, compute, (double)shape.rows, shape.T,
            (double)(shape.values > 0 ? shape.values : shape.rows * shape.T));
}

static void add_step(struct dt_timeline *to, const struct dt_timeline *from)
{
    to->seconds += from->seconds;
    to->in_node += from->in_node;
    to->out_of_node += from->out_of_node;
    to->drive_read += from->drive_read;
    to->drive_written += from->drive_written;
    for (int i = 0; i < DT_RESOURCES; i++)
        to->busy[i] += from->busy[i];
}

/* The passes through frozen weights; what is left of the step is then the sums
 * and updates of the adapter beside them.
 */
static int time_frozen(const struct dt_learner *learner,
                       const struct dt_timeline_options *like,
                       const struct dt_parallel_options *parallel,
                       struct dt_unit_seconds *units, struct dt_timeline *step,
                       struct dt_error *err)
{
    const struct dt_parallel_options frozen =
        dt_learner_frozen_options(parallel);
    struct dt_timeline_options options = *like;
    struct dt_timeline own;
    options.layout = learner->frozen.layout;
    options.parallel = &frozen;
    if (dt_timeline_make(&options, &own, err) < 0)
        return -1;
    add_step(step, &own);
    memset(units, 0, learner->layout->unit_count * sizeof(*units));
    return 0;
}

/* Learners take turns, and each step has its share of the generation. */
static int time_step(const struct dt_candidates *c, const struct dt_run *run,
                     const struct dt_parallel_options *parallel,
                     struct dt_unit_seconds *units, struct dt_timeline *step,
                     struct dt_error *err)
{
    const struct dt_rates rates = dt_rates_for(&c->size.rates, c->size.ranks);
    const struct dt_learner *learners[] = {&run->learner, &run->critic};
    struct dt_timeline own;
    *step = (struct dt_timeline){0};
    for (size_t i = 0; i < 2 && learners[i]->layout; i++) {
        const struct dt_parallel_options trained =
            dt_learner_trained_options(learners[i], parallel);
        fill_units(c, run, learners[i], &rates, units);
        struct dt_timeline_options timeline = {
            .layout = learners[i]->layout,
            .parallel = &trained,
            .rates = &rates,
            .units = units,
            .micro_batches = dt_step_shape_of(run).micro_batches,
            .world = run->world,
            .node_size = c->size.ranks,
            .rings = c->size.gpu,
        };
        if (learners[i]->frozen.layout &&
            time_frozen(learners[i], &timeline, parallel, units, step, err) < 0)
            return -1;
        if (dt_timeline_make(&timeline, &own, err) < 0)
            return -1;
        add_step(step, &own);
    }
    return 0;
}

/* The share of a step in its generation, during which a device only waits for
 * weights.
 */
static void add_generation(const struct dt_candidates *c,
                           const struct dt_run *run, struct dt_candidate *one)
{
    const struct dt_rates rates = dt_rates_for(&c->size.rates, c->size.ranks);
    const struct dt_generation_plan plan =
        dt_generation_plan_make(run, &c->options, &rates, c->size.ranks);
    struct dt_timeline share = {0};
    one->generation = plan;
    if (plan.completions == 0)
        return;
    share.seconds = dt_generation_seconds(&plan) / (double)plan.uses;
    share.busy[DT_ON_DEVICE] = share.seconds - plan.gather / (double)plan.uses;
    add_step(&one->step, &share);
    if (one->between_nodes)
        add_step(&one->other, &share);
}

/* A step as the run would do it, and with the other reduce_between_nodes where
 * that makes a difference.
 */
static int predict_step(struct dt_candidates *c, struct dt_candidate *one,
                        const struct dt_run *run, struct dt_unit_seconds *units,
                        struct dt_error *err)
{
    enum dt_dtype compute = c->options.compute;
    const struct dt_parallel_options parallel =
        dt_run_parallel_options(run, compute);
    struct dt_run changed = *run;
    changed.conf.distributed.int8_between_nodes = !parallel.int8;
    const struct dt_parallel_options other =
        dt_run_parallel_options(&changed, compute);
    if (parallel.strategy >= DT_ZERO2)
        one->group = parallel.hybrid ? parallel.group : run->world;
    one->int8 = parallel.int8;
    one->between_nodes = other.int8 != parallel.int8;
    if (time_step(c, run, &parallel, units, &one->step, err) < 0 ||
        (one->between_nodes &&
         time_step(c, &changed, &other, units, &one->other, err) < 0))
        return -1;
    add_generation(c, run, one);
    const struct dt_step_shape shape = dt_step_shape_of(run);
    one->tokens_a_second =
        (double)(shape.rows * shape.T * shape.micro_batches) * run->world /
        one->step.seconds;
    return 0;
}

/* --- bytes --- */

/* Bytes by which all ranks of a node exceed its memory. */
static size_t host_lack(const struct dt_candidates *c,
                        const struct dt_plan *plan)
{
    size_t all = plan->host * (size_t)c->size.ranks;
    return all > c->size.host ? all - c->size.host : 0;
}

/* What a candidate is. */
struct kind {
    int strategy, state, weights;
};

static int add_candidate(struct dt_candidates *c, const struct kind *kind,
                         struct dt_unit_seconds *units, struct dt_error *err)
{
    struct dt_candidate *one = &c->all[c->count++];
    struct dt_run run = c->run;
    struct dt_model_options options = c->options;
    run.conf.distributed.strategy = kind->strategy;
    run.conf.distributed.offload_optimizer.device = kind->state;
    run.conf.distributed.offload_param.device = kind->weights;
    run.conf.distributed.shard_group =
        dt_plan_choose_group(&run, &options, c->share, 1);
    dt_plan_spend(&run, &options, c->share);
    *one = (struct dt_candidate){
        .strategy = kind->strategy,
        .state = kind->state,
        .weights = kind->weights,
        .saves_activations = options.save_activations,
        .group = 1,
        .plan = dt_plan_make(&run, &options),
    };
    one->total = dt_plan_total(&one->plan);
    one->lacks = one->total > c->share ? one->total - c->share : 0;
    one->lacks_host = host_lack(c, &one->plan);
    return predict_step(c, one, &run, units, err);
}

enum { MOST_ROWS = 1 << 20 };

static bool rows_fit(const struct dt_candidates *c, const struct dt_run *run,
                     size_t rows)
{
    struct dt_model_options options = c->options;
    if (run->tokens > 0) /* of pairs and completions, one behind another */
        options.T = rows * (run->tokens / run->B);
    else
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

/* Those that offload what the file says; ddp offloads nothing. */
static int add_as_given(struct dt_candidates *c, struct dt_unit_seconds *units,
                        struct dt_error *err)
{
    const struct dt_conf *conf = &c->run.conf;
    struct kind kind = {0, conf->distributed.offload_optimizer.device,
                        conf->distributed.offload_param.device};
    int taken = dt_plan_choose(&c->run, &c->options, c->share, 1);
    int first =
        kind.state == DT_CONF_OFFLOAD_NONE ? DT_CONF_DDP : DT_CONF_ZERO1;
    for (int s = DT_CONF_DDP; s <= DT_CONF_ZERO3; s++) {
        kind.strategy = s;
        if (s != taken && (c->run.world == 1 || s < first))
            continue;
        if (add_candidate(c, &kind, units, err) < 0)
            return -1;
        if (s == taken)
            c->taken = &c->all[c->count - 1];
    }
    c->as_given = c->count;
    return 0;
}

/* Those that offload more, if the file offloads nothing: to host memory where
 * the device is not the host, and to a drive, if their rates are known.
 */
static int add_offloaded(struct dt_candidates *c, struct dt_unit_seconds *units,
                         struct dt_error *err)
{
    static const struct kind more[] = {
        {DT_CONF_ZERO1, DT_CONF_OFFLOAD_CPU, DT_CONF_OFFLOAD_NONE},
        {DT_CONF_ZERO3, DT_CONF_OFFLOAD_CPU, DT_CONF_OFFLOAD_NONE},
        {DT_CONF_ZERO3, DT_CONF_OFFLOAD_CPU, DT_CONF_OFFLOAD_CPU},
        {DT_CONF_ZERO3, DT_CONF_OFFLOAD_NVME, DT_CONF_OFFLOAD_NONE},
    };
    struct dt_error unknown;
    if (c->run.conf.distributed.offload_optimizer.device !=
        DT_CONF_OFFLOAD_NONE)
        return 0;
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        if ((more[i].state == DT_CONF_OFFLOAD_CPU && !c->size.gpu) ||
            check_offload(&c->size.rates, more[i].state, &unknown) < 0)
            continue;
        if (add_candidate(c, &more[i], units, err) < 0)
            return -1;
    }
    return 0;
}

static int add_all(struct dt_candidates *c, struct dt_error *err)
{
    size_t most = dt_learner_model_layout(&c->run.learner)->unit_count;
    if (c->run.critic.layout && c->run.critic.layout->unit_count > most)
        most = c->run.critic.layout->unit_count;
    struct dt_unit_seconds *units = calloc(most, sizeof(*units));
    if (!units)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = add_as_given(c, units, err);
    if (rc == 0)
        rc = add_offloaded(c, units, err);
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
    c->guide = guide_strategy(
        (double)dt_learner_model_layout(&c->run.learner)->param_total);
    return 0;
}

void dt_candidates_fini(struct dt_candidates *c)
{
    dt_learner_fini(&c->run.learner);
    dt_learner_fini(&c->run.critic);
}
