/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c - the loop of a keeper: its worker, the leader, and signals */
#include "config.h"

#include <errno.h>
#include <limits.h>
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
#include "keeper/keeper_impl.h"

enum {
    STOP_MS = 2000, /* for a worker to end by itself, once it is to end */
    OWN_FDS = 3,
    SPARE_FDS = 32, /* of the keeper itself */
};

struct keeper {
    const struct dt_keeper_options *options;
    int rank, size;
    struct dt_wire_hello hello;
    char host[DT_KEEPER_HOST_BYTES];
    struct dt_leader *leader; /* NULL: another keeper is the leader */
    struct dt_wire link;      /* to the leader */
    double heard, told;       /* the last message from it and to it */
    double turned;            /* when the loop was last here */
    int signals;              /* a signalfd */
    sigset_t before;          /* the signals that were blocked at first */
    bool asked;               /* a signal told this task to end */
    struct dt_worker worker;
    struct dt_wire_world world;
    char *hosts; /* of all ranks, one after another */
    size_t hosts_bytes;
    uint32_t life;
    char note[DT_KEEPER_NOTE_BYTES]; /* of the worker */
    double kill_at; /* the worker is to end until then; 0: it is not to end */
    bool over;
    int end; /* of this process, as from waitpid */
};

/* --- who this is --- */

static bool read_number(const char *name, int *number)
{
    const char *text = getenv(name);
    char *end;
    long value = text ? strtol(text, &end, 10) : -1;
    *number = (int)value;
    return text && end != text && *end == '\0' && value >= 0 &&
           value <= INT_MAX;
}

bool dt_keeper_possible(const char *secret, const char **why)
{
    static const char *const numbers[] = {
        "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID",
        "MASTER_PORT"};
    int number;
    *why = !secret                  ? "a step of srun with disttrain's plugin"
           : !getenv("MASTER_ADDR") ? "MASTER_ADDR"
                                    : NULL;
    for (size_t i = 0; !*why && i < sizeof(numbers) / sizeof(*numbers); i++)
        if (!read_number(numbers[i], &number))
            *why = numbers[i];
    return !*why;
}

static int identify(struct keeper *k, struct dt_error *err)
{
    const char *why;
    if (!dt_keeper_possible(k->options->secret, &why) ||
        !read_number("SLURM_PROCID", &k->rank) ||
        !read_number("SLURM_STEP_NUM_TASKS", &k->size) ||
        !read_number("SLURM_LOCALID", &k->hello.local_rank) ||
        !read_number("SLURM_NODEID", &k->hello.node))
        return dt_error_set(err, EX_CONFIG, "keeper: it needs %s", why);
    if (k->size < 1 || k->rank >= k->size)
        return dt_error_set(err, EX_CONFIG, "keeper: rank %d in a step of %d",
                            k->rank, k->size);
    gethostname(k->host, sizeof(k->host) - 1);
    return 0;
}

/* --- signals --- */

/* Those that ask a task to end. Slurm signals the worker, too: the keeper only
 * has to know of it.
 */
static const int asking[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

enum { ASKING = sizeof(asking) / sizeof(*asking) };

static int hold_signals(struct keeper *k, struct dt_error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (int i = 0; i < ASKING; i++)
        sigaddset(&set, asking[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN); /* stderr may end before the step does */
    k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k->signals < 0)
        return dt_error_set(err, EX_OSERR, "keeper: signalfd: %s",
                            strerror(errno));
    return 0;
}

static void read_signals(struct keeper *k)
{
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            k->asked = true;
}

/* Whether the worker has ended by a signal of those, which may reach it before
 * it reaches this process.
 */
static bool is_asking(int status)
{
    for (int i = 0; i < ASKING; i++)
        if (WIFSIGNALED(status) && WTERMSIG(status) == asking[i])
            return true;
    return false;
}

/* --- to the leader --- */

static void tell_leader(struct keeper *k, enum dt_wire_type type,
                        const void *head, size_t head_bytes, const void *tail,
                        size_t tail_bytes)
{
    k->told = dt_clock_now();
    dt_wire_send(&k->link, type, k->life, head, head_bytes, tail, tail_bytes);
}

/* Rank 0 becomes the leader, and a keeper of its own like any other. */
static int lead(struct keeper *k, struct dt_error *err)
{
    int pair[2], port;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   pair) < 0)
        return dt_error_set(err, EX_OSERR, "keeper: socketpair: %s",
                            strerror(errno));
    dt_wire_init(&k->link, pair[0]);
    if (!read_number("MASTER_PORT", &port))
        port = 0;
    if (dt_limits_open_files(dt_leader_most(k->size) + SPARE_FDS, err) < 0) {
        close(pair[1]);
        return -1;
    }
    k->leader =
        dt_leader_create(k->options, k->size, (unsigned)port, pair[1], err);
    return k->leader ? 0 : -1;
}

