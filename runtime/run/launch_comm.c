/* SPDX-License-Identifier: Apache-2.0 */
/* launch_comm.c - passes functions of launch to comm */
#include "config.h"

#include "run/launch_comm.h"

static const char *launch_host(void *ctx, int rank)
{
    return dt_launch_host(ctx, rank);
}

static int launch_put(void *ctx, const char *key, const void *data,
                      size_t bytes, struct dt_error *err)
{
    return dt_launch_put(ctx, key, data, bytes, err);
}

static int launch_fence(void *ctx, int timeout_ms, struct dt_error *err)
{
    return dt_launch_fence(ctx, timeout_ms, err);
}

static int launch_get(void *ctx, int rank, const char *key, void **data,
                      size_t *bytes, struct dt_error *err)
{
    return dt_launch_get(ctx, rank, key, data, bytes, err);
}

struct dt_comm_world dt_world_of(struct dt_launch *launch)
{
    return (struct dt_comm_world){
        .rank = dt_launch_rank(launch),
        .size = dt_launch_size(launch),
        .host = launch_host,
        .put = launch_put,
        .fence = launch_fence,
        .get = launch_get,
        .ctx = launch,
    };
}
