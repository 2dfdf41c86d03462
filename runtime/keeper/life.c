/* SPDX-License-Identifier: Apache-2.0 */
/*
 * life.c - the leader ends or restarts all workers when one has ended, with
 * other nodes in the place of those that are lost
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/agree.h"
#include "keeper/errand.h"
#include "keeper/leader.h"
#include "keeper/outlook.h"
#include "keeper/reach.h"
#include "keeper/roster.h"
#include "keeper/verdict.h"

enum {
    STOP_S = 10, /* for workers to end, which are killed before; a network
                    that is silent meanwhile has its own time */
    CLAIM_S = 5, /* for the file of an epoch */
    MOST_SHRINKS = 20,
};

/* --- whether the rest goes on --- */

static bool fits(const void *leader, int size)
{
    const struct dt_leader *l = leader;
    const struct dt_keeper_options *options = l->options;
    return !options->argv_of ||
           options->argv_of(options->context, l->roster.first, size);
}

static int claim(const struct dt_leader *l, const char *proposal)
{
    char step[DT_EPOCH_STEP_BYTES];
    dt_epoch_step(l->options->secret, step);
    return (int)dt_epoch_claim(l->options->dir, step, l->roster.epoch + 1,
                               proposal);
}

static int run_claim(const void *leader)
{
    const struct dt_leader *l = leader;
    char name[DT_EPOCH_PROPOSAL_BYTES];
    dt_agree_name(&l->roster, name);
    return claim(l, name);
}

static void start_claim(struct dt_leader *l, dt_errand_f *run)
{
    l->phase = DT_CLAIMING;
    l->deadline = dt_clock_now() + CLAIM_S;
    if (dt_errand_start(&l->claim, run, l) < 0)
        l->deadline = 0;
}

/* Writes the hosts of all nodes that were ever lost as "n2,n3". That of srun is
 * not one of them: Slurm refuses to take the host of a batch script out of its
 * job, and all others with it.
 */
static void list_lost(const struct dt_leader *l, char *text, size_t bytes)
{
    const struct dt_roster *roster = &l->roster;
    const char *srun = l->options->srun_node;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < roster->count && used < bytes; i++) {
        bool skip = dt_roster_has(roster, i) ||
                    (srun && strcmp(roster->hosts[i], srun) == 0);
        for (int k = 0; k < i && !skip; k++)
            skip = roster->rows[k].hello.node == roster->rows[i].hello.node;
        if (!skip)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                     used > 0 ? "," : "", roster->hosts[i]);
    }
}

static int run_leave_out(const void *leader)
{
    const struct dt_leader *l = leader;
    char nodes[4096];
    if (l->shrinks == 1 && l->options->tell_lost &&
        dt_reach_lost_srun(l->options, &l->roster))
        l->options->tell_lost(l->options->srun_node);
    list_lost(l, nodes, sizeof(nodes));
    return nodes[0] ? l->options->leave_out(nodes, l->shrinks) : 0;
}

static void start_shrink(struct dt_leader *l)
{
    l->shrinks++;
    l->shrink_at = INFINITY;
    if (dt_errand_start(&l->shrink, run_leave_out, l) < 0)
        fprintf(stderr, "disttrain: warning: fork: %s\n", strerror(errno));
}

/* Slurm may not answer for a while, or the cluster lets no job shrink. Nodes
 * that are lost since are not taken out before the others have agreed to go on:
 * they may be the larger part.
 */
static void look_at_shrink(struct dt_leader *l)
{
    int failed = -1;
    if (l->shrink.pid != 0 && dt_errand_done(&l->shrink, &failed) && failed &&
        l->shrinks < MOST_SHRINKS)
        l->shrink_at = dt_clock_now() + l->options->shrink_s;
    if (l->phase == DT_RUNNING && dt_clock_now() >= l->shrink_at)
        start_shrink(l);
}

