/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_impl.h - the leader, and the worker (private to keeper/) */
#ifndef DT_KEEPER_KEEPER_IMPL_H
#define DT_KEEPER_KEEPER_IMPL_H

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/epoch.h"
#include "base/handshake.h"
#include "keeper/keeper.h"
#include "launch/launch.h"
#include "launch/wire.h"
#include "segment/board.h"

enum {
    DT_KEEPER_HOST_BYTES = 256,
    DT_KEEPER_NOTE_BYTES = 512,
};

/* The token of keepers, from the secret of their step. */
void dt_keeper_token(const char *secret, struct dt_token *token);

/* After how many seconds of silence a keeper is lost. */
double dt_keeper_silence(const struct dt_keeper_options *options);

/* --- roster.c: which keeper has which rank
 *
 * A keeper is known by its id, the number of its task in the step, which stays.
 * Its rank may be another in each life of the workers. Nodes come and go whole:
 * with a keeper, all of its node are lost. --- */

struct dt_post {
    int rank; /* or DT_WIRE_SPARE, DT_WIRE_LOST */
    int left; /* the one that it had when it was lost, which nobody has taken
                 yet; or DT_WIRE_LOST */
    /* its node votes on the next epoch; it is to be in that one, as was
     * accepted; and, for the leader, it has accepted that
     */
    bool votes, next, accepts;
};

struct dt_roster {
    int count; /* keepers of the step */
    struct dt_post *posts;
    struct dt_wire_row *rows; /* node, address, port; [count], as posts */
    char (*hosts)[DT_KEEPER_HOST_BYTES];
    int size;       /* ranks */
    int first;      /* those of the first life */
    uint32_t epoch; /* 0: no life has begun */
    int ballot; /* whose proposal of the next epoch was accepted; -1: none */
    uint32_t life;
    struct dt_wire_past past;
    struct dt_launch_loss *losses; /* that the workers are to record */
    size_t loss_count;
    bool hears_srun; /* the kernel of its host has answered */
};

/* `count` spares. -1: no memory; dt_roster_fini in any case. */
int dt_roster_init(struct dt_roster *roster, int count);
void dt_roster_fini(struct dt_roster *roster);

/* Makes `to`, which is nothing yet, a copy. -1: no memory. */
int dt_roster_copy(struct dt_roster *to, const struct dt_roster *from);

/* Replaces the losses by a copy of these. -1: no memory, and there are none. */
int dt_roster_note_losses(struct dt_roster *roster, const void *losses,
                          size_t count);

/* Numbers the keepers of all nodes but the last `spares` in the order of their
 * ids. -1: there are not so many nodes, or no memory.
 */
int dt_roster_begin(struct dt_roster *roster, int spares);

/* Whether the keeper is not lost. */
bool dt_roster_has(const struct dt_roster *roster, int id);

/* How many nodes are left. */
int dt_roster_nodes(const struct dt_roster *roster);

/* All keepers of a node are lost. */
void dt_roster_lose(struct dt_roster *roster, int node);

/* Whether a node was lost since ranks were given last. */
bool dt_roster_was_lost(const struct dt_roster *roster, int node);

/* Writes "node n2, rank 2, rank 3" for a lost node. */
void dt_roster_print_lost(const struct dt_roster *roster, int node, char *text,
                          size_t bytes);

/* Whether a step can have so many ranks. */
typedef bool dt_roster_fits_f(const void *context, int size);

/* Gives the ranks of lost nodes to spare ones. If these are too few, numbers
 * anew as many nodes as fit, and have `least` ranks (0: never). -1: so many are
 * not left; no memory.
 */
int dt_roster_assign(struct dt_roster *roster, long least,
                     dt_roster_fits_f *fits, const void *context);

/* A keeper that is lost of the node with this name; -1: none. */
int dt_roster_find_lost(const struct dt_roster *roster, const char *host);