static int follow(struct keeper *k, struct dt_error *err)
{
    int fd = dt_reach_leader(k->options, k->rank, k->size, k->signals, err);
    if (fd >= 0)
        dt_wire_init(&k->link, fd);
    return fd < 0 ? -1 : 0;
}

/* --- the worker --- */

/* The worker has ended, or could not be started. */
static void report_down(struct keeper *k, int status)
{
    const bool stopped = k->kill_at > 0 && WIFSIGNALED(status);
    const struct dt_wire_down down = {
        .step = dt_board_step(k->worker.board),
        .status = status,
        .asked = k->asked || (!stopped && is_asking(status)),
        .stopped = stopped,
    };
    if (!down.stopped)
        k->end = status;
    dt_wire_close(&k->worker.wire);
    tell_leader(k, DT_WIRE_DOWN, &down, sizeof(down), k->note, strlen(k->note));
}

static void start_worker(struct keeper *k, const struct dt_wire_go *go,
                         const void *losses, size_t losses_bytes)
{
    struct dt_error err;
    k->kill_at = 0;
    k->note[0] = '\0';
    k->end = EX_UNAVAILABLE << 8;
    k->world.restarts = go->restarts;
    if (k->asked) { /* while no worker was there to hear it */
        report_down(k, SIGTERM);
        return;
    }
    if (dt_worker_start(&k->worker, k->options, go->restarts, go->port, &err) <
        0) {
        fprintf(stderr, "disttrain: %s\n", err.text);
        report_down(k, err.status << 8);
        return;
    }
    if (!k->options->trains)
        return;
    dt_wire_send(&k->worker.wire, DT_WIRE_WORLD, k->life, &k->world,
                 sizeof(k->world), k->hosts, k->hosts_bytes);
    dt_wire_send(&k->worker.wire, DT_WIRE_LOSSES, k->life, losses, losses_bytes,
                 NULL, 0);
}

/* Ends the worker, which may report its own error first. A program that is not
 * ours is asked, as by Slurm.
 */
static void stop_worker(struct keeper *k)
{
    if (k->worker.pid == 0 || k->kill_at > 0)
        return;
    k->kill_at = dt_clock_now() + STOP_MS / 1e3;
    if (!k->options->trains)
        kill(k->worker.pid, SIGTERM);
}

static void serve_worker(struct keeper *k)
{
    struct dt_wire_message message;
    int rc = dt_wire_receive(&k->worker.wire), found;
    while ((found = dt_wire_next(&k->worker.wire, &message)) > 0)
        if (message.type == DT_WIRE_FENCE || message.type == DT_WIRE_WHO)
            tell_leader(k, message.type, message.body, message.bytes, NULL, 0);
        else if (message.type == DT_WIRE_NOTE)
            snprintf(k->note, sizeof(k->note), "%.*s", (int)message.bytes,
                     (const char *)message.body);
    if (rc < 0 || found < 0) /* its end comes as a signal */
        dt_wire_close(&k->worker.wire);
}

/* --- from the leader --- */

