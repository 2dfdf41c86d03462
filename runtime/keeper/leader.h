/* SPDX-License-Identifier: Apache-2.0 */
/* leader.h - the keeper that decides */
#ifndef DT_KEEPER_LEADER_H
#define DT_KEEPER_LEADER_H

#include <poll.h>

#include "keeper/errand.h"
#include "keeper/fence.h"
#include "keeper/guests.h"
#include "keeper/pace.h"
#include "keeper/roster.h"
#include "keeper/verdict.h"

struct dt_member {
    struct dt_wire wire;
    bool came, orphaned; /* see struct dt_wire_beat */
    double heard, told;  /* the last message from and to it */
    uint32_t free;       /* a port that was free on its host then; or 0 */
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
    int first;       /* the keeper that was told the end before the others */

    /* of this life; it has pace.size ranks */
    struct dt_ending *endings; /* [roster.count] */
    int downs;                 /* of its workers that have ended */
    double lost_at;            /* when the first of them was last known well */
    int hung; /* the rank that does not get on, and why; -1: none */
    char hang[DT_KEEPER_NOTE_BYTES];
    char how[64];                    /* the leader before a new one was lost */
    int gone;                        /* nodes that are lost */
    int lost_rank;                   /* the first rank of these; -1: none */
    char lost[DT_KEEPER_NOTE_BYTES]; /* the sentence about the first node */
    char lost_host[DT_KEEPER_HOST_BYTES];
    struct dt_fence fence;
    struct dt_pace pace;

    struct dt_errand claim; /* of the next epoch, */
    bool ends;              /* so that there is none: the step ends */

    struct dt_errand shrink; /* takes nodes out of the job, */
    int shrinks;             /* for the n-th time since the last loss; */
    double shrink_at;        /* again then, if it has failed; or INFINITY */
    int gone_all;            /* nodes lost so far */
    bool told;               /* the end to all, */
    bool aside;              /* or only to this part of the step */
    bool short_of_nodes;     /* which were too few for another life */
    bool srun_gone;          /* before anybody told it the end */
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
 * on and nobody else ends it. Fills in how the step has ended. May wait for
 * options->down_s.
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

/* From any keeper to the console in srun: a record of what keepers do. */
__attribute__((format(printf, 2, 3))) void dt_keeper_record(
    const struct dt_keeper_options *options, const char *fmt, ...);

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

/* The leader before is lost since then, and perhaps more, as the roster says.
 */
void dt_life_inherit(struct dt_leader *leader, double at, const char *how);

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

#endif /* DT_KEEPER_LEADER_H */
