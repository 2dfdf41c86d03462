/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leader.c - the keeper of rank 0 brings all keepers together, exchanges the
 * data of their workers, and ends or restarts all workers when one has ended
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "keeper/keeper_impl.h"

enum {
    DRAIN_S = 2,
    FIRST_MS = 500, /* by which the cause ends before the others */
    MISSING_BYTES = 512,
};

/* The keeper of a rank. */
struct member {
    struct dt_wire wire;
    bool came;
    struct dt_wire_hello hello;
    char host[DT_KEEPER_HOST_BYTES];
    double heard, told; /* the last message from and to it */
};

enum phase {
    JOINING,  /* not all keepers have come */
    RUNNING,  /* all workers run, or have ended well */
    STOPPING, /* a worker has failed: the others are ended */
    ENDING,   /* the keeper of the cause was told the end */
    OVER,     /* all were */
};

struct dt_leader {
    const struct dt_keeper_options *options;
    struct dt_token token;
    struct dt_guests guests;
    int size;
    struct member *members;    /* [size] */
    struct dt_ending *endings; /* [size], of their workers in this life */
    enum phase phase;
    double deadline; /* of JOINING and ENDING */
    uint32_t life;
    int downs;
    struct dt_fence fence; /* and these */
    struct dt_pace pace;
    int hung; /* the rank that does not get on, and why; -1: none */
    char hang[DT_KEEPER_NOTE_BYTES];
    double lost_at; /* when the first worker of this life has failed */
    struct dt_verdict verdict;
};

/* --- messages --- */

static void send_to(struct dt_leader *l, struct member *m,
                    enum dt_wire_type type, const void *head, size_t head_bytes,
                    const void *tail, size_t tail_bytes)
{
    m->told = dt_clock_now();
    dt_wire_send(&m->wire, type, l->life, head, head_bytes, tail, tail_bytes);
}

static void send_all(struct dt_leader *l, enum dt_wire_type type,
                     const void *head, size_t head_bytes, const void *tail,
                     size_t tail_bytes)
{
    for (int r = 0; r < l->size; r++)
        send_to(l, &l->members[r], type, head, head_bytes, tail, tail_bytes);
}

/* --- the end of a life --- */

/* The end of all, and its cause. Whose worker it was ends first, because Slurm
 * and the console report the first task that fails, and some time before the
 * others, because daemons of different nodes tell them.
 */
static void end_all(struct dt_leader *l, const struct dt_wire_down *cause)
{
    l->phase = ENDING;
    l->deadline = dt_clock_now() + FIRST_MS / 1e3;
    l->verdict.cause = *cause;
    send_to(l, &l->members[cause->rank], DT_WIRE_BYE, cause, sizeof(*cause),
            NULL, 0);
}

static void end_others(struct dt_leader *l)
{
    l->phase = OVER;
    for (int r = 0; r < l->size; r++)
        if (r != l->verdict.cause.rank)
            send_to(l, &l->members[r], DT_WIRE_BYE, &l->verdict.cause,
                    sizeof(l->verdict.cause), NULL, 0);
}

/* A port that was free just now, on the host of rank 0; 0: none is known. */
static unsigned find_port(void)
{
    unsigned port = 0;
    int fd = dt_net_listen(NULL, &port, NULL);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? 0 : port;
}

/* Starts all workers. */
static void start_life(struct dt_leader *l)
{
    const struct dt_wire_go go = {
        .restarts = l->verdict.restarts,
        .port = l->options->trains ? 0 : find_port(),
    };
    l->life++;
    l->downs = 0;
    l->hung = -1;
    dt_pace_begin(&l->pace);
    l->phase = RUNNING;
    dt_fence_clear(&l->fence);
    memset(l->endings, 0, (size_t)l->size * sizeof(*l->endings));
    send_all(l, DT_WIRE_GO, &go, sizeof(go), l->verdict.losses,
             l->verdict.loss_count * sizeof(*l->verdict.losses));
}

