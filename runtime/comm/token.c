/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - rank 0 draws the token of a run and the launcher brings it to all */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "comm/rendezvous.h"

int dt_comm_fetch(const struct dt_comm_world *world, int rank, const char *key,
                  void *into, size_t bytes, struct dt_error *err)
{
    void *data;
    size_t found;
    if (world->get(world->ctx, rank, key, &data, &found, err) < 0)
        return -1;
    if (found == bytes)
        memcpy(into, data, bytes);
    free(data);
    if (found != bytes)
        return dt_error_set(err, EX_SOFTWARE,
                            "rank %d has put %zu bytes as %s, not %zu: do all "
                            "ranks run the same disttrain?",
                            rank, found, key, bytes);
    return 0;
}

static const char *const token_key = "dt.comm.token";

/* The message of rank 0 to all. */
struct offer {
    uint8_t drawn[DT_SIPHASH_BYTES];
    uint8_t mixed; /* whether it has a secret; ranks of mpirun have none */
};

int dt_token_offer(const struct dt_comm_world *world, const char *secret,
                   struct dt_error *err)
{
    struct offer offer = {.mixed = secret != NULL};
    if (world->rank != 0)
        return 0;
    if (getrandom(offer.drawn, sizeof(offer.drawn), 0) !=
        (ssize_t)sizeof(offer.drawn))
        return dt_error_set(err, EX_OSERR, "getrandom: %s", strerror(errno));
    return world->put(world->ctx, token_key, &offer, sizeof(offer), err);
}

int dt_token_fetch(const struct dt_comm_world *world, const char *secret,
                   struct dt_token *token, struct dt_error *err)
{
    struct offer offer;
    if (dt_comm_fetch(world, 0, token_key, &offer, sizeof(offer), err) < 0)
        return -1;
    memcpy(token->key, offer.drawn, sizeof(offer.drawn));
    if (offer.mixed && !secret)
        return dt_error_set(err, EX_CONFIG,
                            "rank 0 has a secret of srun's plugin, and this "
                            "rank has none: start all ranks by one srun");
    if (offer.mixed)
        dt_siphash(offer.drawn, secret, strlen(secret), token->key);
    return 0;
}
