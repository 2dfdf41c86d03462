/* SPDX-License-Identifier: Apache-2.0 */
/* heed.c - a keeper does what its leader says */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/net.h"
#include "keeper/keeper_impl.h"
#include "keeper/leader.h"
#include "keeper/outlook.h"
#include "keeper/roster.h"
#include "keeper/worker.h"

/* Notes who is where. */
static int take_table(struct dt_keeper *k,
                      const struct dt_wire_message *message)
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

/* Accepts what the leader proposes. */
static int take_proposal(struct dt_keeper *k,
                         const struct dt_wire_message *message)
{
    struct dt_roster *roster = &k->roster;
    if (dt_view_take_proposal(roster, message->body, message->bytes) < 0)
        return -1;
    const struct dt_wire_accept accept = {roster->epoch,
                                          dt_worker_find_port(k->options)};
    dt_keeper_tell(k, DT_WIRE_ACCEPT, &accept, sizeof(accept), NULL, 0);
    return 0;
}

/* A life begins; whoever has no rank in it waits. */
static int take_go(struct dt_keeper *k, const struct dt_wire_message *message)
{
    struct dt_roster *roster = &k->roster;
    const uint8_t *at = (const uint8_t *)message->body;
    struct dt_wire_go go;
    if (message->bytes < sizeof(go) || k->worker.pid != 0)
        return -1;
    memcpy(&go, at, sizeof(go));
    at += sizeof(go);
    if (dt_view_take_life(roster, at, message->bytes - sizeof(go),
                          message->life) < 0)
        return -1;
    dt_keeper_mind_srun(k);
    k->kill_at = 0;
    k->note[0] = '\0';
    k->is_down = false;
    if (roster->posts[k->id].rank >= 0)
        dt_keeper_start_worker(k, go.port);
    return 0;
}

void dt_keeper_end(struct dt_keeper *k, int cause)
{
    if (k->worker.pid != 0 || k->kill_at > 0 || !k->is_down)
        k->end = WIFSIGNALED(cause) ? EX_UNAVAILABLE << 8 : cause;
    k->over = true;
}

/* Tells the console in srun. Once the last task has ended srun drops what it
 * has not read, if any of them was killed; with nodes, others may be. So this
 * one waits until the console has heard it.
 */
static void tell_end(struct dt_keeper *k, const struct dt_wire_bye *bye)
{
    const int status = bye->cause.status;
    struct dt_error err;
    unsigned port = 0;
    if (bye->gone > 0 && k->options->token)
        k->hears = dt_net_listen(NULL, &port, &err);
    if (k->hears >= 0)
        dt_keeper_record(k->options, "waits %s %u",
                         k->roster.rows[k->id].address, port);
    dt_keeper_record(k->options, "verdict %d %d",
                     WIFEXITED(status) ? WEXITSTATUS(status)
                                       : 128 + WTERMSIG(status),
                     bye->gone);
}

static int take_message(struct dt_keeper *k,
                        const struct dt_wire_message *message)
{
    struct dt_wire_bye bye;
    switch (message->type) {
    case DT_WIRE_TABLE:
        return take_table(k, message);
    case DT_WIRE_PROPOSE:
        return take_proposal(k, message);
    case DT_WIRE_GO:
        return take_go(k, message);
    case DT_WIRE_STOP:
        dt_keeper_stop_worker(k);
        return 0;
    case DT_WIRE_BYE:
        if (message->bytes != sizeof(bye))
            return -1;
        memcpy(&bye, message->body, sizeof(bye));
        if (bye.tells == k->id)
            tell_end(k, &bye);
        dt_keeper_end(k, bye.cause.status);
        return 0;
    case DT_WIRE_BLOBS:
    case DT_WIRE_MISSING:
        if (message->life == k->roster.life)
            dt_wire_send(&k->worker.wire, message->type, message->life,
                         message->body, message->bytes, NULL, 0);
        return 0;
    case DT_WIRE_LEAVE:
        dt_keeper_leave(k);
        return 0;
    default:
        return 0; /* a beat */
    }
}

void dt_keeper_lose_leader(struct dt_keeper *k, const char *how)
{
    if (!k->options->replaces || k->roster.epoch == 0 || k->leader)
        dt_keeper_end(k, EX_UNAVAILABLE << 8);
    else
        dt_keeper_elect(k, how);
}

void dt_keeper_serve_leader(struct dt_keeper *k)
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
        dt_keeper_lose_leader(k, strerror(bad));
}
