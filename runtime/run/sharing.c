/* SPDX-License-Identifier: Apache-2.0 */
/* sharing.c - how ranks share weights, gradients and state, as the file says */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "run/numerics.h"
#include "run/sharing.h"

/* --- the configuration --- */

static int refuse_uneven(const struct dt_conf *conf, const char *key,
                         const char *value, const struct dt_nodes *nodes,
                         const struct dt_comm *world, struct dt_error *err)
{
    return dt_conf_error_set(
        conf, key, err,
        "E102 %s needs equally many ranks on every node, but %s has %d and %s "
        "has %d: start the run with --ntasks-per-node, or remove the key",
        value, dt_comm_host(world, nodes->rank_of_least), nodes->least,
        dt_comm_host(world, nodes->rank_of_most), nodes->most);
}

int dt_groups_check(const struct dt_conf *conf, const struct dt_nodes *nodes,
                    const struct dt_comm *world, struct dt_error *err)
{
    long group = conf->distributed.shard_group;
    bool uneven = nodes->least != nodes->most;
    if (uneven && conf->distributed.reduction == DT_CONF_TWO_LEVEL)
        return refuse_uneven(conf, "distributed.reduction", "two_level", nodes,
                             world, err);
    if (uneven && conf->distributed.int8_between_nodes)
        return refuse_uneven(conf, "distributed.reduce_between_nodes", "int8",
                             nodes, world, err);
    if (uneven && group == DT_CONF_GROUP_NODE)
        return refuse_uneven(conf, "distributed.shard_group", "node", nodes,
                             world, err);
    if (conf->distributed.offload_param.device != DT_CONF_OFFLOAD_NONE &&
        (group == DT_CONF_GROUP_NODE ||
         (group > 0 && group < dt_comm_size(world))))
        return dt_conf_error_set(conf, "distributed.shard_group", err,
                                 "E105 a group keeps its weights on the "
                                 "device, but distributed.offload_param takes "
                                 "them off it: remove one of them");
    if (conf->distributed.reduction == DT_CONF_FLAT && group > 0 &&
        group < dt_comm_size(world))
        return dt_conf_error_set(conf, "distributed.shard_group", err,
                                 "E105 groups of %ld ranks sum gradients in "
                                 "the group and then over groups, but "
                                 "distributed.reduction is flat: remove one "
                                 "of them",
                                 group);
    return 0;
}

/* Ranks of a group that shares weights and gradients; 0: all ranks do. */
static int shard_group(const struct dt_conf *conf, const struct dt_nodes *nodes,
                       int world)
{
    long asked = conf->distributed.shard_group;
    int group = 0;
    if (conf->distributed.offload_param.device != DT_CONF_OFFLOAD_NONE)
        return 0; /* a rank offloads its part of the world's state */
    if (asked > 0)
        group = (int)asked;
    else if (asked == DT_CONF_GROUP_NODE && nodes->least == nodes->most)
        group = nodes->most;
    return group < world ? group : 0;
}

/* Ranks of a group in which sums are made first; 0: sums are flat. */
static int sum_group(const struct dt_conf *conf, const struct dt_nodes *nodes)
{
    if (conf->distributed.reduction == DT_CONF_FLAT)
        return 0;
    if (conf->distributed.int8_between_nodes && nodes->count > 1)
        return nodes->most; /* even if that is one: sums over groups differ */
    return dt_nodes_are_even(nodes) ? nodes->most : 0;
}

void dt_groups_apply(const struct dt_conf *conf, const struct dt_nodes *nodes,
                     int world, size_t micro_batches,
                     struct dt_parallel_options *options)
{
    bool divides = options->strategy >= DT_ZERO2;
    int group = divides ? shard_group(conf, nodes, world) : 0;
    if (divides && group == 1)
        options->strategy = DT_ZERO1; /* each rank has all of both */
    else
        options->hybrid = group > 1;
    if (micro_batches == 1 && options->when == DT_WHEN_EACH &&
        options->strategy <= DT_ZERO1)
        options->when = DT_WHEN_AUTO;
    if (!options->hybrid)
        group = sum_group(conf, nodes);
    /* as zero2, whose gradients it then has */
    if (options->strategy == DT_ZERO1 && group > 0)
        options->hybrid = true;
    options->group = group;
    options->order = nodes->order;
    options->node = nodes->least == nodes->most ? nodes->most : 0;
    options->int8 = conf->distributed.int8_between_nodes && group > 0 &&
                    nodes->count > 1 && group % nodes->most == 0;
    options->seed = conf->run.seed;
}

