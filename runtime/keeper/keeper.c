/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c - the loop of a keeper: its worker, the leader, and signals */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "contract/variables.h"
#include "keeper/keeper.h"
#include "keeper/keeper_impl.h"
#include "keeper/leader.h"
#include "keeper/reach.h"
#include "keeper/relay.h"
#include "keeper/roster.h"
#include "keeper/verdict.h"
#include "keeper/worker.h"

enum {
    RELAY_FD = 3,
    OWN_FDS = RELAY_FD + DT_RELAY_STREAMS,
    LATE_BEATS = 3,
    SAY_S = 120,   /* in which TCP tries again what a link has lost */
    LOOK_MS = 200, /* between two looks for slurmstepd */
};

/* --- who this is --- */

bool dt_keeper_possible(const char *secret, const char **why)
{
    static const char *const numbers[] = {
        "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NODEID", "MASTER_PORT"};
    int number;
    *why = !secret                  ? "a step of srun with disttrain's plugin"
           : !getenv("MASTER_ADDR") ? "MASTER_ADDR"
                                    : NULL;
    for (size_t i = 0; !*why && i < sizeof(numbers) / sizeof(*numbers); i++)
        if (!dt_keeper_number(numbers[i], &number))
            *why = numbers[i];
    return !*why;
}

static int identify(struct dt_keeper *k, struct dt_error *err)
{
    const char *why;
    if (!dt_keeper_possible(k->options->secret, &why) ||
        !dt_keeper_number("SLURM_PROCID", &k->id) ||
        !dt_keeper_number("SLURM_STEP_NUM_TASKS", &k->count) ||
        !dt_keeper_number("SLURM_NODEID", &k->hello.node))
        return dt_error_set(err, EX_CONFIG, "keeper: it needs %s", why);
    if (k->count < 1 || k->id >= k->count || k->hello.node >= k->count)
        return dt_error_set(err, EX_CONFIG,
                            "keeper: task %d on node %d in a step of %d", k->id,
                            k->hello.node, k->count);
    const char *name = getenv("SLURMD_NODENAME"); /* as scontrol knows it */
    if (name)
        snprintf(k->host, sizeof(k->host), "%s", name);
    else
        gethostname(k->host, sizeof(k->host) - 1);
    if (dt_roster_init(&k->roster, k->count) < 0)
        return dt_error_set(err, EX_OSERR, "keeper: no memory");
    return 0;
}

/* --- signals --- */