/* The keeper of a rank; -1: it is lost. */
int dt_roster_find(const struct dt_roster *roster, int rank);

/* The keeper that leads after `before` when those up to `passed` do not answer;
 * the count: nobody. One of a node stands for all of it: with it the others
 * would leave, too.
 */
int dt_roster_next_leader(const struct dt_roster *roster, int before,
                          int passed);

struct dt_place {
    int rank, size, local_rank, local_size, node_rank, nodes;
};

/* Finds the place of a keeper with a rank. Nodes are numbered in the order of
 * their lowest ranks.
 */
void dt_roster_place(const struct dt_roster *roster, int id,
                     struct dt_place *place);

/* --- agree.c: which nodes the next epoch has
 *
 * The nodes with which an epoch has begun vote on the next one. A leader makes
 * one proposal, and its keepers accept it. More than half of the voters decide,
 * or half of them and the file of the next epoch, which has one vote. A keeper
 * hears one leader at a time, and none with a lower id than the one before. So
 * a later leader with as many voters has one among them that has accepted
 * whatever was decided, and proposes the same: no epoch has two beginnings. If
 * the leader of the decision is lost, the epoch after it leaves that one out.
 * --- */

enum dt_quorum { DT_QUORUM_LESS, DT_QUORUM_HALF, DT_QUORUM_MORE };

/* How many `live` of `all` nodes are. */
enum dt_quorum dt_quorum(int live, int all);

/* The voters, and those of them that are left. */
int dt_agree_voters(const struct dt_roster *roster);
int dt_agree_left(const struct dt_roster *roster);

/* How many those are that are left. */
enum dt_quorum dt_agree_quorum(const struct dt_roster *roster);

/* Whether the voters are the nodes that are left, and no others. */
bool dt_agree_is_whole(const struct dt_roster *roster);

/* The epoch begins with the nodes that are left. */
void dt_agree_begin(struct dt_roster *roster);

/* Makes a proposal as leader `id`: the one that was accepted before, or else
 * the nodes that are left.
 */
void dt_agree_propose(struct dt_roster *roster, int id);

/* Writes the name of the proposal: a hash of its keepers. */
void dt_agree_name(const struct dt_roster *roster,
                   char name[DT_EPOCH_PROPOSAL_BYTES]);

/* Whether all keepers that are left have accepted the proposal. */
bool dt_agree_is_complete(const struct dt_roster *roster);

/* Whether it is decided; `file`: by the vote of the file, too. */
bool dt_agree_is_decided(const struct dt_roster *roster, bool file);

/* The next epoch, as decided; its voters may be lost already. */
void dt_agree_advance(struct dt_roster *roster);

/* --- outlook.c: the state of a step as a keeper sees it, in a message --- */

/* The bytes of a view of this step. */
size_t dt_view_bytes(const struct dt_roster *roster);

/* Fills them in. */
void dt_view_put(const struct dt_roster *roster, void *bytes);

/* Takes the view of the leader with a proposal, or with a life that begins,
 * which has ranks. -1: it makes no sense.
 */
int dt_view_take_proposal(struct dt_roster *roster, const void *bytes,
                          size_t count);
int dt_view_take_life(struct dt_roster *roster, const void *bytes, size_t count,
                      uint32_t life);

/* A new leader learns from the view of a keeper, which has seen `life`. Who is
 * lost remains so.
 */
void dt_view_learn(struct dt_roster *roster, const void *bytes, size_t count,
                   uint32_t life);

/* --- claim.c: the file of an epoch --- */

enum dt_claim {
    DT_CLAIM_OURS,   /* for this proposal, by us or by others */
    DT_CLAIM_LOST,   /* for another one */
    DT_CLAIM_FAILED, /* the directory cannot be written, or not read */
};

/* Creates the file of an epoch in `dir`, for the proposal of this name; `step`
 * names the step (base/epoch.h). May take as long as the file system does.
 */
