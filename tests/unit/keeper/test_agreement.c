/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_agreement.c - steps whose nodes and links are lost in any order
 *
 * The keepers and leaders of a step run in this process, without workers,
 * errands and clocks: what happens next is drawn from a seed. Each case plays
 * thousands of steps of 2 to 5 nodes; DT_TEST_SEEDS plays more.
 */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/keeper/agreement_play.h"

/* --- a step --- */

/* A connection that has proved to be a keeper. */
static void connect_to(int id, int leader)
{
    struct dt_keeper *k = &play.all[id].k;
    struct dt_wire *seat = &play.all[leader].k.leader->members[id].wire;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX,
                                SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                                pair),
                     0);
    k->leader_id = leader;
    dt_wire_init(&k->link, pair[0]);
    dt_wire_close(seat);
    dt_wire_init(seat, pair[1]);
}

static void say_hello(struct dt_keeper *k)
{
    assert_int_equal(dt_keeper_say_hello(k, NULL), 0);
    if (k->is_down)
        dt_keeper_tell_down(k);
}

static void lead(int id)
{
    struct dt_keeper *k = &play.all[id].k;
    struct dt_error err;
    assert_int_equal(dt_keeper_lead(k, &err), 0);
    play.all[id].life = k->leader->roster.life;
}

static void begin_step(struct rules rules)
{
    memset(&play, 0, sizeof(play));
    play.random = (uint64_t)seed << 32;
    play.rules = rules;
    play.nodes = 2 + (int)draw(MOST_NODES - 1);
    play.each = 1 + (draw(4) == 0);
    play.count = play.nodes * play.each;
    play.losses = (int)draw((unsigned)play.nodes + 1);
    play.step = draw(2);
    play.options = (struct dt_keeper_options){
        .replaces = true,
        .spares = (int)draw((unsigned)play.nodes),
        .least = 1 + (draw(4) == 0 ? (int)draw((unsigned)play.count) : 0),
        .max_restarts = draw(2) ? 1000 : (int)draw(3),
        .spent = "no more",
        .timeout_ms = 1000000,
        .beat_ms = 1000000,
        .outage_s = 5000,
        .secret = "5ec7e7",
        .dir = rules.claims ? "out" : NULL,
    };
    for (int i = 0; i < play.count; i++) {
        struct actor *a = &play.all[i];
        a->options = play.options;
        a->k = (struct dt_keeper){.options = &a->options,
                                  .id = i,
                                  .count = play.count,
                                  .hello = {.node = node_of(i)},
                                  .host = "host",
                                  .listener = -1};
        dt_wire_init(&a->k.link, -1);
        dt_wire_init(&a->k.worker.wire, -1);
        assert_int_equal(dt_roster_init(&a->k.roster, play.count), 0);
    }
    lead(0);
    for (int i = 1; i < play.count; i++)
        connect_to(i, 0);
    for (int i = 0; i < play.count; i++)
        say_hello(&play.all[i].k);
}

/* The process of a keeper ends; silently, as with its node, nobody hears of it
 * before he asks why he hears nothing.
 */
static void end_process(struct actor *a)
{
    if (a->silent)
        return;
    dt_leader_destroy(a->k.leader);
    a->k.leader = NULL;
    dt_wire_close(&a->k.link);
}

static void end_step(void)
{
    for (int i = 0; i < play.count; i++) {
        play.all[i].silent = false;
        end_process(&play.all[i]);
        dt_roster_fini(&play.all[i].k.roster);
    }
}

/* --- what may happen --- */

/* Asks which descriptors have something to read. */
static void look(void)
{
    struct pollfd fds[MOST * MOST + MOST];
    nfds_t count = 0;
    memset(ready, 0, sizeof(ready));
    for (int i = 0; i < play.count; i++) {
        const struct dt_keeper *k = &play.all[i].k;
        fds[count++] = (struct pollfd){k->link.fd, POLLIN, 0};
        for (int m = 0; k->leader && m < play.count; m++)
            fds[count++] =
                (struct pollfd){k->leader->members[m].wire.fd, POLLIN, 0};
    }
    assert_true(poll(fds, count, 0) >= 0);
    for (nfds_t i = 0; i < count; i++)
        if (fds[i].revents && fds[i].fd < FILES)
            ready[fds[i].fd] = true;
}

/* Whether nothing that one of two keepers says reaches the other. */
static bool is_mute(int a, int b)
{
    return is_cut(a, b) || play.all[a].silent || play.all[b].silent;
}

static void serve_leader(int id, int from)
{
    static struct pollfd fds[DT_GUESTS_FDS + 2 + MOST];
    memset(fds, 0, sizeof(fds));
    if (from >= 0)
        fds[DT_GUESTS_FDS + from].revents = POLLIN;
    dt_leader_serve(play.all[id].k.leader, fds);
}

