/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leader.c - the keeper that decides: it brings all keepers together, hears
 * them, and exchanges the data of their workers
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "keeper/agree.h"
#include "keeper/errand.h"
#include "keeper/fence.h"
#include "keeper/guests.h"
#include "keeper/leader.h"
#include "keeper/outlook.h"
#include "keeper/pace.h"
#include "keeper/reach.h"
#include "keeper/roster.h"
#include "keeper/verdict.h"

enum {
    DRAIN_S = 2,
    SHRINK_S = 60,
    LOOK_S = 2, /* between two questions to Slurm */
    MISSING_BYTES = 512,
    ERRANDS = 2,
};

/* --- messages --- */

/* The rank of a keeper whose message is about this life; -1: none. */
static int rank_of(const struct dt_leader *l, int id,
                   const struct dt_wire_message *message)
{
    return message->life == l->roster.life ? l->roster.posts[id].rank : -1;
}

static void note_beat(struct dt_leader *l, int id,
                      const struct dt_wire_message *message)
{
    struct dt_wire_beat beat;
    const int rank = rank_of(l, id, message);
    if (message->bytes != sizeof(beat))
        return;
    memcpy(&beat, message->body, sizeof(beat));
    l->members[id].orphaned = beat.orphaned;
    if (rank >= 0)
        dt_pace_note(&l->pace, rank, &beat);
}

/* --- keepers come --- */

/* Adds to a text that begins empty. */
__attribute__((format(printf, 2, 3))) static void add(char *text,
                                                      const char *fmt, ...)
{
    const size_t used = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + used, MISSING_BYTES - used, fmt, ap);
    va_end(ap);
}

/* Lists the ranks that have not come to a fence. */
static void list_absent(const struct dt_leader *l, char *text)
{
    const struct dt_roster *roster = &l->roster;
    text[0] = '\0';
    for (int i = 0; i < roster->count; i++) {
        const int rank = roster->posts[i].rank;
        if (rank >= 0 && !dt_fence_has(&l->fence, rank))
            add(text, "%s rank %d on %s", text[0] ? "," : "", rank,
                roster->hosts[i]);
    }
}

/* Lists the tasks whose keepers have not come; they have no ranks yet. */
static void list_missing(const struct dt_leader *l, char *text)
{
    text[0] = '\0';
    for (int i = 0; i < l->roster.count; i++)
        if (!l->members[i].came)
            add(text, "%s task %d", text[0] ? "," : "", i);
}

/* Sends who is where to all. */
static int send_table(struct dt_leader *l)
{
    const struct dt_roster *roster = &l->roster;
    const size_t rows = (size_t)roster->count * sizeof(*roster->rows);
    char *names = calloc((size_t)roster->count, sizeof(*roster->hosts));
    size_t used = 0;
    if (!names)
        return -1;
    for (int i = 0; i < roster->count; i++) {
        memcpy(names + used, roster->hosts[i], strlen(roster->hosts[i]) + 1);
        used += strlen(roster->hosts[i]) + 1;
    }
    dt_leader_send_all(l, DT_WIRE_TABLE, roster->rows, rows, names, used);
    free(names);
    return 0;
}

static bool have_all_come(const struct dt_leader *l)
{
    for (int i = 0; i < l->roster.count; i++)
        if (dt_roster_has(&l->roster, i) && !l->members[i].came)
            return false;
    return true;
}

/* Keepers that have come to a new leader, and are not of the step any more, as
 * it learns from another one.
 */
static void leave_strangers(struct dt_leader *l)
{
    for (int i = 0; i < l->roster.count; i++)
        if (l->members[i].came && !dt_roster_has(&l->roster, i))
            dt_leader_send(l, i, DT_WIRE_LEAVE, NULL, 0, NULL, 0);
}

/* Whether a keeper is of this release. During an upgrade a node may have
 * another, whose messages may mean something else. The step ends then.
 */