enum dt_claim dt_epoch_claim(const char *dir, const char *step, uint32_t epoch,
                             const char *proposal);

/* Writes the name of a step with this secret. */
void dt_epoch_step(const char *secret, char step[DT_EPOCH_STEP_BYTES]);

/* --- errand.c: slow work, in a child --- */

struct dt_errand {
    pid_t pid; /* 0: none */
    int fd;    /* readable at its end */
};

typedef int dt_errand_f(const void *context);

/* Runs a function in a child, which ends with this process. -1: errno. */
int dt_errand_start(struct dt_errand *errand, dt_errand_f *run,
                    const void *context);

/* Whether it has ended; its result is from 0 to 255, or -1 if it has failed. */
bool dt_errand_done(struct dt_errand *errand, int *result);

/* Its process; 0: it is about to end or has ended, and as it was perhaps reaped
 * with other children, another process may have this number.
 */
pid_t dt_errand_pid(const struct dt_errand *errand);

/* Kills it; repeating this does nothing. */
void dt_errand_end(struct dt_errand *errand);

/* --- reach.c: from a keeper to the leader --- */

/* Connects to keeper 0 at MASTER_ADDR:MASTER_PORT within options->timeout_ms,
 * and proves to be the keeper `id` of `count`. Returns the socket, which does
 * not block. -1: EX_UNAVAILABLE; EX_TEMPFAIL if the descriptor `signals` became
 * readable meanwhile.
 */
int dt_reach_leader(const struct dt_keeper_options *options, int id, int count,
                    int signals, struct dt_error *err);

/* The same for keeper `leader`, at its address in the roster. Who refuses a
 * connection, or proves nothing within three silences, is not asked again.
 */
int dt_reach_next(const struct dt_keeper_options *options,
                  const struct dt_roster *roster, int leader, int id,
                  int signals, struct dt_error *err);

/* Notes whether the kernel of srun's host answers, as far as it can be asked
 * where no keeper is. Blocks as dt_host_is_silent.
 */
void dt_reach_hear_srun(const struct dt_keeper_options *options,
                        struct dt_roster *roster);

/* Whether the host of srun is lost: its node is, and its kernel, too; or, where
 * no node of the step is on that host, its kernel alone, which used to answer.
 * Blocks as dt_host_is_silent.
 */
bool dt_reach_lost_srun(const struct dt_keeper_options *options,
                        const struct dt_roster *roster);

/* Whether nodes are lost, and no keeper that is left is on the host of srun. */
bool dt_reach_misses_srun(const struct dt_keeper_options *options,
                          const struct dt_roster *roster);

/* --- host.c: whether a host is lost, and not only the keepers there --- */

/* Whether the kernel of a keeper's host answers neither where that listens, or
 * has listened, nor where nobody does. Blocks for up to 1.5 s.
 */
bool dt_host_is_silent(const struct dt_wire_row *row);

/* --- guests.c: connections to the leader that have not proved to be a keeper
 *
 * Anybody may connect to a port. A connection that proves nothing within
 * seconds is closed, and the oldest makes room for a new one. --- */

enum {
    DT_GUESTS = 256, /* at most */
    DT_GUESTS_FDS = 1 + DT_GUESTS,
};

struct dt_guest {
    int fd; /* -1: none */
    struct dt_handshake handshake;
    double until;
};

struct dt_guests {
    const struct dt_token *token;
    int listener, id, count;
    struct dt_guest all[DT_GUESTS];
};

/* Listens at every address of this host: at *port, or at one that the kernel
 * chooses if that is 0. Returns the socket; -1: EX_UNAVAILABLE, EX_OSERR.
 */
int dt_guests_listen(unsigned *port, struct dt_error *err);

/* Hears `count` keepers at that socket, which it closes in the end, as keeper
 * `id`. The token stays.
 */
void dt_guests_open(struct dt_guests *guests, const struct dt_token *token,
                    int id, int count, int listener);
void dt_guests_close(struct dt_guests *guests);

