/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.h - two ranks prove to each other that they know the token of their
 * run; for comm/ only
 *
 *     who connects:  who he is and whom he looks for, a number drawn at random
 *     who listens:   another such number, and a hash of all that is above
 *     who connects:  a hash of the same
 *     who listens:   welcome
 *
 * The key of the hashes is the token, and each side has a word of its own in
 * them. So what one side has said proves nothing in the place of the other, and
 * what was said in one connection proves nothing in the next. No byte of the
 * token leaves the host, and no byte behind the handshake is read.
 *
 * A handshake neither blocks nor waits, so that one thread can have many.
 */
#ifndef DT_COMM_HANDSHAKE_H
#define DT_COMM_HANDSHAKE_H

#include <stdbool.h>

#include "base/siphash.h"
#include "comm/comm.h"

/* The secret of a run, which all of its ranks know, and nobody else. Rank 0
 * draws it, and the launcher brings it to the others, as it does addresses. A
 * PMIx server that listens on TCP believes who says that it is the user; so
 * what srun has put into the environment is mixed into it.
 */
struct dt_token {
    uint8_t key[DT_SIPHASH_BYTES];
};

/* Draws the token on rank 0, and offers it: all have it after the next fence.
 * -1: EX_OSERR, or what the launcher says.
 */
int dt_token_offer(const struct dt_comm_world *world, const char *secret,
                   struct dt_error *err);

/* Fetches the token, after a fence, and mixes `secret` into it, if rank 0 has
 * one (NULL: none). -1: what the launcher says; EX_SOFTWARE, that is no token;
 * EX_CONFIG, only rank 0 has a secret.
 */
int dt_token_fetch(const struct dt_comm_world *world, const char *secret,
                   struct dt_token *token, struct dt_error *err);

enum {
    DT_HANDSHAKE_HELLO_BYTES = 32,
    DT_HANDSHAKE_MOST_BYTES = 32, /* that one side says at once */
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
 * has gone, EPROTO if it does not know the token, or what the kernel says.
 */
int dt_handshake_continue(struct dt_handshake *handshake, int fd);

/* Does it wait until it can send, and not until it can receive? */
bool dt_handshake_sends(const struct dt_handshake *handshake);

/* What such an errno means: "it does not know the token of this run". */
const char *dt_handshake_error(int error);

#endif /* DT_COMM_HANDSHAKE_H */
