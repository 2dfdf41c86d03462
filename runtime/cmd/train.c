/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - `disttrain train FILE`: joins the world and trains */
#include "config.h"

#include <getopt.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "algo/trainer.h"
#include "algo/world.h"
#include "backend/backend.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "contract/contract.h"
#include "launch/launch.h"
#include "report/report.h"

enum { JOIN_TIMEOUT_MS = 60000 }; /* before the configuration is known */

/* SIGTERM, SIGUSR1 and SIGINT wait until the trainer asks for them, which is
 * between two steps. No handler: the frame that the kernel would put on the
 * stack of a thread in a matrix product destroys memory of oneDNN 2.6.
 */
static void stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGINT);
}

/* First thing, so that every thread inherits it: the default action of these
 * signals would lose the run.
 */
static void hold_signals(void)
{
    sigset_t set;
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* a write error says it better */
    signal(SIGXFSZ, SIG_IGN); /* so here: a limit on the size of files */
}

static bool stop_asked(void)
{
    const struct timespec now = {0, 0};
    sigset_t set;
    stop_signals(&set);
    return sigtimedwait(&set, NULL, &now) > 0;
}

/* Without OMP_NUM_THREADS: this rank's share of the CPUs it may run on. */
static void choose_threads(const struct dt_launch *launch)
{
    cpu_set_t cpus;
    if (getenv("OMP_NUM_THREADS") ||
        sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
        return;
    int share = CPU_COUNT(&cpus) / dt_launch_local_size(launch);
    omp_set_num_threads(share > 1 ? share : 1);
}

/* The hardware that run.device asks for, with a stream for all work. */
static const struct dt_backend *open_hardware(const struct dt_conf *conf,
                                              const struct dt_launch *launch,
                                              struct dt_exec *exec,
                                              struct dt_error *err)
{
    static const char *const names[] = {
        [DT_CONF_AUTO_DEVICE] = "auto",
        [DT_CONF_CPU] = "cpu",
        [DT_CONF_CUDA] = "cuda",
    };
    static const enum dt_attention_kind kinds[] = {
        [DT_CONF_AUTO_ATTENTION] = DT_ATTENTION_AUTO,
        [DT_CONF_FLASH] = DT_ATTENTION_FLASH,
        [DT_CONF_MATH] = DT_ATTENTION_MATH,
    };
    const struct dt_backend_options options = {
        .local_rank = dt_launch_local_rank(launch),
        .deterministic = conf->run.deterministic,
        .tf32 = conf->precision.tf32,
        .attention = kinds[conf->model.attention],
    };
    char note[512];
    const struct dt_backend *backend = dt_backend_open(
        names[conf->run.device], &options, note, sizeof(note), err);
    if (!backend)
        return NULL;
    if (note[0])
        dt_log(dt_launch_rank(launch) == 0 ? DT_LOG_INFO : DT_LOG_DEBUG, "cmd",
               "%s", note);
    *exec = (struct dt_exec){backend->device, backend->ops, NULL};
    if (backend->device->stream_create(&exec->stream, err) < 0)
        return NULL;
    return backend;
}

static struct dt_comm *connect_ranks(const struct dt_conf *conf,
                                     const struct dt_backend *backend,
                                     struct dt_stream *stream,
                                     struct dt_launch *launch,
                                     struct dt_error *err)
{
    const struct dt_comm_world world = dt_world_of(launch);
    const struct dt_comm_options options = {
        .interface = conf->distributed.interface,
        .timeout_ms = (int)(conf->distributed.timeout_s * 1000),
        .stream = stream,
    };
    if (conf->run.device == DT_CONF_AUTO_DEVICE && world.size > 1 &&
        dt_backend_agree(backend, &world, options.timeout_ms, err) < 0)
        return NULL;
    return dt_backend_connect(backend, &world, &options, err);
}

/* Every problem of the file, from one rank only. */
static void print_problems(const char *before,
                           const struct dt_conf_problems *problems, int rank)
{
    for (size_t i = 0; rank == 0 && i < problems->count; i++)
        fprintf(stderr, "%s%s\n", before, problems->text[i]);
}

/* Does this rank tell the user? Of its own failure, yes. Of a peer's not, if
 * the peer could tell itself; of one that was lost without a word, one for all,
 * and not before Slurm and the plugin have told what they know of it.
 */
static bool speaks(int rank, const struct dt_error *err)
{
    if (err->lost_rank < 0)
        return true;
    if (err->status != EX_UNAVAILABLE)
        return false;
    dt_clock_sleep(0.3);
    return rank == (err->lost_rank == 0 ? 1 : 0);
}

/* Tells the user and the other ranks, and ends the process: in a world of many
 * nobody can leave it in order any more. Not through the launcher's abort,
 * which would kill the others before they know why.
 */
static int fail(struct dt_launch *launch, struct dt_comm *comm,
                const struct dt_error *err)
{
    int rank = dt_launch_rank(launch), size = dt_launch_size(launch);
    if (err->status == EX_TEMPFAIL) {
        if (rank == 0)
            fprintf(stderr, "disttrain: %s\n", err->text);
        dt_comm_destroy(comm);
        return EX_TEMPFAIL;
    }
    if (speaks(rank, err))
        dt_report_failure(rank, size, dt_launch_host(launch, rank), err);
    if (!comm && size > 1)
        dt_launch_abort(launch, err->status, err->text);
    dt_comm_abandon(comm, err);
    if (size > 1)
        _exit(err->status);
    return err->status;
}

static int train(const struct dt_conf *conf, struct dt_launch *launch)
{
    struct dt_exec exec;
    struct dt_error err;
    dt_log_init(dt_launch_rank(launch), (enum dt_log_level)conf->logging.level);
    dt_fault_rank(dt_launch_rank(launch));
    choose_threads(launch);
    const struct dt_backend *backend = open_hardware(conf, launch, &exec, &err);
    struct dt_comm *comm =
        backend ? connect_ranks(conf, backend, exec.stream, launch, &err)
                : NULL;
    if (!comm || dt_trainer_run(conf, &exec, comm, dt_launch_local_size(launch),
                                stop_asked, &err) < 0)
        return fail(launch, comm, &err);
    dt_comm_destroy(comm);
    exec.device->stream_destroy(exec.stream);
    return 0;
}

static int load_and_train(const char *path)
{
    struct dt_conf_problems problems = {0}, warnings = {0};
    struct dt_error err;
    struct dt_conf *conf = dt_conf_load(path, &problems, &warnings);
    int status = EX_CONFIG;
    struct dt_launch *launch = dt_launch_create(
        conf ? (int)(conf->distributed.timeout_s * 1000) : JOIN_TIMEOUT_MS,
        &err);
    if (!launch) {
        fprintf(stderr, "disttrain: %s\n", err.text);
        status = err.status;
    } else {
        print_problems("warning: ", &warnings, dt_launch_rank(launch));
        print_problems("", &problems, dt_launch_rank(launch));
        if (conf && conf->trains)
            status = train(conf, launch);
        else if (conf && dt_launch_rank(launch) == 0)
            fprintf(stderr,
                    "disttrain: %s: nothing to train: it has no algorithm\n",
                    path);
    }
    dt_launch_destroy(launch);
    dt_conf_destroy(conf);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return status;
}

static void print_help(void)
{
    fputs(
        "usage: disttrain train FILE\n\n"
        "Trains as the configuration FILE says, see disttrain.yaml(5). Under\n"
        "srun, mpirun or any other PMIx launcher every task is a rank;\n"
        "without one it is a world of one. In a step of\n"
        "`srun --disttrain=FILE` the file need not be named again.\n\n"
        "SIGTERM, SIGUSR1 or SIGINT: finish the step, save a checkpoint, "
        "exit 75.\n",
        stdout);
}

int dt_cmd_train(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'},
                                            {0}};
    int c;
    hold_signals();
    opterr = 0;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c != 'h')
            return dt_cmd_option_error("train", c, argv[optind - 1]);
        print_help();
        return 0;
    }
    const char *path = optind < argc ? argv[optind] : getenv(DT_ENV_CONFIG);
    if (!path)
        return dt_cmd_usage_error("train", "which configuration FILE?");
    if (argc > optind + 1)
        return dt_cmd_usage_error("train", "one FILE only, '%s' is too much",
                                  argv[optind + 1]);
    return load_and_train(path);
}