/* Fills fds[DT_GUESTS_FDS] for poll. */
void dt_guests_poll(const struct dt_guests *guests, struct pollfd *fds);

/* Goes on after a poll. Returns the id of a keeper that has proved to be one,
 * and its socket, until there is no more: -1.
 */
int dt_guests_serve(struct dt_guests *guests, const struct pollfd *fds,
                    int *fd);

/* --- verdict.c: why the workers have ended, and whether they start again ---
 */

/* The end of a worker. */
struct dt_ending {
    bool there;
    bool lost; /* with its node; the note says how */
    int turn;  /* it was the n-th to end */
    struct dt_wire_down down;
    char note[DT_KEEPER_NOTE_BYTES]; /* the loss that it has noticed; or "" */
};

/* The history of a step; begin with {0}. */
struct dt_verdict {
    bool asked; /* a signal has told a task of the last life to end */
    int restarts;
    long best;                     /* the furthest step so far */
    long fruitless;                /* restarts since that step */
    struct dt_wire_down cause;     /* of the last restart, or of the end */
    struct dt_launch_loss *losses; /* for the workers, see launch.h */
    size_t loss_count;
};

/* The signals that ask a task to end. Slurm signals the worker, too: the keeper
 * only has to know of it.
 */
enum { DT_KEEPER_ASKING = 5 };
extern const int dt_keeper_asking[DT_KEEPER_ASKING];

/* Whether a worker has ended by such a signal, which may reach it before it
 * reaches its keeper.
 */
bool dt_ended_as_asked(int status);

/* Whether a worker has done its work, or was stopped in order. */
bool dt_ended_well(int status);

/* The end that explains those of the others; NULL: all have ended well. */
const struct dt_ending *dt_ending_cause(const struct dt_ending *endings,
                                        int count);

/* Writes "rank 2 on n2 was killed by signal 9 (Killed) after step 6". */
void dt_ending_describe(const struct dt_ending *ending, const char *host,
                        char *text, size_t bytes);

/* Judges the ends of all workers, and whether nodes are `gone` with them or
 * without. Returns whether they are to start again. If not, *why is the reason,
 * or NULL if the worker or the user knows it.
 */
bool dt_verdict_restart(struct dt_verdict *verdict,
                        const struct dt_keeper_options *options,
                        const struct dt_ending *endings, int count, bool gone,
                        const char **why);

/* Notes a loss, which the workers that start now are to record; losses before a
 * life that came to its steps have been recorded by that one. `at` is
 * dt_clock_now of the first end, `host` that of the cause, and `why` the
 * sentence about it. Without memory nothing is noted.
 */
void dt_verdict_note(struct dt_verdict *verdict,
                     const struct dt_ending *endings, int count, double at,
                     const char *host, const char *why);

/* The furthest step that a worker of this life has done; -1: none. */
int64_t dt_endings_step(const struct dt_ending *endings, int count);

/* --- pace.c: whether the workers get on --- */

struct dt_pace {
    int size;
    struct dt_wire_beat *beats; /* [size]: the last one of each rank */
    double moved;               /* when a worker was last seen to get on */
};

/* -1: no memory. */
int dt_pace_init(struct dt_pace *pace, int size);
void dt_pace_fini(struct dt_pace *pace);

/* The workers start. */
void dt_pace_begin(struct dt_pace *pace);

/* Takes the beat of a rank. */
void dt_pace_note(struct dt_pace *pace, int rank,
                  const struct dt_wire_beat *beat);

/* Whether all workers that are there have done nothing for longer than they
 * allow, and for how long. None is known to hang before each has sent a beat.
 */
bool dt_pace_hangs(const struct dt_pace *pace, const struct dt_ending *endings,
                   double *seconds);

/* The rank that a signal has stopped, or that has started fewest collectives;
 * -1: all have started as many.
 */
int dt_pace_culprit(const struct dt_pace *pace,
                    const struct dt_ending *endings);

