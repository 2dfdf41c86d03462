/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - `disttrain doctor`: examines whether a job's nodes are fit to
 * train
 */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/child.h"
#include "cmd/cmd.h"
#include "cmd/doctor_rates.h"
#include "cmd/options.h"
#include "doctor/doctor.h"
#include "doctor/doctor_plugin.h"
#include "doctor/doctor_world.h"
#include "doctor/rank_states.h"
#include "doctor/ranks.h"

struct options {
    const char *job; /* "ID" or "ID.STEP"; NULL: the job of this process */
    bool brief, plugin, probe, ranks;
    struct dt_doctor_rates rates; /* file NULL: not asked for */
};

static const struct dt_option table[] = {
    {"brief", NULL, "print warnings and one line if no node is bad",
     DT_INTO(struct options, brief)},
    {"job", "=ID[.STEP]", "examine the nodes of another job, or of one step",
     DT_INTO(struct options, job)},
    {"plugin", NULL, "explain why srun --help does not show --disttrain",
     DT_INTO(struct options, plugin)},
    {"ranks", NULL,
     "show what the ranks of a step are doing, the odd ones first",
     DT_INTO(struct options, ranks)},
    {"rates", "FILE",
     "measure how fast this step computes and sends, for disttrain plan, with "
     "the shapes of CONFIG",
     DT_INTO(struct options, rates.file)},
    {"drive", "DIR", "with --rates: the drive of this directory too",
     DT_INTO(struct options, rates.drive), .needs = "rates"},
    {DT_CMD_SET, .help = "with --rates: take this value, whatever CONFIG says",
     .needs = "rates"},
    {"probe", NULL, "examine this node alone, as the command does on each",
     DT_INTO(struct options, probe)},
    {0},
};

static const struct dt_cmd_line line = {
    "doctor",
    "usage: disttrain doctor [--brief] [--job=ID[.STEP]]\n"
    "       disttrain doctor --ranks --job=ID.STEP\n"
    "       disttrain doctor --plugin\n"
    "       disttrain doctor --rates FILE [--drive DIR]\n"
    "                        [--set KEY=VALUE]... [CONFIG]\n\n"
    "Examines each node of the job, or this machine if there is no job,\n"
    "prints a table, and says what to do about each problem.\n",
    table,
    "Exit status: 0; 69 if a node is bad, which the last line names; 78 if\n"
    "the option --disttrain does not work.\n"};

/* Returns DT_CMD_RUN, or the exit status. */
static int parse_options(int argc, char **argv, struct options *options)
{
    *options = (struct options){0};
    int status = dt_cmd_parse(&line, argc, argv, options);
    if (status != DT_CMD_RUN)
        return status;
    if (options->rates.file && optind < argc)
        options->rates.config = argv[optind++];
    if (optind < argc)
        return dt_cmd_usage_error("doctor", "unexpected '%s'", argv[optind]);
    if (options->job && options->job[strspn(options->job, "0123456789.")])
        return dt_cmd_usage_error("doctor",
                                  "--job: expected ID or ID.STEP, got '%s'",
                                  options->job);
    if (options->ranks && (!options->job || !strchr(options->job, '.')))
        return dt_cmd_usage_error("doctor", "--ranks needs --job=ID.STEP; "
                                            "squeue --me --steps lists the "
                                            "steps");
    return DT_CMD_RUN;
}

/* Removes variables that srun would inherit from the job or step around it:
 * options, the plugin's variables, and the PMIx server of that step.
 */
static void clean_environment(void)
{
    static const char *const kept[] = {
        "SLURM_CONF=", "SLURM_CONF_SERVER=", "SLURM_WORKING_CLUSTER="};
    char **entry = environ;
    while (*entry) {
        char name[NAME_MAX];
        size_t len = strcspn(*entry, "=");
        bool drop = strncmp(*entry, "SLURM_", 6) == 0 ||
                    strncmp(*entry, "PMIX_", 5) == 0;
        for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
            drop = drop && strncmp(*entry, kept[i], len + 1) != 0;
        if (!drop || len >= sizeof(name)) {
            entry++;
            continue;
        }
        memcpy(name, *entry, len);
        name[len] = '\0';
        unsetenv(name);
        entry = environ;
    }
}