static bool has_release(struct dt_leader *l, int id,
                        const struct dt_wire_message *message)
{
    const struct dt_wire_down cause = {.rank = l->roster.posts[id].rank,
                                       .status = EX_UNAVAILABLE << 8,
                                       .step = l->verdict.best};
    char release[DT_WIRE_RELEASE_BYTES] = "";
    if (message->bytes >= sizeof(release))
        memcpy(release, message->body, sizeof(release) - 1);
    if (strcmp(release, dt_wire_release) == 0)
        return true;
    fprintf(stderr,
            "disttrain: task %d, at %s, has release \"%s\" of disttrain, and "
            "task %d has \"%s\": a step needs one on all of its nodes\n",
            id, l->roster.rows[id].address, release, l->id, dt_wire_release);
    dt_life_end(l, &cause);
    return false;
}

/* Notes who a keeper is. With a new leader everybody knows it already. */
static void note_hello(struct dt_leader *l, int id,
                       const struct dt_wire_message *message)
{
    struct dt_roster *roster = &l->roster;
    struct dt_member *m = &l->members[id];
    struct dt_wire_hello hello;
    const char *host = (const char *)message->body + sizeof(hello);
    if (m->came || !has_release(l, id, message) ||
        message->bytes <= sizeof(hello))
        return;
    const size_t rest = message->bytes - sizeof(hello);
    const size_t bytes = strnlen(host, rest) + 1;
    memcpy(&hello, message->body, sizeof(hello));
    if (hello.node < 0 || hello.node >= roster->count || bytes > rest ||
        bytes > DT_KEEPER_HOST_BYTES)
        return;
    if (roster->epoch == 0) {
        roster->rows[id].hello = hello;
        memcpy(roster->hosts[id], host, bytes);
    } else if (l->phase == DT_JOINING) {
        dt_view_learn(roster, host + bytes, rest - bytes, message->life);
        leave_strangers(l);
    }
    m->free = hello.free;
    m->came = true;
    if (l->phase != DT_JOINING || roster->epoch > 0 || !have_all_come(l))
        return;
    if (send_table(l) < 0)
        dt_life_lose(l, l->id, strerror(ENOMEM));
    else
        dt_life_begin(l);
}

/* --- workers meet --- */

static void note_fence(struct dt_leader *l, int id,
                       const struct dt_wire_message *message)
{
    size_t bytes;
    uint8_t *all = NULL;
    const int rank = rank_of(l, id, message);
    if (rank < 0 || l->phase != DT_RUNNING)
        return;
    const bool kept =
        dt_fence_add(&l->fence, rank, message->body, message->bytes) == 0;
    if (kept && !dt_fence_complete(&l->fence))
        return;
    if (kept && (all = dt_fence_join(&l->fence, &bytes)) != NULL)
        dt_leader_send_all(l, DT_WIRE_BLOBS, all, bytes, NULL, 0);
    else
        dt_life_lose(l, l->id, strerror(ENOMEM));
    free(all);
    dt_fence_clear(&l->fence);
}

static void note_message(struct dt_leader *l, int id,
                         const struct dt_wire_message *message)
{
    char missing[MISSING_BYTES];
    if (!dt_roster_has(&l->roster, id))
        return;
    switch (message->type) {
    case DT_WIRE_HELLO:
        note_hello(l, id, message);
        break;
    case DT_WIRE_DOWN:
        dt_life_note_down(l, id, message);
        break;
    case DT_WIRE_ACCEPT:
        dt_life_note_accept(l, id, message);
        break;
    case DT_WIRE_FENCE:
        note_fence(l, id, message);
        break;
    case DT_WIRE_WHO:
        list_absent(l, missing);
        dt_leader_send(l, id, DT_WIRE_MISSING, missing, strlen(missing), NULL,
                       0);
        break;
    case DT_WIRE_BEAT:
        note_beat(l, id, message);
        break;
    default:
        break;
    }
}

/* --- the sockets --- */

/* Writes the address of one end of a connection, as IPv4 where it is. */
static void print_end(int (*end)(int, struct sockaddr *, socklen_t *), int fd,
                      char text[DT_WIRE_ADDRESS_BYTES])
{
    static const char mapped[] = "::ffff:";
    char address[DT_NET_ADDRESS_BYTES] = "";
    union dt_net_address at = {0};
    socklen_t bytes = sizeof(at);
    if (end(fd, &at.any, &bytes) == 0)
        dt_net_print(&at, address);
    const bool is_v4 = strncmp(address, mapped, sizeof(mapped) - 1) == 0 &&
                       strchr(address, '.');
    snprintf(text, DT_WIRE_ADDRESS_BYTES, "%s",
             address + (is_v4 ? sizeof(mapped) - 1 : 0));
}

