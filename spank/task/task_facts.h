/* SPDX-License-Identifier: Apache-2.0 */
/* task_facts.h - collects what Slurm and the node say about a task */
#ifndef DTSPANK_TASK_FACTS_H
#define DTSPANK_TASK_FACTS_H

#include <limits.h>
#include <net/if.h>

#include <slurm/spank.h>

#include "base/error.h"
#include "contract/variables.h"
#include "spank/hostlist.h"
#include "spank/siteconf.h"

struct dtspank_facts {
    struct dt_task_facts task; /* its pointers point into the fields below */
    char rank0[DTSPANK_HOST_BYTES];
    char master_addr[DTSPANK_HOST_BYTES];
    char host[DTSPANK_HOST_BYTES];
    char interface[IF_NAMESIZE];
    char logs[PATH_MAX];
    char **hosts;
    uint32_t *tasks;
};

/* In slurmstepd, as the user, before there are tasks: if the step's ports are
 * taken, the step uses the next free ones. For a step of one node only: the
 * nodes could not agree on others.
 */
void dtspank_facts_skip_taken_ports(spank_t spank,
                                    const struct dtspank_siteconf *conf);

/* Fills facts; call dtspank_facts_fini on success. MASTER_ADDR and MASTER_PORT
 * are the user's, if set. The node's first task warns if no interface can be
 * found. Fails if Slurm has not said which task this is, or if rank 0 is not
 * where the others look for it; then there is nothing to free.
 */
int dtspank_facts_collect(spank_t spank, const struct dtspank_siteconf *conf,
                          struct dtspank_facts *facts, struct dt_error *err);

/* Frees what facts owns. */
void dtspank_facts_fini(struct dtspank_facts *facts);

#endif /* DTSPANK_TASK_FACTS_H */