/* Runs a probe on each of the `count` nodes of list, or here without a job. */
static int run_probes(const char *job_id, const char *list, size_t count,
                      struct dt_doctor_report *report, struct dt_error *err)
{
    struct dt_doctor_probes probes;
    if (dt_doctor_probes_init(&probes, job_id, list, count, NULL, err) < 0)
        return -1;
    return dt_doctor_gather(report, count, probes.argv, err);
}

/* If some nodes do not answer, examines the others without them. */
static int run_without_silent(const char *job_id,
                              struct dt_doctor_report *report,
                              struct dt_error *err)
{
    size_t count = dt_doctor_report_present(report);
    size_t all = report->node_count;
    char *list = NULL;
    size_t size = 0;
    if (count == all)
        return 0;
    if (count == 0)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "no node answers: see srun's message above, or "
                            "slurmd's log on the nodes");
    FILE *out = open_memstream(&list, &size);
    const char *separator = "";
    for (size_t i = 0; out && i < all; i++)
        if (report->nodes[i].address) {
            fprintf(out, "%s%s", separator, report->nodes[i].name);
            separator = ",";
        }
    if (!out || fclose(out) != 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    dt_doctor_report_fini(report);
    int rc = dt_doctor_report_init(report, all, err);
    if (rc == 0)
        rc = run_probes(job_id, list, count, report, err);
    free(list);
    return rc;
}

/* Examines the nodes and prints the table. Returns the exit status, or -1. */
static int examine_nodes(const struct dt_doctor_world *world, bool brief,
                         struct dt_error *err)
{
    struct dt_doctor_report report;
    if (dt_doctor_report_init(&report, world->count, err) < 0)
        return -1;
    int rc = run_probes(world->job, world->list, world->count, &report, err);
    if (rc == 0)
        rc = run_without_silent(world->job, &report, err);
    if (rc == 0) {
        dt_doctor_report_judge(&report, world->names);
        if (report.out_of_memory)
            rc = dt_error_set(err, EX_OSERR, "out of memory");
        else
            dt_doctor_report_print(&report, brief, stdout);
    }
    if (rc == 0 && dt_doctor_report_count(&report, DT_DOCTOR_BAD) > 0)
        rc = EX_UNAVAILABLE;
    dt_doctor_report_fini(&report);
    return rc;
}

int dt_cmd_doctor(int argc, char **argv)
{
    struct options options;
    struct dt_doctor_world world;
    struct dt_error err;
    const char *task = getenv("SLURM_PROCID");
    int rc = parse_options(argc, argv, &options);
    if (rc != DT_CMD_RUN)
        return rc;
    if (options.rates.file)
        return dt_doctor_rates(&options.rates);
    if (options.plugin)
        return dt_doctor_plugin(stdout) ? 0 : EX_CONFIG;
    if (options.probe && options.ranks) {
        dt_doctor_ranks_probe(options.job);
        return 0;
    }
    if (options.probe)
        return dt_doctor_probe(&err) < 0 ? dt_cmd_fail("doctor", &err) : 0;
    dt_child_guard();
    /* In a step, only the first task runs the doctor. */
    if (!options.job && task && strcmp(task, "0") != 0)
        return 0;
    rc = dt_doctor_world_init(&world, options.job, &err);
    if (rc == 0) {
        signal(SIGPIPE, SIG_IGN);
        clean_environment();
        rc = options.ranks
                 ? dt_doctor_print_ranks(&world, options.job, stdout, &err)
                 : examine_nodes(&world, options.brief, &err);
    }
    dt_doctor_world_fini(&world);
    return rc < 0 ? dt_cmd_fail("doctor", &err) : rc;
}
