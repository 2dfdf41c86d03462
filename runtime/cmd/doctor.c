/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - `disttrain doctor`: are the nodes of this job fit to train */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "doctor/child.h"
#include "doctor/doctor.h"

enum {
    ASK_MS = 5000,
    NAMES_BYTES = 1024 * 1024,
};

struct options {
    const char *job;   /* NULL: this machine only */
    const char *nodes; /* as Slurm writes them, n[1-4] */
    bool brief, probe;
};

static void print_help(void)
{
    puts("usage: disttrain doctor [--brief] [--job=ID --nodes=LIST]\n\n"
         "Examines each node of the job, or this machine if there is no job,\n"
         "and prints a table, and what to do about each problem.\n\n"
         "  --brief            one line, if no node is bad\n"
         "  --job=ID           the job (default: SLURM_JOB_ID)\n"
         "  --nodes=LIST       its nodes (default: all of the step or job)\n"
         "  --probe            what it starts on each node\n\n"
         "Exit status: 0, or 69 if a node is bad; the last line names it.");
}

/* In a step its nodes count, otherwise all of the job. The numbers of batch,
 * interactive and extern steps are above those of any other.
 */
static const char *default_nodes(void)
{
    const char *step = getenv("SLURM_STEP_ID");
    const char *nodes = getenv("SLURM_STEP_NODELIST");
    if (step && nodes && strtoul(step, NULL, 10) < 0xfffffff0)
        return nodes;
    return getenv("SLURM_JOB_NODELIST");
}

/* 0, or the exit status; -1: help was asked for. */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"brief", no_argument, NULL, 'b'},
        {"job", required_argument, NULL, 'j'},
        {"nodes", required_argument, NULL, 'n'},
        {"probe", no_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    *options = (struct options){.job = getenv("SLURM_JOB_ID"),
                                .nodes = default_nodes()};
    opterr = 0;
    optind = 0;
    for (int c; (c = getopt_long(argc, argv, ":", known, NULL)) != -1;) {
        switch (c) {
        case 'b':
            options->brief = true;
            break;
        case 'j':
            options->job = optarg;
            break;
        case 'n':
            options->nodes = optarg;
            break;
        case 'p':
            options->probe = true;
            break;
        case 'h':
            print_help();
            return -1;
        case ':':
            return dt_cmd_usage_error("doctor", "%s needs a value",
                                      argv[optind - 1]);
        default:
            return dt_cmd_usage_error("doctor", "unknown option '%s'",
                                      argv[optind - 1]);
        }
    }
    if (optind < argc)
        return dt_cmd_usage_error("doctor", "unexpected '%s'", argv[optind]);
    if (options->job && !options->nodes)
        return dt_cmd_usage_error("doctor", "--job needs --nodes");
    return 0;
}

/* The machines that are examined; names point into text. */
struct world {
    char *text;
    char **names;
    size_t count;
};

static void world_fini(struct world *world)
{
    free(world->text);
    free(world->names);
}

/* Asks Slurm, one name a line; without a job it is this machine. */
static int read_names(char *text, const char *nodes, struct dt_error *err)
{
    char *const argv[] = {"scontrol", "show", "hostnames", (char *)nodes, NULL};
    if (!nodes)
        return gethostname(text, HOST_NAME_MAX);
    int status = dt_doctor_ask(argv, ASK_MS, text, NAMES_BYTES, err);
    if (status > 0)
        dt_error_set(err, EX_UNAVAILABLE,
                     "scontrol show hostnames %s: exit status %d", nodes,
                     status);
    return status == 0 ? 0 : -1;
}

