/* SPDX-License-Identifier: Apache-2.0 */
/* plan_out.c - the output of `disttrain plan`: a table, or JSON */
#include "config.h"

#include <stdint.h>

#include <jansson.h>

#include "base/str.h"
#include "cmd/cmd_impl.h"
#include "page/page.h"
#include "plan/candidates.h"
#include "train/train.h"

/* --- the table --- */

enum { BYTES_TEXT = 24 };

const char *dt_plan_out_bytes(double bytes, char *text)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    size_t unit = 0;
    for (bytes /= 1e3; bytes >= 1000 && unit < 3; unit++)
        bytes /= 1e3;
    snprintf(text, BYTES_TEXT, bytes < 10 ? "%.2f %s" : "%.1f %s", bytes,
             units[unit]);
    return text;
}

static const char *size_text(size_t bytes, char *text)
{
    if (bytes != SIZE_MAX)
        return dt_plan_out_bytes((double)bytes, text);
    snprintf(text, BYTES_TEXT, "more than 16 EB");
    return text;
}

/* What is trained of a model with a tower, and what the tower sees. */
static void print_pictures(const struct dt_spec *spec,
                           const struct dt_model_options *options, FILE *out)
{
    char parts[DT_PARTS_TEXT], images[DT_IMAGES_TEXT];
    if (!spec->images.there)
        return;
    if (!dt_learner_adapts(&spec->learner))
        fprintf(out, "%s\n", dt_learner_parts_text(&spec->learner, parts));
    fprintf(out, "images: %s; a micro-batch has at most %zu patches%s\n",
            dt_run_images_text(&spec->images, images), options->patches,
            spec->images.counted
                ? ""
                : ", if all its tokens are images (disttrain prepare counts "
                  "those of the data)");
}

static void print_head(const struct dt_candidates *c, const char *file,
                       FILE *out)
{
    const struct dt_spec *spec = &c->spec;
    const struct dt_step_shape shape = dt_step_shape_of(spec);
    size_t nodes = (size_t)c->size.nodes, ranks = (size_t)c->size.ranks;
    fprintf(out,
            "%s: %s, %zu parameters\n"
            "%zu node%s x %zu rank%s %s; %zu rows of %zu tokens x %zu "
            "micro-batch%s a rank: %zu tokens a step\n",
            file, dt_model_type(&spec->learner.config),
            dt_learner_model_layout(&spec->learner)->param_total, nodes,
            dt_str_plural(nodes), ranks, dt_str_plural(ranks),
            c->size.gpu ? "with a GPU each" : "on CPUs", shape.rows, shape.T,
            shape.micro_batches, shape.micro_batches == 1 ? "" : "es",
            shape.rows * shape.T * shape.micro_batches * nodes * ranks);
    print_pictures(spec, &c->options, out);
    fprintf(out, "rates: %s%s\n", c->size.rates.from,
            c->size.rates.measured ? "" : ", assumed and not measured");
}

static void print_memory(const struct dt_candidates *c, FILE *out)
{
    char memory[BYTES_TEXT], share[BYTES_TEXT];
    if (c->share == SIZE_MAX)
        fputs("memory: not known, so everything counts as fitting; "
              "launch.mem would say\n",
              out);
    else
        fprintf(out, "memory: %s a %s, %s for a rank\n",
                size_text(c->size.memory, memory), c->size.gpu ? "GPU" : "node",
                size_text(c->share, share));
}

/* Seconds of a step in which the device waits. */
static double waits(const struct dt_timeline *step)
{
    return step->seconds - step->busy[DT_ON_DEVICE];
}

/* Where state is kept, and weights if not on the device either. */
static void print_offload(const struct dt_candidate *one, FILE *out)
{
    char what[32], host[BYTES_TEXT], nvme[BYTES_TEXT];
    snprintf(what, sizeof(what), "%s%s", dt_candidate_tier(one->state),
             one->weights != DT_CONF_OFFLOAD_NONE ? ", weights" : "");
    fprintf(out, "  %-12s  %9s  %9s", what,
            one->plan.host > 0 ? size_text(one->plan.host, host) : "-",
            one->plan.nvme > 0 ? size_text(one->plan.nvme, nvme) : "-");
}

