/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_world.c - how many ranks a run is going to have, before it is queued */
#include "config.h"

#include <limits.h>
#include <stdlib.h>
#include <sysexits.h>

#include "slurm/slurm_request.h"
#include "slurm/slurm_world.h"

/* The first number that is known; 1: none is. */
static long first_of(long a, long b, long c)
{
    return a > 0 ? a : b > 0 ? b : c > 0 ? c : 1;
}

long dt_world_launch(const struct dt_conf *conf)
{
    long nodes = conf->launch.nodes, each = conf->launch.ntasks_per_node;
    return nodes + each > 0 ? first_of(nodes, 0, 0) * first_of(each, 0, 0) : 0;
}

/* Which of its variables and words srun prefers depends on the release where
 * both name a number: SLURM_NTASKS of a job and --nodes.
 */
long dt_world_srun(const struct dt_conf *conf,
                   const struct dt_srun_words *words)
{
    struct dt_job_size asked, has;
    const long *each = &conf->launch.ntasks_per_node;
    long ranks = 0;
    bool known = dt_request_read_step(words, &asked);
    dt_job_size_read(&has);
    if (known && asked.ranks > 0)
        ranks = asked.ranks;
    else if (known && has.ranks > 0)
        ranks = asked.nodes + asked.ranks_per_node > 0 ? 0 : has.ranks;
    else if (known)
        ranks = first_of(asked.nodes, has.nodes, conf->launch.nodes) *
                first_of(asked.ranks_per_node, has.ranks_per_node, *each);
    dt_job_size_fini(&asked);
    dt_job_size_fini(&has);
    return ranks;
}

long dt_world_job(const struct dt_conf *conf, const struct dt_job_size *size)
{
    long nodes = size->one_node ? 1 : size->nodes;
    long each = size->ranks_per_node;
    if (size->ranks > 0)
        return size->ranks;
    if (each == 0)
        each = conf->launch.ntasks_per_node;
    return size->unclear_ranks ? 0 : nodes * each;
}

long dt_world_script(const struct dt_conf *conf,
                     const struct dt_srun_words *extra)
{
    struct dt_job_size asked;
    long ranks = 0, nodes = conf->launch.nodes;
    long each = conf->launch.ntasks_per_node;
    bool known = dt_request_read_step(extra, &asked);
    if (known && asked.ranks > 0)
        ranks = asked.ranks;
    else if (known && asked.nodes + asked.ranks_per_node + nodes + each > 0)
        ranks = first_of(asked.nodes, nodes, 0) *
                first_of(asked.ranks_per_node, each, 0);
    dt_job_size_fini(&asked);
    return ranks;
}

int dt_world_check(struct dt_conf *conf, long ranks)
{
    struct dt_error err;
    if (!conf->trains || ranks <= 0 || ranks > INT_MAX ||
        dt_conf_resolve_batch(conf, (int)ranks, &err) == 0)
        return EX_OK;
    fprintf(stderr, "%s\n", err.text);
    return err.status;
}
