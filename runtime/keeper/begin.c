/* SPDX-License-Identifier: Apache-2.0 */
/* begin.c - the leader begins a life of the workers, and the end of all */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/agree.h"
#include "keeper/fence.h"
#include "keeper/leader.h"
#include "keeper/outlook.h"
#include "keeper/pace.h"
#include "keeper/reach.h"
#include "keeper/roster.h"
#include "keeper/verdict.h"

enum { FIRST_MS = 500 /* by which the cause ends before the others */ };

/* --- the end of all --- */

/* The end of all, and its cause. Whose worker it was ends first, because Slurm
 * and the console report the first task that fails, and some time before the
 * others, because daemons of different nodes tell them.
 */
void dt_life_end(struct dt_leader *l, const struct dt_wire_down *cause)
{
    const int first = l->roster.epoch > 0 && cause->rank >= 0
                          ? dt_roster_find(&l->roster, cause->rank)
                          : -1;
    const bool waits =
        first >= 0 && first != l->id && !dt_ended_well(cause->status);
    l->phase = DT_ENDING;
    l->deadline = dt_clock_now() + (waits ? FIRST_MS / 1e3 : 0);
    l->verdict.cause = *cause;
    l->first = waits ? first : -1;
    if (waits) { /* the leader itself cannot end before the others */
        const struct dt_wire_bye bye = {.cause = *cause, .tells = l->id};
        dt_leader_send(l, first, DT_WIRE_BYE, &bye, sizeof(bye), NULL, 0);
    }
}

/* Nodes of whose tasks srun may not hear: those that are lost, and those whose
 * slurmstepd is.
 */
static int count_gone(const struct dt_leader *l)
{
    const struct dt_roster *roster = &l->roster;
    int gone = l->gone_all;
    for (int node = 0; node < roster->count; node++) {
        bool any = false;
        for (int i = 0; i < roster->count; i++)
            any |= roster->rows[i].hello.node == node &&
                   dt_roster_has(roster, i) && l->members[i].orphaned;
        gone += any;
    }
    return gone;
}

/* The keeper that tells srun the end: the leader, or another that is left and
 * whose output still comes there.
 */
static int find_teller(const struct dt_leader *l)
{
    for (int i = 0; l->members[l->id].orphaned && i < l->roster.count; i++)
        if (dt_roster_has(&l->roster, i) && i != l->first &&
            l->members[i].wire.fd >= 0 && !l->members[i].orphaned)
            return i;
    return l->id;
}

/* Tells all, of whom one tells the console in srun. */
void dt_life_end_others(struct dt_leader *l)
{
    const struct dt_wire_bye bye = {.cause = l->verdict.cause,
                                    .gone = count_gone(l),
                                    .tells = find_teller(l)};
    l->phase = DT_OVER;
    l->told = true;
    l->srun_gone = dt_reach_srun(l->options, &l->roster) != DT_ANSWER_OPEN;
    dt_leader_send_all(l, DT_WIRE_BYE, &bye, sizeof(bye), NULL, 0);
}

/* This part of the step ends, and others may go on. */
void dt_life_step_aside(struct dt_leader *l, const char *why)
{
    fprintf(stderr, "disttrain: %s: %s\n", l->roster.hosts[l->id], why);
    l->phase = DT_OVER;
    l->aside = l->short_of_nodes = true;
    l->srun_gone = dt_reach_srun(l->options, &l->roster) != DT_ANSWER_OPEN;
    dt_leader_send_all(l, DT_WIRE_LEAVE, NULL, 0, NULL, 0);
}

/* The node of the leader ends. The others see it by their connections, and one
 * of them leads.
 */
void dt_life_leave_node(struct dt_leader *l)
{
    const int node = l->roster.rows[l->id].hello.node;
    fprintf(stderr,
            "disttrain: %s: a keeper of this node is lost: the node leaves the "
            "step\n",
            l->roster.hosts[l->id]);
    l->phase = DT_OVER;
    for (int i = 0; i < l->roster.count; i++)
        if (l->roster.rows[i].hello.node == node)
            dt_leader_send(l, i, DT_WIRE_LEAVE, NULL, 0, NULL, 0);
}

/* --- the beginning of a life --- */

/* Sends to all who has which rank, and the losses to record. */
static int send_go(struct dt_leader *l)
{
    const struct dt_wire_go go = {
        l->members[dt_roster_find(&l->roster, 0)].free};
    const size_t bytes = dt_view_bytes(&l->roster);
    uint8_t *view = malloc(bytes);
    if (!view)
        return -1;
    dt_view_put(&l->roster, view);
    dt_leader_send_all(l, DT_WIRE_GO, &go, sizeof(go), view, bytes);
    free(view);
    return 0;
}

/* All keepers hear of the past, as one of them may have to lead. */
static int note_past(struct dt_leader *l)
{
    const struct dt_verdict *verdict = &l->verdict;
    l->roster.past = (struct dt_wire_past){
        .best = verdict->best,
        .restarts = verdict->restarts,
        .fruitless = (int32_t)verdict->fruitless,
        .gone = l->gone_all,
        .cause = verdict->cause,
    };
    return dt_roster_note_losses(&l->roster, verdict->losses,
                                 verdict->loss_count);
}

void dt_life_start(struct dt_leader *l)
{
    const struct dt_wire_down none = {.rank = -1, .status = EX_OSERR << 8};
    struct dt_roster *roster = &l->roster;
    roster->life++;
    l->downs = l->gone = 0;
    l->hung = l->lost_rank = -1;
    dt_fence_clear(&l->fence);
    l->fence.size = l->pace.size = roster->size;
    dt_pace_begin(&l->pace);
    l->phase = DT_RUNNING;
    memset(l->endings, 0, (size_t)roster->count * sizeof(*l->endings));
    dt_agree_begin(roster);
    dt_keeper_record(l->options, "epoch %" PRIu32, roster->epoch);
    if (note_past(l) == 0 && send_go(l) == 0)
        return;
    fprintf(stderr, "disttrain: keeper: no memory for %d ranks\n",
            roster->size);
    dt_life_end(l, &none);
}