void dt_groups_report(const struct dt_conf *conf, const struct dt_nodes *nodes,
                      int world, const struct dt_parallel_options *options,
                      struct dt_report *report)
{
    static const char *const shared[] = {
        [DT_ZERO1] = "zero1: optimizer state is",
        [DT_ZERO2] = "zero2: gradients and optimizer state are",
        [DT_ZERO3] = "zero3: weights, gradients and optimizer state are"};
    int group = options->group;
    bool divides = options->strategy >= DT_ZERO2;
    if (options->strategy > DT_DDP)
        dt_report_note(report, "%s shared over %d ranks",
                       shared[options->strategy], world);
    if (divides && options->hybrid)
        dt_report_note(report, "hybrid: each %d ranks have all %sgradients",
                       group,
                       options->strategy == DT_ZERO3 ? "weights and " : "");
    if (divides && options->when == DT_WHEN_LAST)
        dt_report_note(report,
                       "distributed.reduce_each_micro_step: false: each rank "
                       "keeps all gradients, as with zero1");
    if (group == 1)
        dt_report_note(report, "sums over %d ranks in int8", world);
    else if (group > 0)
        dt_report_note(report,
                       "two_level sums: over %d ranks, and then over %d such "
                       "groups%s",
                       group, world / group, options->int8 ? " in int8" : "");
    else if (nodes->count > 1 && nodes->least != nodes->most)
        dt_report_note(report,
                       "flat sums over %d ranks: nodes have %d to %d of them",
                       world, nodes->least, nodes->most);
    if (conf->distributed.int8_between_nodes && !options->int8)
        dt_report_note(report,
                       "distributed.reduce_between_nodes: int8 has no effect: "
                       "no sum is made between whole nodes");
}

/* --- offload --- */

/* Bytes a second of a GPU's link in each direction, and of a node's memory. */
static const double link_rate = 50e9, memory_rate = 200e9;

/* A tile that the file does not give: a small share of the state, but large
 * enough for a drive.
 */
enum { TILES = 32, LEAST_TILE = 1 << 19 };

static size_t choose_tile(const struct dt_spec *spec)
{
    static const char key[] = "distributed.offload_optimizer.tile_size";
    const struct dt_conf *conf = &spec->conf;
    size_t most = (size_t)conf->distributed.offload_optimizer.tile_size;
    size_t share = spec->learner.layout->count / (size_t)spec->world / TILES;
    /* sub_group_size of a DeepSpeed file is only a limit */
    if (dt_conf_given(conf, key) &&
        dt_conf_place_of(conf, key).source != DT_CONF_OF_DEEPSPEED)
        return most;
    share = share > LEAST_TILE ? share : LEAST_TILE;
    return share < most ? share : most;
}

/* Whether the CPUs are predicted to need less time per element. */
static bool host_is_faster(int node_size)
{
    double ranks = node_size > 0 ? node_size : 1;
    double host = 36 * ranks / memory_rate, device = 24 * ranks / memory_rate;
    if (host < 4 / link_rate)
        host = 4 / link_rate;
    if (device < 12 / link_rate)
        device = 12 / link_rate;
    return host < device;
}

static enum dt_offload_compute choose_compute(const struct dt_spec *spec,
                                              const struct dt_offload *offload)
{
    int wanted = spec->conf.distributed.offload_optimizer.compute;
    if (spec->exec.device->is_host)
        return DT_OFFLOAD_IN_PLACE;
    /* state that stays is updated on the device, and its weights leave from
     * there
     */
    if (offload->ratio < 1 && offload->weights != DT_TIER_DEVICE)
        return DT_OFFLOAD_STREAM;
    if (wanted == DT_CONF_COMPUTE_AUTO)
        return host_is_faster(spec->nodes.most) ? DT_OFFLOAD_HOST
                                                : DT_OFFLOAD_STREAM;
    return wanted == DT_CONF_COMPUTE_HOST ? DT_OFFLOAD_HOST : DT_OFFLOAD_STREAM;
}