/* Writes what takes the place of the lost nodes. */
static void describe_instead(const struct dt_leader *l, char *text,
                             size_t bytes)
{
    const struct dt_roster *roster = &l->roster;
    if (l->lost_rank < 0)
        snprintf(text, bytes, "it was a spare");
    else if (roster->size < l->pace.size)
        snprintf(text, bytes, "%d ranks are left of %d", roster->size,
                 l->pace.size);
    else
        snprintf(text, bytes, "node %s takes its place",
                 roster->hosts[dt_roster_find(roster, l->lost_rank)]);
}

static void tell_restart(const struct dt_leader *l, const char *cause)
{
    const struct dt_verdict *verdict = &l->verdict;
    const int64_t step = dt_endings_step(l->endings, l->pace.size);
    char after[48] = "", count[48] = "";
    if (l->gone > 0 && step > 0)
        snprintf(after, sizeof(after), " after step %" PRId64, step);
    if (l->options->trains)
        snprintf(count, sizeof(count), "; %ld", verdict->fruitless);
    fprintf(stderr,
            "disttrain: %s: all ranks start again%s (restart %d%s of at most "
            "%ld%s)\n",
            cause, after, verdict->restarts, count, l->options->max_restarts,
            l->options->trains ? " without a new step" : "");
}

/* The workers start on the nodes that are left, and Slurm is told which these
 * are: it would end the step if a lost node came back.
 */
static void go_on(struct dt_leader *l)
{
    char instead[DT_KEEPER_HOST_BYTES + 64];
    char text[DT_KEEPER_NOTE_BYTES + sizeof(instead) + 2];
    describe_instead(l, instead, sizeof(instead));
    snprintf(text, sizeof(text), "%s: %s", l->lost, instead);
    tell_restart(l, text);
    dt_errand_end(&l->shrink);
    l->shrinks = 0;
    if (l->options->leave_out)
        start_shrink(l);
    dt_life_start(l);
}

/* Ends this part of the step, which has too few votes. */
static void give_up(struct dt_leader *l, const char *have)
{
    char why[96];
    snprintf(why, sizeof(why), "%d of %d nodes %s: this part of the step ends",
             dt_agree_left(&l->roster), dt_agree_voters(&l->roster), have);
    dt_life_step_aside(l, why);
}

static int run_claim_of_end(const void *leader)
{
    return claim(leader, DT_EPOCH_NONE);
}

/* Takes the file of the next epoch, so that there is none. */
static void claim_end(struct dt_leader *l)
{
    l->ends = true;
    start_claim(l, run_claim_of_end);
}

static void agree(struct dt_leader *l);

/* Ends the step, which only a part with most votes may do: srun ends the others
 * with it. Nor may it where a leader before has perhaps decided otherwise. In a
 * step that was told to end, half of the votes are enough where the other half
 * cannot go on; the life that an earlier decision may have begun ends at once.
 */
static void end_step(struct dt_leader *l, const struct dt_wire_down *cause)
{
    const enum dt_quorum quorum = dt_agree_quorum(&l->roster);
    const bool asked = l->verdict.asked;
    l->verdict.cause = *cause;
    if (asked && quorum == DT_QUORUM_HALF && l->options->dir)
        l->roster.ballot < 0 ? claim_end(l) : agree(l);
    else if (asked ? quorum != DT_QUORUM_LESS
                   : quorum == DT_QUORUM_MORE && l->roster.ballot < 0)
        dt_life_end(l, cause);
    else
        give_up(l, "hear each other here");
}

/* No number of ranks is possible here. Of two halves, the other may have one.
 */
static void end_without(struct dt_leader *l)
{
    const struct dt_wire_down cause = {.rank = l->lost_rank,
                                       .status = EX_UNAVAILABLE << 8,
                                       .step = l->verdict.best};
    fprintf(stderr,
            "disttrain: %s; no spare takes its place, and launch.min_ranks "
            "allows no smaller number: launch.max_restarts or "
            "launch.max_requeues starts another step\n",
            l->lost);
    l->short_of_nodes = true;
    end_step(l, &cause);
}

