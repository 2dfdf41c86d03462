/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agreement_play.h - the state of a step that is played in one process, and
 * what takes the place of tend.c, errand.c and elect.c there
 */
#ifndef TESTS_UNIT_KEEPER_AGREEMENT_PLAY_H
#define TESTS_UNIT_KEEPER_AGREEMENT_PLAY_H

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "keeper/agree.h"
#include "keeper/errand.h"
#include "keeper/keeper_impl.h"
#include "keeper/leader.h"
#include "keeper/roster.h"
#include "keeper/worker.h"

#ifdef SANITIZER /* contrib/check plays all without one, too */
enum { SEEDS = 400 };
#else
enum { SEEDS = 2000 };
#endif

enum {
    MOST_NODES = 5,
    MOST = 2 * MOST_NODES, /* keepers */
    EPOCHS = 32,
    FILES = 1024,
    PORTS = 1000,  /* of a keeper */
    MOVES = 20000, /* of one step, far more than it makes */
};

/* A keeper, and the leader in its process. */
struct actor {
    struct dt_keeper k;
    struct dt_keeper_options options; /* those of the play */
    bool dead;                        /* killed, or its node */
    bool silent;   /* dead without a word: nobody sees a connection end */
    bool down_due; /* its worker is ending */
    bool electing; /* and asks this one: */
    int candidate;
    uint32_t life; /* the last one of its leader that was looked at */
    int claim;     /* the result of an errand, -1: none */
    bool claim_done;
};

/* What may happen in a step. */
struct rules {
    bool cuts;        /* single links break, and not only the net in two */
    bool hasty;       /* waits end before there is a reason */
    bool claims;      /* there is a directory; and in it files, */
    int spoiled;      /* of 16 claims so many fail */
    int most, halves; /* of 100 steps so many go on; as a half, too */
};

static struct {
    uint64_t random;
    struct rules rules;
    int nodes, each, count;
    struct actor all[MOST];
    bool cut[MOST_NODES][MOST_NODES];
    int losses; /* that are still to come */
    bool parted;
    long step;  /* that was done last; 0: none ever is */
    int halves; /* that began an epoch */
    bool told;  /* a leader has told srun the end */
    char files[EPOCHS][DT_EPOCH_PROPOSAL_BYTES];
    unsigned began[EPOCHS]; /* the keepers of an epoch that has begun */
    int beginner[EPOCHS];
    struct dt_keeper_options options;
} play;

static bool ready[FILES]; /* descriptors with something to read */
static long seed;
static int out =
    STDERR_FILENO; /* stderr; the lines of leaders are of no use here */

static void be_quiet(void)
{
    out = out == STDERR_FILENO ? fcntl(out, F_DUPFD_CLOEXEC, 3) : out;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
}

/* Ends the test unless it is so. */
static void must(bool is_so, const char *what)
{
    if (is_so)
        return;
    dup2(out, STDERR_FILENO);
    fail_msg("seed %ld: not true: %s", seed, what);
}

/* SplitMix64: neighbouring seeds have nothing in common. */
static unsigned draw(unsigned below)
{
    uint64_t z = play.random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (unsigned)(((z ^ (z >> 31)) >> 32) % below);
}

static int node_of(int id)
{
    return id / play.each;
}

static bool is_cut(int a, int b)
{
    return play.cut[node_of(a)][node_of(b)];
}

/* Whether the process has ended, and so its sockets. */
static bool is_gone(int id)
{
    return play.all[id].dead || play.all[id].k.over;
}

/* --- in the place of tend.c, errand.c and elect.c --- */

static struct actor *actor_of(struct dt_keeper *k)
{
    return &play.all[k->id];
}

/* Each keeper has ports of its own. */
uint32_t dt_worker_find_port(const struct dt_keeper_options *options)
{
    for (int i = 0; i < play.count; i++)
        if (play.all[i].k.options == options)
            return PORTS * (1 + (uint32_t)i) + draw(PORTS);
    return 0;
}