static int hold_signals(struct dt_keeper *k, struct dt_error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (int i = 0; i < DT_KEEPER_ASKING; i++)
        sigaddset(&set, dt_keeper_asking[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* stderr may end before the step does */
    k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k->signals < 0)
        return dt_error_set(err, EX_OSERR, "keeper: signalfd: %s",
                            strerror(errno));
    return 0;
}

/* --- the loop --- */

static void send_beat(struct dt_keeper *k)
{
    struct dt_wire_beat beat;
    dt_worker_look(&k->worker, &beat);
    beat.orphaned = getppid() != k->parent;
    dt_keeper_tell(k, DT_WIRE_BEAT, &beat, sizeof(beat), NULL, 0);
}

static void look_at_clock(struct dt_keeper *k)
{
    const double now = dt_clock_now(), beat_s = k->options->beat_ms / 1e3;
    if (k->kill_at > 0 && now > k->kill_at && k->worker.pid != 0)
        kill(k->worker.pid, SIGKILL);
    const double outage = k->options->outage_s;
    char silent[64];
    snprintf(silent, sizeof(silent), "it was not heard for %g s", outage);
    if (k->asked && k->roster.life == 0)
        dt_keeper_end(k, EX_TEMPFAIL << 8);
    else if (now - k->heard > outage)
        dt_keeper_lose_leader(k, silent);
    else if (now - k->told > beat_s)
        send_beat(k);
}

/* Milliseconds until the clock gives something to do. */
static int patience(const struct dt_keeper *k)
{
    const double now = dt_clock_now();
    double left =
        fmin(k->options->beat_ms / 1e3, dt_relay_due(&k->relay) - now);
    if (k->kill_at > 0 && k->kill_at - now < left)
        left = k->kill_at > now ? k->kill_at - now : 0.02;
    if (k->leader && dt_leader_due(k->leader) - now < left)
        left = dt_leader_due(k->leader) - now;
    return left > 0 ? (int)(left * 1e3) + 1 : 0;
}

/* A turn of the loop takes one beat at most. If it took longer, this process
 * was stopped, perhaps with all of its job: that time counts for nobody. But a
 * worker that others may have replaced meanwhile ends before it does anything.
 */
static void excuse_pause(struct dt_keeper *k)
{
    const double now = dt_clock_now(), beat_s = k->options->beat_ms / 1e3;
    const double late = now - k->turned, more = late - 2 * beat_s;
    k->turned = now;
    if (more <= 0)
        return;
    k->heard += more;
    if (k->leader)
        dt_leader_excuse(k->leader, more);
    if (!k->options->replaces || late < LATE_BEATS * beat_s ||
        k->worker.pid == 0 || k->kill_at > 0)
        return;
    snprintf(k->note, sizeof(k->note),
             "rank %d on %s: its keeper did not run for %.1f s, in which "
             "others may have gone on",
             k->roster.posts[k->id].rank, k->host, late);
    kill(k->worker.pid, SIGKILL);
}

static struct pollfd poll_wire(const struct dt_wire *wire)
{
    const short out = dt_wire_pending(wire) ? POLLOUT : 0;
    return (struct pollfd){wire->fd, (short)(POLLIN | out), 0};
}

/* Sends and receives on a wire that is ready. */
static void serve_wire(struct dt_keeper *k, struct dt_wire *wire, short got,
                       void (*serve)(struct dt_keeper *k))
{
    if (got & POLLOUT)
        dt_wire_flush(wire);
    if (got & ~POLLOUT)
        serve(k);
}

static void run_loop(struct dt_keeper *k, struct pollfd *fds)
{
    k->heard = k->told = k->turned = dt_clock_now();
    while (!k->over) {
        int status;
        size_t count = OWN_FDS;
        fds[0] = (struct pollfd){k->signals, POLLIN, 0};
        fds[1] = poll_wire(&k->link);
        fds[2] = poll_wire(&k->worker.wire);
        dt_relay_poll(&k->relay, fds + RELAY_FD);
        if (k->leader)
            count += dt_leader_poll(k->leader, fds + OWN_FDS);
        if (poll(fds, (nfds_t)count, patience(k)) < 0)
            continue; /* EINTR */
        excuse_pause(k);
        serve_wire(k, &k->worker.wire, fds[2].revents, dt_keeper_serve_worker);
        if (fds[0].revents)
            dt_keeper_read_signals(k);
        if (k->worker.pid != 0 &&
            dt_worker_ended(&k->worker, dt_keeper_errand(k), &status)) {
            if (k->worker.wire.fd >= 0) /* its last words */
                dt_keeper_serve_worker(k);
            dt_keeper_report_down(k, status);
        }
        if (k->leader)
            dt_leader_serve(k->leader, fds + OWN_FDS);
        serve_wire(k, &k->link, fds[1].revents, dt_keeper_serve_leader);
        if (!k->over)
            look_at_clock(k);
        dt_relay_serve(&k->relay);
    }
}

static bool is_srun_gone(const void *keeper)
{
    const struct dt_keeper *k = keeper;
    return dt_reach_lost_srun(k->options, &k->roster);
}

static int start_keeper(struct dt_keeper *k, struct dt_error *err)
{
    if (dt_relay_init(&k->relay, is_srun_gone, k, err) < 0 ||
        identify(k, err) < 0 || hold_signals(k, err) < 0 ||
        dt_worker_init(&k->worker, &k->before, err) < 0)
        return -1;
    k->worker.relay = &k->relay;
    if (!dt_keeper_number(DT_WORKER_RESTARTS, &k->worker.earlier))
        k->worker.earlier = 0;
    dt_reach_hear_srun(k->options, &k->roster);
    if (dt_keeper_listen(k, err) < 0 ||
        (k->id == 0 ? dt_keeper_lead(k, err) : dt_keeper_follow(k, err)) < 0)
        return -1;
    return dt_keeper_say_hello(k, err);
}

/* Whether Slurm asks this task to end. */
static bool is_told_to_end(int signals)
{
    struct signalfd_siginfo info;
    bool told = false;
    while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        told |= info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
    return told;
}

/* Waits until the console has heard the end, which it says by a connection. */
static void stay(const struct dt_keeper *k, double until)
{
    struct pollfd fds[2] = {{k->hears, POLLIN, 0}, {k->signals, POLLIN, 0}};
    while (dt_clock_now() < until && getppid() == k->parent &&
           !fds[0].revents && !is_told_to_end(k->signals))
        poll(fds, 2, LOOK_MS);
}

/* A link that has served ends with this process: the leader may wait for that.
 */
static void free_keeper(struct dt_keeper *k)
{
    const double until = dt_clock_now() + k->options->hear_s;
    dt_leader_destroy(k->leader);
    if (!k->over)
        dt_wire_close(&k->link);
    dt_worker_fini(&k->worker);
    if (k->listener >= 0)
        close(k->listener);
    dt_relay_fini(&k->relay, SAY_S);
    if (k->hears >= 0) {
        stay(k, until);
        close(k->hears);
    }
    if (k->signals >= 0)
        close(k->signals);
    dt_roster_fini(&k->roster);
}

/* Ends this process as its worker has ended. */
static int end_like(int status, const sigset_t *before)
{
    const struct rlimit no_core = {0, 0};
    sigset_t one;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    setrlimit(RLIMIT_CORE, &no_core); /* the worker has left one */
    signal(WTERMSIG(status), SIG_DFL);
    sigprocmask(SIG_SETMASK, before, NULL);
    sigemptyset(&one);
    sigaddset(&one, WTERMSIG(status));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

int dt_keeper_run(const struct dt_keeper_options *options, struct dt_error *err)
{
    struct dt_keeper k = {.options = options,
                          .parent = getppid(),
                          .signals = -1,
                          .listener = -1,
                          .hears = -1};
    struct pollfd *fds = NULL;
    const double start = dt_clock_now();
    dt_wire_init(&k.link, -1);
    dt_wire_init(&k.worker.wire, -1);
    k.worker.state = -1;
    prctl(PR_SET_NAME, DT_PROC_KEEPER);
    sigprocmask(SIG_SETMASK, NULL, &k.before);
    int rc = start_keeper(&k, err);
    size_t most = OWN_FDS + dt_leader_most(k.count); /* if it has to lead */
    if (rc == 0 && !(fds = calloc(most, sizeof(*fds))))
        rc = dt_error_set(err, EX_OSERR, "keeper: no memory");
    if (rc == 0) {
        run_loop(&k, fds);
        struct dt_keeper_end end = {.late = k.late,
                                    .seconds = dt_clock_now() - start};
        if (k.leader)
            dt_leader_drain(k.leader);
        dt_keeper_end_worker(&k);
        dt_worker_fini(&k.worker); /* its memory, before a long wait */
        if (k.leader)
            dt_leader_end_job(k.leader, &end);
    }
    free(fds);
    free_keeper(&k);
    return rc < 0 ? -1 : end_like(k.end, &k.before);
}
