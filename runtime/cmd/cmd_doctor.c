/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c - `disttrain doctor`: examines whether the nodes of a job are
 * fit to train, or measures rates
 */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/child.h"
#include "cmd/cmd_impl.h"
#include "doctor/doctor.h"
#include "forecast/measure.h"
#include "launch/launch.h"
#include "plan/plan.h"
#include "plan/predict.h"
#include "run/spec.h"

/* --- rates --- */

enum { JOIN_TIMEOUT_MS = 60000 };

/* A measurement, and the file for its results. */
struct rates_request {
    const char *file;
    const char *config; /* whose shapes; NULL: GPT-2 124M's */
    const char *drive;  /* a directory; NULL: none */
};

static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024,"
    " \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12}";

/* This rank's part of a measurement. */
struct rank {
    const struct rates_request *what;
    struct dt_conf *conf;
    struct dt_launch *launch;
    struct dt_exec exec;
    struct dt_comm *comm;
    struct dt_spec spec; /* for its model and batch; nothing is allocated */
    enum dt_dtype compute;
    size_t B, T; /* of a micro-batch */
};

/* The shapes of the configuration, or those of GPT-2 124M. */
static int choose_shapes(struct rank *rank, struct dt_error *err)
{
    struct dt_spec *spec = &rank->spec;
    struct dt_model_options options;
    bool gpu = !rank->exec.device->is_host;
    spec->world = dt_comm_size(rank->comm);
    spec->exec = rank->exec;
    spec->conf = *rank->conf;
    if (rank->conf->trains) {
        if (dt_plan_resolve(spec, &options, err) < 0)
            return -1;
        const struct dt_step_shape shape = dt_step_shape_of(spec);
        rank->compute = options.compute;
        rank->B = shape.rows;
        rank->T = shape.T;
        return 0;
    }
    rank->compute = gpu ? DT_BF16 : DT_F32;
    rank->B = gpu ? 16 : 4;
    rank->T = gpu ? 1024 : 64;
    return dt_model_config_parse(&spec->learner.config, gpt2, "GPT-2", err);
}

/* --- the file --- */

/* Where and how it was measured. */
static void print_head(const struct rank *rank, FILE *out)
{
    const struct dt_model_config *config = &rank->spec.learner.config;
    char date[32] = "";
    time_t now = time(NULL);
    struct tm tm;
    if (gmtime_r(&now, &tm))
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &tm);
    int size = dt_launch_size(rank->launch);
    int local = dt_launch_local_size(rank->launch);
    fprintf(out,
            "# rates for disttrain plan, measured by disttrain doctor --rates\n"
            "# %s, on %s, %d of %d ranks on each node, %d threads each\n"
            "# %s\n"
            "# passes of %s, %zu channels, %zu x %zu tokens, %s\n",
            date, dt_launch_host(rank->launch, 0), local, size,
            omp_get_max_threads(), rank->exec.device->describe(),
            dt_model_type(config), config->n_embd, rank->B,
            rank->T, dt_cmd_dtype_name(rank->compute));
}

static int write_file(const struct rank *rank, const struct dt_rates *rates,
                      struct dt_error *err)
{
    const char *path = rank->what->file;
    FILE *out = fopen(path, "w");
    if (!out)
        return dt_error_set(err, EX_CANTCREAT, "%s: cannot write: %s", path,
                            strerror(errno));
    print_head(rank, out);
    dt_rates_print(rates, out);
    if (fclose(out) != 0)
        return dt_error_set(err, EX_IOERR, "%s: %s", path, strerror(errno));
    return 0;
}

/* --- the step --- */

static int measure(const struct rank *rank, struct dt_rates *rates,
                   struct dt_error *err)
{
    const struct dt_measure what = {
        .exec = &rank->exec,
        .comm = rank->comm,
        .local_rank = dt_launch_local_rank(rank->launch),
        .local_size = dt_launch_local_size(rank->launch),
        .model = &rank->spec.learner.config,
        .B = rank->B,
        .T = rank->T,
        .compute = rank->compute,
        .drive = rank->what->drive,
    };
    return dt_measure_rates(&what, rates, err);
}

static int measure_and_write(struct rank *rank, struct dt_error *err)
{
    struct dt_rates rates = {.of = {0}};
    bool writes = dt_launch_rank(rank->launch) == 0;
    const char *path = rank->what->file;
    if (choose_shapes(rank, err) < 0)
        return -1;
    if (writes && access(path, F_OK) == 0 &&
        dt_rates_load(path, &rates, err) < 0)
        return -1;
    if (measure(rank, &rates, err) < 0)
        return -1;
    if (!writes)
        return 0;
    if (write_file(rank, &rates, err) < 0)
        return -1;
    dt_rates_print(&rates, stdout);
    return dt_cmd_flush("doctor", EX_OK) == EX_OK ? 0 : -1;
}

static int join(struct rank *rank, struct dt_error *err)
{
    signal(SIGPIPE, SIG_IGN);
    rank->launch = dt_launch_create(JOIN_TIMEOUT_MS, err);
    if (!rank->launch)
        return -1;
    dt_join_threads(rank->launch);
    const struct dt_backend *backend =
        dt_join_hardware(rank->conf, rank->launch, &rank->exec, err);
    if (!backend)
        return -1;
    rank->comm = dt_join_ranks(rank->conf, backend, rank->exec.stream,
                               rank->launch, err);
    return rank->comm ? 0 : -1;
}

static int end(struct rank *rank, int rc, const struct dt_error *err)
{
    int status = rc < 0 ? err->status : EX_OK;
    if (rc < 0 && err->lost_rank < 0)
        fprintf(stderr, "disttrain doctor: %s\n", err->text);
    if (rc < 0)
        dt_comm_abandon(rank->comm, err);
    else
        dt_comm_destroy(rank->comm);
    if (rc < 0 && rank->launch && dt_launch_size(rank->launch) > 1)
        _exit(status); /* the others cannot leave in order either */
    dt_launch_destroy(rank->launch);
    dt_spec_fini(&rank->spec);
    dt_conf_destroy(rank->conf);
    return status;
}

/* Measures the rates of the step, as one of its ranks; rank 0 writes the file,
 * and keeps the other rates of an older one. Returns the exit status, after a
 * message if there is one.
 */
static int measure_step(const struct rates_request *what)
{
    struct rank rank = {.what = what};
    struct dt_error err;
    rank.conf =
        dt_cmd_load("doctor", what->config ? what->config : "/dev/null", false);
    if (!rank.conf)
        return EX_CONFIG;
    int rc = join(&rank, &err);
    if (rc == 0)
        rc = measure_and_write(&rank, &err);
    return end(&rank, rc, &err);
}

/* --- nodes --- */

struct options {
    const char *job; /* "ID" or "ID.STEP"; NULL: the job of this process */
    bool brief, plugin, probe, ranks;
    struct rates_request rates; /* file NULL: not asked for */
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
        return dt_cmd_usage_error(
            "doctor", "--job: expected ID or ID.STEP, got '%s'", options->job);
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
        return measure_step(&options.rates);
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
        if (world.lost && world.lost[0])
            fprintf(stderr, "disttrain doctor: lost, and not examined: %s\n",
                    world.lost);
        rc = options.ranks
                 ? dt_doctor_print_ranks(&world, options.job, stdout, &err)
                 : examine_nodes(&world, options.brief, &err);
    }
    dt_doctor_world_fini(&world);
    return rc < 0 ? dt_cmd_fail("doctor", &err) : rc;
}
