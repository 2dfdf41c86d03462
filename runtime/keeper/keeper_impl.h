/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_impl.h - the keeper itself: its worker, its leader, and signals */
#ifndef DT_KEEPER_KEEPER_IMPL_H
#define DT_KEEPER_KEEPER_IMPL_H

#include <signal.h>
#include <sys/types.h>

#include "keeper/leader.h"
#include "keeper/keeper_options.h"
#include "keeper/relay.h"
#include "keeper/roster.h"
#include "keeper/worker.h"
#include "launch/wire.h"

struct dt_keeper {
    const struct dt_keeper_options *options;
    int id, count; /* of this keeper, of all */
    pid_t parent;  /* its slurmstepd */
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
    struct dt_relay relay;    /* to srun */
    struct dt_worker worker;
    bool is_down; /* the worker of this life has ended: */
    struct dt_wire_down down;
    char note[DT_KEEPER_NOTE_BYTES]; /* of the worker */
    double kill_at; /* the worker is to end until then; 0: it is not to end */
    bool over;
    int hears; /* listens for the console, which has heard the end; -1: none */
    int end;   /* of this process, as from waitpid */
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

/* Opens the relay to workers once srun may be lost without them. */
void dt_keeper_mind_srun(struct dt_keeper *keeper);

/* Ends this keeper: the others go on without its node, or end without a word.
 */
void dt_keeper_leave(struct dt_keeper *keeper);

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

/* Ends the worker at once. False: it has not ended within two outages. */
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
