/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - messages over a stream socket: between a worker and its keeper, and
 * between keepers
 *
 * A message is a header of 24 bytes, little-endian, and a body. Sending queues
 * the bytes that the socket does not take, so that nobody waits for a slow
 * peer; who waits for several wires polls them. All words of a message come
 * from outside: a header that makes no sense ends the connection.
 */
#ifndef DT_LAUNCH_WIRE_H
#define DT_LAUNCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum dt_wire_type {
    /* keeper to its worker */
    DT_WIRE_WORLD = 1, /* struct dt_wire_world, then a name a rank, with NUL */
    DT_WIRE_LOSSES,    /* struct dt_launch_loss each; it follows WORLD */

    /* worker, through its keeper, to the leader; and back */
    DT_WIRE_FENCE,   /* the items that the worker has put since the last */
    DT_WIRE_BLOBS,   /* a u64 length and the bytes, of each rank */
    DT_WIRE_WHO,     /* who is missing at the present fence? */
    DT_WIRE_MISSING, /* text: " rank 3 on n2, rank 5 on n3" */

    /* worker to its keeper */
    DT_WIRE_NOTE, /* text: why it is going to end */

    /* keeper to the leader */
    DT_WIRE_HELLO,  /* struct dt_wire_hello, the host's name, and, for a new
                     * leader, the view of the keeper
                     */
    DT_WIRE_DOWN,   /* struct dt_wire_down, then the worker's note */
    DT_WIRE_ACCEPT, /* struct dt_wire_accept: as proposed */

    /* leader to the keepers */
    DT_WIRE_TABLE,   /* one struct dt_wire_row a keeper, then their hosts */
    DT_WIRE_PROPOSE, /* a view: which nodes the next epoch is to have */
    DT_WIRE_GO,      /* struct dt_wire_go, a view: start the worker */
    DT_WIRE_STOP,    /* end the worker */
    DT_WIRE_LEAVE,   /* the others go on without this node */
    DT_WIRE_BYE,     /* struct dt_wire_bye */

    DT_WIRE_BEAT, /* both ways; of a keeper: struct dt_wire_beat */
    DT_WIRE_TYPES,
};

/* Bodies. The keepers of a step run one release on one kind of machine. */
struct dt_wire_world {
    int32_t rank, size, local_rank, local_size;
    int32_t restarts; /* of the workers of this step so far */
};

/* A keeper of a program that is not ours names a port with each message that
 * may come before a start: the next MASTER_PORT, if it has rank 0 then.
 */
enum { DT_WIRE_RELEASE_BYTES = 16 };

extern const char dt_wire_release[DT_WIRE_RELEASE_BYTES]; /* of disttrain */

struct dt_wire_hello {
    char release[DT_WIRE_RELEASE_BYTES]; /* first, in every release */
    int32_t node;
    uint32_t port; /* at which the keeper listens */
    uint32_t free; /* a port that is free on its host; 0: none is known */
};

enum { DT_WIRE_ADDRESS_BYTES = 48 };

struct dt_wire_row {
    struct dt_wire_hello hello;
    char address[DT_WIRE_ADDRESS_BYTES]; /* numeric */
};

struct dt_wire_down {
    int64_t step;    /* that was done last; -1: none had begun */
    int32_t rank;    /* whose worker it was */
    int32_t status;  /* as from waitpid */
    int32_t asked;   /* a signal told its keeper to end */
    int32_t stopped; /* the keeper has ended it */
    int32_t starved; /* the kernel has, because memory ran out */
    uint32_t free;   /* as in hello */
};

struct dt_wire_beat {
    int64_t step;
    uint64_t started;    /* collectives */
    int32_t patience_ms; /* without a new one; 0: any time */
    int32_t frozen;      /* the worker was stopped by a signal */
    int32_t orphaned;    /* the slurmstepd of this keeper has ended */
};

/* The end of all. */
struct dt_wire_bye {
    struct dt_wire_down cause;
    int32_t gone;  /* nodes of whose tasks srun may not hear */
    int32_t tells; /* the keeper that tells srun, if it is not the leader */
};

/* In place of a rank. */
enum { DT_WIRE_SPARE = -1, DT_WIRE_LOST = -2 };

/* What a step has overcome. */
struct dt_wire_past {
    int64_t best;              /* the furthest step so far */
    int32_t restarts;          /* of all ranks, */
    int32_t fruitless;         /* and those since that step */
    int32_t gone;              /* nodes that were lost */
    struct dt_wire_down cause; /* of the last restart */
};

/* A view is this, one struct dt_wire_post a keeper, and the losses, a struct
 * dt_launch_loss each, that the workers are to record.
 */
struct dt_wire_view {
    uint32_t epoch; /* 1, and how often nodes have left the step */
    int32_t ballot; /* the leader whose proposal was accepted; -1: none */
    struct dt_wire_past past;
};

struct dt_wire_post {
    int32_t rank; /* or DT_WIRE_SPARE, DT_WIRE_LOST */
    int32_t votes, next;
};

struct dt_wire_accept {
    uint32_t epoch; /* the one before that which was proposed */
    uint32_t free;  /* as in hello */
};

struct dt_wire_go {
    uint32_t port; /* a new MASTER_PORT for the workers; 0: the old one */
};

struct dt_wire {
    int fd; /* -1: closed */
    uint8_t *in, *out;
    size_t in_begin, in_used, in_size;
    size_t out_begin, out_used, out_size;
};

/* A message. `life` counts the starts of the workers, from 1: it tells
 * messages of an earlier start.
 */
struct dt_wire_message {
    enum dt_wire_type type;
    uint32_t life;
    size_t bytes;
    const void *body; /* valid until the next call for its wire */
};

/* Takes the socket, which must not block. */
void dt_wire_init(struct dt_wire *wire, int fd);

/* Closes it; repeating this does nothing. */
void dt_wire_close(struct dt_wire *wire);

/* Queues a message of two parts, either of which may be empty, and sends as
 * much as the socket takes. -1 and errno: the other side has gone, or no
 * memory. What the other side had sent can be received even then, and after it
 * the end.
 */
int dt_wire_send(struct dt_wire *wire, enum dt_wire_type type, uint32_t life,
                 const void *head, size_t head_bytes, const void *tail,
                 size_t tail_bytes);

/* Sends more of the queue. -1 and errno, as above. */
int dt_wire_flush(struct dt_wire *wire);

/* Whether something is queued. */
bool dt_wire_pending(const struct dt_wire *wire);

/* Reads all that has come. -1 and errno: ECONNRESET if the other side has gone,
 * which is told only after all that it had sent was read.
 */
int dt_wire_receive(struct dt_wire *wire);

/* Takes the next message that is whole. 1; 0: there is none; -1 and errno
 * EPROTO: that was no message.
 */
int dt_wire_next(struct dt_wire *wire, struct dt_wire_message *message);

/* Waits up to `ms` until there may be something to receive, and sends the queue
 * meanwhile. 1; 0: the time is over; -1 and errno.
 */
int dt_wire_wait(struct dt_wire *wire, int ms);

#endif /* DT_LAUNCH_WIRE_H */
