/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.h - two processes of a run prove that they know its token
 *
 *     who connects:  its rank and the one that it looks for, a random number
 *     who listens:   another random number, and a hash of all that is above
 *     who connects:  a hash of the same
 *     who listens:   welcome
 *
 * The key of the hashes is the token, and each side has a word of its own in
 * them. So a message of one side proves nothing in the place of the other, and
 * a message of one connection proves nothing in the next. No byte of the token
 * leaves the host, and no byte after the handshake is read.
 *
 * A handshake neither blocks nor waits, so that one thread can have many.
 */
#ifndef DT_BASE_HANDSHAKE_H
#define DT_BASE_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"

/* The secret of a run, known to all of its ranks and to nobody else. */
struct dt_token {
    uint8_t key[DT_SIPHASH_BYTES];
};

enum {
    DT_HANDSHAKE_HELLO_BYTES = 32,
    DT_HANDSHAKE_MOST_BYTES = 32, /* of one part of a handshake */
};

struct dt_handshake {
    const struct dt_token *token;
    bool listens;
    int rank; /* this one */
    int peer; /* the other one; who listens learns it from a proof */
    int size; /* of the world */
    int turn; /* how many of the four parts are complete */
    uint8_t hello[DT_HANDSHAKE_HELLO_BYTES];
    uint8_t nonce[DT_SIPHASH_BYTES]; /* of who listens */
    uint8_t bytes[DT_HANDSHAKE_MOST_BYTES];
    size_t done, count; /* bytes of the present part */
};

/* Begins a handshake of `rank` of `size` with `peer`; on the side that listens,
 * with whoever proves to be a rank, and `peer` is -1. The token has to stay.
 */
void dt_handshake_begin(struct dt_handshake *handshake,
                        const struct dt_token *token, int rank, int size,
                        int peer);

/* Continues with the socket as far as that goes. 1: both sides have proved that
 * they know the token, and handshake->peer is the other one; 0: more is to
 * come, see dt_handshake_sends; -1 and an errno: ECONNRESET if the other side
 * has gone, EPROTO if it does not know the token, or one of the kernel.
 */
int dt_handshake_continue(struct dt_handshake *handshake, int fd);

/* Does it wait until it can send, and not until it can receive? */
bool dt_handshake_sends(const struct dt_handshake *handshake);

/* Describes such an errno: "it does not know the token of this run". */
const char *dt_handshake_error(int error);

#endif /* DT_BASE_HANDSHAKE_H */
