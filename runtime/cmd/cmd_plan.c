/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_plan.c - `disttrain plan`: predicts memory and time before a run is
 * queued
 */
#include "config.h"

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"
#include "cmd/cmd_impl.h"
#include "plan/candidates.h"

/* --- the job --- */

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

/* --- the command --- */

struct options {
    struct dt_plan_job job;
    bool json;
    const char *file;
};

static int take_memory(const char *text, void *options)
{
    char *end;
    double gibibytes = strtod(text, &end);
    long size = 0;
    if (*text && !*end && gibibytes > 0 && gibibytes < 1e6)
        size = (long)(gibibytes * 0x1p30);
    else if (*text && !*end)
        size = 0;
    else if (!dt_conf_parse_size(text, &size))
        size = 0;
    ((struct options *)options)->job.gpu_memory = (size_t)size;
    return size > 0 ? 0
                    : dt_cmd_usage_error("plan",
                                         "--gpu-memory %s: expected GiB above "
                                         "0, or a number with a unit such as "
                                         "80GB",
                                         text);
}

static const struct dt_option table[] = {
    {"nodes", "N", "number of nodes; the default is launch.nodes, or 1",
     DT_INTO(struct options, job.nodes), .min = 1, .max = 1000000},
    {"ntasks-per-node", "N",
     "ranks on each node; the default is that of launch.ntasks_per_node, or 1",
     DT_INTO(struct options, job.ranks), .min = 1, .max = 1000000},
    {"gpu-memory", "SIZE", "memory of a GPU: GiB, or a number with a unit",
     .take = take_memory},
    {"rates", "RATES",
     "a file of rates, or a known device: h100, h200, a100 or cpu; the default "
     "is distributed.rates",
     DT_INTO(struct options, job.rates)},
    {DT_CMD_SET, .help = "take this value, whatever FILE says"},
    {"json", NULL, "print all numbers as JSON", DT_INTO(struct options, json)},
    {0},
};

static const struct dt_cmd_line line = {
    "plan",
    "usage: disttrain plan [OPTIONS] FILE\n\n"
    "Predicts memory, traffic and time of each strategy for a run of the\n"
    "configuration FILE, from the file and the model's config.json alone: no\n"
    "GPU is needed, and weights and data are not read, though they must be\n"
    "where FILE says. Images of data that are prepared are counted.\n",
    table, "Exit status: 0; 78 if the run would not fit, or has a mistake.\n"};

/* --- the plan --- */

/* Says that the run would not start for lack of memory. */
static int report_lack(const struct dt_candidates *c)
{
    char offers[512], needs[24], has[24];
    const struct dt_candidate *taken = c->taken;
    struct dt_spec spec = c->spec;
    spec.conf.distributed.strategy = taken->strategy;
    dt_plan_offer(&spec, &c->options, c->size.gpu ? c->share : c->size.memory,
                  c->size.ranks, offers, sizeof(offers));
    fprintf(stderr,
            "disttrain plan: the run does not fit: %s needs %s of memory a "
            "rank, which has %s; what would fit: %s\n",
            dt_conf_strategy_name(taken->strategy),
            dt_plan_out_bytes((double)taken->total, needs),
            dt_plan_out_bytes((double)c->share, has), offers);
    return EX_CONFIG;
}

static int report_host_lack(const struct dt_candidates *c)
{
    char needs[24], has[24];
    size_t all = c->taken->plan.host * (size_t)c->size.ranks;
    fprintf(stderr,
            "disttrain plan: the run does not fit: the state that it offloads "
            "needs %s of host memory on each node, and launch.mem is %s\n",
            dt_plan_out_bytes((double)all, needs),
            dt_plan_out_bytes((double)c->size.host, has));
    return EX_CONFIG;
}

static int plan_run(const struct options *options, struct dt_conf *conf,
                    struct dt_error *err)
{
    struct dt_job_size size;
    struct dt_candidates *c = calloc(1, sizeof(*c));
    if (!c)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc = dt_plan_job_size(&options->job, conf, &size, err);
    if (rc == 0)
        rc = dt_candidates_init(c, conf, &size, err);
    if (rc == 0 && options->json)
        rc = dt_plan_out_json(c, options->file, stdout, err);
    else if (rc == 0)
        dt_plan_out_table(c, options->file, stdout);
    if (rc == 0) {
        rc = dt_cmd_flush("plan", EX_OK);
        if (rc == EX_OK && c->taken->lacks > 0)
            rc = report_lack(c);
        else if (rc == EX_OK && c->taken->lacks_host > 0)
            rc = report_host_lack(c);
    }
    dt_candidates_fini(c);
    free(c);
    return rc;
}

int dt_cmd_plan(int argc, char **argv)
{
    struct options options = {0};
    struct dt_error err;
    int status = dt_cmd_parse(&line, argc, argv, &options);
    if (status != DT_CMD_RUN)
        return status;
    if (argc - optind != 1)
        return dt_cmd_usage_error("plan", "expected one FILE");
    options.file = argv[optind];
    struct dt_conf *conf = dt_cmd_load("plan", options.file, true);
    if (!conf)
        return EX_CONFIG;
    status = conf->trains ? plan_run(&options, conf, &err)
                          : dt_error_set(&err, EX_CONFIG,
                                         "%s: nothing to plan: it has no "
                                         "algorithm",
                                         options.file);
    dt_conf_destroy(conf);
    if (status >= 0)
        return status;
    return dt_cmd_fail("plan", &err);
}