/* The step after which a worker has ended. */
static long find_step(void)
{
    return play.step > 0 && draw(2) ? play.step++ : -1;
}

void dt_keeper_tell_down(struct dt_keeper *k)
{
    k->down.free = dt_worker_find_port(k->options);
    dt_keeper_tell(k, DT_WIRE_DOWN, &k->down, sizeof(k->down), "", 0);
}

void dt_keeper_report_down(struct dt_keeper *k, int status)
{
    k->down = (struct dt_wire_down){
        .step = find_step(), .status = status, .stopped = k->kill_at > 0};
    k->is_down = true;
    k->worker.pid = 0;
    actor_of(k)->down_due = false;
    dt_keeper_tell_down(k);
}

void dt_keeper_start_worker(struct dt_keeper *k, unsigned port)
{
    must((int)port / PORTS == 1 + dt_roster_find(&k->roster, 0),
         "the port is one of the host of rank 0");
    k->worker.pid = INT_MAX;
}

void dt_keeper_stop_worker(struct dt_keeper *k)
{
    k->kill_at = 1;
    actor_of(k)->down_due = k->worker.pid != 0;
}

void dt_keeper_serve_worker(struct dt_keeper *k)
{
    (void)k;
}

pid_t dt_keeper_errand(const struct dt_keeper *k)
{
    (void)k;
    return 0;
}

bool dt_keeper_end_worker(struct dt_keeper *k)
{
    (void)k;
    return true;
}

static int claim(const struct dt_leader *l)
{
    char name[DT_EPOCH_PROPOSAL_BYTES];
    char *file = play.files[l->roster.epoch + 1];
    must(dt_agree_is_decided(&l->roster, true),
         "a file binds nobody to what too few have accepted");
    if ((int)draw(16) < play.rules.spoiled)
        return DT_CLAIM_FAILED;
    dt_agree_name(&l->roster, name);
    if (!file[0])
        strcpy(file, name);
    return strcmp(file, name) == 0 ? DT_CLAIM_OURS : DT_CLAIM_LOST;
}

/* The file is written now, or when the result is told. */
int dt_errand_start(struct dt_errand *errand, dt_errand_f *run,
                    const void *context)
{
    const struct dt_leader *l = context;
    (void)run;
    errand->pid = INT_MAX;
    play.all[l->id].claim_done = false;
    play.all[l->id].claim = draw(2) ? claim(l) : -1;
    return 0;
}

bool dt_errand_done(struct dt_errand *errand, int *result)
{
    for (int i = 0; i < play.count; i++) {
        struct actor *a = &play.all[i];
        if (!a->k.leader || &a->k.leader->claim != errand || !a->claim_done)
            continue;
        *result = a->claim < 0 ? claim(a->k.leader) : a->claim;
        errand->pid = 0;
        return true;
    }
    return false;
}

pid_t dt_errand_pid(const struct dt_errand *errand)
{
    return errand->pid;
}

void dt_errand_end(struct dt_errand *errand)
{
    errand->pid = 0;
}

void dt_keeper_elect(struct dt_keeper *k, const char *how)
{
    struct actor *a = actor_of(k);
    (void)how;
    if (k->worker.pid != 0) {
        k->kill_at = 1;
        k->down = (struct dt_wire_down){
            .step = find_step(), .status = SIGKILL, .stopped = true};
        k->is_down = true;
        k->worker.pid = 0;
    }
    a->down_due = false;
    dt_wire_close(&k->link);
    dt_roster_lose(&k->roster, node_of(k->leader_id));
    if (!dt_roster_has(&k->roster, k->id)) {
        dt_keeper_leave(k);
        return;
    }
    a->electing = true;
    a->candidate =
        dt_roster_next_leader(&k->roster, k->leader_id, k->leader_id);
}

#endif /* TESTS_UNIT_KEEPER_AGREEMENT_PLAY_H */
