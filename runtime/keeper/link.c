/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - from a keeper to its leader, which it may be itself */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "contract/contract.h"
#include "keeper/guests.h"
#include "keeper/keeper_impl.h"
#include "keeper/leader.h"
#include "keeper/outlook.h"
#include "keeper/reach.h"
#include "keeper/relay.h"
#include "keeper/worker.h"

enum { SPARE_FDS = 32 /* of the keeper itself */ };

bool dt_keeper_number(const char *name, int *number)
{
    const char *text = getenv(name);
    char *end;
    long value = text ? strtol(text, &end, 10) : -1;
    *number = (int)value;
    return text && end != text && *end == '\0' && value >= 0 &&
           value <= INT_MAX;
}

/* Whether a signal asks this task to end. A program that is not ours may go on
 * after SIGUSR1, SIGUSR2 or SIGHUP: its end tells.
 */
static bool asks(const struct dt_keeper *k, uint32_t signal)
{
    return signal == SIGTERM || signal == SIGINT ||
           (signal != SIGCHLD && k->options->trains);
}

void dt_keeper_read_signals(struct dt_keeper *k)
{
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        k->asked |= asks(k, info.ssi_signo);
        k->late |= (int)info.ssi_signo == k->options->last_signal;
    }
}

void dt_keeper_tell(struct dt_keeper *k, enum dt_wire_type type,
                    const void *head, size_t head_bytes, const void *tail,
                    size_t tail_bytes)
{
    k->told = dt_clock_now();
    dt_wire_send(&k->link, type, k->roster.life, head, head_bytes, tail,
                 tail_bytes);
}

/* Listens where the others find this keeper if it has to lead. */
int dt_keeper_listen(struct dt_keeper *k, struct dt_error *err)
{
    int port = 0;
    if (k->id != 0 && !k->options->replaces)
        return 0;
    if (k->id == 0)
        dt_keeper_number("MASTER_PORT", &port);
    k->hello.port = (uint32_t)port;
    k->listener = dt_guests_listen(&k->hello.port, err);
    return k->listener < 0 ? -1 : 0;
}

/* Becomes the leader, and a keeper of its own like any other. */
int dt_keeper_lead(struct dt_keeper *k, struct dt_error *err)
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

int dt_keeper_follow(struct dt_keeper *k, struct dt_error *err)
{
    int fd = dt_reach_leader(k->options, k->id, k->count, k->signals, err);
    if (fd >= 0)
        dt_wire_init(&k->link, fd);
    return fd < 0 ? -1 : 0;
}

int dt_keeper_say_hello(struct dt_keeper *k, struct dt_error *err)
{
    const bool knows = k->roster.epoch > 0;
    const size_t host = strlen(k->host) + 1;
    const size_t bytes = host + (knows ? dt_view_bytes(&k->roster) : 0);
    uint8_t *tail = malloc(bytes);
    if (!tail)
        return dt_error_set(err, EX_OSERR, "keeper: no memory");
    memcpy(k->hello.release, dt_wire_release, sizeof(k->hello.release));
    k->hello.free = dt_worker_find_port(k->options);
    memcpy(tail, k->host, host);
    if (knows)
        dt_view_put(&k->roster, tail + host);
    dt_keeper_tell(k, DT_WIRE_HELLO, &k->hello, sizeof(k->hello), tail, bytes);
    free(tail);
    return 0;
}

void dt_keeper_mind_srun(struct dt_keeper *k)
{
    if (k->options->replaces && dt_reach_misses_srun(k->options, &k->roster) &&
        dt_relay_open(&k->relay) < 0)
        fprintf(stderr, "disttrain: warning: pipe: %s\n", strerror(errno));
}

/* The others go on without this node, or end without a word. */
void dt_keeper_leave(struct dt_keeper *k)
{
    dt_keeper_record(k->options, "leaves %" PRIu32 " %.0f", k->roster.epoch,
                     DT_KEEPER_MENDS * k->options->outage_s);
    k->end = EX_UNAVAILABLE << 8;
    k->over = true;
}