/* A connection has proved to be a keeper. One that has not said hello may have
 * given up, and try again.
 */
static void seat(struct dt_leader *l, int id, int fd)
{
    struct dt_roster *roster = &l->roster;
    struct dt_member *m = &l->members[id];
    if (m->came || !dt_roster_has(roster, id)) {
        close(fd); /* a task has one keeper */
        return;
    }
    if (roster->epoch == 0) {
        print_end(getpeername, fd, roster->rows[id].address);
        print_end(getsockname, fd, roster->rows[l->id].address);
    }
    dt_wire_close(&m->wire);
    dt_wire_init(&m->wire, fd);
    m->heard = m->told = dt_clock_now();
}

static void serve_member(struct dt_leader *l, int id)
{
    struct dt_member *m = &l->members[id];
    struct dt_wire_message message;
    int rc = dt_wire_receive(&m->wire), bad = errno, found;
    while ((found = dt_wire_next(&m->wire, &message)) > 0) {
        m->heard = dt_clock_now();
        note_message(l, id, &message);
    }
    if (found < 0 || rc < 0) {
        bad = found < 0 ? errno : bad;
        dt_wire_close(&m->wire);
        if (m->came)
            dt_life_lose(l, id, strerror(bad));
    }
}

double dt_leader_due(const struct dt_leader *l)
{
    return l->phase == DT_RUNNING ? l->shrink_at
           : l->phase == DT_OVER  ? INFINITY
                                  : l->deadline;
}

void dt_leader_excuse(struct dt_leader *l, double seconds)
{
    l->deadline += seconds;
    l->pace.moved += seconds;
    for (int i = 0; i < l->roster.count; i++)
        l->members[i].heard += seconds;
}

/* Sends a beat, or finds that a keeper is not heard any more. */
static void look_at_member(struct dt_leader *l, int id)
{
    struct dt_member *m = &l->members[id];
    const double now = dt_clock_now();
    const double outage = l->options->outage_s;
    char silent[64];
    if (m->wire.fd < 0 || !dt_roster_has(&l->roster, id))
        return;
    if (now - m->heard > outage) {
        snprintf(silent, sizeof(silent), "it was not heard for %g s", outage);
        dt_life_lose(l, id, silent);
    } else if (now - m->told > l->options->beat_ms / 1e3) {
        dt_leader_send(l, id, DT_WIRE_BEAT, NULL, 0, NULL, 0);
    }
}

/* Not all have come in time: at the beginning that ends the step, later they
 * are lost, and the rest begins.
 */
static void end_joining(struct dt_leader *l)
{
    const struct dt_wire_down cause = {.status = EX_UNAVAILABLE << 8};
    char missing[MISSING_BYTES];
    if (l->roster.epoch > 0) {
        dt_life_begin(l);
        return;
    }
    list_missing(l, missing);
    fprintf(stderr,
            "disttrain: not all keepers arrived within %d ms; missing:%s\n",
            l->options->timeout_ms, missing);
    dt_life_end(l, &cause);
}

static void look_at_clock(struct dt_leader *l)
{
    char hang[DT_KEEPER_NOTE_BYTES];
    double hung;
    if (l->phase == DT_JOINING && (dt_clock_now() >= l->deadline ||
                                   (l->roster.epoch > 0 && have_all_come(l))))
        end_joining(l);
    if (l->phase == DT_RUNNING && dt_pace_hangs(&l->pace, l->endings, &hung)) {
        const int culprit = dt_pace_culprit(&l->pace, l->endings);
        const int rank = dt_pace_blame(&l->pace, l->endings, culprit);
        dt_pace_describe(&l->pace, culprit,
                         l->roster.hosts[dt_roster_find(&l->roster, rank)],
                         hung, hang);
        dt_life_end_hang(l, rank, hang);
    }
    dt_life_look(l);
    for (int i = 0; i < l->roster.count && l->phase < DT_ENDING; i++)
        look_at_member(l, i);
}

