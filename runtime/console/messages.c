/* SPDX-License-Identifier: Apache-2.0 */
/* messages.c - one table of the messages about a step that the console knows */
#include "config.h"

#include <stdio.h>

#include "base/rankset.h"
#include "console/messages.h"
#include "console/outcome_impl.h"

static void note_first_end(struct dt_outcome *outcome,
                           const struct dt_console_event *event)
{
    if (outcome->first_end_ms == 0)
        outcome->first_end_ms = event->came_ms;
}

static void note_start(struct dt_outcome *outcome,
                       const struct dt_console_event *event)
{
    struct rank *r = &outcome->ranks[event->rank];
    r->started = true;
    r->start_ms = event->ms;
}

static void note_exit(struct dt_outcome *outcome,
                      const struct dt_console_event *event)
{
    struct rank *r = &outcome->ranks[event->rank];
    note_first_end(outcome, event);
    r->ended = true;
    r->no_record = false;
    r->end_ms = event->ms;
    r->status = event->status;
    outcome->fails = true;
    if (r->host != NO_HOST)
        outcome->hosts[r->host].ended = true;
}

static void set_oom(struct dt_outcome *outcome, uint32_t rank)
{
    int host = rank < outcome->count ? outcome->ranks[rank].host : NO_HOST;
    if (host != NO_HOST)
        outcome->hosts[host].oom = true;
}

static void note_oom(struct dt_outcome *outcome,
                     const struct dt_console_event *event)
{
    set_oom(outcome, event->label);
}

/* Notes the end of ranks that srun reports. A record's time is better, and
 * hearsay, which may be about the ranks of another step, ends nothing.
 */
static void note_tasks(struct dt_outcome *outcome,
                       const struct dt_console_event *event)
{
    struct dt_rankset set;
    if (!event->hearsay)
        note_first_end(outcome, event);
    if (dt_rankset_init(&set, outcome->count, NULL) != 0)
        return;
    dt_rankset_parse(&set, event->list, NULL);
    for (uint32_t i = 0; i < set.size; i++) {
        struct rank *r = &outcome->ranks[i];
        if (!set.has[i])
            continue;
        if (!r->ended) {
            r->ended = !event->hearsay;
            r->heard = event->hearsay;
            r->no_record = true;
            r->end_ms = event->came_ms;
            r->status = event->status;
        }
        if (event->oom)
            set_oom(outcome, i);
    }
    dt_rankset_fini(&set);
}

static void note_lost_node(struct dt_outcome *outcome,
                           const struct dt_console_event *event)
{
    int host = dt_outcome_find_host(outcome, event->host);
    if (!event->host[0] && event->node < (uint32_t)outcome->host_count)
        host = (int)event->node;
    if (host != NO_HOST)
        outcome->hosts[host].lost = true;
    if (outcome->lost[0] && (!outcome->lost_heard || event->hearsay))
        return;
    outcome->lost_heard = event->hearsay;
    snprintf(outcome->lost, sizeof(outcome->lost), "%s",
             host != NO_HOST ? outcome->hosts[host].name : event->host);
    outcome->lost_ms = event->came_ms;
}

/* srun names ranks or, if a node has refused them all, the node. */
static void note_unlaunched(struct dt_outcome *outcome,
                            const struct dt_console_event *event)
{
    struct dt_rankset set;
    int host = dt_outcome_find_host(outcome, event->host);
    if (dt_rankset_init(&set, outcome->count, NULL) != 0)
        return;
    dt_rankset_parse(&set, event->list, NULL);
    for (uint32_t i = 0; i < outcome->count; i++) {
        struct rank *r = &outcome->ranks[i];
        if (set.has[i] || (host != NO_HOST && r->host == host))
            r->unlaunched = true;
    }
    if (!outcome->reason[0])
        snprintf(outcome->reason, sizeof(outcome->reason), "%s", event->reason);
    dt_rankset_fini(&set);
}