/* Whether half of the keepers of an epoch, and no more, go on. */
static bool is_half(unsigned before, unsigned after)
{
    return 2 * __builtin_popcount(before & after) == __builtin_popcount(before);
}

/* An epoch has one beginning. */
static void check_beginning(struct actor *a)
{
    const struct dt_leader *l = a->k.leader;
    const uint32_t epoch = l ? l->roster.epoch : 0;
    unsigned who = 0;
    if (!l || l->phase != DT_RUNNING || l->roster.life == a->life)
        return;
    a->life = l->roster.life;
    must(epoch < EPOCHS, "few epochs are needed");
    must(play.step > 0 || l->verdict.loss_count == (size_t)l->verdict.restarts,
         "no restart is forgotten");
    must(play.step > 0 || l->verdict.fruitless == l->verdict.restarts,
         "and that none helped");
    for (int i = 0; i < play.count; i++)
        who |= (unsigned)l->roster.posts[i].votes << i;
    if (play.began[epoch] == 0) {
        play.began[epoch] = who;
        play.beginner[epoch] = l->id;
        play.halves += epoch > 1 && is_half(play.began[epoch - 1], who);
    }
    must(play.began[epoch] == who, "an epoch has one set of nodes");
    must(play.beginner[epoch] == l->id, "an epoch has one leader");
}

/* Who tells srun the end has lost no more than a minority of the nodes. */
static void check_end(const struct actor *a)
{
    const struct dt_leader *l = a->k.leader;
    if (!l || !l->told)
        return;
    play.told = true;
    must(dt_agree_quorum(&l->roster) == DT_QUORUM_MORE,
         "no smaller part of a step tells its end");
}

enum move {
    HEAR,    /* a leader hears a keeper */
    HEED,    /* a keeper hears its leader */
    CLAIMED, /* a claim has ended */
    DOWN,    /* a worker has ended, as told */
    DUE,     /* the last message of all is due */
    FOLLOW,  /* a keeper reaches the next leader, or leads */
    MISS,    /* a leader does not hear a keeper any more */
    LOSE,    /* a keeper does not hear its leader any more */
    PASS,    /* a keeper tries the next candidate, */
    LATE,    /* a leader waits no longer, if nothing else happens */
    CRASH,   /* a worker fails by itself */
    LOSS,    /* a keeper, a node or links are lost */
    MOVES_END
};

struct choice {
    enum move move;
    int id, other;
};

static struct choice choices[MOVES_END * MOST * MOST];
static int choice_count;

static void offer(enum move move, int id, int other)
{
    choices[choice_count++] = (struct choice){move, id, other};
}

/* Whether a leader takes the keeper as its own. */
static bool takes(int leader, int id)
{
    const struct dt_leader *l = play.all[leader].k.leader;
    return !is_gone(leader) && !is_mute(leader, id) && l &&
           l->phase != DT_OVER && dt_roster_has(&l->roster, id) &&
           !l->members[id].came;
}

static bool has_begun(void)
{
    for (int i = 0; i < play.count; i++)
        if (play.all[i].k.roster.epoch == 0)
            return false;
    return true;
}

/* Whether one is too slow to be heard in time, although no link is cut. */
static bool is_slow(void)
{
    return play.rules.hasty && has_begun() && draw(256) == 0;
}

static void offer_leader(int id)
{
    const struct dt_leader *l = play.all[id].k.leader;
    for (int i = 0; i < play.count; i++) {
        const int fd = l->members[i].wire.fd;
        if (fd < 0)
            continue;
        if ((is_mute(id, i) || is_slow()) && dt_roster_has(&l->roster, i))
            offer(MISS, id, i);
        else if (!is_mute(id, i) && ready[fd])
            offer(HEAR, id, i);
    }
    if (l->phase == DT_CLAIMING && l->claim.pid != 0)
        offer(CLAIMED, id, 0);
    if (l->phase == DT_ENDING)
        offer(DUE, id, 0);
}

static void offer_keeper(int id)
{
    const struct actor *a = &play.all[id];
    if (a->electing) {
        if (a->candidate == id || takes(a->candidate, id))
            offer(FOLLOW, id, a->candidate);
        return;
    }
    if (is_mute(id, a->k.leader_id) || (id != a->k.leader_id && is_slow()))
        offer(LOSE, id, a->k.leader_id);
    else if (a->k.link.fd >= 0 && ready[a->k.link.fd])
        offer(HEED, id, 0);
    if (a->down_due)
        offer(DOWN, id, 0);
}

/* A candidate that cannot answer is passed over, and later any other wait ends,
 * too.
 */
