/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roster.h - which keeper has which rank
 *
 * A keeper is known by its id, the number of its task in the step, which stays.
 * Its rank may be another in each life of the workers. Nodes come and go whole:
 * with a keeper, all of its node are lost.
 */
#ifndef DT_KEEPER_ROSTER_H
#define DT_KEEPER_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/launch.h"
#include "launch/wire.h"

enum { DT_KEEPER_HOST_BYTES = 256 };

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

/* Writes "node n2, rank 2, rank 3," for a lost node, or "node n2". */
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

#endif /* DT_KEEPER_ROSTER_H */