/* All workers of a life have ended. */
static void conclude(struct dt_leader *l)
{
    char text[DT_KEEPER_NOTE_BYTES] = "";
    const char *why;
    const struct dt_ending *cause = dt_ending_cause(l->endings, l->size);
    if (cause)
        dt_ending_describe(cause, l->members[cause->down.rank].host, text,
                           sizeof(text));
    if (dt_verdict_restart(&l->verdict, l->options, l->endings, l->size,
                           &why)) {
        const bool trains = l->options->trains;
        fprintf(stderr,
                "disttrain: %s: all ranks start again (restart %d; at most "
                "%ld%s)\n",
                text, l->verdict.restarts, l->options->max_restarts,
                trains ? " without a new step" : "");
        dt_verdict_note(&l->verdict, l->endings, l->size, l->lost_at, text);
        start_life(l);
        return;
    }
    if (why)
        fprintf(stderr, "disttrain: %s: %s\n", text, why);
    const struct dt_wire_down end = l->verdict.cause;
    end_all(l, &end);
}

/* Ends the workers that are left, as one has failed. */
static void stop_all(struct dt_leader *l)
{
    l->phase = STOPPING;
    l->lost_at = dt_clock_now();
    send_all(l, DT_WIRE_STOP, NULL, 0, NULL, 0);
}

static void note_down(struct dt_leader *l, int rank,
                      const struct dt_wire_message *message)
{
    struct dt_ending *e = &l->endings[rank];
    if (e->there || message->bytes < sizeof(e->down) ||
        message->life != l->life)
        return;
    memcpy(&e->down, message->body, sizeof(e->down));
    snprintf(e->note, sizeof(e->note), "%.*s",
             (int)(message->bytes - sizeof(e->down)),
             (const char *)message->body + sizeof(e->down));
    e->down.rank = rank;
    if (rank == l->hung) {
        e->down.stopped = false;
        snprintf(e->note, sizeof(e->note), "%s", l->hang);
    }
    e->there = true;
    e->turn = l->downs++;
    if (l->phase == RUNNING && !dt_ended_well(e->down.status))
        stop_all(l);
    if (l->downs == l->size)
        conclude(l);
}

/* --- workers hang --- */

static void note_beat(struct dt_leader *l, int rank,
                      const struct dt_wire_message *message)
{
    struct dt_wire_beat beat;
    if (message->bytes != sizeof(beat) || message->life != l->life)
        return;
    memcpy(&beat, message->body, sizeof(beat));
    dt_pace_note(&l->pace, rank, &beat);
}

/* Ends a life in which no worker gets on. */
static void end_hang(struct dt_leader *l, double seconds)
{
    const int culprit = dt_pace_culprit(&l->pace, l->endings);
    l->hung = culprit < 0 ? 0 : culprit;
    dt_pace_describe(&l->pace, culprit, l->members[l->hung].host, seconds,
                     l->hang);
    stop_all(l);
}

/* --- keepers come --- */

/* A keeper is lost, and with it the step. */
static void lose_member(struct dt_leader *l, const struct member *m,
                        const char *how)
{
    const int rank = (int)(m - l->members);
    const struct dt_wire_down cause = {
        .rank = rank, .status = EX_UNAVAILABLE << 8, .step = l->verdict.best};
    if (l->phase >= ENDING)
        return;
    fprintf(stderr,
            "disttrain: lost the keeper of rank %d on %s: %s; a step cannot "
            "replace it: launch.max_restarts and launch.requeue start "
            "another one\n",
            rank, m->host, how);
    end_all(l, &cause);
}

static void list_missing(const struct dt_leader *l, bool fence, char *text)
{
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; r < l->size && used < MISSING_BYTES - 1; r++) {
        const struct member *m = &l->members[r];
        if (fence ? dt_fence_has(&l->fence, r) : m->came)
            continue;
        used += (size_t)snprintf(text + used, MISSING_BYTES - used,
                                 "%s rank %d%s%s", used > 0 ? "," : "", r,
                                 m->came ? " on " : "", m->host);
    }
}

/* Sends who is where to all, and starts the workers. */
static void welcome_all(struct dt_leader *l)
{
    const size_t rows = (size_t)l->size * sizeof(struct dt_wire_hello);
    const size_t most = rows + (size_t)l->size * DT_KEEPER_HOST_BYTES;
    uint8_t *table = calloc(1, most);
    size_t used = rows;
    for (int r = 0; table && r < l->size; r++) {
        const struct member *m = &l->members[r];
        memcpy(table + (size_t)r * sizeof(m->hello), &m->hello,
               sizeof(m->hello));
        memcpy(table + used, m->host, strlen(m->host) + 1);
        used += strlen(m->host) + 1;
    }
    if (!table) {
        lose_member(l, &l->members[0], strerror(ENOMEM));
        return;
    }
    send_all(l, DT_WIRE_TABLE, table, used, NULL, 0);
    free(table);
    start_life(l);
}

