/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - the secret of a run */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "comm/token.h"

static const char *const token_key = "dt.comm.token";

/* What rank 0 says. */
struct offer {
    uint8_t drawn[DT_SIPHASH_BYTES];
    uint8_t mixed; /* whether it has a secret, which mpirun's ranks have not */
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
    void *data;
    size_t bytes;
    if (world->get(world->ctx, 0, token_key, &data, &bytes, err) < 0)
        return -1;
    if (bytes == sizeof(offer))
        memcpy(&offer, data, bytes);
    free(data);
    if (bytes != sizeof(offer))
        return dt_error_set(err, EX_SOFTWARE,
                            "rank 0 has put %zu bytes as %s, not %zu: do all "
                            "ranks run the same disttrain?",
                            bytes, token_key, sizeof(offer));
    memcpy(token->key, offer.drawn, sizeof(offer.drawn));
    if (offer.mixed && !secret)
        return dt_error_set(err, EX_CONFIG,
                            "rank 0 has a secret of srun's plugin, and this "
                            "rank has none: start all ranks by one srun");
    if (offer.mixed)
        dt_siphash(offer.drawn, secret, strlen(secret), token->key);
    return 0;
}
