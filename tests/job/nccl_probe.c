/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_probe.c - one rank of a job that exchanges what NCCL needs, without GPUs
 *
 * Usage: nccl_probe GPU
 *
 * Exchanges the ids of the installed libnccl and facts through the launcher.
 * GPU is the name that it gives its GPU; "@" makes a unique one. Prints an
 * error, whose status becomes the exit status.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_nccl.h"
#include "run/exchange.h"
#include "launch/launch.h"

static struct dt_error err;

static int failed(void)
{
    printf("%s\n", err.text);
    return err.status;
}

/* Prints which rank this is and what all ranks got from rank 0. */
static void print_rank(const struct dt_comm_world *world, int version,
                       const struct dt_nccl_id *ids)
{
    unsigned long sum = 5381;
    for (int i = 0; i < DT_NCCL_ID_BYTES; i++)
        sum = sum * 33 + (unsigned char)ids[0].bytes[i];
    printf("rank %d of %d, on %s, NCCL %d, id %lx\n", world->rank, world->size,
           world->host(world->ctx, world->rank), version, sum);
}

int main(int argc, char **argv)
{
    struct dt_launch *launch;
    struct dt_comm_world world;
    struct dt_nccl_facts facts;
    struct dt_nccl_id *ids;
    if (argc != 2)
        return EX_USAGE;
    launch = dt_launch_create(30000, &err);
    if (!launch)
        return failed();
    world = dt_world_of(launch);
    dt_nccl_facts_init(&facts);
    snprintf(facts.gpu_name, sizeof(facts.gpu_name), "none");
    if (!strcmp(argv[1], "@"))
        snprintf(facts.gpu, sizeof(facts.gpu), "gpu %d", world.rank);
    else
        snprintf(facts.gpu, sizeof(facts.gpu), "%s", argv[1]);
    memcpy(facts.uuid, facts.gpu, sizeof(facts.uuid));
    if (dt_nccl_open(&facts.version, &err) < 0)
        return failed();
    ids = dt_nccl_meet(&world, &facts, dt_nccl_id_count(world.size, true),
                       30000, &err);
    if (!ids)
        return failed();
    print_rank(&world, facts.version, ids);
    free(ids);
    dt_launch_destroy(launch);
    return 0;
}
