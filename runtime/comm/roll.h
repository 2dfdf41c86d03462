/* SPDX-License-Identifier: Apache-2.0 */
/*
 * roll.h - which ranks have come to an operation, and which have not; for comm/
 * only
 *
 * Between GPUs an operation does not say whose part is missing. So a rank that
 * has waited for a while tells all others in which operation it waits, and the
 * others answer as soon as they wait as well. Who has told nothing when the
 * time is over is the one to blame. Operations are counted from 1, on every
 * rank alike. All functions belong to the thread of the peers.
 */
#ifndef DT_COMM_ROLL_H
#define DT_COMM_ROLL_H

#include "comm/peers.h"

struct dt_note {
    uint64_t place; /* the operation in which a rank waits; 0: none yet */
    char what[56];  /* its description */
};

struct dt_roll {
    struct dt_peers *peers;
    uint64_t said;              /* newest place in an own note */
    struct dt_note *own;        /* [size]: on the way to each rank */
    struct dt_note *room;       /* [size]: where the next one comes to */
    struct dt_note *heard;      /* [size]: newest of each rank */
    uint64_t *sent, *came;      /* [size]: notes so far */
    struct dt_port **out, **in; /* [size]: of own and room */
    bool *busy;                 /* [size]: own is on its way */
};

/* Makes ready to hear from all. -1: EX_OSERR, or a peer is lost. */
int dt_roll_init(struct dt_roll *roll, struct dt_peers *peers,
                 struct dt_error *err);
void dt_roll_fini(struct dt_roll *roll); /* link closed; zeroed is fine */

/* Takes in what has come. Does somebody wait in operation `place`? */
bool dt_roll_hear(struct dt_roll *roll, uint64_t place);

/* Tells all that this rank waits in operation `place`, once. */
void dt_roll_say(struct dt_roll *roll, uint64_t place, const char *what);

/* The error for an operation that did not end within `timeout_ms`: who has not
 * come to it, or who does something else instead. Always -1.
 */
int dt_roll_missing(struct dt_roll *roll, uint64_t place, const char *what,
                    int timeout_ms, struct dt_error *err);

#endif /* DT_COMM_ROLL_H */