static void print_verdict(const struct dt_candidates *c,
                          const struct dt_candidate *one, FILE *out)
{
    char lacks[BYTES_TEXT];
    if (one->lacks > 0)
        fprintf(out, "no, %s too much", size_text(one->lacks, lacks));
    else if (one->lacks_host > 0)
        fprintf(out, "no, %s of a node too much",
                size_text(one->lacks_host, lacks));
    else
        fputs("yes", out);
    if (one == c->taken)
        fputs(c->spec.conf.distributed.strategy == DT_CONF_AUTO_STRATEGY
                  ? "  <- auto"
                  : "  <- the file",
              out);
    fputc('\n', out);
}

static void print_row(const struct dt_candidates *c,
                      const struct dt_candidate *one, bool offload, FILE *out)
{
    char total[BYTES_TEXT], node[BYTES_TEXT], network[BYTES_TEXT];
    const struct dt_timeline *step = &one->step;
    char group[BYTES_TEXT] = "-", seconds[DT_PAGE_NUMBER_BYTES];
    if (one->group > 1)
        snprintf(group, sizeof(group), "%d", one->group);
    fprintf(out, "%-8s  %5s", dt_conf_strategy_name(one->strategy), group);
    if (offload)
        print_offload(one, out);
    fprintf(out, "  %11s  %9s  %11s  %10s  %8.0f  %4.0f %%  ",
            size_text(one->total, total),
            step->in_node > 0 ? dt_plan_out_bytes(step->in_node, node) : "-",
            step->out_of_node > 0
                ? dt_plan_out_bytes(step->out_of_node, network)
                : "-",
            dt_page_duration(seconds, step->seconds), one->tokens_a_second,
            100 * waits(step) / step->seconds);
    print_verdict(c, one, out);
}

static bool any_offload(const struct dt_candidates *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->all[i].state != DT_CONF_OFFLOAD_NONE)
            return true;
    return false;
}

/* Among the strategies that offload as the file says. */
static const struct dt_candidate *fastest(const struct dt_candidates *c)
{
    const struct dt_candidate *best = NULL;
    for (size_t i = 0; i < c->as_given; i++)
        if (c->all[i].lacks == 0 &&
            (!best || c->all[i].step.seconds < best->step.seconds))
            best = &c->all[i];
    return best;
}

static void print_guide(const struct dt_candidates *c, FILE *out)
{
    static const char *const why[] = {
        [DT_CONF_DDP] = "fewer than 1e9 parameters",
        [DT_CONF_ZERO2] = "1e9 to 7e9 parameters",
        [DT_CONF_ZERO3] = "more than 7e9 parameters",
    };
    fprintf(out, "by the number of parameters alone: %s (%s)\n",
            dt_conf_strategy_name(c->guide), why[c->guide]);
}

/* Traffic and time of a step with native and with int8 sums between nodes, for
 * the strategy that is taken.
 */
static void print_between(const struct dt_candidate *one, FILE *out)
{
    char native[BYTES_TEXT], packed[BYTES_TEXT];
    char a[DT_PAGE_NUMBER_BYTES], b[DT_PAGE_NUMBER_BYTES];
    const struct dt_timeline *plain = one->int8 ? &one->other : &one->step;
    const struct dt_timeline *int8 = one->int8 ? &one->step : &one->other;
    if (one->between_nodes)
        fprintf(out,
                "distributed.reduce_between_nodes: native sends %s out of a "
                "node, %s a step; int8 %s, %s, and adds noise\n",
                dt_plan_out_bytes(plain->out_of_node, native),
                dt_page_duration(a, plain->seconds),
                dt_plan_out_bytes(int8->out_of_node, packed),
                dt_page_duration(b, int8->seconds));
}

/* The unit in which a micro-batch is counted. */
static const char *rows_are(const struct dt_spec *spec)
{
    return spec->algo->advantages ? "completion"
           : spec->algo->pick     ? "pair"
                                  : "row";
}

/* Completions that are sampled, and how long that takes. */
static void print_generation(const struct dt_candidate *one, FILE *out)
{
    const struct dt_generation_plan *g = &one->generation;
    const struct {
        const char *what;
        double seconds;
    } parts[] = {{"gathering weights", g->gather},
                 {"prefill", g->prefill},
                 {"decode", g->decode},
                 {"reward models", g->scoring},
                 {"passes before training", g->before}};
    char bytes[BYTES_TEXT], seconds[DT_PAGE_NUMBER_BYTES];
    if (g->completions == 0)
        return;
    fprintf(out, "a generation: %zu completion%s for %zu optimizer step%s, %s",
            g->completions, dt_str_plural(g->completions), g->uses,
            dt_str_plural(g->uses),
            dt_page_duration(seconds, dt_generation_seconds(g)));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].seconds > 0)
            fprintf(out, ", %s %s", parts[i].what,
                    dt_page_duration(seconds, parts[i].seconds));
    fprintf(out,
            "\nkeys and values of %zu slot%s of a rank: %s, in the memory of "
            "activations\n",
            g->slots, dt_str_plural(g->slots),
            dt_plan_out_bytes((double)g->bytes, bytes));
    if (one->plan.rewards > 0)
        fprintf(out, "reward models: %s of the memory of a rank\n",
                dt_plan_out_bytes((double)one->plan.rewards, bytes));
}

