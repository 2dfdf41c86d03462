/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - `disttrain plan`: predicts memory and time before a run is queued */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/options.h"
#include "cmd/plan_job.h"
#include "cmd/plan_out.h"

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
    "where FILE says.\n",
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
