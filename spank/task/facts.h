/* SPDX-License-Identifier: Apache-2.0 */
/* facts.h - what there is to know about a task, from Slurm and from its node */
#ifndef DTSPANK_FACTS_H
#define DTSPANK_FACTS_H

#include <limits.h>
#include <net/if.h>

#include <slurm/spank.h>

#include "base/error.h"
#include "contract/variables.h"
#include "spank/hostlist.h"
#include "spank/siteconf.h"

struct dtspank_facts {
    struct dt_task_facts task; /* its pointers point into the rest */
    char rank0[DTSPANK_HOST_BYTES];
    char master_addr[DTSPANK_HOST_BYTES];
    char host[DTSPANK_HOST_BYTES];
    char interface[IF_NAMESIZE];
    char logs[PATH_MAX];
    char **hosts;
    uint32_t *tasks;
};

/* In slurmstepd, as the user, before there are tasks: if the step's ports are
 * taken, the next ones that are free become the step's. For a step of one node
 * only: tasks of several could not agree on them.
 */
void dtspank_facts_skip_taken_ports(spank_t spank,
                                    const struct dtspank_siteconf *conf);

/* Fills facts (fini them). MASTER_ADDR and MASTER_PORT are the user's, if set.
 * The node's first task warns if no interface can be found. Fails if Slurm has
 * not said who the task is, or rank 0 is not where the others look for it;
 * facts then need no fini.
 */
int dtspank_facts_collect(spank_t spank, const struct dtspank_siteconf *conf,
                          struct dtspank_facts *facts, struct dt_error *err);

/* Frees what facts own. */
void dtspank_facts_fini(struct dtspank_facts *facts);

#endif /* DTSPANK_FACTS_H */
