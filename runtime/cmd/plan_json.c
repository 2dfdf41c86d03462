/* SPDX-License-Identifier: Apache-2.0 */
/* plan_json.c - `disttrain plan --json` */
#include "config.h"

#include <stdint.h>

#include <jansson.h>

#include "cmd/plan_out.h"
#include "train/train.h"

static json_t *number_of(size_t n)
{
    return n == SIZE_MAX ? json_null() : json_integer((json_int_t)n);
}

static json_t *bytes_of(const struct dt_candidate *one)
{
    const struct dt_plan *plan = &one->plan;
    const struct {
        const char *name;
        size_t bytes;
    } parts[] = {
        {"weights", plan->weights},     {"master", plan->master},
        {"gradients", plan->gradients}, {"optimizer", plan->optimizer},
        {"tiles", plan->tiles},         {"activations", plan->activations},
        {"batches", plan->batches},     {"reference", plan->reference},
        {"critic", plan->critic},       {"rewards", plan->rewards},
        {"total", one->total},          {"host", plan->host},
        {"nvme", plan->nvme},
    };
    json_t *bytes = json_object();
    for (size_t i = 0; bytes && i < sizeof(parts) / sizeof(parts[0]); i++)
        json_object_set_new(bytes, parts[i].name, number_of(parts[i].bytes));
    return bytes;
}

static json_t *seconds_of(const struct dt_timeline *step)
{
    json_t *busy = json_object();
    for (int i = 0; busy && i < DT_RESOURCES; i++)
        json_object_set_new(busy, dt_resource_name((enum dt_resource)i),
                            json_real(step->busy[i]));
    return json_pack("{sf sf so}", "step", step->seconds, "waits",
                     step->seconds - step->busy[DT_ON_DEVICE], "busy", busy);
}

/* The step with each value of reduce_between_nodes; null if nodes do not share
 * a sum.
 */
static json_t *between_of(const struct dt_candidate *one)
{
    const struct dt_timeline *native = one->int8 ? &one->other : &one->step;
    const struct dt_timeline *int8 = one->int8 ? &one->step : &one->other;
    if (!one->between_nodes)
        return json_null();
    return json_pack("{ss s{sf sf} s{sf sf}}", "choice",
                     one->int8 ? "int8" : "native", "native", "step",
                     native->seconds, "out_of_node_by_node",
                     native->out_of_node, "int8", "step", int8->seconds,
                     "out_of_node_by_node", int8->out_of_node);
}

/* The generation that is sampled for several steps; null if the run samples
 * nothing.
 */
static json_t *generation_of(const struct dt_generation_plan *g)
{
    if (g->completions == 0)
        return json_null();
    return json_pack("{so so so so s{sf sf sf sf sf}}", "completions",
                     number_of(g->completions), "optimizer_steps",
                     number_of(g->uses), "slots", number_of(g->slots),
                     "cache_bytes", number_of(g->bytes), "seconds", "gather",
                     g->gather, "prefill", g->prefill, "decode", g->decode,
                     "scoring", g->scoring, "before", g->before);
}

static json_t *candidate_of(const struct dt_candidates *c,
                            const struct dt_candidate *one)
{
    return json_pack("{ss ss ss sb sb sb si so so so so so so so so sf}",
                     "strategy", dt_conf_strategy_name(one->strategy),
                     "offload_optimizer", dt_candidate_tier(one->state),
                     "offload_param", dt_candidate_tier(one->weights), "taken",
                     one == c->taken, "fits",
                     one->lacks == 0 && one->lacks_host == 0,
                     "saves_activations", one->saves_activations, "shard_group",
                     one->group, "reduce_between_nodes", between_of(one),
                     "bytes", bytes_of(one), "lacks", number_of(one->lacks),
                     "lacks_host", number_of(one->lacks_host), "wire_bytes",
                     json_pack("{sf sf}", "in_node_by_rank", one->step.in_node,
                               "out_of_node_by_node", one->step.out_of_node),
                     "drive_bytes",
                     json_pack("{sf sf}", "read_by_node", one->step.drive_read,
                               "written_by_node", one->step.drive_written),
                     "seconds", seconds_of(&one->step), "generation",
                     generation_of(&one->generation), "tokens_per_second",
                     one->tokens_a_second);
}

static json_t *candidates_of(const struct dt_candidates *c)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < c->count; i++)
        json_array_append_new(list, candidate_of(c, &c->all[i]));
    return list;
}

static json_t *rates_of(const struct dt_rates *rates)
{
    json_t *of = json_object();
    for (int i = 0; of && i < DT_RATES; i++)
        if (dt_rates_has(rates, (enum dt_rate)i))
            json_object_set_new(of, dt_rate_name((enum dt_rate)i),
                                json_real(rates->of[i]));
    return json_pack("{ss sb si so}", "from", rates->from, "measured",
                     rates->measured, "ranks_per_node",
                     (int)rates->ranks_per_node, "values", of);
}

/* The optimizer steps of the whole run, and their seconds as predicted; null if
 * that depends on the data.
 */
static json_t *whole_of(const struct dt_candidates *c)
{
    const long steps = dt_spec_count_steps(&c->spec, 0);
    return steps == 0
               ? json_null()
               : json_pack("{sI sf}", "steps", (json_int_t)steps, "seconds",
                           c->taken->step.seconds * (double)steps);
}

static json_t *batch_of(const struct dt_spec *spec)
{
    const struct dt_step_shape shape = dt_step_shape_of(spec);
    return json_pack("{so so so}", "rows", number_of(shape.rows), "tokens",
                     number_of(shape.T), "micro_batches",
                     number_of(shape.micro_batches));
}

int dt_plan_out_json(const struct dt_candidates *c, const char *file, FILE *out,
                     struct dt_error *err)
{
    const struct dt_spec *spec = &c->spec;
    char strategy[256];
    dt_ballot_text(spec, &c->ballot, strategy);
    json_t *all = json_pack(
        "{ss ss so si si ss so so so so so ss ss? so so}", "file", file,
        "model", dt_model_family_name(spec->learner.config.family),
        "parameters",
        number_of(dt_learner_model_layout(&spec->learner)->param_total),
        "nodes", c->size.nodes, "ranks_per_node", c->size.ranks, "device",
        c->size.gpu ? "cuda" : "cpu", "batch", batch_of(spec), "whole_run",
        whole_of(c), "memory", number_of(c->size.memory), "memory_for_rank",
        number_of(c->share), "largest_micro_batch", number_of(c->most_rows),
        "guide", dt_conf_strategy_name(c->guide), "strategy_why",
        strategy[0] ? strategy : NULL, "rates", rates_of(&c->size.rates),
        "candidates", candidates_of(c));
    char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    json_decref(all);
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    fprintf(out, "%s\n", text);
    free(text);
    return 0;
}
