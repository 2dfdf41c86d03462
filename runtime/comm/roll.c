/* SPDX-License-Identifier: Apache-2.0 */
/* roll.c - notes from each rank to each other one */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/roll.h"

/* Each note has a number of its own, below that of the last words. */
static uint64_t slot_of(uint64_t note)
{
    return UINT64_MAX - 1 - note;
}

static int expect_note(struct dt_roll *roll, int r, struct dt_error *err)
{
    return dt_peers_post(roll->peers, roll->in[r], DT_RECV, r,
                         slot_of(roll->came[r]), 0, sizeof(struct dt_note),
                         err);
}

int dt_roll_init(struct dt_roll *roll, struct dt_peers *peers,
                 struct dt_error *err)
{
    size_t n = (size_t)peers->size;
    *roll = (struct dt_roll){
        .peers = peers,
        .own = calloc(n, sizeof(struct dt_note)),
        .room = calloc(n, sizeof(struct dt_note)),
        .heard = calloc(n, sizeof(struct dt_note)),
        .sent = calloc(n, sizeof(uint64_t)),
        .came = calloc(n, sizeof(uint64_t)),
        .out = calloc(n, sizeof(struct dt_port *)),
        .in = calloc(n, sizeof(struct dt_port *)),
        .busy = calloc(n, sizeof(bool)),
    };
    if (!roll->own || !roll->room || !roll->heard || !roll->sent ||
        !roll->came || !roll->out || !roll->in || !roll->busy)
        return dt_error_set(err, EX_OSERR, "no memory for %d ranks",
                            peers->size);
    for (int r = 0; r < peers->size; r++) {
        if (r == peers->rank)
            continue;
        roll->out[r] = dt_port_create(peers->link, &roll->own[r],
                                      sizeof(struct dt_note), err);
        roll->in[r] = dt_port_create(peers->link, &roll->room[r],
                                     sizeof(struct dt_note), err);
        if (!roll->out[r] || !roll->in[r] || expect_note(roll, r, err) < 0)
            return -1;
    }
    return 0;
}

void dt_roll_fini(struct dt_roll *roll)
{
    for (int r = 0; roll->in && roll->out && r < roll->peers->size; r++) {
        dt_port_destroy(roll->out[r]);
        dt_port_destroy(roll->in[r]);
    }
    free(roll->own);
    free(roll->room);
    free(roll->heard);
    free(roll->sent);
    free(roll->came);
    free(roll->out);
    free(roll->in);
    free(roll->busy);
}

bool dt_roll_hear(struct dt_roll *roll, uint64_t place)
{
    bool waits = false;
    for (int r = 0; r < roll->peers->size; r++) {
        if (r == roll->peers->rank)
            continue;
        /* a broken connection is no business of notes: dt_peers_look */
        while (dt_port_wait(roll->in[r], DT_RECV, 0, NULL) == 1) {
            roll->heard[r] = roll->room[r];
            roll->heard[r].what[sizeof(roll->heard[r].what) - 1] = '\0';
            roll->came[r]++;
            if (expect_note(roll, r, NULL) < 0)
                break;
        }
        waits |= roll->heard[r].place >= place;
    }
    return waits;
}

void dt_roll_say(struct dt_roll *roll, uint64_t place, const char *what)
{
    bool all = true;
    if (roll->said >= place)
        return;
    for (int r = 0; r < roll->peers->size; r++) {
        if (r == roll->peers->rank || roll->own[r].place >= place)
            continue;
        if (roll->busy[r] &&
            dt_port_wait(roll->out[r], DT_SEND, 0, NULL) != 1) {
            all = false; /* still being sent: again with the next call */
            continue;
        }
        roll->own[r].place = place;
        snprintf(roll->own[r].what, sizeof(roll->own[r].what), "%s", what);
        roll->busy[r] = true;
        dt_port_post(roll->out[r], DT_SEND, r, slot_of(roll->sent[r]++), 0,
                     sizeof(struct dt_note), NULL);
    }
    if (all)
        roll->said = place;
}

int dt_roll_missing(struct dt_roll *roll, uint64_t place, const char *what,
                    int timeout_ms, struct dt_error *err)
{
    const struct dt_peers *p = roll->peers;
    int first = -1, count = 0;
    dt_roll_hear(roll, place);
    for (int r = 0; r < p->size; r++) {
        const struct dt_note *note = &roll->heard[r];
        if (r == p->rank || note->place > place)
            continue;
        if (note->place == place) {
            if (strncmp(note->what, what, sizeof(note->what) - 1) != 0)
                return dt_peers_about(p, r, err, " does %s instead",
                                      note->what);
            continue;
        }
        if (count++ == 0)
            first = r;
    }
    if (count == 1)
        return dt_peers_about(p, first, err, " did not answer within %d ms",
                              timeout_ms);
    if (count > 1)
        return dt_peers_about(p, first, err,
                              " and %d other%s did not answer within %d ms",
                              count - 1, count > 2 ? "s" : "", timeout_ms);
    return dt_error_set(err, EX_UNAVAILABLE,
                        "all ranks have come to it, but it did not end within "
                        "%d ms: a card or the network between them is stuck; "
                        "with NCCL_DEBUG=INFO the library says more",
                        timeout_ms);
}