/* Notes who is where. */
static int take_table(struct keeper *k, const struct dt_wire_message *message)
{
    const size_t rows = (size_t)k->size * sizeof(struct dt_wire_hello);
    struct dt_wire_hello hello;
    if (message->bytes < rows)
        return -1;
    free(k->hosts);
    k->hosts_bytes = message->bytes - rows;
    if (!(k->hosts = malloc(k->hosts_bytes + 1)))
        return -1;
    memcpy(k->hosts, (const char *)message->body + rows, k->hosts_bytes);
    k->world = (struct dt_wire_world){
        .rank = k->rank, .size = k->size, .local_rank = k->hello.local_rank};
    for (int r = 0; r < k->size; r++) {
        memcpy(&hello, (const char *)message->body + (size_t)r * sizeof(hello),
               sizeof(hello));
        k->world.local_size += hello.node == k->hello.node;
    }
    return 0;
}

/* The end of all. Whose worker has ended by itself keeps its status, so that
 * Slurm sees what it would see without keepers.
 */
static void end_keeper(struct keeper *k, int cause)
{
    if (k->worker.pid != 0 || k->kill_at > 0 || k->life == 0)
        k->end = WIFSIGNALED(cause) ? EX_UNAVAILABLE << 8 : cause;
    k->over = true;
}

static int take_message(struct keeper *k, const struct dt_wire_message *message)
{
    struct dt_wire_down cause;
    struct dt_wire_go go;
    switch (message->type) {
    case DT_WIRE_TABLE:
        return take_table(k, message);
    case DT_WIRE_GO:
        if (message->bytes < sizeof(go) || k->worker.pid != 0)
            return -1;
        memcpy(&go, message->body, sizeof(go));
        k->life = message->life;
        start_worker(k, &go, (const char *)message->body + sizeof(go),
                     message->bytes - sizeof(go));
        return 0;
    case DT_WIRE_STOP:
        stop_worker(k);
        return 0;
    case DT_WIRE_BYE:
        if (message->bytes != sizeof(cause))
            return -1;
        memcpy(&cause, message->body, sizeof(cause));
        end_keeper(k, cause.status);
        return 0;
    case DT_WIRE_BLOBS:
    case DT_WIRE_MISSING:
        if (message->life == k->life)
            dt_wire_send(&k->worker.wire, message->type, k->life, message->body,
                         message->bytes, NULL, 0);
        return 0;
    default:
        return 0; /* a beat */
    }
}

static void serve_leader(struct keeper *k)
{
    struct dt_wire_message message;
    int rc = dt_wire_receive(&k->link), found = 0;
    while (!k->over && (found = dt_wire_next(&k->link, &message)) > 0) {
        k->heard = dt_clock_now();
        if (take_message(k, &message) < 0)
            found = rc = -1;
    }
    if (!k->over && (rc < 0 || found < 0))
        end_keeper(k, EX_UNAVAILABLE << 8); /* it is lost */
}

/* --- the loop --- */

static void send_beat(struct keeper *k)
{
    struct dt_wire_beat beat;
    dt_worker_look(&k->worker, &beat);
    tell_leader(k, DT_WIRE_BEAT, &beat, sizeof(beat), NULL, 0);
}

static void look_at_clock(struct keeper *k)
{
    const double now = dt_clock_now(), beat_s = k->options->beat_ms / 1e3;
    if (k->kill_at > 0 && now > k->kill_at && k->worker.pid != 0)
        kill(k->worker.pid, SIGKILL);
    if (k->asked && k->life == 0)
        end_keeper(k, EX_TEMPFAIL << 8);
    else if (now - k->heard > DT_KEEPER_LOST_BEATS * beat_s)
        end_keeper(k, EX_UNAVAILABLE << 8);
    else if (now - k->told > beat_s)
        send_beat(k);
}

/* Milliseconds until look_at_clock has something to do. */
static int patience(const struct keeper *k)
{
    const double now = dt_clock_now();
    double left = k->options->beat_ms / 1e3;
    if (k->kill_at > 0 && k->kill_at - now < left)
        left = k->kill_at > now ? k->kill_at - now : 0.02;
    if (k->leader && dt_leader_due(k->leader) - now < left)
        left = dt_leader_due(k->leader) - now;
    return left > 0 ? (int)(left * 1e3) + 1 : 0;
}

/* A turn of the loop takes one beat at most. If it took longer, this process
 * was stopped, perhaps with all of its job: that time counts for nobody.
 */