/* The rank that is ended for a hang: the culprit, or else one that has not
 * ended by itself, as some rank is there.
 */
int dt_pace_blame(const struct dt_pace *pace, const struct dt_ending *endings,
                  int culprit);

/* Writes "rank 3 on n2 hangs: it was stopped by a signal, and the others have
 * waited for 31 s"; `culprit` as above.
 */
void dt_pace_describe(const struct dt_pace *pace, int culprit, const char *host,
                      double seconds, char text[DT_KEEPER_NOTE_BYTES]);

/* --- fence.c: the workers wait for each other, and exchange data --- */

struct dt_fence {
    int size;
    struct dt_fence_blob {
        uint8_t *data; /* NULL: this rank has not come */
        uint64_t bytes;
    } * all; /* [size] */
};

/* -1: no memory. */
int dt_fence_init(struct dt_fence *fence, int size);
void dt_fence_fini(struct dt_fence *fence);

/* The next one begins, to which nobody has come. */
void dt_fence_clear(struct dt_fence *fence);

/* A rank has come with this data. -1: no memory. */
int dt_fence_add(struct dt_fence *fence, int rank, const void *data,
                 size_t bytes);

/* Whether a rank has come, and all. */
bool dt_fence_has(const struct dt_fence *fence, int rank);
bool dt_fence_complete(const struct dt_fence *fence);

/* The body of DT_WIRE_BLOBS for a complete one, to be freed; NULL: no memory.
 */
uint8_t *dt_fence_join(const struct dt_fence *fence, size_t *bytes);

/* --- leader.c: the keeper that decides --- */

struct dt_member {
    struct dt_wire wire;
    bool came;
    double heard, told; /* the last message from and to it */
    uint32_t free;      /* a port that was free on its host then; or 0 */
    /* for a new leader: the life that its worker has ended in, 0 for none, and
     * how; and how this keeper was lost
     */
    uint32_t life;
    struct dt_ending ending;
    char how[64];
};

enum dt_phase {
    DT_JOINING,   /* not all keepers have come */
    DT_RUNNING,   /* all workers run, or have ended well */
    DT_STOPPING,  /* a worker has failed: the others are ended */
    DT_PROPOSING, /* nodes are lost: the rest agrees on the next epoch, */
    DT_CLAIMING,  /* and claims it */
    DT_ENDING,    /* the keeper of the cause was told the end */
    DT_OVER,      /* all were */
};

struct dt_leader {
    const struct dt_keeper_options *options;
    struct dt_token token;
    struct dt_guests guests;
    int id; /* of its keeper */
    struct dt_roster roster;
    struct dt_member *members; /* [roster.count] */
    enum dt_phase phase;
    double deadline; /* of all phases but RUNNING and OVER */

    /* of this life; it has pace.size ranks */
    struct dt_ending *endings; /* [roster.count] */
    int downs;                 /* of its workers that have ended */
    double lost_at;            /* when the first of them has failed */
    int hung; /* the rank that does not get on, and why; -1: none */
    char hang[DT_KEEPER_NOTE_BYTES];
    char how[64];                    /* the leader before a new one was lost */
    int gone;                        /* nodes that are lost */
    int lost_rank;                   /* the first rank of these; -1: none */
    char lost[DT_KEEPER_NOTE_BYTES]; /* the sentence about the first node */
    char lost_host[DT_KEEPER_HOST_BYTES];
    struct dt_fence fence;
    struct dt_pace pace;

    struct dt_errand claim; /* of the next epoch */

    struct dt_errand shrink; /* takes nodes out of the job */
    int gone_all;            /* nodes lost so far */
    bool told;  /* the end to all, and not only to this part of the step, */
    bool aside; /* which has ended without the others */
    char record[128]; /* for the console, which has not been taken yet; or "" */
    struct dt_verdict verdict;
};

