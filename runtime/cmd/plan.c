/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - `disttrain plan`: what a run would take, before it is queued */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/plan_job.h"
#include "cmd/plan_out.h"

static const char help[] =
    "usage: disttrain plan [OPTIONS] FILE\n\n"
    "Predicts memory, traffic and time of each strategy for a run of the\n"
    "configuration FILE, from the file and the model's config.json alone: no\n"
    "GPU is needed, and weights and data are not read, though they must be\n"
    "where FILE says.\n\n"
    "  --nodes N            number of nodes; the default is launch.nodes, or "
    "1\n"
    "  --ntasks-per-node N  ranks on each node; the default is that of\n"
    "                       launch.ntasks_per_node, or 1\n"
    "  --gpu-memory SIZE    memory of a GPU: GiB, or a number with a unit\n"
    "  --rates RATES        a file of rates, or a known device: h100, h200, "
    "a100\n"
    "                       or cpu; the default is distributed.rates\n"
    "  --set KEY=VALUE      take this value, whatever FILE says\n"
    "  --json               print all numbers as JSON\n"
    "  --help               this text\n\n"
    "Exit status: 0; 78 if the run would not fit, or has a mistake.\n";

struct options {
    struct dt_plan_job job;
    bool json;
    const char *file;
};

static int parse_count(const char *name, const char *text, long *count)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (!*text || *end || value < 1 || value > 1000000)
        return dt_cmd_usage_error(
            "plan", "%s %s: expected a number from 1 to 1000000", name, text);
    *count = value;
    return EX_OK;
}

static int parse_memory(const char *text, size_t *bytes)
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
    *bytes = (size_t)size;
    return size > 0 ? EX_OK
                    : dt_cmd_usage_error("plan",
                                         "--gpu-memory %s: expected GiB above "
                                         "0, or a number with a unit such as "
                                         "80GB",
                                         text);
}

/* Returns DT_CMD_RUN, or the exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option table[] = {
        {"nodes", required_argument, NULL, 'n'},
        {"ntasks-per-node", required_argument, NULL, 't'},
        {"gpu-memory", required_argument, NULL, 'g'},
        {"rates", required_argument, NULL, 'r'},
        {"json", no_argument, NULL, 'j'},
        DT_CMD_SET_OPTION,
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct dt_cmd_line line = {"plan", help, table, .status = DT_CMD_RUN};
    for (int c; (c = dt_cmd_next_option(&line, argc, argv)) != -1;) {
        int status = EX_OK;
        options->json |= c == 'j';
        if (c == 'n')
            status = parse_count("--nodes", optarg, &options->job.nodes);
        if (c == 't')
            status =
                parse_count("--ntasks-per-node", optarg, &options->job.ranks);
        if (c == 'g')
            status = parse_memory(optarg, &options->job.gpu_memory);
        if (c == 'r')
            options->job.rates = optarg;
        if (status != EX_OK)
            return status;
    }
    if (line.status != DT_CMD_RUN)
        return line.status;
    if (argc - optind != 1)
        return dt_cmd_usage_error("plan", "expected one FILE");
    options->file = argv[optind];
    return DT_CMD_RUN;
}

/* --- the plan --- */

/* The run would not start. */
static int report_lack(const struct dt_candidates *c)
{
    char offers[512], needs[24], has[24];
    const struct dt_candidate *taken = c->taken;
    struct dt_run run = c->run;
    run.conf.distributed.strategy = taken->strategy;
    dt_plan_offer(&run, &c->options, c->size.gpu ? c->share : c->size.memory,
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
            "disttrain plan: the run does not fit: what it offloads needs %s "
            "of host memory on each node, and launch.mem is %s\n",
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
    int status = parse_options(argc, argv, &options);
    if (status != DT_CMD_RUN)
        return status;
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
    fprintf(stderr, "disttrain plan: %s\n", err.text);
    return err.status;
}