/* clang-format off */
const struct dt_message dt_messages[] = {
    {DT_FROM_TASK, "start {rank} {host} {time}",
     DT_EVENT_START, note_start, NULL},
    {DT_FROM_NODE, "exit {rank} {host} {time} {wait}", /* a wait status */
     DT_EVENT_EXIT, note_exit, NULL},
    {DT_FROM_ANY, "absent {rank} {host} {time} {port} {waited} -",
     DT_EVENT_NOTICE, NULL,
     "all nodes have connected to rank 0, after {waited} s"},
    {DT_FROM_ANY, "absent {rank} {host} {time} {port} {waited} {hosts}",
     DT_EVENT_NOTICE, NULL,
     "rank 0 on {host} has listened on port {port} for {waited} s, but nobody "
     "on {hosts} has connected"},
    {DT_FROM_RUNTIME, "progress {rank} {host} {time} {bar}",
     DT_EVENT_PROGRESS, NULL, NULL},
    {DT_FROM_RUNTIME, "ended {rank} {host} {time}", /* no bar any more */
     DT_EVENT_ENDED, NULL, NULL},

    {DT_FROM_SRUN, "Job step aborted{}", DT_EVENT_ASKED, dt_outcome_stop, NULL},
    {DT_FROM_SRUN, "sending Ctrl-C to {}", DT_EVENT_ASKED, dt_outcome_stop,
     NULL},
    {DT_FROM_SRUN, "forcing job termination{}", DT_EVENT_ASKED, dt_outcome_stop,
     NULL},
    {DT_FROM_SRUN, "error: Node failure on {host}{}",
     DT_EVENT_NODE_LOST, note_lost_node, NULL},
    {DT_FROM_SRUN, "error: Aborting, io error and missing step on node {node}{}",
     DT_EVENT_NODE_LOST, note_lost_node, NULL},
    /* also for tasks whose record was lost, which happens with SIGKILL */
    {DT_FROM_SRUN, "error: {host}: task {ranks}: {status}",
     DT_EVENT_TASKS, note_tasks, NULL},
    {DT_FROM_SRUN, "error: {host}: tasks {ranks}: {status}",
     DT_EVENT_TASKS, note_tasks, NULL},
    {DT_FROM_SRUN, "error: task {ranks} launch failed: {reason}",
     DT_EVENT_UNLAUNCHED, note_unlaunched, NULL},
    {DT_FROM_SRUN, "error: Task launch for {} failed on node {host}: {reason}",
     DT_EVENT_UNLAUNCHED, note_unlaunched, NULL},

    {DT_FROM_SLURMSTEPD, "{}*** {} CANCELLED AT {} DUE to SIGNAL {signal} {}",
     DT_EVENT_STOP, dt_outcome_stop, NULL},
    {DT_FROM_SLURMSTEPD, "{}*** {} CANCELLED AT {}",
     DT_EVENT_STOP, dt_outcome_stop, NULL},
    {DT_FROM_SLURMSTEPD, "{} oom-kill event{}", DT_EVENT_OOM, note_oom, NULL},
    {DT_FROM_SLURMSTEPD, "{} oom_kill event{}", DT_EVENT_OOM, note_oom, NULL},
    {0, NULL, DT_EVENT_NONE, NULL, NULL},
};
/* clang-format on */

/* Whether an event came from a stream on which it can appear: a start on that
 * of the task, and what slurmstepd says on that of its node's first task. Where
 * srun does not label its output, or the step's nodes are not known, we cannot
 * tell: then whoever knows the token, or the number of the step, is believed.
 */
static bool is_plausible(const struct dt_outcome *outcome,
                         const struct dt_console_event *event)
{
    uint32_t label = event->label;
    unsigned origin = event->message->origin;
    bool of_rank = origin & (DT_FROM_TASK | DT_FROM_NODE);
    if (of_rank && event->rank >= outcome->count)
        return false;
    if (label >= outcome->count)
        return true;
    if (origin == DT_FROM_TASK)
        return label == event->rank;
    if (!(origin & (DT_FROM_NODE | DT_FROM_SLURMSTEPD)))
        return true;
    int host = outcome->ranks[of_rank ? event->rank : label].host;
    uint32_t first = host == NO_HOST ? DT_NO_RANK : outcome->hosts[host].first;
    return first == DT_NO_RANK || label == first;
}

void dt_message_note(struct dt_outcome *outcome, struct dt_console_event *event,
                     uint32_t label, int64_t now_ms)
{
    event->label = label;
    event->came_ms = now_ms;
    if (!event->message || !event->message->note ||
        !is_plausible(outcome, event))
        return;
    if (event->message->origin & (DT_FROM_TASK | DT_FROM_NODE)) {
        outcome->ranks[event->rank].seen = true;
        dt_outcome_update_clock(outcome, event);
    }
    event->message->note(outcome, event);
}