/* Hears keepers at `listener`. `link` is the leader's end of a pair of sockets
 * to its own keeper, `id`. Both are closed in the end. The roster, which it
 * copies, is empty at the beginning of the step; else it continues with what is
 * left in it. NULL: EX_OSERR.
 */
struct dt_leader *dt_leader_create(const struct dt_keeper_options *options,
                                   const struct dt_roster *roster, int id,
                                   int listener, int link,
                                   struct dt_error *err);
void dt_leader_destroy(struct dt_leader *leader);

/* The descriptors of a leader of `count` keepers, at most. */
size_t dt_leader_most(int count);

/* Fills in those to wait for. Returns how many. */
size_t dt_leader_poll(struct dt_leader *leader, struct pollfd *fds);

/* When it has something to do whoever has come until then; or INFINITY. */
double dt_leader_due(const struct dt_leader *leader);

/* This process did not run for so long, which counts for nobody. */
void dt_leader_excuse(struct dt_leader *leader, double seconds);

/* Serves them after a poll. */
void dt_leader_serve(struct dt_leader *leader, const struct pollfd *fds);

/* Waits until the last messages are sent, for a second or two. */
void dt_leader_drain(struct dt_leader *leader);

/* Ends the job after the step if srun was lost, no other part of the step goes
 * on and nobody else ends it; where srun lives, waits until the last record is
 * taken. Fills in the status. May wait for minutes.
 */
void dt_leader_end_job(struct dt_leader *leader, struct dt_keeper_end *end);

/* --- members.c: messages of the leader to the keepers, and to the console ---
 */

/* To the keeper `id`; as dt_wire_send. */
void dt_leader_send(struct dt_leader *leader, int id, enum dt_wire_type type,
                    const void *head, size_t head_bytes, const void *tail,
                    size_t tail_bytes);

/* To all that are not lost. */
void dt_leader_send_all(struct dt_leader *leader, enum dt_wire_type type,
                        const void *head, size_t head_bytes, const void *tail,
                        size_t tail_bytes);

/* Tells the console in srun: a record of what keepers do. Only the last one
 * counts, and it is said again until it is taken, each time that the leader
 * serves. dt_leader_say_record does so now; false: it is not taken.
 */
__attribute__((format(printf, 2, 3))) void dt_leader_record(
    struct dt_leader *leader, const char *fmt, ...);
bool dt_leader_say_record(struct dt_leader *leader);

/* --- begin.c: the beginning of a life of the workers, and the end of all ---
 */

/* Starts all workers, as the roster says. */
void dt_life_start(struct dt_leader *leader);

/* Ends all because of the end of a rank: its keeper first, and then the others.
 */
void dt_life_end(struct dt_leader *leader, const struct dt_wire_down *cause);
void dt_life_end_others(struct dt_leader *leader);

/* Ends this part of the step, without which others may go on; or the node of
 * the leader alone, whose place one of the others takes.
 */
void dt_life_step_aside(struct dt_leader *leader, const char *why);
void dt_life_leave_node(struct dt_leader *leader);

/* --- life.c: the lives of the workers, one after another --- */

/* All keepers have come that are to: the first life begins, or, with a new
 * leader, the next one.
 */
void dt_life_begin(struct dt_leader *leader);

/* The leader before is lost, and perhaps more, as the roster says. */
void dt_life_inherit(struct dt_leader *leader, const char *how);

/* A keeper has told that its worker has ended. */
void dt_life_note_down(struct dt_leader *leader, int id,
                       const struct dt_wire_message *message);

/* A keeper has accepted the proposal of the next epoch. */
void dt_life_note_accept(struct dt_leader *l, int id,
                         const struct dt_wire_message *message);

/* A keeper is lost, and with it its node; `how` is the end of a sentence. */
void dt_life_lose(struct dt_leader *leader, int id, const char *how);

/* Ends the workers, of which `rank` does not get on for that reason. */
void dt_life_end_hang(struct dt_leader *leader, int rank, const char *why);

