/* SPDX-License-Identifier: Apache-2.0 */
/* elect.c - a keeper finds the next leader */
#include "config.h"

#include <stdio.h>

#include "base/clock.h"
#include "keeper/keeper_impl.h"
#include "keeper/leader.h"
#include "keeper/reach.h"
#include "keeper/roster.h"

/* A keeper without one of its own node neither leads nor follows: the others
 * would wait for the node in vain.
 */
static bool is_mate(const struct dt_keeper *k, int id)
{
    return k->roster.rows[id].hello.node == k->hello.node;
}

/* Finds a leader among the keepers that are left: the first that answers after
 * the one before, or this one. Who was passed over never leads this keeper: its
 * proposal would be older than those that were accepted since.
 */
static int find_leader(struct dt_keeper *k, double lost_at, const char *how,
                       struct dt_error *err)
{
    const int before = k->leader_id;
    int next = dt_roster_next_leader(&k->roster, before, before);
    while (next != k->id) {
        int fd =
            dt_reach_next(k->options, &k->roster, next, k->id, k->signals, err);
        dt_keeper_read_signals(k);
        if (fd >= 0) {
            k->leader_id = next;
            dt_wire_init(&k->link, fd);
            return 0;
        }
        if (k->asked || (err->status != EX_TEMPFAIL && is_mate(k, next)))
            return -1;
        if (err->status != EX_TEMPFAIL)
            next = dt_roster_next_leader(&k->roster, before, next);
    }
    if (dt_keeper_lead(k, err) < 0)
        return -1;
    dt_life_inherit(k->leader, lost_at, how);
    return 0;
}

/* The leader is lost, and its node. Others may have the same reason to go on,
 * so first of all the worker ends.
 */
void dt_keeper_elect(struct dt_keeper *k, const char *how)
{
    struct dt_roster *roster = &k->roster;
    struct dt_error err = {.text = ""};
    const double lost_at = dt_keeper_lost_at(k->options, k->heard);
    const bool ended = dt_keeper_end_worker(k);
    dt_wire_close(&k->link);
    dt_roster_lose(roster, roster->rows[k->leader_id].hello.node);
    dt_keeper_mind_srun(k);
    dt_keeper_read_signals(k);
    if (!ended || !dt_roster_has(roster, k->id) ||
        find_leader(k, lost_at, how, &err) < 0 ||
        dt_keeper_say_hello(k, &err) < 0) {
        if (err.text[0])
            fprintf(stderr, "disttrain: %s\n", err.text);
        dt_keeper_leave(k);
        return;
    }
    if (k->is_down)
        dt_keeper_tell_down(k);
    k->heard = k->turned = dt_clock_now();
}