static void note_hello(struct dt_leader *l, struct member *m,
                       const struct dt_wire_message *message)
{
    const char *host = (const char *)message->body + sizeof(m->hello);
    if (m->came || message->bytes <= sizeof(m->hello) ||
        message->bytes - sizeof(m->hello) > sizeof(m->host))
        return;
    memcpy(&m->hello, message->body, sizeof(m->hello));
    memcpy(m->host, host, message->bytes - sizeof(m->hello));
    m->host[sizeof(m->host) - 1] = '\0';
    m->came = true;
    for (int r = 0; r < l->size; r++)
        if (!l->members[r].came)
            return;
    welcome_all(l);
}

/* --- workers meet --- */

static void note_fence(struct dt_leader *l, int rank,
                       const struct dt_wire_message *message)
{
    size_t bytes;
    uint8_t *all = NULL;
    if (message->life != l->life || l->phase != RUNNING)
        return;
    const bool kept =
        dt_fence_add(&l->fence, rank, message->body, message->bytes) == 0;
    if (kept && !dt_fence_complete(&l->fence))
        return;
    if (kept && (all = dt_fence_join(&l->fence, &bytes)) != NULL)
        send_all(l, DT_WIRE_BLOBS, all, bytes, NULL, 0);
    else
        lose_member(l, &l->members[0], strerror(ENOMEM));
    free(all);
    dt_fence_clear(&l->fence);
}

static void note_message(struct dt_leader *l, struct member *m,
                         const struct dt_wire_message *message)
{
    const int rank = (int)(m - l->members);
    char missing[MISSING_BYTES];
    switch (message->type) {
    case DT_WIRE_HELLO:
        note_hello(l, m, message);
        break;
    case DT_WIRE_DOWN:
        note_down(l, rank, message);
        break;
    case DT_WIRE_FENCE:
        note_fence(l, rank, message);
        break;
    case DT_WIRE_WHO:
        list_missing(l, true, missing);
        send_to(l, m, DT_WIRE_MISSING, missing, strlen(missing), NULL, 0);
        break;
    case DT_WIRE_BEAT:
        note_beat(l, rank, message);
        break;
    default:
        break;
    }
}

/* --- the sockets --- */

/* A connection has proved to be the keeper of a rank. One that has not said
 * hello may have given up, and try again.
 */
static void seat(struct dt_leader *l, int rank, int fd)
{
    struct member *m = &l->members[rank];
    if (m->came) {
        close(fd); /* a rank has one keeper */
        return;
    }
    dt_wire_close(&m->wire);
    dt_wire_init(&m->wire, fd);
    m->heard = m->told = dt_clock_now();
}

static void serve_member(struct dt_leader *l, struct member *m)
{
    struct dt_wire_message message;
    int rc = dt_wire_receive(&m->wire), bad = errno, found;
    while ((found = dt_wire_next(&m->wire, &message)) > 0) {
        m->heard = dt_clock_now();
        note_message(l, m, &message);
    }
    if (found < 0 || rc < 0) {
        bad = found < 0 ? errno : bad;
        dt_wire_close(&m->wire);
        if (m->came)
            lose_member(l, m, strerror(bad));
    }
}

double dt_leader_due(const struct dt_leader *l)
{
    return l->phase == JOINING || l->phase == ENDING ? l->deadline : INFINITY;
}

void dt_leader_excuse(struct dt_leader *l, double seconds)
{
    l->deadline += seconds;
    l->pace.moved += seconds;
    for (int r = 0; r < l->size; r++)
        l->members[r].heard += seconds;
}

/* Beats, and who is not heard any more. */
static void look_at_clock(struct dt_leader *l)
{
    char missing[MISSING_BYTES], silent[64];
    const double now = dt_clock_now(), beat_s = l->options->beat_ms / 1e3;
    double hung;
    if (l->phase == JOINING && now >= l->deadline) {
        list_missing(l, false, missing);
        fprintf(stderr,
                "disttrain: not all keepers arrived within %d ms; missing:%s\n",
                l->options->timeout_ms, missing);
        const struct dt_wire_down cause = {.status = EX_UNAVAILABLE << 8};
        end_all(l, &cause);
    }
    if (l->phase == ENDING &&
        (l->verdict.cause.rank == 0 || dt_ended_well(l->verdict.cause.status) ||
         now >= l->deadline))
        end_others(l); /* the leader itself cannot end before that */
    if (l->phase == RUNNING && dt_pace_hangs(&l->pace, l->endings, &hung))
        end_hang(l, hung);
    for (int r = 0; r < l->size && l->phase < ENDING; r++) {
        struct member *m = &l->members[r];
        if (m->wire.fd < 0)
            continue;
        if (now - m->heard > DT_KEEPER_LOST_BEATS * beat_s) {
            snprintf(silent, sizeof(silent), "it was not heard for %g s",
                     DT_KEEPER_LOST_BEATS * beat_s);
            lose_member(l, m, silent);
        } else if (now - m->told > beat_s) {
            send_to(l, m, DT_WIRE_BEAT, NULL, 0, NULL, 0);
        }
    }
}

