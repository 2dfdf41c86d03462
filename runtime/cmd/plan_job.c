/* SPDX-License-Identifier: Apache-2.0 */
/* plan_job.c - the job that a run is planned for, and the strategy of auto
 * there
 */
#include "config.h"

#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpus.h"
#include "cmd/cmd.h"
#include "cmd/plan_job.h"

/* launch.mem as Slurm reads it: MiB, or K, M, G, T. SIZE_MAX: not given, or all
 * memory of a node.
 */
static size_t slurm_memory(const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    if (value == 0)
        return SIZE_MAX;
    const char *unit = *end ? strchr(units, *end & ~0x20) : &units[1];
    return unit ? (size_t)value << 10 * (unit - units + 1) : SIZE_MAX;
}

/* Ranks of a node, as `launch:` says. */
static long ranks_of(const struct dt_conf *conf, long nodes)
{
    if (conf->launch.ntasks_per_node > 0)
        return conf->launch.ntasks_per_node;
    if (conf->launch.gpus_per_node > 0)
        return conf->launch.gpus_per_node;
    if (conf->launch.num_processes > 0)
        return (conf->launch.num_processes + nodes - 1) / nodes;
    return 1;
}

/* The rates of --rates, of the file, or of the device that the run would use.
 */
static int find_rates(const struct dt_plan_job *job, const struct dt_conf *conf,
                      struct dt_rates *rates, struct dt_error *err)
{
    const char *names;
    const char *from = job->rates ? job->rates : conf->distributed.rates;
    bool gpu = conf->run.device == DT_CONF_CUDA || job->gpu_memory > 0 ||
               (conf->run.device == DT_CONF_AUTO_DEVICE &&
                conf->launch.gpus_per_node > 0);
    if (!from) {
        dt_rates_known(gpu ? "h100" : "cpu", rates, &names);
        return 0;
    }
    if (!(job->rates && dt_rates_known(from, rates, &names)) &&
        dt_rates_load(from, rates, err) < 0)
        return -1;
    if (conf->run.device == DT_CONF_AUTO_DEVICE || rates->gpu == gpu)
        return 0;
    return dt_error_set(err, EX_USAGE, "%s %s is of %s, and the run is on %s",
                        job->rates ? "--rates" : "distributed.rates:", from,
                        rates->gpu ? "GPUs" : "CPUs", gpu ? "GPUs" : "CPUs");
}

/* Workspaces on CPUs grow with the threads of a rank: launch.cpus_per_task, or
 * its share of the CPUs here.
 */
static void choose_threads(const struct dt_conf *conf, int ranks)
{
    long each = conf->launch.cpus_per_task;
    if (each == 0)
        each = dt_cpus_usable("") / ranks;
    if (!getenv("OMP_NUM_THREADS"))
        omp_set_num_threads(each > 1 ? (int)each : 1);
}

int dt_plan_job_size(const struct dt_plan_job *job, const struct dt_conf *conf,
                     struct dt_job_size *size, struct dt_error *err)
{
    long nodes = job->nodes               ? job->nodes
                 : conf->launch.nodes > 0 ? conf->launch.nodes
                                          : 1;
    long ranks = job->ranks ? job->ranks : ranks_of(conf, nodes);
    if (nodes > 1000000 / ranks)
        return dt_error_set(err, EX_USAGE,
                            "%ld nodes of %ld ranks are more than 1000000 "
                            "ranks",
                            nodes, ranks);
    if (find_rates(job, conf, &size->rates, err) < 0)
        return -1;
    size->nodes = (int)nodes;
    size->ranks = (int)ranks;
    size->gpu = size->rates.gpu;
    size->host = slurm_memory(conf->launch.mem);
    size->memory = !size->gpu ? size->host
                   : job->gpu_memory
                       ? job->gpu_memory
                       : (size_t)size->rates.of[DT_RATE_GPU_MEMORY];
    if (size->gpu && size->memory == 0)
        size->memory = SIZE_MAX;
    choose_threads(conf, size->ranks);
    return 0;
}

int dt_cmd_strategy_text(const struct dt_conf *conf, char text[256],
                         struct dt_error *err)
{
    const struct dt_plan_job job = {0};
    struct dt_job_size size;
    struct dt_candidates *c = calloc(1, sizeof(*c));
    if (!c)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = dt_plan_job_size(&job, conf, &size, err);
    if (rc == 0)
        rc = dt_candidates_init(c, conf, &size, err);
    if (rc == 0)
        dt_ballot_text(&c->spec, &c->ballot, text);
    dt_candidates_fini(c);
    free(c);
    return rc;
}