size_t dt_leader_most(int count)
{
    return DT_GUESTS_FDS + ERRANDS + (size_t)count;
}

size_t dt_leader_poll(struct dt_leader *l, struct pollfd *fds)
{
    const int errands[ERRANDS] = {l->claim.fd, l->shrink.fd};
    size_t count = DT_GUESTS_FDS;
    dt_guests_poll(&l->guests, fds);
    for (int i = 0; i < l->roster.count; i++) {
        const struct dt_wire *wire = &l->members[i].wire;
        const short out = dt_wire_pending(wire) ? POLLOUT : 0;
        fds[count++] = (struct pollfd){wire->fd, (short)(POLLIN | out), 0};
    }
    for (int i = 0; i < ERRANDS; i++)
        fds[count++] = (struct pollfd){errands[i], POLLIN, 0};
    return count;
}

void dt_leader_serve(struct dt_leader *l, const struct pollfd *fds)
{
    const struct pollfd *of_members = fds + DT_GUESTS_FDS;
    int id, fd;
    for (int i = 0; i < l->roster.count; i++) {
        struct dt_member *m = &l->members[i];
        const short got = m->wire.fd >= 0 ? of_members[i].revents : 0;
        if (got & POLLOUT)
            dt_wire_flush(&m->wire);
        if (got & ~POLLOUT)
            serve_member(l, i);
    }
    while ((id = dt_guests_serve(&l->guests, fds, &fd)) >= 0)
        seat(l, id, fd);
    look_at_clock(l);
}

void dt_leader_drain(struct dt_leader *l)
{
    const double end = dt_clock_now() + DRAIN_S;
    for (int i = 0; i < l->roster.count; i++) {
        struct dt_wire *wire = &l->members[i].wire;
        while (wire->fd >= 0 && dt_roster_has(&l->roster, i) &&
               dt_wire_pending(wire)) {
            struct pollfd p = {wire->fd, POLLOUT, 0};
            const double left = end - dt_clock_now();
            if (left <= 0 || poll(&p, 1, (int)(left * 1e3) + 1) <= 0 ||
                dt_wire_flush(wire) < 0)
                break;
        }
    }
}

/* A job that has a lost node takes minutes to end. */
static void await_shrink(struct dt_leader *l)
{
    const double until = dt_clock_now() + SHRINK_S;
    int result;
    while (l->shrink.pid != 0 && !dt_errand_done(&l->shrink, &result) &&
           dt_clock_now() < until)
        dt_clock_sleep(0.05);
}

/* Whether the script of the job is lost with srun: there is no way back from
 * the end of a job. Either their host says nothing for so long that its links
 * are no excuse. Or it answers without srun, which nobody has ended, and Slurm
 * has taken it out of the job; after a boot that takes until slurmd is there.
 */
static bool lost_script(const struct dt_leader *l)
{
    const struct dt_keeper_options *o = l->options;
    const double begin = dt_clock_now();
    double heard = begin;
    bool gone = l->srun_gone;
    for (;;) {
        const bool silent = dt_reach_lost_srun(o, &l->roster);
        const double now = dt_clock_now();
        gone |= silent;
        if (silent && now - heard >= o->silence_s)
            return true;
        if (silent)
            continue;
        if (dt_reach_srun(o, &l->roster) != DT_ANSWER_REFUSED)
            return false;
        if (o->is_left_out && o->is_left_out(o->srun_node))
            return true;
        if (!gone || now - begin >= o->boot_s)
            return false;
        heard = now;
        dt_clock_sleep(LOOK_S);
    }
}

/* Whether a keeper that is lost goes on nowhere: Slurm has found its node down,
 * and has taken that out of the job, and nobody listens there. What a kernel
 * says alone does not count: the leader of another part listens no more while
 * it ends the job itself.
 */
static bool is_gone(const struct dt_leader *l, int id)
{
    const struct dt_wire_row *row = &l->roster.rows[id];
    return dt_host_ask(row->address, row->hello.port) != DT_ANSWER_OPEN &&
           l->options->is_left_out(l->roster.hosts[id]);
}

