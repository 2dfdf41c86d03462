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
#include "contract/variables.h"
#include "keeper/keeper_impl.h"

enum {
    STOP_MS = 2000, /* for a worker to end by itself, once it is to end */
    OWN_FDS = 3,
    SPARE_FDS = 32, /* of the keeper itself */
    LATE_BEATS = 3,
};

struct keeper {
    const struct dt_keeper_options *options;
    int id, count; /* of this keeper, of all */
    struct dt_wire_hello hello;
    char host[DT_KEEPER_HOST_BYTES];
    struct dt_roster roster; /* as the leader has told it last */
    int listener;            /* -1: it is the leader's now, or there is none */
    int leader_id;
    struct dt_leader *leader; /* NULL: another keeper is the leader */
    struct dt_wire link;      /* to the leader */
    double heard, told;       /* the last message from it and to it */
    double turned;            /* when the loop was last here */
    int signals;              /* a signalfd */
    sigset_t before;          /* the signals that were blocked at first */
    bool asked;               /* a signal told this task to end */
    struct dt_worker worker;
    bool is_down; /* the worker of this life has ended: */
    struct dt_wire_down down;
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
        "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NODEID", "MASTER_PORT"};
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
        !read_number("SLURM_PROCID", &k->id) ||
        !read_number("SLURM_STEP_NUM_TASKS", &k->count) ||
        !read_number("SLURM_NODEID", &k->hello.node))
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
    dt_wire_send(&k->link, type, k->roster.life, head, head_bytes, tail,
                 tail_bytes);
}

/* Listens where the others find this keeper if it has to lead. */
static int listen_for_others(struct keeper *k, struct dt_error *err)
{
    int port = 0;
    if (k->id != 0 && !k->options->replaces)
        return 0;
    if (k->id == 0)
        read_number("MASTER_PORT", &port);
    k->hello.port = (uint32_t)port;
    k->listener = dt_guests_listen(&k->hello.port, err);
    return k->listener < 0 ? -1 : 0;
}

/* Becomes the leader, and a keeper of its own like any other. */
static int lead(struct keeper *k, struct dt_error *err)
{
    int pair[2];
    if (dt_limits_open_files(dt_leader_most(k->count) + SPARE_FDS, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   pair) < 0)
        return dt_error_set(err, EX_OSERR, "keeper: socketpair: %s",
                            strerror(errno));
    dt_wire_init(&k->link, pair[0]);
    k->leader_id = k->id;
    k->leader = dt_leader_create(k->options, &k->roster, k->id, k->listener,
                                 pair[1], err);
    k->listener = -1;
    return k->leader ? 0 : -1;
}

static int follow(struct keeper *k, struct dt_error *err)
{
    int fd = dt_reach_leader(k->options, k->id, k->count, k->signals, err);
    if (fd >= 0)
        dt_wire_init(&k->link, fd);
    return fd < 0 ? -1 : 0;
}

static void say_hello(struct keeper *k)
{
    tell_leader(k, DT_WIRE_HELLO, &k->hello, sizeof(k->hello), k->host,
                strlen(k->host) + 1);
}

/* --- the worker --- */

static void tell_down(struct keeper *k)
{
    tell_leader(k, DT_WIRE_DOWN, &k->down, sizeof(k->down), k->note,
                strlen(k->note));
}

/* The worker has ended, or could not be started. */
static void note_down(struct keeper *k, int status)
{
    const bool stopped = k->kill_at > 0 && WIFSIGNALED(status);
    k->down = (struct dt_wire_down){
        .step = dt_board_step(k->worker.board),
        .status = status,
        .asked = k->asked || (!stopped && is_asking(status)),
        .stopped = stopped,
        .starved = !stopped && dt_worker_starved(&k->worker, status),
    };
    k->is_down = true;
    if (!stopped)
        k->end = status;
    dt_wire_close(&k->worker.wire);
}

static void report_down(struct keeper *k, int status)
{
    note_down(k, status);
    tell_down(k);
}

static int set_if_there(void *context, const char *name, const char *value,
                        bool fixed, struct dt_error *err)
{
    (void)context;
    (void)fixed;
    (void)err;
    if (getenv(name))
        setenv(name, value, 1);
    return 0;
}