size_t dt_leader_most(int size)
{
    return DT_GUESTS_FDS + (size_t)size;
}

size_t dt_leader_poll(struct dt_leader *l, struct pollfd *fds)
{
    size_t count = DT_GUESTS_FDS;
    dt_guests_poll(&l->guests, fds);
    for (int r = 0; r < l->size; r++) {
        const struct dt_wire *wire = &l->members[r].wire;
        const short out = dt_wire_pending(wire) ? POLLOUT : 0;
        fds[count++] = (struct pollfd){wire->fd, (short)(POLLIN | out), 0};
    }
    return count;
}

void dt_leader_serve(struct dt_leader *l, const struct pollfd *fds)
{
    const struct pollfd *of_members = fds + DT_GUESTS_FDS;
    int rank, fd;
    for (int r = 0; r < l->size; r++) {
        struct member *m = &l->members[r];
        const short got = m->wire.fd >= 0 ? of_members[r].revents : 0;
        if (got & POLLOUT)
            dt_wire_flush(&m->wire);
        if (got & ~POLLOUT)
            serve_member(l, m);
    }
    while ((rank = dt_guests_serve(&l->guests, fds, &fd)) >= 0)
        seat(l, rank, fd);
    look_at_clock(l);
}

void dt_leader_drain(struct dt_leader *l)
{
    const double end = dt_clock_now() + DRAIN_S;
    for (int r = 0; r < l->size; r++) {
        struct dt_wire *wire = &l->members[r].wire;
        while (wire->fd >= 0 && dt_wire_pending(wire)) {
            struct pollfd p = {wire->fd, POLLOUT, 0};
            const double left = end - dt_clock_now();
            if (left <= 0 || poll(&p, 1, (int)(left * 1e3) + 1) <= 0 ||
                dt_wire_flush(wire) < 0)
                break;
        }
    }
}

/* --- its beginning and its end --- */

static void free_arrays(struct dt_leader *l)
{
    free(l->members);
    free(l->endings);
    free(l->verdict.losses);
    dt_fence_fini(&l->fence);
    dt_pace_fini(&l->pace);
}

struct dt_leader *dt_leader_create(const struct dt_keeper_options *options,
                                   int size, unsigned port, int link,
                                   struct dt_error *err)
{
    struct dt_leader *l = calloc(1, sizeof(*l));
    if (l)
        l->members = calloc((size_t)size, sizeof(*l->members));
    if (l)
        l->endings = calloc((size_t)size, sizeof(*l->endings));
    if (!l || !l->members || !l->endings ||
        dt_fence_init(&l->fence, size) < 0 ||
        dt_pace_init(&l->pace, size) < 0) {
        if (l)
            free_arrays(l);
        free(l);
        close(link);
        dt_error_set(err, EX_OSERR, "keeper: no memory for %d ranks", size);
        return NULL;
    }
    l->options = options;
    l->size = size;
    l->deadline = dt_clock_now() + options->timeout_ms / 1e3;
    dt_keeper_token(options->secret, &l->token);
    for (int r = 0; r < size; r++) {
        dt_wire_init(&l->members[r].wire, r == 0 ? link : -1);
        l->members[r].heard = l->members[r].told = dt_clock_now();
    }
    if (dt_guests_open(&l->guests, &l->token, size, port, err) == 0)
        return l;
    dt_leader_destroy(l);
    return NULL;
}

void dt_leader_destroy(struct dt_leader *l)
{
    if (!l)
        return;
    dt_guests_close(&l->guests);
    for (int r = 0; r < l->size; r++)
        dt_wire_close(&l->members[r].wire);
    free_arrays(l);
    free(l);
}
