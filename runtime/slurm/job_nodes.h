/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_nodes.h - the nodes of a job, and which of them are lost
 *
 * Slurm notices a lost node only after SlurmdTimeout, five minutes by default.
 * A kernel that lives answers a packet to a port at once, also where nothing
 * listens: with a refusal. So each node is asked once a second, and one that
 * has answered before and then is silent for too long is lost. One that has
 * never answered, as behind a firewall, is left to Slurm.
 */
#ifndef DT_SLURM_JOB_NODES_H
#define DT_SLURM_JOB_NODES_H

#include <stdbool.h>

#include "base/error.h"
#include "base/net.h"

struct dt_job_node {
    char *name;
    union dt_net_address address; /* family 0: unknown, or our own host */
    int fd;                       /* a question that is not answered; or -1 */
    double heard; /* when it last answered, on dt_clock_now; 0: never */
    bool lost;
    /* for the caller: it is part of the step; its loss was told; and it was
     * taken out of the job
     */
    bool in_step, told, left_out;
};

struct dt_job_nodes {
    struct dt_job_node *node; /* in the order of the job */
    int count;
    int turn; /* of the nodes that are asked next */
    double silence_s;
};

/* Fills in the nodes of a list such as "n[1-3]", of which none is lost; a
 * node is lost after `silence_s`, but not within three seconds. Asks scontrol
 * for the names, and the name service for addresses; without these, nodes are
 * left to Slurm. The caller frees it with dt_job_nodes_fini, also after a
 * failure. -1: EX_UNAVAILABLE, scontrol does not answer; EX_OSERR.
 */
int dt_job_nodes_init(struct dt_job_nodes *nodes, const char *list,
                      double silence_s, struct dt_error *err);
void dt_job_nodes_fini(struct dt_job_nodes *nodes);

/* Asks the nodes that were not left out; does not wait. Call it once a second:
 * a question that has not been answered by then is dropped. `now` is of
 * dt_clock_now, here and below.
 */
void dt_job_nodes_ask(struct dt_job_nodes *nodes, double now);

/* Takes the answers that have come. */
void dt_job_nodes_take(struct dt_job_nodes *nodes, double now);

/* Notes the nodes that have been silent for too long as lost, and others that
 * were not left out as not. Returns how many of the lost ones were not before.
 */
int dt_job_nodes_judge(struct dt_job_nodes *nodes, double now);

/* Whether each node is lost, has answered since that time, or never answers. */
bool dt_job_nodes_known(const struct dt_job_nodes *nodes, double since);

/* Notes as lost the nodes that job `job` no longer has according to Slurm, if
 * it answers within some seconds. Returns how many of them were not before.
 */
int dt_job_nodes_ask_slurm(struct dt_job_nodes *nodes, const char *job);

/* Whether job `job` has none of the lost nodes any more, according to Slurm: 1,
 * 0; -1: it does not answer within some seconds.
 */
int dt_job_nodes_are_out(const struct dt_job_nodes *nodes, const char *job);

/* Takes the lost nodes out of job `job`, as its user. Waits up to half a
 * minute. -1: EX_UNAVAILABLE, with what becomes of the job; EX_OSERR.
 */
int dt_job_nodes_shrink(const struct dt_job_nodes *nodes, const char *job,
                        struct dt_error *err);

/* Returns how many nodes are not lost. */
int dt_job_nodes_left(const struct dt_job_nodes *nodes);

/* Returns the names of the first `count` nodes that are not lost, with commas
 * between them, to be freed; NULL: out of memory.
 */
char *dt_job_nodes_list(const struct dt_job_nodes *nodes, int count);

#endif /* DT_SLURM_JOB_NODES_H */