static enum dt_tier tier_of(const struct dt_spec *spec, int device)
{
    if (device == DT_CONF_OFFLOAD_NVME)
        return DT_TIER_FILE;
    return device == DT_CONF_OFFLOAD_CPU && !spec->exec.device->is_host
               ? DT_TIER_HOST
               : DT_TIER_DEVICE;
}

struct dt_offload dt_spec_offload(const struct dt_spec *spec,
                                  enum dt_strategy strategy)
{
    const struct dt_conf *conf = &spec->conf;
    struct dt_offload offload = {
        .state = tier_of(spec, conf->distributed.offload_optimizer.device),
        .ratio = conf->distributed.offload_optimizer.ratio,
        .tile = choose_tile(spec),
        .path = conf->distributed.offload_optimizer.path,
        .weights_path = conf->distributed.offload_param.path,
        .buffers = (size_t)conf->distributed.offload_optimizer.buffer_count,
        .block_bytes = (size_t)conf->distributed.aio.block_size,
        .queue_depth = (unsigned)conf->distributed.aio.queue_depth,
    };
    if (strategy == DT_DDP || offload.state == DT_TIER_DEVICE)
        return (struct dt_offload){0};
    if (strategy == DT_ZERO3)
        offload.weights = tier_of(spec, conf->distributed.offload_param.device);
    offload.compute = choose_compute(spec, &offload);
    return offload;
}

static void note(const struct dt_spec *spec, const char *text)
{
    dt_log(spec->rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "plan", "%s", text);
}

/* Logs the bytes that move in each step, as writes wear drives. */
static void note_traffic(const struct dt_spec *spec, const struct dt_offload *o,
                         const struct dt_parallel_bytes *bytes)
{
    static const char *const where[] = {
        [DT_OFFLOAD_IN_PLACE] = "on the CPUs",
        [DT_OFFLOAD_STREAM] = "on the GPU",
        [DT_OFFLOAD_HOST] = "on the CPUs",
    };
    const char *from = o->state == DT_TIER_FILE ? o->path : "host memory";
    dt_log(spec->rank == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "plan",
           "offload: AdamW computes %s, in tiles of %zu elements from %s; in "
           "each step a rank reads and writes %.1f MB of files",
           where[o->compute], o->tile, from, (double)bytes->nvme / 1e6);
}

void dt_spec_offload_note(const struct dt_spec *spec,
                          const struct dt_parallel_options *options)
{
    const struct dt_conf *conf = &spec->conf;
    const struct dt_offload *o = &options->offload;
    const struct dt_parallel_bytes bytes =
        dt_parallel_plan(spec->learner.layout, spec->world, options);
    if (spec->exec.device->is_host &&
        conf->distributed.offload_optimizer.device == DT_CONF_OFFLOAD_CPU)
        note(spec, "distributed.offload_optimizer.device: cpu has no effect: "
                   "on the CPU all state is in host memory, and nothing moves");
    if (spec->exec.device->is_host &&
        conf->model.gradient_checkpointing == DT_CONF_CHECKPOINT_OFFLOAD)
        note(spec, "model.gradient_checkpointing: offload is true here: on the "
                   "CPU all activations are in host memory");
    if (conf->distributed.aio.threads > 1 && bytes.nvme > 0)
        note(spec, "distributed.aio.threads has no effect: io_uring keeps "
                   "distributed.aio.queue_depth requests under way from one");
    if (o->state != DT_TIER_DEVICE)
        note_traffic(spec, o, &bytes);
}

/* --- options of the engine --- */

/* `auto` counts as ddp until dt_plan_choose has settled it. */
static enum dt_strategy strategy_of(const struct dt_spec *spec)
{
    switch (spec->conf.distributed.strategy) {
    case DT_CONF_ZERO1:
        return DT_ZERO1;
    case DT_CONF_ZERO2:
        return DT_ZERO2;
    case DT_CONF_ZERO3:
        return DT_ZERO3;
    default:
        return DT_DDP;
    }
}