static void offer_patience(int id, bool later)
{
    const struct actor *a = &play.all[id];
    const struct dt_leader *l = a->k.leader;
    if (a->electing && a->candidate != id &&
        (later || is_gone(a->candidate) || is_mute(id, a->candidate)))
        offer(PASS, id, 0);
    if (later && l && l->phase != DT_RUNNING && l->phase < DT_ENDING &&
        l->roster.epoch > 0)
        offer(LATE, id, 0);
}

/* Whether a leader is about to begin the next epoch. */
static bool is_agreeing(void)
{
    for (int i = 0; i < play.count; i++) {
        const struct dt_leader *l = play.all[i].k.leader;
        if (l && (l->phase == DT_CLAIMING || l->phase == DT_PROPOSING))
            return true;
    }
    return false;
}

/* Lists all that may happen now; trouble only if it is asked for. */
static void offer_all(bool trouble)
{
    choice_count = 0;
    look();
    for (int i = 0; i < play.count; i++) {
        if (is_gone(i))
            continue;
        if (play.all[i].k.leader)
            offer_leader(i);
        offer_keeper(i);
    }
    if (trouble && has_begun() && play.losses > 0 &&
        (choice_count == 0 || draw(16) < (is_agreeing() ? 8 : 1)))
        offer(LOSS, 0, 0);
    for (int later = 0; later < 2; later++)
        if (choice_count == 0 || (play.rules.hasty && draw(8) == 0))
            for (int i = 0; i < play.count; i++)
                if (!is_gone(i))
                    offer_patience(i, later);
    if (trouble && draw(64) == 0)
        offer(CRASH, (int)draw((unsigned)play.count), 0);
}

static void cut_net(void)
{
    unsigned side = 1 + draw((1u << play.nodes) - 2);
    for (int a = 0; a < play.nodes; a++)
        for (int b = 0; b < play.nodes; b++)
            if ((side >> a & 1) != (side >> b & 1))
                play.cut[a][b] = true;
    play.parted = true;
}

static void cut_link(void)
{
    const int a = (int)draw((unsigned)play.nodes);
    const int b = (int)draw((unsigned)play.nodes);
    play.cut[a][b] = play.cut[b][a] = a != b;
}

/* A keeper is killed, or a node without a word. */
static void kill_one(void)
{
    const int id = (int)draw((unsigned)play.count);
    const bool silent = draw(2);
    for (int i = 0; i < play.count; i++) {
        struct actor *a = &play.all[i];
        if (is_gone(i) || (silent ? node_of(i) != node_of(id) : i != id))
            continue;
        a->dead = true;
        a->silent = silent;
        end_process(a);
    }
}

static void lose_something(void)
{
    play.losses--;
    if (play.rules.cuts && draw(2))
        cut_link();
    else if (!play.parted && draw(4) == 0)
        cut_net();
    else
        kill_one();
}

static void make(const struct choice *c)
{
    struct actor *a = &play.all[c->id];
    if (getenv("DT_TEST_SEED"))
        fprintf(stderr, "%s %d %d\n",
                (const char *[]){"hear", "heed", "claimed", "down", "due",
                                 "follow", "miss", "lose", "pass", "late",
                                 "crash", "loss"}[c->move],
                c->id, c->other);
    struct dt_keeper *k = &a->k;
    switch (c->move) {
    case HEAR:
        serve_leader(c->id, c->other);
        break;
    case HEED:
        dt_keeper_serve_leader(k);
        break;
    case CLAIMED:
        a->claim_done = true;
        serve_leader(c->id, -1);
        break;
    case DOWN:
        dt_keeper_report_down(k, SIGKILL);
        break;
    case DUE:
    case LATE:
        k->leader->deadline = 0;
        serve_leader(c->id, -1);
        break;
    case FOLLOW:
        a->electing = false;
        if (c->other == c->id) {
            lead(c->id);
            dt_life_inherit(k->leader, 0, "it is lost");
        } else {
            connect_to(c->id, c->other);
        }
        say_hello(k);
        break;
    case MISS:
        dt_life_lose(k->leader, c->other, "it is silent");
        break;
    case LOSE:
        dt_keeper_lose_leader(k, "it is silent");
        break;
    case PASS:
        if (node_of(a->candidate) == node_of(c->id))
            dt_keeper_leave(k);
        else
            a->candidate =
                dt_roster_next_leader(&k->roster, k->leader_id, a->candidate);
        break;
    case CRASH:
        if (k->worker.pid != 0 && !is_gone(c->id) && !a->electing)
            dt_keeper_report_down(k, SIGKILL);
        break;
    default:
        lose_something();
    }
}