static int world_init(struct world *world, const char *nodes,
                      struct dt_error *err)
{
    *world = (struct world){.text = calloc(1, NAMES_BYTES)};
    if (!world->text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (read_names(world->text, nodes, err) < 0)
        return -1;
    size_t lines = 1;
    for (const char *c = world->text; *c; c++)
        lines += *c == '\n';
    world->names = calloc(lines, sizeof(*world->names));
    if (!world->names)
        return dt_error_set(err, EX_OSERR, "out of memory");
    char *rest = world->text;
    for (char *name; (name = strsep(&rest, "\n")) != NULL;)
        if (name[0])
            world->names[world->count++] = name;
    if (world->count == 0)
        return dt_error_set(err, EX_UNAVAILABLE, "%s: no nodes", nodes);
    return 0;
}

/* What srun would otherwise take from the job or the step around it: options,
 * the plugin's own, and the PMIx server of that step.
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

/* One probe on each of `count` nodes, or here, if there is no job. */
static int run_probes(const struct options *options, const char *list,
                      size_t count, struct dt_doctor_report *report,
                      struct dt_error *err)
{
    char self[PATH_MAX] = "";
    char job[64];
    char nodes[32];
    char tasks[32];
    char *const srun[] = {
        "srun",
        job,
        "--nodelist",
        (char *)list,
        nodes,
        tasks,
        "--ntasks-per-node=1",
        "--overlap",
        "--mpi=none",
        "--quiet",
        "--kill-on-bad-exit=0",
        self,
        "doctor",
        "--probe",
        NULL,
    };
    char *const here[] = {self, "doctor", "--probe", NULL};
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return dt_error_set(err, EX_OSERR, "/proc/self/exe: %s",
                            strerror(errno));
    snprintf(job, sizeof(job), "--jobid=%s", options->job ? options->job : "");
    snprintf(nodes, sizeof(nodes), "--nodes=%zu", count);
    snprintf(tasks, sizeof(tasks), "--ntasks=%zu", count);
    return dt_doctor_gather(report, count, options->job ? srun : here, err);
}

/* If some do not answer, the others are examined without them. */
static int run_without_silent(const struct options *options,
                              struct dt_doctor_report *report,
                              struct dt_error *err)
{
    size_t count = dt_doctor_report_present(report);
    size_t all = report->node_count;
    char *list = NULL;
    size_t size = 0;
    if (count == 0 || count == all)
        return 0;
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
        rc = run_probes(options, list, count, report, err);
    free(list);
    return rc;
}

/* Prints the table. Returns the exit status, or -1. */
static int examine(const struct options *options, const struct world *world,
                   struct dt_error *err)
{
    struct dt_doctor_report report;
    if (dt_doctor_report_init(&report, world->count, err) < 0)
        return -1;
    int rc = run_probes(options, options->nodes, world->count, &report, err);
    if (rc == 0)
        rc = run_without_silent(options, &report, err);
    if (rc == 0) {
        dt_doctor_report_judge(&report, world->names);
        if (report.out_of_memory)
            rc = dt_error_set(err, EX_OSERR, "out of memory");
        else
            dt_doctor_report_print(&report, options->brief, stdout);
    }
    if (rc == 0 && dt_doctor_report_count(&report, DT_DOCTOR_BAD) > 0)
        rc = EX_UNAVAILABLE;
    dt_doctor_report_fini(&report);
    return rc;
}

static int fail(const struct dt_error *err)
{
    fprintf(stderr, "disttrain doctor: %s\n", err->text);
    return err->status;
}

int dt_cmd_doctor(int argc, char **argv)
{
    struct options options;
    struct world world;
    struct dt_error err;
    const char *task = getenv("SLURM_PROCID");
    int rc = parse(argc, argv, &options);
    if (rc != 0)
        return rc < 0 ? 0 : rc;
    if (options.probe)
        return dt_doctor_probe(&err) < 0 ? fail(&err) : 0;
    /* In a step, its first task does it all. */
    if (task && strcmp(task, "0") != 0)
        return 0;
    rc = world_init(&world, options.job ? options.nodes : NULL, &err);
    if (rc == 0) {
        signal(SIGPIPE, SIG_IGN);
        clean_environment();
        rc = examine(&options, &world, &err);
    }
    world_fini(&world);
    return rc < 0 ? fail(&err) : rc;
}