/* How long the run takes, or a part of it that does not depend on the data. */
static void print_whole(const struct dt_candidates *c, FILE *out)
{
    enum { SAMPLES = 1000 };
    const struct dt_spec *spec = &c->spec;
    const double step = c->taken->step.seconds;
    const long steps = dt_spec_count_steps(spec, 0);
    char seconds[DT_PAGE_NUMBER_BYTES];
    if (steps > 0)
        fprintf(out,
                "the whole run: %ld step%s, %s, without evaluations and "
                "saves\n",
                steps, dt_str_plural((uint64_t)steps),
                dt_page_duration(seconds, step * (double)steps));
    else
        fprintf(out,
                "the whole run depends on the data: %d %s take %s, without "
                "evaluations and saves\n",
                SAMPLES, spec->algo->advantages ? "prompts" : "samples",
                dt_page_duration(seconds, step * SAMPLES /
                                              dt_spec_samples_of_step(spec)));
}

/* Then gradients stay whole until the last micro-batch. */
static void print_whole_gradients(const struct dt_candidates *c, FILE *out)
{
    if (c->spec.conf.distributed.reduce_each_micro_step == DT_CONF_FALSE &&
        c->taken->strategy >= DT_CONF_ZERO2)
        fputs("distributed.reduce_each_micro_step: false: each rank keeps all "
              "gradients, as with zero1\n",
              out);
}

static void print_advice(const struct dt_candidates *c, FILE *out)
{
    const struct dt_candidate *best = fastest(c), *taken = c->taken;
    char strategy[256], saves[BYTES_TEXT], copies[BYTES_TEXT];
    double faster = best ? taken->step.seconds / best->step.seconds - 1 : 0;
    dt_ballot_text(&c->spec, &c->ballot, strategy);
    if (strategy[0])
        fprintf(out, "strategy: %s\n", strategy);
    if (c->spec.world > 1)
        print_guide(c, out);
    if (faster > DT_STRATEGY_TIE && taken->lacks == 0)
        fprintf(out,
                "distributed.strategy: %s is predicted to be %.0f %% faster\n",
                dt_conf_strategy_name(best->strategy), 100 * faster);
    print_whole_gradients(c, out);
    if (taken->plan.saves > 0)
        fprintf(out,
                "saves: %s of host memory of a rank, if it is free, so that "
                "steps go on meanwhile\n",
                dt_plan_out_bytes((double)taken->plan.saves, saves));
    if (taken->plan.copies > 0)
        fprintf(out,
                "copies: %s of host memory of a rank, if it is free, so that a "
                "lost rank costs no more than the last steps\n",
                dt_plan_out_bytes((double)taken->plan.copies, copies));
    print_between(taken, out);
    print_generation(taken, out);
    print_whole(c, out);
    if (c->most_rows > 0 && c->most_rows != SIZE_MAX)
        fprintf(out, "largest micro-batch that fits with %s: %zu %s%s\n",
                dt_conf_strategy_name(taken->strategy), c->most_rows,
                rows_are(&c->spec), dt_str_plural(c->most_rows));
}

void dt_plan_out_table(const struct dt_candidates *c, const char *file,
                       FILE *out)
{
    print_head(c, file, out);
    print_memory(c, out);
    bool offload = any_offload(c);
    fprintf(
        out,
        "\nstrategy  group%s  memory/rank    in node  out of node        step  "
        "tokens/s  waits  fits\n",
        offload ? "  offload       host/rank  nvme/rank" : "");
    for (size_t i = 0; i < c->count; i++)
        print_row(c, &c->all[i], offload, out);
    fputc('\n', out);
    print_advice(c, out);
}

/* --- JSON --- */

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
        {"nvme", plan->nvme},           {"saves", plan->saves},
        {"copies", plan->copies},
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
        "model", dt_model_type(&spec->learner.config), "parameters",
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
