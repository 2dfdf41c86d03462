/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.h - the secret of a run, which all of its ranks know, and nobody else;
 * for comm/ only
 *
 * Rank 0 draws it, and the launcher brings it to the others, as it does
 * addresses. A PMIx server that listens on TCP believes who says that it is the
 * user; so what srun has put into the environment is mixed into it.
 */
#ifndef DT_COMM_TOKEN_H
#define DT_COMM_TOKEN_H

#include "base/siphash.h"
#include "comm/comm.h"

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

#endif /* DT_COMM_TOKEN_H */
