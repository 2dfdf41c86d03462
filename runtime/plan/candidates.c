/* SPDX-License-Identifier: Apache-2.0 */
/* candidates.c - bytes and seconds of a run with each strategy */
#include "config.h"

#include "ops/workspace.h"
#include "plan/candidates.h"
#include "plan/plan.h"
#include "plan/reward_models.h"
#include "run/data.h"
#include "run/sharing.h"

/* GPU memory reserved for CUDA, NCCL and partly filled pages: estimates. */
static const size_t RESERVE_BYTES = (size_t)512 << 20;
enum { RESERVE_PERCENT = 4 };

/* A GPU on a host without one: plans ask nothing else of a device. */
static const struct dt_device planned_gpu = {.name = "cuda"};

const char *dt_candidate_tier(int offload)
{
    static const char *const names[] = {[DT_CONF_OFFLOAD_NONE] = "none",
                                        [DT_CONF_OFFLOAD_CPU] = "cpu",
                                        [DT_CONF_OFFLOAD_NVME] = "nvme"};
    return names[offload];
}

static size_t rank_share(const struct dt_candidates *c)
{
    size_t memory = c->size.memory;
    if (memory == SIZE_MAX || !c->size.gpu)
        return memory == SIZE_MAX ? memory : memory / (size_t)c->size.ranks;
    return memory > c->reserve ? memory - c->reserve : 0;
}

static struct dt_predictor predictor_of(const struct dt_candidates *c)
{
    return (struct dt_predictor){
        .rates = &c->size.rates,
        .nodes = c->size.nodes,
        .ranks = c->size.ranks,
        .gpu = c->size.gpu,
    };
}

/* Predicts a step as the run would do it and, where it makes a difference, with
 * the other reduce_between_nodes.
 */
static int predict_step(struct dt_candidates *c, struct dt_candidate *one,
                        const struct dt_spec *spec, struct dt_error *err)
{
    const struct dt_predictor predictor = predictor_of(c);
    enum dt_dtype compute = c->options.compute;
    const struct dt_parallel_options parallel =
        dt_spec_parallel_options(spec, compute);
    struct dt_spec changed = *spec;
    changed.conf.distributed.int8_between_nodes = !parallel.int8;
    const struct dt_parallel_options other =
        dt_spec_parallel_options(&changed, compute);
    if (parallel.strategy >= DT_ZERO2)
        one->group = parallel.hybrid ? parallel.group : spec->world;
    one->int8 = parallel.int8;
    one->between_nodes = other.int8 != parallel.int8;
    if (dt_predict_step(&predictor, spec, &c->options, &parallel, &one->step,
                        &one->generation, err) < 0 ||
        (one->between_nodes &&
         dt_predict_step(&predictor, &changed, &c->options, &other, &one->other,
                         &one->generation, err) < 0))
        return -1;
    const struct dt_step_shape shape = dt_step_shape_of(spec);
    one->tokens_a_second =
        (double)(shape.rows * shape.T * shape.micro_batches) * spec->world /
        one->step.seconds;
    return 0;
}

/* --- bytes --- */

/* Bytes by which the ranks of a node together exceed its memory. */
static size_t host_lack(const struct dt_candidates *c,
                        const struct dt_plan *plan)
{
    size_t all = plan->host * (size_t)c->size.ranks;
    return all > c->size.host ? all - c->size.host : 0;
}

/* The choices that make a candidate. */
struct kind {
    int strategy, state, weights;
};

static int add_candidate(struct dt_candidates *c, const struct kind *kind,
                         struct dt_error *err)
{
    struct dt_candidate *one = &c->all[c->count++];
    struct dt_spec spec = c->spec;
    struct dt_model_options options = c->options;
    spec.conf.distributed.strategy = kind->strategy;
    spec.conf.distributed.offload_optimizer.device = kind->state;
    spec.conf.distributed.offload_param.device = kind->weights;
    spec.conf.distributed.shard_group =
        dt_plan_choose_group(&spec, &options, c->share, 1);
    dt_plan_spend(&spec, &options, c->share);
    *one = (struct dt_candidate){
        .strategy = kind->strategy,
        .state = kind->state,
        .weights = kind->weights,
        .saves_activations = options.save_activations,
        .group = 1,
        .plan = dt_plan_make(&spec, &options),
    };
    one->total = dt_plan_total(&one->plan);
    one->lacks = one->total > c->share ? one->total - c->share : 0;
    one->lacks_host = host_lack(c, &one->plan);
    return predict_step(c, one, &spec, err);
}

enum { MOST_ROWS = 1 << 20 };

static bool rows_fit(const struct dt_candidates *c, const struct dt_spec *spec,
                     size_t rows)
{
    struct dt_model_options options = c->options;
    if (spec->tokens >
        0) /* pairs and completions follow each other in one row */
        dt_plan_resize(&options, options.B, rows * (spec->tokens / spec->B));
    else
        dt_plan_resize(&options, rows, options.T);
    struct dt_plan plan = dt_plan_make(spec, &options);
    return dt_plan_total(&plan) <= c->share;
}