/* Tells the program its place, where this is another one than that of its task,
 * in the variables that the plugin has set.
 */
static void set_place(const struct keeper *k, const struct dt_place *place)
{
    const struct dt_roster *roster = &k->roster;
    const int first = dt_roster_id(roster, 0);
    int jax_port = 0;
    char epoch[DT_EPOCH_STEP_BYTES + 16];
    dt_epoch_step(k->options->secret, epoch);
    snprintf(epoch + strlen(epoch), 16, " %u", roster->epoch);
    setenv(DT_EPOCH_ENV, epoch, 1);
    if (roster->size == roster->count && roster->epoch == 1)
        return;
    read_number("JAX_COORDINATOR_PORT", &jax_port);
    const struct dt_task_facts facts = {
        .rank = (uint32_t)place->rank,
        .world_size = (uint32_t)place->size,
        .local_rank = (uint32_t)place->local_rank,
        .local_size = (uint32_t)place->local_size,
        .node_rank = (uint32_t)place->node_rank,
        .nodes = (uint32_t)place->nodes,
        .jax_port = jax_port > 0 ? (unsigned)jax_port : 0,
        .master_addr = first > 0 ? roster->rows[first].address : NULL,
    };
    dt_variables_each(&facts, NULL, set_if_there, NULL, NULL);
}

/* Sends its world to a worker of ours: who it is, and the hosts of all ranks,
 * one after another.
 */
static int send_world(struct keeper *k, const struct dt_place *place)
{
    const struct dt_roster *roster = &k->roster;
    const struct dt_wire_world world = {
        .rank = place->rank,
        .size = place->size,
        .local_rank = place->local_rank,
        .local_size = place->local_size,
        .restarts = roster->restarts,
    };
    int *ids = calloc((size_t)roster->count, sizeof(*ids));
    char *hosts = calloc((size_t)roster->size, DT_KEEPER_HOST_BYTES);
    size_t used = 0;
    for (int i = 0; ids && i < roster->count; i++)
        if (roster->posts[i].rank >= 0)
            ids[roster->posts[i].rank] = i;
    for (int r = 0; ids && hosts && r < roster->size; r++)
        used += 1 + (size_t)sprintf(hosts + used, "%s", roster->hosts[ids[r]]);
    if (used > 0)
        dt_wire_send(&k->worker.wire, DT_WIRE_WORLD, roster->life, &world,
                     sizeof(world), hosts, used);
    free(ids);
    free(hosts);
    return used > 0 ? 0 : -1;
}

/* Starts the worker of the next life. */
static int try_worker(struct keeper *k, unsigned port, const void *losses,
                      size_t losses_bytes, struct dt_error *err)
{
    const struct dt_keeper_options *options = k->options;
    const struct dt_roster *roster = &k->roster;
    struct dt_place place;
    char *const *argv =
        options->argv_of
            ? options->argv_of(options->context, roster->first, roster->size)
            : options->argv;
    if (!argv)
        return dt_error_set(err, EX_CONFIG, "keeper: no program for %d ranks",
                            roster->size);
    dt_roster_place(roster, k->id, &place);
    set_place(k, &place);
    if (dt_worker_start(&k->worker, options, argv, roster->restarts, port,
                        err) < 0)
        return -1;
    if (!options->trains)
        return 0;
    if (send_world(k, &place) < 0)
        return dt_error_set(err, EX_OSERR, "keeper: no memory");
    dt_wire_send(&k->worker.wire, DT_WIRE_LOSSES, roster->life, losses,
                 losses_bytes, NULL, 0);
    return 0;
}