/* Blocks of a learner's model that have a slot at once with zero3: one that is
 * computed, and those that prefetch_units or, by size, prefetch_elements lets
 * ranks gather ahead; live_elements limits all of them, down to two. Elements
 * are those of parameters, as DeepSpeed counts them: padding, which grows with
 * the world, changes nothing.
 */
static size_t slots_of_blocks(const struct dt_conf *conf,
                              const struct dt_learner_spec *learner)
{
    const size_t most =
        dt_layout_largest_block(dt_learner_model_layout(learner));
    const size_t block = most > 0 ? most : 1;
    size_t slots = (size_t)conf->distributed.prefetch_units;
    if (dt_conf_given(conf, "distributed.prefetch_elements") &&
        !dt_conf_given(conf, "distributed.prefetch_units"))
        slots = 1 + (size_t)conf->distributed.prefetch_elements / block;
    if (dt_conf_given(conf, "distributed.live_elements") &&
        slots > (size_t)conf->distributed.live_elements / block)
        slots = (size_t)conf->distributed.live_elements / block;
    return slots > 2 ? slots : 2;
}

struct dt_parallel_options dt_spec_parallel_options(const struct dt_spec *spec,
                                                    enum dt_dtype compute)
{
    static const enum dt_when whens[] = {
        [DT_CONF_FALSE] = DT_WHEN_LAST,
        [DT_CONF_TRUE] = DT_WHEN_EACH,
        [DT_CONF_AUTO_CHOICE] = DT_WHEN_AUTO,
    };
    const struct dt_conf *conf = &spec->conf;
    struct dt_parallel_options options = {
        .strategy = strategy_of(spec),
        .compute = compute,
        .state = dt_spec_state_type(spec),
        .grads = dt_run_dtype(conf->precision.grad_accum_dtype),
        .wire = conf->precision.reduce_bf16 ? DT_BF16 : DT_F32,
        .bucket_bytes = (size_t)conf->distributed.bucket_cap_mb << 20,
        .prefetch = slots_of_blocks(conf, &spec->learner),
        .offload = dt_spec_offload(spec, strategy_of(spec)),
        .when = whens[conf->distributed.reduce_each_micro_step],
    };
    dt_groups_apply(conf, &spec->nodes, spec->world, spec->A, &options);
    return options;
}

struct dt_parallel_options dt_spec_critic_sharing(
    const struct dt_spec *spec, const struct dt_parallel_options *parallel)
{
    struct dt_parallel_options options = *parallel;
    options.prefetch = slots_of_blocks(&spec->conf, &spec->critic);
    return options;
}

bool dt_spec_needs_reference(const struct dt_spec *spec)
{
    return spec->algo->needs_reference &&
           spec->algo->needs_reference(&spec->conf);
}

const struct dt_layout *dt_spec_reference_layout(const struct dt_spec *spec)
{
    const struct dt_learner_spec *learner = &spec->learner;
    return learner->whole && spec->conf.model.reference_path ? learner->whole
                                                             : learner->layout;
}

bool dt_spec_shares_frozen(const struct dt_spec *spec)
{
    return spec->learner.frozen &&
           dt_spec_reference_layout(spec) == spec->learner.layout;
}

size_t dt_spec_reference_shared(const struct dt_spec *spec)
{
    return dt_learner_adapts(&spec->learner) || dt_spec_shares_frozen(spec)
               ? dt_learner_lowest(&spec->learner)
               : 0;
}

struct dt_parallel_options dt_spec_reference_options(const struct dt_spec *spec,
                                                     enum dt_dtype compute)
{
    const struct dt_parallel_options all =
        dt_spec_parallel_options(spec, compute);
    struct dt_parallel_options options =
        dt_learner_trained_options(&spec->learner, &all);
    options.use =
        dt_run_sync_ref(&spec->conf)->enabled ? DT_FOLLOWED : DT_FROZEN;
    return options;
}