/* Largest number of rows that fits, by bisection. */
static size_t most_rows(const struct dt_candidates *c)
{
    struct dt_spec spec = c->spec;
    size_t fit = 0, too_many = MOST_ROWS;
    spec.conf.distributed.strategy = c->taken->strategy;
    if (c->share == SIZE_MAX)
        return SIZE_MAX;
    while (fit + 1 < too_many) {
        size_t rows = fit + (too_many - fit) / 2;
        if (rows_fit(c, &spec, rows))
            fit = rows;
        else
            too_many = rows;
    }
    return fit;
}

/* Adds the candidates that offload as the file says; ddp offloads nothing. */
static int add_as_given(struct dt_candidates *c, struct dt_error *err)
{
    const struct dt_conf *conf = &c->spec.conf;
    struct kind kind = {0, conf->distributed.offload_optimizer.device,
                        conf->distributed.offload_param.device};
    const struct dt_predictor predictor = predictor_of(c);
    c->ballot = (struct dt_ballot){.left = c->share, .local_size = 1};
    if (dt_ballot_make(&c->spec, &c->options, &predictor, &c->ballot, err) < 0)
        return -1;
    int taken = dt_ballot_take(&c->spec, &c->ballot);
    int first =
        kind.state == DT_CONF_OFFLOAD_NONE ? DT_CONF_DDP : DT_CONF_ZERO1;
    for (int s = DT_CONF_DDP; s <= DT_CONF_ZERO3; s++) {
        kind.strategy = s;
        if (s != taken && (c->spec.world == 1 || s < first))
            continue;
        if (add_candidate(c, &kind, err) < 0)
            return -1;
        if (s == taken)
            c->taken = &c->all[c->count - 1];
    }
    c->as_given = c->count;
    return 0;
}

/* Adds the candidates that offload more, if the file offloads nothing: to host
 * memory, unless the device is the host, and to a drive, if their rates are
 * known.
 */
static int add_offloaded(struct dt_candidates *c, struct dt_error *err)
{
    static const struct kind more[] = {
        {DT_CONF_ZERO1, DT_CONF_OFFLOAD_CPU, DT_CONF_OFFLOAD_NONE},
        {DT_CONF_ZERO3, DT_CONF_OFFLOAD_CPU, DT_CONF_OFFLOAD_NONE},
        {DT_CONF_ZERO3, DT_CONF_OFFLOAD_CPU, DT_CONF_OFFLOAD_CPU},
        {DT_CONF_ZERO3, DT_CONF_OFFLOAD_NVME, DT_CONF_OFFLOAD_NONE},
    };
    struct dt_error unknown;
    if (c->spec.conf.distributed.offload_optimizer.device !=
        DT_CONF_OFFLOAD_NONE)
        return 0;
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        if ((more[i].state == DT_CONF_OFFLOAD_CPU && !c->size.gpu) ||
            dt_predict_check_offload(&c->size.rates, more[i].state, &unknown) <
                0)
            continue;
        if (add_candidate(c, &more[i], err) < 0)
            return -1;
    }
    return 0;
}

/* Counts the pictures of data that are prepared. */
static int count_pictures(struct dt_candidates *c, struct dt_error *err)
{
    struct dt_run_data data = {.images = &c->spec.images, .cached = true};
    struct dt_error unknown;
    int rc = 0;
    if (c->spec.images.there &&
        dt_run_data_open(&data, &c->spec.conf,
                         c->spec.learner.config.vocab_size, false,
                         &unknown) == 0)
        rc = dt_spec_take_pictures(&c->spec, &data, &c->options, err);
    if (rc == 0 && data.prompts)
        rc = dt_plan_rewards(&c->spec, &data, c->options.compute, err);
    dt_run_data_fini(&data);
    return rc;
}

int dt_candidates_init(struct dt_candidates *c, const struct dt_conf *conf,
                       const struct dt_job_size *size, struct dt_error *err)
{
    *c = (struct dt_candidates){.size = *size};
    c->spec.conf = *conf;
    c->spec.world = size->nodes * size->ranks;
    c->spec.nodes = (struct dt_nodes){
        .count = size->nodes, .least = size->ranks, .most = size->ranks};
    c->spec.exec = size->gpu ? (struct dt_exec){.device = &planned_gpu,
                                                .ops = dt_ops_planned_gpu()}
                             : dt_exec_cpu();
    if (size->gpu && size->memory != SIZE_MAX)
        c->reserve = RESERVE_BYTES + size->memory / 100 * RESERVE_PERCENT;
    c->share = rank_share(c);
    const struct dt_predictor predictor = predictor_of(c);
    if (dt_plan_resolve(&c->spec, &c->options, err) < 0 ||
        count_pictures(c, err) < 0 ||
        dt_predict_check(&predictor, conf, err) < 0 ||
        add_as_given(c, err) < 0 || add_offloaded(c, err) < 0)
        return -1;
    c->most_rows = most_rows(c);
    c->guide = dt_strategy_by_size(&c->spec);
    return 0;
}

void dt_candidates_fini(struct dt_candidates *c)
{
    dt_spec_fini(&c->spec);
}