/* Asks all keepers to accept the proposal. */
static void propose(struct dt_leader *l)
{
    const size_t bytes = dt_view_bytes(&l->roster);
    uint8_t *view = malloc(bytes);
    l->phase = DT_PROPOSING;
    l->deadline = dt_clock_now() + STOP_S + l->options->outage_s;
    if (view) {
        dt_view_put(&l->roster, view);
        dt_leader_send_all(l, DT_WIRE_PROPOSE, view, bytes, NULL, 0);
    }
    free(view);
}

/* Whether the rest of a step goes on that has lost nodes. A decision of the
 * leader before comes first, if there may be one.
 */
static void agree(struct dt_leader *l)
{
    const struct dt_keeper_options *options = l->options;
    struct dt_roster *roster = &l->roster;
    const enum dt_quorum quorum = dt_agree_quorum(roster);
    if (quorum == DT_QUORUM_LESS || (quorum == DT_QUORUM_HALF && !options->dir))
        give_up(l, "hear each other here");
    else if (roster->ballot < 0 &&
             dt_roster_assign(roster, options->least, fits, l) < 0)
        end_without(l);
    else {
        dt_agree_propose(roster, l->id);
        propose(l);
    }
}

/* The next epoch is decided. Nodes may be lost since the proposal. */
static void advance(struct dt_leader *l)
{
    dt_agree_advance(&l->roster);
    if (dt_agree_is_whole(&l->roster))
        go_on(l);
    else
        agree(l);
}

/* All that are left have accepted. Only then the file is written, so that it
 * binds nobody to nodes that never agreed; and before the next life begins, as
 * it refuses checkpoints of this one.
 */
static void end_proposing(struct dt_leader *l)
{
    if (!dt_agree_is_decided(&l->roster, l->options->dir != NULL)) {
        give_up(l, "have accepted the next epoch");
        return;
    }
    if (l->options->dir)
        start_claim(l, run_claim);
    else
        advance(l);
}

void dt_life_note_accept(struct dt_leader *l, int id,
                         const struct dt_wire_message *message)
{
    struct dt_wire_accept accept;
    if (l->phase != DT_PROPOSING || message->bytes != sizeof(accept))
        return;
    memcpy(&accept, message->body, sizeof(accept));
    if (accept.epoch != l->roster.epoch)
        return;
    l->members[id].free = accept.free;
    l->roster.posts[id].accepts = true;
    if (dt_agree_is_complete(&l->roster))
        end_proposing(l);
}

/* The file of the next epoch has a proposal, or is not there in time. More than
 * half of the nodes do without it.
 */
static void note_claim(struct dt_leader *l, int result)
{
    const bool more = !l->ends && dt_agree_is_decided(&l->roster, false);
    const struct dt_wire_down cause = l->verdict.cause;
    if (more && result != DT_CLAIM_OURS && result != DT_CLAIM_LOST)
        fprintf(stderr,
                "disttrain: warning: %s: cannot be written: a checkpoint of "
                "lost nodes would not be refused\n",
                l->options->dir);
    if (l->ends && result == DT_CLAIM_OURS)
        dt_life_end(l, &cause);
    else if (more || result == DT_CLAIM_OURS)
        advance(l);
    else if (result == DT_CLAIM_LOST)
        dt_life_step_aside(
            l, "other nodes of the step have decided: this part of it ends");
    else
        dt_life_step_aside(
            l, "half of the nodes go on, or end the step, only if they can "
               "write a file to " DT_EPOCH_DIR " in run.output_dir, which has "
               "failed: this part of the step ends");
}

/* --- the end of a life --- */

