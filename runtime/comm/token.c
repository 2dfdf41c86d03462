/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - the secret of a run */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "comm/token.h"

static const char *const token_key = "dt.comm.token";

int dt_token_offer(const struct dt_comm_world *world, struct dt_token *token,
                   struct dt_error *err)
{
    if (world->rank != 0)
        return 0;
    if (getrandom(token, sizeof(*token), 0) != (ssize_t)sizeof(*token))
        return dt_error_set(err, EX_OSERR, "getrandom: %s", strerror(errno));
    return world->put(world->ctx, token_key, token, sizeof(*token), err);
}

int dt_token_fetch(const struct dt_comm_world *world, const char *secret,
                   struct dt_token *token, struct dt_error *err)
{
    uint8_t drawn[DT_SIPHASH_BYTES];
    void *data;
    size_t bytes;
    if (world->get(world->ctx, 0, token_key, &data, &bytes, err) < 0)
        return -1;
    if (bytes == sizeof(drawn))
        memcpy(drawn, data, bytes);
    free(data);
    if (bytes != sizeof(drawn))
        return dt_error_set(err, EX_SOFTWARE,
                            "rank 0 has put %zu bytes as %s, not %zu: do all "
                            "ranks run the same disttrain?",
                            bytes, token_key, sizeof(drawn));
    memcpy(token->key, drawn, sizeof(drawn));
    if (secret)
        dt_siphash(drawn, secret, strlen(secret), token->key);
    return 0;
}