static void excuse_pause(struct keeper *k)
{
    const double now = dt_clock_now();
    const double more = now - k->turned - 2e-3 * k->options->beat_ms;
    k->turned = now;
    if (more <= 0)
        return;
    k->heard += more;
    if (k->leader)
        dt_leader_excuse(k->leader, more);
}

static struct pollfd poll_wire(const struct dt_wire *wire)
{
    const short out = dt_wire_pending(wire) ? POLLOUT : 0;
    return (struct pollfd){wire->fd, (short)(POLLIN | out), 0};
}

/* Sends and receives on a wire that is ready. */
static void serve_wire(struct keeper *k, struct dt_wire *wire, short got,
                       void (*serve)(struct keeper *k))
{
    if (got & POLLOUT)
        dt_wire_flush(wire);
    if (got & ~POLLOUT)
        serve(k);
}

static void run_loop(struct keeper *k, struct pollfd *fds)
{
    k->heard = k->told = k->turned = dt_clock_now();
    while (!k->over) {
        int status;
        size_t count = OWN_FDS;
        fds[0] = (struct pollfd){k->signals, POLLIN, 0};
        fds[1] = poll_wire(&k->link);
        fds[2] = poll_wire(&k->worker.wire);
        if (k->leader)
            count += dt_leader_poll(k->leader, fds + OWN_FDS);
        if (poll(fds, (nfds_t)count, patience(k)) < 0)
            continue; /* EINTR */
        excuse_pause(k);
        serve_wire(k, &k->worker.wire, fds[2].revents, serve_worker);
        if (fds[0].revents)
            read_signals(k);
        if (k->worker.pid != 0 && dt_worker_ended(&k->worker, &status)) {
            if (k->worker.wire.fd >= 0) /* its last words */
                serve_worker(k);
            report_down(k, status);
        }
        if (k->leader)
            dt_leader_serve(k->leader, fds + OWN_FDS);
        serve_wire(k, &k->link, fds[1].revents, serve_leader);
        if (!k->over)
            look_at_clock(k);
    }
}

/* Ends the worker at once, which has no peers any more. */
static void end_worker(struct keeper *k)
{
    int status;
    while (k->worker.pid != 0) {
        kill(k->worker.pid, SIGKILL);
        dt_clock_sleep(0.002);
        dt_worker_ended(&k->worker, &status);
    }
}

static int start_keeper(struct keeper *k, struct dt_error *err)
{
    if (identify(k, err) < 0 || hold_signals(k, err) < 0 ||
        dt_worker_init(&k->worker, &k->before, err) < 0)
        return -1;
    if ((k->rank == 0 ? lead(k, err) : follow(k, err)) < 0)
        return -1;
    tell_leader(k, DT_WIRE_HELLO, &k->hello, sizeof(k->hello), k->host,
                strlen(k->host) + 1);
    return 0;
}

/* A link that has served ends with this process: the leader may wait for that.
 */
static void free_keeper(struct keeper *k)
{
    dt_leader_destroy(k->leader);
    if (!k->over)
        dt_wire_close(&k->link);
    dt_worker_fini(&k->worker);
    if (k->signals >= 0)
        close(k->signals);
    free(k->hosts);
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
    struct keeper k = {.options = options, .signals = -1};
    struct pollfd *fds = NULL;
    dt_wire_init(&k.link, -1);
    dt_wire_init(&k.worker.wire, -1);
    k.worker.state = -1;
    prctl(PR_SET_NAME, DT_PROC_KEEPER);
    sigprocmask(SIG_SETMASK, NULL, &k.before);
    int rc = start_keeper(&k, err);
    size_t most = OWN_FDS + (k.leader ? dt_leader_most(k.size) : 0);
    if (rc == 0 && !(fds = calloc(most, sizeof(*fds))))
        rc = dt_error_set(err, EX_OSERR, "keeper: no memory");
    if (rc == 0) {
        run_loop(&k, fds);
        if (k.leader)
            dt_leader_drain(k.leader);
        end_worker(&k);
    }
    free(fds);
    free_keeper(&k);
    return rc < 0 ? -1 : end_like(k.end, &k.before);
}
