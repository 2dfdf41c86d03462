/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_bootstrap.h - what the ranks tell each other before NCCL connects them;
 * for comm/ only
 */
#ifndef DT_COMM_NCCL_BOOTSTRAP_H
#define DT_COMM_NCCL_BOOTSTRAP_H

#include "comm/nccl_api.h"

enum {
    DT_NCCL_RANKS_PER_ID = 128, /* that connect to one root, at most */
};

/* One rank, as the others see it. */
struct dt_nccl_facts {
    int version;       /* of NCCL */
    char gpu[32];      /* "00000000:17:00.0" */
    char gpu_name[64]; /* "NVIDIA H200" */
    char visible[64];  /* CUDA_VISIBLE_DEVICES, "" if it is not set */
    char node[64];     /* NCCL_HOSTID, or "" for the host's name */
    bool shared;       /* NCCL_MULTI_RANK_GPU_ENABLE=1 */
    char failure[256]; /* why this rank cannot go on, "" if it can */
};

/* How many ids a world has, and the rank that makes the i-th of them: the
 * first of its part, when the ranks are cut into parts whose lengths differ by
 * one at most, the longer ones first.
 */
int dt_nccl_id_count(int size, bool many_ids);
int dt_nccl_root(int size, int id_count, int i);

/* Fills what the environment says. */
void dt_nccl_facts_init(struct dt_nccl_facts *facts);

/* Exchanges facts, and the ids of those who make them, with one fence. Returns
 * the ids (the caller frees them). NULL and err: EX_CONFIG if two ranks have
 * one GPU or different versions of NCCL, or a rank's failure, on all of them.
 */
struct dt_nccl_id *dt_nccl_meet(const struct dt_comm_world *world,
                                struct dt_nccl_facts *facts, int id_count,
                                int timeout_ms, struct dt_error *err);

#endif /* DT_COMM_NCCL_BOOTSTRAP_H */
