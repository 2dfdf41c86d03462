/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arrivals.h - which ranks have come to an operation, and which have not; for
 * comm/ only
 *
 * An operation between GPUs does not say whose part is missing, and in one of a
 * group whoever is late may wait for a rank outside of it. So a rank that has
 * waited for a while announces to all others the operation in which it
 * waits, and they answer as soon as they wait in it as well. A rank that has
 * announced nothing when the time is over is the one to blame. In a large world
 * without GPUs, a rank waits for one that may itself be waiting, so it
 * announces the same to those that it is connected to. Operations are counted
 * from 1, on every rank alike. All functions belong to the thread of the peers.
 */
#ifndef DT_COMM_ARRIVALS_H
#define DT_COMM_ARRIVALS_H

#include "comm/peers.h"

/* What a rank announces. */
struct dt_arrival {
    uint64_t place; /* the operation in which it waits; 0: none yet */
    char what[56];  /* its description */
};

/* To and from one other rank. */
struct dt_arrivals_peer {
    struct dt_arrival sent;     /* the last one, perhaps still being sent */
    struct dt_arrival incoming; /* where the next one is received */
    struct dt_arrival latest;   /* the newest one received */
    uint64_t sent_count, received_count;
    struct dt_transport_buffer *send, *receive; /* of sent and incoming */
    bool sending;
};

struct dt_arrivals {
    struct dt_peers *peers;
    uint64_t announced;             /* newest place that all were told */
    struct dt_arrivals_peer *ranks; /* [size] */
};

/* Prepares to receive from all that are connected. -1: EX_OSERR. */
int dt_arrivals_init(struct dt_arrivals *arrivals, struct dt_peers *peers,
                     struct dt_error *err);

/* Prepares to receive from a rank that has been connected since. -1: as init.
 */
int dt_arrivals_open(struct dt_arrivals *arrivals, int rank,
                     struct dt_error *err);

/* After the transport is closed; zeroed is fine. */
void dt_arrivals_fini(struct dt_arrivals *arrivals);

/* Reads what has been received. True if another rank waits in operation
 * `place` or a later one.
 */
bool dt_arrivals_receive(struct dt_arrivals *arrivals, uint64_t place);

/* Tells all that are connected that this rank waits in operation `place`, once.
 */
void dt_arrivals_announce(struct dt_arrivals *arrivals, uint64_t place,
                          const char *what);

/* The error for an operation that did not end within `timeout_ms`: which rank
 * has not come to it, or does something else instead. In an operation of a
 * group whoever is missing may himself wait for others: so it names the ranks
 * that were seen to wait longest ago, or never. Always -1.
 */
int dt_arrivals_missing(struct dt_arrivals *arrivals, uint64_t place,
                        const char *what, bool in_group, int timeout_ms,
                        struct dt_error *err);

/* Whether dt_arrivals_missing would name a rank. */
bool dt_arrivals_any_missing(struct dt_arrivals *arrivals, uint64_t place);

/* How long a rank waits before it announces where. */
int dt_arrivals_silence_ms(int timeout_ms);

#endif /* DT_COMM_ARRIVALS_H */
