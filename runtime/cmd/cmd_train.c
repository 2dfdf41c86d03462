/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_train.c - `disttrain train FILE`: joins the world and trains */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>

#include "backend/backend.h"
#include "base/child.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "cmd/cmd_impl.h"
#include "contract/contract.h"
#include "launch/launch.h"
#include "plan/plan.h"
#include "train/train.h"

enum { PAGE_MS = 3000 };

/* These stay pending until the trainer asks for them between two steps: those
 * of launch.signal, and Ctrl-C. There is no handler because the frame that the
 * kernel would put on the stack of a thread in a matrix multiplication destroys
 * memory of oneDNN 2.6. A run under nohup ignores SIGHUP, which would be
 * pending if it were blocked.
 */
static void stop_signals(sigset_t *set)
{
    struct sigaction hangup;
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGUSR2);
    sigaddset(set, SIGINT);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(set, SIGHUP);
}

/* Must run before any thread is created, so that every thread inherits the
 * mask: the default action of these signals would lose the run.
 */
static void hold_signals(void)
{
    sigset_t set;
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* the write fails with a better message */
    signal(SIGXFSZ, SIG_IGN); /* the same for a limit on file sizes */
}

static bool stop_asked(void)
{
    const struct timespec now = {0, 0};
    sigset_t set;
    stop_signals(&set);
    return sigtimedwait(&set, NULL, &now) > 0;
}

/* Prints warnings and problems of the file, on one rank only. */
static void print_notes(const char *path,
                        const struct dt_conf_problems *warnings,
                        const struct dt_conf_problems *problems, int rank)
{
    if (rank == 0)
        dt_cmd_warn_once(path, warnings);
    for (size_t i = 0; rank == 0 && i < problems->count; i++)
        fprintf(stderr, "%s\n", problems->text[i]);
}

/* Explains the run in report.html, in a child process, and waits for it at most
 * PAGE_MS.
 */
static void write_page(const struct dt_conf *conf)
{
    char said[256];
    struct dt_error err = {.text = "it failed"};
    char *const argv[] = {DT_PROC_SELF, "report", conf->logging.dir, NULL};
    if (!conf->logging.to_html || !conf->logging.to_jsonl ||
        conf->training.eval_only)
        return;
    if (dt_child_ask(argv, PAGE_MS, said, sizeof(said), &err) != 0)
        dt_log(
            DT_LOG_WARN, "report",
            "no report.html of this run: %s; write it with `disttrain report "
            "%s`, which says why",
            err.text, conf->logging.dir);
}

static int train(struct dt_conf *conf, struct dt_launch *launch)
{
    struct dt_exec exec;
    struct dt_error err;
    bool recorded = false;
    struct dt_run_start start = {.began = dt_proc_began()};
    start.loss_count = dt_launch_losses(launch, &start.losses);
    dt_log_init(dt_launch_rank(launch), (enum dt_log_level)conf->logging.level);
    dt_fault_rank(dt_launch_rank(launch));
    dt_models_find(conf, true);
    dt_join_threads(launch);
    const struct dt_backend *backend =
        dt_trainer_begin(&start, &err) == 0
            ? dt_join_hardware(conf, launch, &exec, &err)
            : NULL;
    struct dt_comm *comm =
        backend ? dt_join_ranks(conf, backend, exec.stream, launch, &err)
                : NULL;
    int rc =
        comm ? dt_trainer_run(conf, &exec, comm, dt_launch_local_size(launch),
                              &start, stop_asked, &recorded, &err)
             : -1;
    /* the other ranks do not wait for the page */
    if (rc < 0)
        dt_join_tell(launch, comm, &err);
    else
        dt_comm_destroy(comm);
    if (recorded &&
        !(rc < 0 && err.lost_rank >= 0 && dt_launch_is_kept(launch)))
        write_page(conf);
    if (rc < 0)
        return dt_join_end(launch, &err);
    exec.device->stream_destroy(exec.stream);
    return 0;
}

/* A thread of the run may still wait for a disk, and then read the
 * configuration: it is freed when the process ends.
 */
static _Atomic(struct dt_conf *) kept;

static int load_and_train(const char *path, char **argv)
{
    struct dt_conf_problems problems = {0}, warnings = {0};
    struct dt_error err;
    struct dt_conf *conf =
        dt_conf_load(path, dt_cmd_overrides(), &problems, &warnings);
    int status = EX_CONFIG;
    if (conf && conf->trains && dt_keep_training(conf, argv, &status)) {
        dt_conf_destroy(conf);
        dt_conf_problems_fini(&problems);
        dt_conf_problems_fini(&warnings);
        return status;
    }
    struct dt_launch *launch = dt_launch_create(
        conf ? (int)(conf->distributed.timeout_s * 1000) : DT_JOIN_TIMEOUT_MS,
        &err);
    if (!launch) {
        fprintf(stderr, "disttrain: %s\n", err.text);
        status = err.status;
    } else {
        print_notes(path, &warnings, &problems, dt_launch_rank(launch));
        if (conf)
            conf->training.restarted = dt_launch_restarts(launch) > 0;
        if (conf && conf->trains)
            status = train(conf, launch);
        else if (conf && dt_launch_rank(launch) == 0)
            fprintf(stderr,
                    "disttrain: %s: nothing to train: it has no algorithm\n",
                    path);
    }
    dt_launch_destroy(launch);
    atomic_store(&kept, conf);
    dt_conf_problems_fini(&problems);
    dt_conf_problems_fini(&warnings);
    return status;
}

static const struct dt_option table[] = {
    {DT_CMD_SET,
     .help =
         "take this value, whatever FILE says; it may be given several times"},
    {0},
};

static const struct dt_cmd_line line = {
    "train",
    "usage: disttrain train [--set KEY=VALUE]... [FILE]\n\n"
    "Trains a model as the configuration FILE describes, see\n"
    "disttrain.yaml(5). Under srun, mpirun or any other PMIx launcher\n"
    "every task is a rank; without a launcher there is one rank. FILE may\n"
    "be left out in a step of `srun --disttrain=FILE`.\n",
    table,
    "On SIGTERM, SIGUSR1, SIGUSR2, SIGHUP or SIGINT it finishes the step,\n"
    "saves a checkpoint and exits with status 75.\n"};

/* Takes the values of --disttrain-set if this is the file of the step. */
static int inherit_overrides(const char *path)
{
    struct dt_error err;
    const char *config = getenv(DT_ENV_CONFIG);
    const char *list = getenv(DT_ENV_OVERRIDES);
    if (!config || !list || !dt_file_is_same(path, config) ||
        dt_cmd_overrides_inherit(list, &err) == 0)
        return EX_OK;
    fprintf(stderr, "disttrain train: --disttrain-set: %s\n", err.text);
    return err.status;
}

int dt_cmd_train(int argc, char **argv)
{
    hold_signals();
    int status = dt_cmd_parse(&line, argc, argv, NULL);
    if (status != DT_CMD_RUN)
        return status;
    const char *path = optind < argc ? argv[optind] : getenv(DT_ENV_CONFIG);
    if (!path)
        return dt_cmd_usage_error("train", "expected a configuration FILE");
    if (argc > optind + 1)
        return dt_cmd_usage_error(
            "train", "expected one FILE, but got '%s' too", argv[optind + 1]);
    status = inherit_overrides(path);
    return status == EX_OK ? load_and_train(path, argv) : status;
}
