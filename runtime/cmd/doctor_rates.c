/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_rates.c - `disttrain doctor --rates`: measures for `disttrain plan` */
#include "config.h"

#include <errno.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/doctor_rates.h"
#include "cmd/join.h"
#include "forecast/measure.h"
#include "plan/generation_plan.h"
#include "plan/plan.h"
#include "run/spec.h"

enum { JOIN_TIMEOUT_MS = 60000 };

static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_positions\": 1024,"
    " \"n_embd\": 768, \"n_layer\": 12, \"n_head\": 12}";

/* This rank's part of a measurement. */
struct rank {
    const struct dt_doctor_rates *what;
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
            dt_model_family_name(config->family), config->n_embd, rank->B,
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

int dt_doctor_rates(const struct dt_doctor_rates *what)
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
