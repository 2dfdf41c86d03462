/* SPDX-License-Identifier: Apache-2.0 */
/*
 * groups.h - which ranks sum gradients first, and share weights
 *
 * Ranks of a node have the same host, whatever their numbers are.
 */
#ifndef DT_RUN_GROUPS_H
#define DT_RUN_GROUPS_H

#include "comm/comm.h"
#include "conf/conf.h"
#include "parallel/parallel.h"
#include "report/report.h"

/* The nodes of a world; zeroed: one node. */
struct dt_nodes {
    int count;
    int least, most;                 /* ranks of a node */
    int *order;                      /* (world) ranks, node by node; owned */
    int rank_of_least, rank_of_most; /* the first ones there */
};

/* Finds the nodes of a world. -1: EX_OSERR. */
int dt_nodes_find(struct dt_nodes *nodes, const struct dt_comm *world,
                  struct dt_error *err);
void dt_nodes_fini(struct dt_nodes *nodes);

/* Whether ranks are on several nodes, equally many and more than one on each:
 * only then do sums in two levels differ from flat ones, and save bytes.
 */
bool dt_nodes_are_even(const struct dt_nodes *nodes);

/* Refuses a configuration that these nodes cannot satisfy. -1: EX_CONFIG. */
int dt_groups_check(const struct dt_conf *conf, const struct dt_nodes *nodes,
                    const struct dt_comm *world, struct dt_error *err);

/* Sets group, order and hybrid, and replaces options without effect in groups
 * of one rank or steps of one micro-batch. distributed.shard_group: auto counts
 * as world. options->strategy and `when` are set.
 */
void dt_groups_apply(const struct dt_conf *conf, const struct dt_nodes *nodes,
                     int world, size_t micro_batches,
                     struct dt_parallel_options *options);

/* Reports which ranks share what state, and how sums are made. */
void dt_groups_report(const struct dt_conf *conf, const struct dt_nodes *nodes,
                      int world, const struct dt_parallel_options *options,
                      struct dt_report *report);

#endif /* DT_RUN_GROUPS_H */
