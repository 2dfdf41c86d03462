/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_bootstrap.c - ids and facts of all ranks, through the launcher */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_impl.h"
#include "comm/comm_nccl.h"

/* Keys stay with the launcher forever: each world of NCCL has its own. */
static unsigned epoch;

static void key_of(char key[64], const char *what, int i)
{
    snprintf(key, 64, "disttrain.nccl.%u.%s%d", epoch, what, i);
}

int dt_nccl_id_count(int size, bool many_ids)
{
    if (!many_ids)
        return 1;
    return (size + DT_NCCL_RANKS_PER_ID - 1) / DT_NCCL_RANKS_PER_ID;
}

int dt_nccl_root(int size, int id_count, int i)
{
    return (int)dt_op_part_first((size_t)size, id_count, i);
}

static void copy_variable(char *to, size_t bytes, const char *name)
{
    const char *value = getenv(name);
    snprintf(to, bytes, "%s", value ? value : "");
}

void dt_nccl_facts_init(struct dt_nccl_facts *facts)
{
    const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    memset(facts, 0, sizeof(*facts)); /* it travels as bytes */
    copy_variable(facts->visible, sizeof(facts->visible),
                  "CUDA_VISIBLE_DEVICES");
    copy_variable(facts->node, sizeof(facts->node), "NCCL_HOSTID");
    facts->shared = shared && !strcmp(shared, "1");
}

/* Puts the ids that this rank makes. */
static int offer_ids(const struct dt_comm_world *world, int id_count,
                     struct dt_error *err)
{
    for (int i = 0; i < id_count; i++) {
        struct dt_nccl_id id;
        char key[64];
        if (dt_nccl_root(world->size, id_count, i) != world->rank)
            continue;
        key_of(key, "", i);
        if (dt_nccl_listen(&id, err) < 0 ||
            world->put(world->ctx, key, &id, sizeof(id), err) < 0)
            return -1;
    }
    return 0;
}

/* The names of two hosts; world->host may write over the one before. */
struct hosts {
    char a[256], b[256];
};

static struct hosts hosts_of(const struct dt_comm_world *world, int a, int b)
{
    struct hosts hosts;
    snprintf(hosts.a, sizeof(hosts.a), "%s", world->host(world->ctx, a));
    snprintf(hosts.b, sizeof(hosts.b), "%s", world->host(world->ctx, b));
    return hosts;
}

/* Parts of one GPU (MIG) have one bus id and are GPUs of their own. */
static bool same_gpu(const struct dt_comm_world *world,
                     const struct dt_nccl_facts *all, int a, int b)
{
    struct hosts hosts;
    if (memcmp(all[a].uuid, all[b].uuid, sizeof(all[a].uuid)) != 0 ||
        (all[a].shared && all[b].shared))
        return false;
    if (all[a].node[0] || all[b].node[0])
        return !strcmp(all[a].node, all[b].node);
    hosts = hosts_of(world, a, b);
    return !strcmp(hosts.a, hosts.b);
}

static int refuse_gpu(const struct dt_comm_world *world,
                      const struct dt_nccl_facts *all, int a, int b,
                      struct dt_error *err)
{
    char visible[96] = "is not set";
    if (all[b].visible[0])
        snprintf(visible, sizeof(visible), "is \"%s\"", all[b].visible);
    return dt_error_set(
        err, EX_CONFIG,
        "ranks %d and %d on %s have the same GPU, %s (%s): each rank needs "
        "one of its own. Start no more tasks on a node than it has GPUs, and "
        "let each task see all of them (srun --gpus-per-node=N) or one of its "
        "own (launch.gpu_visibility: one); CUDA_VISIBLE_DEVICES of rank %d %s",
        a, b, world->host(world->ctx, a), all[a].gpu, all[a].gpu_name, b,
        visible);
}

static int refuse_version(const struct dt_comm_world *world,
                          const struct dt_nccl_facts *all, int r,
                          struct dt_error *err)
{
    const int a = all[0].version, b = all[r].version;
    struct hosts hosts = hosts_of(world, 0, r);
    return dt_error_set(
        err, EX_CONFIG,
        "rank 0 on %s has NCCL %d.%d.%d, rank %d on %s has %d.%d.%d: all ranks "
        "need the same one; see LD_LIBRARY_PATH and the installed libnccl2 "
        "there",
        hosts.a, a / 10000, a / 100 % 100, a % 100, r, hosts.b, b / 10000,
        b / 100 % 100, b % 100);
}

static int judge(const struct dt_comm_world *world,
                 const struct dt_nccl_facts *all, struct dt_error *err)
{
    for (int r = 0; r < world->size; r++)
        if (all[r].failure[0]) {
            dt_error_set(err, EX_UNAVAILABLE, "rank %d on %s: %.255s", r,
                         world->host(world->ctx, r), all[r].failure);
            if (err && r != world->rank)
                err->lost_rank = r;
            return -1;
        }
    for (int r = 1; r < world->size; r++)
        if (all[r].version != all[0].version)
            return refuse_version(world, all, r, err);
    for (int a = 0; a < world->size; a++)
        for (int b = a + 1; b < world->size; b++)
            if (same_gpu(world, all, a, b))
                return refuse_gpu(world, all, a, b, err);
    return 0;
}

static int exchange(const struct dt_comm_world *world,
                    const struct dt_nccl_facts *own, struct dt_nccl_facts *all,
                    struct dt_nccl_id *ids, int id_count, int timeout_ms,
                    struct dt_error *err)
{
    char key[64], facts_key[64];
    snprintf(facts_key, sizeof(facts_key), "disttrain.nccl.%u.facts", epoch);
    if (world->put(world->ctx, facts_key, own, sizeof(*own), err) < 0 ||
        world->fence(world->ctx, timeout_ms, err) < 0)
        return -1;
    for (int r = 0; r < world->size; r++)
        if (dt_comm_fetch(world, r, facts_key, &all[r], sizeof(*all), err) < 0)
            return -1;
    if (judge(world, all, err) < 0)
        return -1;
    for (int i = 0; i < id_count; i++) {
        key_of(key, "", i);
        if (dt_comm_fetch(world, dt_nccl_root(world->size, id_count, i), key,
                          &ids[i], sizeof(ids[i]), err) < 0)
            return -1;
    }
    return 0;
}

struct dt_nccl_id *dt_nccl_meet(const struct dt_comm_world *world,
                                struct dt_nccl_facts *facts, int id_count,
                                int timeout_ms, struct dt_error *err)
{
    struct dt_nccl_facts *all = calloc((size_t)world->size, sizeof(*all));
    struct dt_nccl_id *ids = calloc((size_t)id_count, sizeof(*ids));
    struct dt_error why;
    int rc = -1;
    epoch++;
    /* who cannot go on still comes to the fence, and tells all why */
    if (!facts->failure[0] && offer_ids(world, id_count, &why) < 0)
        snprintf(facts->failure, sizeof(facts->failure), "%.255s", why.text);
    if (all && ids)
        rc = exchange(world, facts, all, ids, id_count, timeout_ms, err);
    else
        dt_error_set(err, EX_OSERR, "no memory for %d ranks", world->size);
    free(all);
    if (rc == 0)
        return ids;
    free(ids);
    return NULL;
}