/* All workers of a life have ended. */
static void conclude(struct dt_leader *l)
{
    const int count = l->pace.size;
    char text[DT_KEEPER_NOTE_BYTES] = "";
    const char *why, *host = "";
    const struct dt_ending *cause = dt_ending_cause(l->endings, count);
    if (cause) {
        host =
            cause->lost
                ? l->lost_host
                : l->roster.hosts[dt_roster_find(&l->roster, cause->down.rank)];
        dt_ending_describe(cause, host, text, sizeof(text));
    } else if (l->gone > 0) {
        host = l->lost_host;
        snprintf(text, sizeof(text), "%s", l->lost);
    }
    if (dt_verdict_restart(&l->verdict, l->options, l->endings, count,
                           l->gone > 0, &why)) {
        dt_verdict_note(&l->verdict, l->endings, count, l->lost_at, host, text);
        if (l->gone > 0) {
            agree(l);
        } else {
            tell_restart(l, text);
            dt_life_start(l);
        }
        return;
    }
    if (why)
        fprintf(stderr, "disttrain: %s: %s\n", text, why);
    const struct dt_wire_down end = l->verdict.cause;
    end_step(l, &end);
}

/* Ends the workers that are left, as one has failed at that time. */
static void stop_all(struct dt_leader *l, double at)
{
    l->phase = DT_STOPPING;
    l->lost_at = at;
    l->deadline = dt_clock_now() + STOP_S + l->options->outage_s;
    dt_leader_send_all(l, DT_WIRE_STOP, NULL, 0, NULL, 0);
}

void dt_life_end_hang(struct dt_leader *l, int rank, const char *why)
{
    l->hung = rank;
    snprintf(l->hang, sizeof(l->hang), "%s", why);
    stop_all(l, l->pace.moved);
}

static void note_end(struct dt_leader *l, int rank)
{
    struct dt_ending *e = &l->endings[rank];
    e->down.rank = rank;
    if (!e->there)
        e->turn = l->downs++;
    e->there = true;
}

void dt_life_note_down(struct dt_leader *l, int id,
                       const struct dt_wire_message *message)
{
    const int rank = l->roster.posts[id].rank;
    struct dt_ending told = {0};
    if (message->bytes < sizeof(told.down))
        return;
    memcpy(&told.down, message->body, sizeof(told.down));
    snprintf(told.note, sizeof(told.note), "%.*s",
             (int)(message->bytes - sizeof(told.down)),
             (const char *)message->body + sizeof(told.down));
    l->members[id].free = told.down.free;
    if (l->phase == DT_JOINING) { /* a new leader, who may not know the rank */
        l->members[id].life = message->life;
        l->members[id].ending = told;
        return;
    }
    if (rank < 0 || l->phase > DT_STOPPING || l->endings[rank].there ||
        message->life != l->roster.life)
        return;
    struct dt_ending *e = &l->endings[rank];
    *e = told;
    if (rank == l->hung) {
        e->down.stopped = false;
        snprintf(e->note, sizeof(e->note), "%s", l->hang);
    }
    note_end(l, rank);
    if (l->phase == DT_RUNNING && !dt_ended_well(e->down.status))
        stop_all(l, dt_clock_now());
    if (l->downs == l->pace.size)
        conclude(l);
}

/* --- keepers are lost --- */

/* How a node was lost. */
static const char *find_how(const struct dt_leader *l, int node)
{
    for (int i = 0; i < l->roster.count; i++)
        if (l->roster.rows[i].hello.node == node && l->members[i].how[0])
            return l->members[i].how;
    return l->how;
}