static void start_worker(struct keeper *k, unsigned port, const void *losses,
                         size_t losses_bytes)
{
    struct dt_error err;
    k->end = EX_UNAVAILABLE << 8;
    if (k->asked) { /* while no worker was there to hear it */
        report_down(k, SIGTERM);
    } else if (try_worker(k, port, losses, losses_bytes, &err) < 0) {
        fprintf(stderr, "disttrain: %s\n", err.text);
        if (k->worker.pid != 0)
            kill(k->worker.pid, SIGKILL);
        else
            report_down(k, err.status << 8);
    }
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
    struct dt_roster *roster = &k->roster;
    const size_t rows = (size_t)k->count * sizeof(*roster->rows);
    const char *at = (const char *)message->body + rows;
    size_t left = message->bytes - rows;
    if (message->bytes < rows)
        return -1;
    memcpy(roster->rows, message->body, rows);
    for (int i = 0; i < k->count; i++) {
        const size_t length = strnlen(at, left);
        if (length == left || length >= DT_KEEPER_HOST_BYTES)
            return -1;
        memcpy(roster->hosts[i], at, length + 1);
        at += length + 1;
        left -= length + 1;
        roster->rows[i].address[DT_WIRE_ADDRESS_BYTES - 1] = '\0';
    }
    return 0;
}

/* Notes which keeper has which rank. */
static int take_ranks(struct dt_roster *roster, const uint8_t *ranks)
{
    bool zero = false;
    roster->size = 0;
    for (int i = 0; i < roster->count; i++) {
        int32_t rank;
        memcpy(&rank, ranks + (size_t)i * sizeof(rank), sizeof(rank));
        if (rank < DT_WIRE_LOST || rank >= roster->count)
            return -1;
        roster->posts[i] = (struct dt_post){rank, DT_WIRE_LOST};
        roster->size += rank >= 0;
        zero |= rank == 0;
    }
    if (roster->first == 0)
        roster->first = roster->size;
    return zero ? 0 : -1;
}

/* A life begins; whoever has no rank in it waits. */
static int take_go(struct keeper *k, const struct dt_wire_message *message)
{
    struct dt_roster *roster = &k->roster;
    const size_t ranks = (size_t)k->count * sizeof(int32_t);
    const uint8_t *tail = (const uint8_t *)message->body;
    struct dt_wire_go go;
    if (message->bytes < sizeof(go) + ranks || k->worker.pid != 0)
        return -1;
    memcpy(&go, tail, sizeof(go));
    tail += sizeof(go);
    if (take_ranks(roster, tail) < 0)
        return -1;
    if (go.epoch != roster->epoch)
        roster->votes = dt_roster_nodes(roster);
    roster->epoch = go.epoch;
    roster->life = message->life;
    roster->restarts = go.restarts;
    k->kill_at = 0;
    k->note[0] = '\0';
    k->is_down = false;
    const size_t count =
        (message->bytes - sizeof(go) - ranks) / sizeof(struct dt_launch_loss);
    struct dt_launch_loss *losses = calloc(count + 1, sizeof(*losses));
    if (!losses)
        return -1;
    memcpy(losses, tail + ranks, count * sizeof(*losses));
    for (size_t i = 0; i < count; i++)
        losses[i].at = dt_clock_now() - losses[i].at;
    if (roster->posts[k->id].rank >= 0)
        start_worker(k, go.port, losses, count * sizeof(*losses));
    free(losses);
    return 0;
}

/* The end of all. Whose worker has ended by itself keeps its status, so that
 * Slurm sees what it would see without keepers.
 */
static void end_keeper(struct keeper *k, int cause)
{
    if (k->worker.pid != 0 || k->kill_at > 0 || !k->is_down)
        k->end = WIFSIGNALED(cause) ? EX_UNAVAILABLE << 8 : cause;
    k->over = true;
}

/* The others go on without this node, or end without a word. */
static void leave(struct keeper *k)
{
    k->end = EX_UNAVAILABLE << 8;
    k->over = true;
}

static int take_message(struct keeper *k, const struct dt_wire_message *message)
{
    struct dt_wire_down cause;
    switch (message->type) {
    case DT_WIRE_TABLE:
        return take_table(k, message);
    case DT_WIRE_GO:
        return take_go(k, message);
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
        if (message->life == k->roster.life)
            dt_wire_send(&k->worker.wire, message->type, message->life,
                         message->body, message->bytes, NULL, 0);
        return 0;
    case DT_WIRE_LEAVE:
        leave(k);
        return 0;
    default:
        return 0; /* a beat */
    }
}

/* --- the next leader --- */

static pid_t errand_of(const struct keeper *k)
{
    return k->leader ? k->leader->shrink.pid : 0;
}