/* What is due by the clock, or because an errand has ended. */
void dt_life_look(struct dt_leader *leader);

/* --- relay.c: what a worker prints, when srun may not be there to take it
 *
 * slurmstepd sends it to srun, and when the host of srun is silent, it takes no
 * more than some buffers hold: whoever prints more than that waits for ever. So
 * once nodes are lost and no keeper that is left is beside srun, workers print
 * to their keepers. These pass on whole lines as long as they are taken, now or
 * when a link is back, and wait for nobody. --- */

enum { DT_RELAY_STREAMS = 2 /* stdout and stderr */ };

/* {0}: what is printed goes straight to srun. */
struct dt_relay {
    bool on;
    struct dt_relay_stream {
        int from, to; /* a pipe */
        size_t used;
        char text[PIPE_BUF]; /* that has come, and was not passed on */
    } streams[DT_RELAY_STREAMS];
    long lost; /* lines of this worker */
};

/* From now on the next workers print to this process, and it never waits for
 * srun itself. Repeating this does nothing. -1: errno.
 */
int dt_relay_open(struct dt_relay *relay);
void dt_relay_close(struct dt_relay *relay);

/* Fills fds[DT_RELAY_STREAMS] for poll. */
void dt_relay_poll(const struct dt_relay *relay, struct pollfd *fds);

/* In a worker: it prints where it should. */
void dt_relay_take(const struct dt_relay *relay);

/* Passes on what has come. */
void dt_relay_serve(struct dt_relay *relay);

/* The worker has ended: passes on the rest, and says how much is lost. */
void dt_relay_finish(struct dt_relay *relay, int rank, const char *host);

/* --- worker.c: the program of a rank --- */

struct dt_worker {
    pid_t pid; /* 0: it is not running */
    struct dt_wire wire;
    struct dt_board *board;
    int state;           /* see base/inherited.h */
    long oom_kills;      /* of its control group when it was started */
    sigset_t signals;    /* those that its program blocks */
    struct rlimit files; /* and how many it may have open */
    struct dt_relay relay;
};

/* Makes the memory that outlives the worker. -1: EX_OSERR. */
int dt_worker_init(struct dt_worker *worker, const sigset_t *signals,
                   struct dt_error *err);
void dt_worker_fini(struct dt_worker *worker);

/* Starts it for the `restarts`-th time again, with a MASTER_PORT of its own; 0:
 * as it is in the environment. `max_restarts` are for the framework. -1:
 * EX_OSERR. A program that cannot be run ends with the status that a shell
 * gives.
 */
int dt_worker_start(struct dt_worker *worker,
                    const struct dt_keeper_options *options, char *const *argv,
                    int restarts, unsigned port, struct dt_error *err);

/* A port that is free just now on this host, for a program that is not ours; 0:
 * none is known.
 */
uint32_t dt_worker_find_port(const struct dt_keeper_options *options);

/* How far it is. */
void dt_worker_look(const struct dt_worker *worker, struct dt_wire_beat *beat);

/* Whether the kernel has killed it, with this status, because memory ran out.
 */
bool dt_worker_starved(const struct dt_worker *worker, int status);

/* Whether it has ended; if so, its status as from waitpid. All processes that
 * it has started are killed; `errand` is not one of them.
 */
bool dt_worker_ended(struct dt_worker *worker, pid_t errand, int *status);

/* --- the keeper itself --- */