/* Whether the step was told to end meanwhile, or Slurm has lost this task. */
static bool is_stopped(pid_t parent)
{
    const struct timespec nap = {.tv_sec = LOOK_S};
    sigset_t asking;
    sigemptyset(&asking);
    for (int i = 0; i < DT_KEEPER_ASKING; i++)
        sigaddset(&asking, dt_keeper_asking[i]);
    return sigtimedwait(&asking, NULL, &nap) > 0 || getppid() != parent;
}

/* Whether this is the last part of the step: no keeper that it has lost can be
 * in another one. Waits for Slurm to find their nodes down.
 */
static bool is_last_part(const struct dt_leader *l)
{
    const double until = dt_clock_now() + l->options->down_s;
    const pid_t parent = getppid();
    if (!l->options->is_left_out)
        return false;
    for (int i = 0; i < l->roster.count; i++)
        while (!dt_roster_has(&l->roster, i) && !is_gone(l, i))
            if (dt_clock_now() >= until || is_stopped(parent))
                return false;
    return true;
}

/* Who looks for a leader meanwhile looks on. */
void dt_leader_end_job(struct dt_leader *l, struct dt_keeper_end *end)
{
    const struct dt_keeper_options *options = l->options;
    const int status = l->aside && !l->verdict.asked ? EX_UNAVAILABLE << 8
                                                     : l->verdict.cause.status;
    const bool decides =
        l->told && (l->ends || dt_agree_is_whole(&l->roster) ||
                    dt_agree_quorum(&l->roster) == DT_QUORUM_MORE);
    if (!l->told && !l->aside)
        return;
    dt_guests_close(&l->guests);
    if (!options->end_job || !lost_script(l))
        return;
    if (!decides && !(is_last_part(l) && lost_script(l)))
        return;
    await_shrink(l);
    end->status =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    end->short_of_nodes = l->short_of_nodes && !l->verdict.asked;
    options->end_job(end);
}

/* --- its beginning and its end --- */

static int init_arrays(struct dt_leader *l, const struct dt_roster *roster)
{
    const size_t count = (size_t)roster->count;
    l->members = calloc(count, sizeof(*l->members));
    l->endings = calloc(count, sizeof(*l->endings));
    return l->members && l->endings &&
                   dt_roster_copy(&l->roster, roster) == 0 &&
                   dt_fence_init(&l->fence, roster->count) == 0 &&
                   dt_pace_init(&l->pace, roster->count) == 0
               ? 0
               : -1;
}

static void free_arrays(struct dt_leader *l)
{
    free(l->members);
    free(l->endings);
    free(l->verdict.losses);
    dt_fence_fini(&l->fence);
    dt_pace_fini(&l->pace);
    dt_roster_fini(&l->roster);
}

struct dt_leader *dt_leader_create(const struct dt_keeper_options *options,
                                   const struct dt_roster *roster, int id,
                                   int listener, int link, struct dt_error *err)
{
    struct dt_leader *l = calloc(1, sizeof(*l));
    if (!l || init_arrays(l, roster) < 0) {
        if (l)
            free_arrays(l);
        free(l);
        close(listener);
        close(link);
        dt_error_set(err, EX_OSERR, "keeper: no memory for %d ranks",
                     roster->count);
        return NULL;
    }
    l->options = options;
    l->id = id;
    l->claim.fd = l->shrink.fd = l->hung = l->lost_rank = -1;
    l->shrink_at = INFINITY;
    l->deadline =
        dt_clock_now() + (roster->epoch == 0 ? options->timeout_ms / 1e3
                                             : 3 * options->outage_s);
    dt_keeper_token(options->secret, &l->token);
    for (int i = 0; i < roster->count; i++) {
        dt_wire_init(&l->members[i].wire, i == id ? link : -1);
        l->members[i].heard = l->members[i].told = dt_clock_now();
    }
    dt_guests_open(&l->guests, &l->token, id, roster->count, listener);
    return l;
}

void dt_leader_destroy(struct dt_leader *l)
{
    if (!l)
        return;
    dt_errand_end(&l->claim);
    dt_errand_end(&l->shrink);
    dt_guests_close(&l->guests);
    for (int i = 0; i < l->roster.count; i++)
        dt_wire_close(&l->members[i].wire);
    free_arrays(l);
    free(l);
}