/* Ends the worker at once. */
static void end_worker(struct keeper *k)
{
    int status;
    k->kill_at = dt_clock_now(); /* its end explains nothing */
    while (k->worker.pid != 0) {
        kill(k->worker.pid, SIGKILL);
        dt_clock_sleep(0.002);
        if (dt_worker_ended(&k->worker, errand_of(k), &status))
            note_down(k, status);
    }
}

/* Finds a leader among the keepers that are left: the first that answers, or
 * this one.
 */
static int find_leader(struct keeper *k, const char *how, struct dt_error *err)
{
    int next = dt_roster_next_leader(&k->roster, -1);
    while (next != k->id) {
        int fd =
            dt_reach_next(k->options, &k->roster, next, k->id, k->signals, err);
        read_signals(k);
        if (fd >= 0) {
            k->leader_id = next;
            dt_wire_init(&k->link, fd);
            return 0;
        }
        if (k->asked)
            return -1;
        if (err->status != EX_TEMPFAIL)
            next = dt_roster_next_leader(&k->roster, next);
    }
    if (lead(k, err) < 0)
        return -1;
    dt_life_inherit(k->leader, how);
    return 0;
}

/* The leader is lost, and its node. Others may have the same reason to go on,
 * so first of all the worker ends.
 */
static void elect(struct keeper *k, const char *how)
{
    struct dt_roster *roster = &k->roster;
    struct dt_error err = {.text = ""};
    end_worker(k);
    dt_wire_close(&k->link);
    dt_roster_lose(roster, roster->rows[k->leader_id].hello.node);
    read_signals(k);
    if (!dt_roster_has(roster, k->id) || find_leader(k, how, &err) < 0) {
        if (err.text[0])
            fprintf(stderr, "disttrain: %s\n", err.text);
        leave(k);
        return;
    }
    say_hello(k);
    if (k->is_down)
        tell_down(k);
    k->heard = k->turned = dt_clock_now();
}

static void lose_leader(struct keeper *k, const char *how)
{
    if (!k->options->replaces || k->roster.epoch == 0 || k->leader)
        end_keeper(k, EX_UNAVAILABLE << 8);
    else
        elect(k, how);
}

static void serve_leader(struct keeper *k)
{
    struct dt_wire_message message;
    int rc = dt_wire_receive(&k->link), bad = errno, found = 0;
    while (!k->over && (found = dt_wire_next(&k->link, &message)) > 0) {
        k->heard = dt_clock_now();
        if (take_message(k, &message) < 0) {
            found = rc = -1;
            bad = EPROTO;
        }
    }
    if (!k->over && (rc < 0 || found < 0))
        lose_leader(k, strerror(bad));
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
    const double silence = dt_keeper_silence(k->options);
    char silent[64];
    snprintf(silent, sizeof(silent), "it was not heard for %g s", silence);
    if (k->asked && k->roster.life == 0)
        end_keeper(k, EX_TEMPFAIL << 8);
    else if (now - k->heard > silence)
        lose_leader(k, silent);
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
 * was stopped, perhaps with all of its job: that time counts for nobody. But a
 * worker that others may have replaced meanwhile ends before it does anything.
 */
static void excuse_pause(struct keeper *k)
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
        if (k->worker.pid != 0 &&
            dt_worker_ended(&k->worker, errand_of(k), &status)) {
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

static int start_keeper(struct keeper *k, struct dt_error *err)
{
    if (identify(k, err) < 0 || hold_signals(k, err) < 0 ||
        dt_worker_init(&k->worker, &k->before, err) < 0)
        return -1;
    if (listen_for_others(k, err) < 0 ||
        (k->id == 0 ? lead(k, err) : follow(k, err)) < 0)
        return -1;
    say_hello(k);
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
    if (k->listener >= 0)
        close(k->listener);
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
    struct keeper k = {.options = options, .signals = -1, .listener = -1};
    struct pollfd *fds = NULL;
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
        if (k.leader)
            dt_leader_drain(k.leader);
        end_worker(&k);
    }
    free(fds);
    free_keeper(&k);
    return rc < 0 ? -1 : end_like(k.end, &k.before);
}