struct dt_keeper {
    const struct dt_keeper_options *options;
    int id, count; /* of this keeper, of all */
    struct dt_wire_hello hello;
    char host[DT_KEEPER_HOST_BYTES];
    struct dt_roster roster; /* as the leader has told it last */
    int listener;            /* -1: it is the leader's now, or there is none */
    int leader_id;
    struct dt_leader *leader; /* NULL: another keeper is the leader */
    struct dt_wire link;      /* to the leader */
    double heard, told;       /* the last message from it and to it */
    double turned;            /* when the loop was last here */
    int signals;              /* a signalfd */
    sigset_t before;          /* the signals that were blocked at first */
    bool asked;               /* a signal told this task to end */
    bool late;                /* and options->last_signal has come */
    struct dt_worker worker;
    bool is_down; /* the worker of this life has ended: */
    struct dt_wire_down down;
    char note[DT_KEEPER_NOTE_BYTES]; /* of the worker */
    double kill_at; /* the worker is to end until then; 0: it is not to end */
    bool over;
    int end; /* of this process, as from waitpid */
};

/* --- link.c: from a keeper to its leader --- */

/* Whether the variable `name` is a number from 0 on. */
bool dt_keeper_number(const char *name, int *number);

/* Notes the signals that have come. */
void dt_keeper_read_signals(struct dt_keeper *keeper);

/* Sends a message to the leader; as dt_wire_send. */
void dt_keeper_tell(struct dt_keeper *keeper, enum dt_wire_type type,
                    const void *head, size_t head_bytes, const void *tail,
                    size_t tail_bytes);

/* Listens where the others find this keeper if it has to lead. -1: as
 * dt_guests_listen.
 */
int dt_keeper_listen(struct dt_keeper *keeper, struct dt_error *err);

/* Becomes the leader, and a keeper of its own like any other; or connects to
 * the first leader. -1: EX_OSERR, EX_UNAVAILABLE; EX_TEMPFAIL, a signal.
 */
int dt_keeper_lead(struct dt_keeper *keeper, struct dt_error *err);
int dt_keeper_follow(struct dt_keeper *keeper, struct dt_error *err);

/* Tells the leader who this is, and a new one what this keeper knows. -1:
 * EX_OSERR.
 */
int dt_keeper_say_hello(struct dt_keeper *keeper, struct dt_error *err);

/* Ends this keeper: the others go on without its node, or end without a word.
 */
void dt_keeper_leave(struct dt_keeper *keeper);

/* --- relay.c --- */

/* Opens the relay once it is needed. */
void dt_keeper_mind_srun(struct dt_keeper *keeper);

/* --- tend.c: a keeper and its worker --- */

/* Tells the leader that the worker has ended: as noted; now, with this status
 * as from waitpid.
 */
void dt_keeper_tell_down(struct dt_keeper *keeper);
void dt_keeper_report_down(struct dt_keeper *keeper, int status);

/* Starts the worker of the life that begins; a failure is reported as its end.
 * `port` is a new MASTER_PORT, or 0.
 */
void dt_keeper_start_worker(struct dt_keeper *keeper, unsigned port);

/* Ends the worker, which may report its own error first. A program that is not
 * ours is asked, as by Slurm.
 */
void dt_keeper_stop_worker(struct dt_keeper *keeper);

/* Takes the messages of the worker. */
void dt_keeper_serve_worker(struct dt_keeper *keeper);

/* The process that is no child of the worker; 0: none. */
pid_t dt_keeper_errand(const struct dt_keeper *keeper);

/* Ends the worker at once. False: it has not ended within two silences. */
bool dt_keeper_end_worker(struct dt_keeper *keeper);

/* --- heed.c: what the leader says --- */

/* The end of all. Whose worker has ended by itself keeps its status, so that
 * Slurm sees what it would see without keepers.
 */
void dt_keeper_end(struct dt_keeper *keeper, int cause);

/* Takes the messages of the leader. */
void dt_keeper_serve_leader(struct dt_keeper *keeper);

/* The leader is lost, for the reason `how`. */
void dt_keeper_lose_leader(struct dt_keeper *keeper, const char *how);

/* --- elect.c: the next leader --- */

/* The leader is lost, for the reason `how`: ends the worker and finds the next
 * leader, or leaves.
 */
void dt_keeper_elect(struct dt_keeper *keeper, const char *how);

#endif /* DT_KEEPER_KEEPER_IMPL_H */