/* Plays until nothing happens any more. */
static void run(void)
{
    for (int i = 0; i < MOVES; i++) {
        offer_all(true);
        if (choice_count == 0)
            return;
        const struct choice *c = &choices[draw((unsigned)choice_count)];
        make(c);
        for (int id = 0; id < play.count; id++) {
            check_beginning(&play.all[id]);
            check_end(&play.all[id]);
            if (play.all[id].k.over && !play.all[id].dead)
                end_process(&play.all[id]);
        }
    }
    must(false, "the step comes to rest");
}

/* --- what has to be true at the end --- */

/* Those that train belong to one epoch and one leader, which has nobody else.
 */
static bool check_sides(void)
{
    int leader = -1;
    for (int i = 0; i < play.count; i++) {
        const struct dt_keeper *k = &play.all[i].k;
        if (is_gone(i) || k->worker.pid == 0)
            continue;
        if (leader < 0)
            leader = k->leader_id;
        must(k->leader_id == leader, "all that train have one leader");
        const struct dt_leader *l = play.all[leader].k.leader;
        must(l && l->phase == DT_RUNNING, "the leader of who trains runs");
        must(k->roster.epoch == l->roster.epoch &&
                 dt_agree_is_whole(&l->roster),
             "all of an epoch train");
    }
    return leader >= 0;
}

static bool lives(int node)
{
    for (int i = 0; i < play.count; i++)
        if (node_of(i) == node && play.all[i].dead)
            return false;
    return true;
}

/* Whether two nodes live and hear each other. */
static bool are_together(int a, int b)
{
    return lives(a) && lives(b) && !play.cut[a][b];
}

/* The roster of the latest epoch that is known where `node` is. */
static const struct dt_roster *find_latest(int node)
{
    const struct dt_roster *latest = &play.all[node * play.each].k.roster;
    for (int i = 0; i < play.count; i++) {
        const struct dt_keeper *k = &play.all[i].k;
        if (!are_together(node, node_of(i)))
            continue;
        if (k->roster.epoch > latest->epoch)
            latest = &k->roster;
        if (k->leader && k->leader->roster.epoch > latest->epoch)
            latest = &k->leader->roster;
    }
    return latest;
}

/* Whether more than half of the nodes of the latest epoch that they know of
 * live, and hear each other.
 */
static bool could_go_on(void)
{
    for (int one = 0; one < play.nodes; one++) {
        const struct dt_roster *latest = find_latest(one);
        int together = 0;
        for (int node = 0; node < play.nodes; node++)
            together += are_together(one, node) &&
                        latest->posts[node * play.each].votes;
        if (dt_quorum(together, dt_agree_voters(latest)) == DT_QUORUM_MORE)
            return true;
    }
    return false;
}

/* Whether the step has ended because a restart was not allowed. */
static bool may_end(void)
{
    return play.told &&
           (play.options.least > 1 || play.options.max_restarts < 1000);
}

static long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

/* Plays many steps. Where nobody is hasty and links break all at once, the
 * majority goes on.
 */
static void play_steps(struct rules rules)
{
    const long first = number_of("DT_TEST_SEED", 0);
    const long end = first > 0 ? first + 1 : number_of("DT_TEST_SEEDS", SEEDS);
    int went_on = 0, halves = 0;
    if (first == 0)
        be_quiet();
    for (seed = first; seed < end; seed++) {
        begin_step(rules);
        run();
        const bool goes = check_sides();
        went_on += goes;
        halves += play.halves > 0;
        must(goes || may_end() || rules.hasty || rules.cuts || !could_go_on(),
             "a majority goes on");
        end_step();
    }
    dup2(out, STDERR_FILENO);
    print_message("%d of %ld steps went on, %d as a half\n", went_on,
                  end - first, halves);
    assert_true(first > 0 || 100 * went_on >= rules.most * end);
    assert_true(first > 0 || 100 * halves >= rules.halves * end);
}

static void a_majority_goes_on_and_nobody_else(void **state)
{
    (void)state;
    play_steps((struct rules){.claims = true, .most = 60, .halves = 20});
    play_steps(
        (struct rules){.claims = true, .spoiled = 8, .most = 50, .halves = 12});
    play_steps((struct rules){.claims = false, .most = 40, .halves = 3});
}

static void two_sides_never_go_on(void **state)
{
    (void)state;
    play_steps((struct rules){
        .claims = true, .hasty = true, .cuts = true, .most = 50, .halves = 10});
    play_steps((struct rules){.claims = true,
                              .hasty = true,
                              .cuts = true,
                              .spoiled = 8,
                              .most = 44,
                              .halves = 6});
    play_steps(
        (struct rules){.hasty = true, .cuts = true, .most = 40, .halves = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_majority_goes_on_and_nobody_else),
        cmocka_unit_test(two_sides_never_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
