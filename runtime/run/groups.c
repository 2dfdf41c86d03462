/* SPDX-License-Identifier: Apache-2.0 */
/* groups.c - from hosts and keys to groups of ranks */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/groups.h"

/* --- nodes --- */

/* Adds all ranks on the host of `first` to the order, as one node. */
static void nodes_add(struct dt_nodes *nodes, const struct dt_comm *world,
                      int first, bool *seen, int *at)
{
    const char *host = dt_comm_host(world, first);
    int count = 0;
    for (int r = first; r < dt_comm_size(world); r++)
        if (!seen[r] && !strcmp(dt_comm_host(world, r), host)) {
            seen[r] = true;
            nodes->order[(*at)++] = r;
            count++;
        }
    if (nodes->count == 0 || count < nodes->least) {
        nodes->least = count;
        nodes->rank_of_least = first;
    }
    if (nodes->count == 0 || count > nodes->most) {
        nodes->most = count;
        nodes->rank_of_most = first;
    }
    nodes->count++;
}

int dt_nodes_find(struct dt_nodes *nodes, const struct dt_comm *world,
                  struct dt_error *err)
{
    int size = dt_comm_size(world), at = 0;
    bool *seen = calloc((size_t)size, sizeof(*seen));
    *nodes =
        (struct dt_nodes){.order = calloc((size_t)size, sizeof(*nodes->order))};
    if (!seen || !nodes->order) {
        free(seen);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    for (int r = 0; r < size; r++)
        if (!seen[r])
            nodes_add(nodes, world, r, seen, &at);
    free(seen);
    return 0;
}

void dt_nodes_fini(struct dt_nodes *nodes)
{
    free(nodes->order);
}

bool dt_nodes_are_even(const struct dt_nodes *nodes)
{
    return nodes->count > 1 && nodes->least == nodes->most && nodes->most > 1;
}

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
