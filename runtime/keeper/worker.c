/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - the program of a rank, as a child of its keeper */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/inherited.h"
#include "base/net.h"
#include "base/proc.h"
#include "keeper/relay.h"
#include "keeper/worker.h"

enum {
    CANNOT_RUN = 126, /* the exit statuses of shells */
    NOT_FOUND = 127,
    OOM_SCORE = 500, /* when memory is short, the kernel takes the worker */
    ROUNDS = 200,    /* of killing its descendants */
};

#define ROUND_S 0.005

int dt_worker_init(struct dt_worker *worker, const sigset_t *signals,
                   struct dt_error *err)
{
    *worker = (struct dt_worker){.state = -1, .signals = *signals};
    getrlimit(RLIMIT_NOFILE, &worker->files);
    dt_wire_init(&worker->wire, -1);
    if (!(worker->board = dt_board_create(err)))
        return -1;
    worker->state = memfd_create("disttrain-state", MFD_CLOEXEC);
    if (worker->state < 0)
        return dt_error_set(err, EX_OSERR, "keeper: memfd_create: %s",
                            strerror(errno));
    /* orphans of the worker become our children, so that we can end them */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return 0;
}

void dt_worker_fini(struct dt_worker *worker)
{
    dt_wire_close(&worker->wire);
    dt_board_close(worker->board);
    worker->board = NULL;
    if (worker->state >= 0)
        close(worker->state);
    worker->state = -1;
}

uint32_t dt_worker_find_port(const struct dt_keeper_options *options)
{
    unsigned port = 0;
    int fd = options->trains ? -1 : dt_net_listen(NULL, &port, NULL);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? 0 : port;
}

static void set_number(const char *name, long value)
{
    char text[24];
    snprintf(text, sizeof(text), "%ld", value);
    setenv(name, text, 1);
}

/* Raises the chance that the kernel takes this process, which needs no right.
 */
static void offer_to_kernel(void)
{
    FILE *file = fopen("/proc/self/oom_score_adj", "we");
    if (!file)
        return;
    fprintf(file, "%d\n", OOM_SCORE);
    fclose(file);
}

static void keep_open(int fd)
{
    fcntl(fd, F_SETFD, 0);
}

/* The child, up to exec. */
static void run_program(const struct dt_worker *worker,
                        const struct dt_keeper_options *options,
                        char *const *argv, pid_t keeper, int socket)
{
    const struct dt_inherited inherited = {socket, dt_board_fd(worker->board),
                                           worker->state};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) /* it has died before that */
        _exit(EX_UNAVAILABLE);
    offer_to_kernel();
    dt_relay_take(worker->relay);
    if (options->trains) {
        dt_inherited_set(&inherited);
        keep_open(inherited.socket);
        keep_open(inherited.board);
        keep_open(inherited.state);
    }
    setrlimit(RLIMIT_NOFILE, &worker->files);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &worker->signals, NULL);
    execvp(options->program ? options->program : argv[0], argv);
    fprintf(stderr, "disttrain: cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? NOT_FOUND : CANNOT_RUN);
}

int dt_worker_start(struct dt_worker *worker,
                    const struct dt_keeper_options *options, char *const *argv,
                    int restarts, unsigned port, struct dt_error *err)
{
    int pair[2];
    const pid_t self = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return dt_error_set(err, EX_OSERR, "keeper: socketpair: %s",
                            strerror(errno));
    set_number(DT_WORKER_RESTARTS, (long)worker->earlier + restarts);
    set_number("TORCHELASTIC_MAX_RESTARTS",
               worker->earlier + options->max_restarts);
    if (port != 0)
        set_number("MASTER_PORT", port);
    dt_wire_close(&worker->wire);
    dt_wire_init(&worker->wire, pair[0]);
    dt_board_clear(worker->board);
    worker->oom_kills = dt_cgroup_oom_kills("");
    worker->pid = fork();
    if (worker->pid == 0)
        run_program(worker, options, argv, self, pair[1]);
    close(pair[1]);
    if (worker->pid > 0)
        return 0;
    worker->pid = 0;
    return dt_error_set(err, EX_OSERR, "keeper: fork: %s", strerror(errno));
}

void dt_worker_look(const struct dt_worker *worker, struct dt_wire_beat *beat)
{
    struct dt_proc_stat stat = {0};
    if (worker->pid != 0)
        dt_proc_stat(&stat, "", worker->pid);
    *beat = (struct dt_wire_beat){
        .step = dt_board_step(worker->board),
        .started = *dt_board_started(worker->board),
        .patience_ms = (int32_t)(dt_board_patience(worker->board) * 1e3),
        .frozen = stat.state == 'T',
    };
}

/* The keeper is in the same control group. */
bool dt_worker_starved(const struct dt_worker *worker, int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
           worker->oom_kills >= 0 &&
           dt_cgroup_oom_kills("") > worker->oom_kills;
}

/* Kills all children of this process but one. Returns how many there were. */
static int kill_children(pid_t errand)
{
    DIR *proc = opendir("/proc");
    struct dt_proc_stat stat;
    int count = 0;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    for (int pid; proc && (pid = dt_proc_next(proc, geteuid())) != 0;)
        if (pid != errand && dt_proc_stat(&stat, "", pid) &&
            stat.parent == getpid()) {
            kill(pid, SIGKILL);
            count++;
        }
    if (proc)
        closedir(proc);
    return count;
}

bool dt_worker_ended(struct dt_worker *worker, pid_t errand, int *status)
{
    bool ended = false;
    pid_t pid;
    int how;
    while ((pid = waitpid(-1, &how, WNOHANG)) > 0)
        if (pid == worker->pid) {
            worker->pid = 0;
            *status = how;
            ended = true;
        }
    /* children of those that are killed become ours */
    for (int i = 0; ended && i < ROUNDS && kill_children(errand) > 0; i++)
        dt_clock_sleep(ROUND_S);
    return ended;
}