/* Notes a node that the roster says is lost, and the ends of its ranks. */
static void note_lost(struct dt_leader *l, int node)
{
    const struct dt_roster *roster = &l->roster;
    const char *how = find_how(l, node);
    char who[DT_KEEPER_NOTE_BYTES / 2];
    dt_roster_print_lost(roster, node, who, sizeof(who));
    if (l->gone == 0)
        snprintf(l->lost, sizeof(l->lost), "%s is lost: %s", who, how);
    else
        fprintf(stderr, "disttrain: %s is lost, too: %s\n", who, how);
    for (int i = 0; i < roster->count; i++) {
        const int rank = roster->posts[i].left;
        if (roster->rows[i].hello.node != node)
            continue;
        if (l->gone == 0)
            snprintf(l->lost_host, sizeof(l->lost_host), "%s",
                     roster->hosts[i]);
        dt_leader_send(l, i, DT_WIRE_LEAVE, NULL, 0, NULL, 0);
        if (rank < 0 || l->phase > DT_STOPPING)
            continue;
        if (l->lost_rank < 0)
            l->lost_rank = rank;
        if (!l->endings[rank].there)
            l->endings[rank].down.step = -1; /* it has told none */
        l->endings[rank].lost = true;
        l->endings[rank].down.stopped = false;
        l->endings[rank].down.status = EX_UNAVAILABLE << 8;
        snprintf(l->endings[rank].note, DT_KEEPER_NOTE_BYTES, "%s", l->lost);
        note_end(l, rank);
    }
    l->gone++;
    l->gone_all++;
}

/* The step cannot do without a keeper. */
static void end_with(struct dt_leader *l, int id, const char *how)
{
    const int rank = l->roster.posts[id].rank;
    const struct dt_wire_down cause = {
        .rank = rank, .status = EX_UNAVAILABLE << 8, .step = l->verdict.best};
    char whose[32] = "a spare";
    if (rank >= 0)
        snprintf(whose, sizeof(whose), "rank %d", rank);
    else if (l->roster.epoch == 0) /* nobody has a rank yet */
        snprintf(whose, sizeof(whose), "task %d", id);
    fprintf(
        stderr,
        "disttrain: lost the keeper of %s on %s: %s; a step cannot replace "
        "it: launch.max_restarts or launch.max_requeues starts another one\n",
        whose, l->roster.hosts[id], how);
    dt_life_end(l, &cause);
}

void dt_life_lose(struct dt_leader *l, int id, const char *how)
{
    struct dt_roster *roster = &l->roster;
    const int node = roster->rows[id].hello.node;
    if (l->phase >= DT_ENDING || !dt_roster_has(roster, id))
        return;
    if (!l->options->replaces || roster->epoch == 0) {
        end_with(l, id, how);
        return;
    }
    if (node == roster->rows[l->id].hello.node) {
        dt_life_leave_node(l);
        return;
    }
    dt_roster_lose(roster, node);
    snprintf(l->members[id].how, sizeof(l->members[id].how), "%s", how);
    if (l->phase == DT_JOINING)
        return;
    note_lost(l, node);
    if (l->phase == DT_RUNNING)
        stop_all(l, dt_keeper_lost_at(l->options, l->members[id].heard));
    if (l->phase == DT_STOPPING && l->downs == l->pace.size)
        conclude(l);
    if (l->phase == DT_PROPOSING && dt_agree_is_complete(roster))
        end_proposing(l);
}

/* --- a leader begins --- */

static void begin_step(struct dt_leader *l)
{
    const struct dt_wire_down cause = {.status = EX_CONFIG << 8};
    if (dt_roster_begin(&l->roster, l->options->spares) == 0) {
        l->roster.epoch = 1;
        dt_life_start(l);
        return;
    }
    fprintf(stderr,
            "disttrain: launch.spares: %d of the %d nodes of the step leave "
            "none for ranks\n",
            l->options->spares, dt_roster_nodes(&l->roster));
    dt_life_end(l, &cause);
}

void dt_life_inherit(struct dt_leader *l, double at, const char *how)
{
    l->lost_at = at;
    snprintf(l->how, sizeof(l->how), "%s", how);
}

static bool is_missing(const struct dt_leader *l, int id)
{
    return dt_roster_has(&l->roster, id) && !l->members[id].came;
}

/* The ends of the workers that keepers have told a new leader, and the others:
 * all were ended when their keepers lost the leader before.
 */
static void note_ends(struct dt_leader *l)
{
    for (int i = 0; i < l->roster.count; i++) {
        const struct dt_member *m = &l->members[i];
        const int rank = l->roster.posts[i].rank;
        if (rank < 0)
            continue;
        l->endings[rank] = m->ending;
        if (m->life != l->roster.life)
            l->endings[rank].down = (struct dt_wire_down){
                .step = -1, .status = SIGKILL, .stopped = true};
        note_end(l, rank);
    }
}

/* A new leader learns of the past. -1: no memory. */
static int take_past(struct dt_leader *l)
{
    const struct dt_roster *roster = &l->roster;
    const struct dt_wire_past *past = &roster->past;
    const size_t count = roster->loss_count;
    l->verdict = (struct dt_verdict){.restarts = past->restarts,
                                     .best = past->best,
                                     .fruitless = past->fruitless,
                                     .cause = past->cause,
                                     .loss_count = count};
    l->gone_all = past->gone;
    l->verdict.losses = calloc(count + 1, sizeof(*roster->losses));
    if (!l->verdict.losses)
        return -1;
    memcpy(l->verdict.losses, roster->losses, count * sizeof(*roster->losses));
    return 0;
}

/* Who has not come to the new leader is lost, as the leader before. */
static void begin_anew(struct dt_leader *l)
{
    struct dt_roster *roster = &l->roster;
    const int own = roster->rows[l->id].hello.node;
    l->phase = DT_STOPPING;
    l->pace.size = roster->size;
    if (take_past(l) < 0) {
        dt_life_leave_node(l);
        return;
    }
    for (int i = 0; i < roster->count; i++) {
        if (!is_missing(l, i))
            continue;
        if (roster->rows[i].hello.node == own) {
            dt_life_leave_node(l);
            return;
        }
        snprintf(l->members[i].how, sizeof(l->members[i].how),
                 "it has not come to the next leader");
        dt_roster_lose(roster, roster->rows[i].hello.node);
    }
    note_ends(l);
    for (int node = 0; node < roster->count; node++)
        if (dt_roster_was_lost(roster, node))
            note_lost(l, node);
    conclude(l);
}

void dt_life_begin(struct dt_leader *l)
{
    if (l->roster.epoch == 0)
        begin_step(l);
    else
        begin_anew(l);
}

/* --- by the clock --- */

/* Those whose workers do not end leave with their nodes. */
static void end_stopping(struct dt_leader *l)
{
    for (int i = 0; i < l->roster.count && l->phase == DT_STOPPING; i++) {
        const int rank = l->roster.posts[i].rank;
        if (rank >= 0 && !l->endings[rank].there)
            dt_life_lose(l, i, "its worker cannot be ended");
    }
}

/* Those that do not answer to the proposal leave as well. */
static void end_waiting(struct dt_leader *l)
{
    for (int i = 0; i < l->roster.count && l->phase == DT_PROPOSING; i++)
        if (dt_roster_has(&l->roster, i) && !l->roster.posts[i].accepts)
            dt_life_lose(l, i, "it has not accepted the next epoch");
}

void dt_life_look(struct dt_leader *l)
{
    const bool due = dt_clock_now() >= l->deadline;
    int result = -1;
    look_at_shrink(l);
    if (l->phase == DT_STOPPING && due)
        end_stopping(l);
    else if (l->phase == DT_CLAIMING && l->claim.pid != 0 &&
             dt_errand_done(&l->claim, &result))
        note_claim(l, result);
    else if (l->phase == DT_CLAIMING && due) {
        dt_errand_end(&l->claim);
        note_claim(l, DT_CLAIM_FAILED);
    } else if (l->phase == DT_PROPOSING && due)
        end_waiting(l);
    else if (l->phase == DT_ENDING && due)
        dt_life_end_others(l);
}
