/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_api.h - the calls of NCCL, for those who do not see its header; for
 * comm/ only
 *
 * The library is opened when the first communicator is made, so that one GPU
 * needs no NCCL. Calls return at once: until dt_nccl_state says that the last
 * one is through, no other may be made, and the work is not yet in the stream.
 * One thread makes all calls. Errors are EX_OSERR with the name of the function
 * and the words of NCCL.
 */
#ifndef DT_COMM_NCCL_API_H
#define DT_COMM_NCCL_API_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "comm/comm.h"

struct dt_nccl; /* one communicator */

enum {
    DT_NCCL_ID_BYTES = 128,
};

/* One of the meeting points of a world that is about to be made. */
struct dt_nccl_id {
    char bytes[DT_NCCL_ID_BYTES];
};

/* Opens libnccl.so.2, or takes the one that is in the process already, and
 * writes its version (22809 is 2.28.9). -1: it is missing or too old
 * (EX_UNAVAILABLE).
 */
int dt_nccl_open(int *version, struct dt_error *err);

/* May several ids be used for one communicator? From 2.23 on. */
bool dt_nccl_many_ids(void);

/* Begins to listen for the ranks that get this id; for one communicator. */
int dt_nccl_listen(struct dt_nccl_id *id, struct dt_error *err);

/* Begins to make a communicator on the current GPU. The ids are those of the
 * ranks that dt_nccl_root gives, in this order, the same on all ranks.
 */
struct dt_nccl *dt_nccl_create(int rank, int size, const struct dt_nccl_id *ids,
                               int id_count, struct dt_error *err);

/* Begins to make a communicator of some ranks of `nccl`: those that call it
 * with the same color (0 or more), in the order of their keys; all ranks of
 * `nccl` call it. The call is through when it is for `nccl`, and then for the
 * new one. NULL and err: EX_UNAVAILABLE before NCCL 2.18.
 */
struct dt_nccl *dt_nccl_split(struct dt_nccl *nccl, int color, int key,
                              int rank, int size, struct dt_error *err);

/* 1: the last call is through, 0: not yet, -1: the communicator has failed. */
int dt_nccl_state(struct dt_nccl *nccl, struct dt_error *err);

/* Ends the communicator in a thread of its own: in order, or else by force,
 * which frees the stream of what runs there. True if that is over within
 * `timeout_ms`; otherwise the thread is left behind, and what NCCL uses must
 * not be freed. NULL is fine.
 */
bool dt_nccl_destroy(struct dt_nccl *nccl, bool in_order, int timeout_ms);

/* Lets the network reach `bytes` at `data` directly, until that is taken back
 * from all memory. Without effect where it cannot be.
 */
void dt_nccl_register(struct dt_nccl *nccl, void *data, size_t bytes);

/* Takes it back, before the memory is freed and others may get its address; by
 * then the last call is through and all operations are done.
 */
void dt_nccl_deregister(struct dt_nccl *nccl);

/* The collectives of NCCL, in place, queued to `stream`; `count` elements in
 * all. Types: F32, F64 and BF16 where something is added, bytes elsewhere.
 */
int dt_nccl_all_reduce(struct dt_nccl *nccl, void *data, size_t count,
                       enum dt_dtype dtype, enum dt_reduce op,
                       cudaStream_t stream, struct dt_error *err);
int dt_nccl_reduce_scatter(struct dt_nccl *nccl, void *data, size_t count,
                           enum dt_dtype dtype, enum dt_reduce op,
                           cudaStream_t stream, struct dt_error *err);
int dt_nccl_all_gather(struct dt_nccl *nccl, void *data, size_t bytes,
                       cudaStream_t stream, struct dt_error *err);
int dt_nccl_broadcast(struct dt_nccl *nccl, void *data, size_t bytes, int root,
                      cudaStream_t stream, struct dt_error *err);

/* Part r of `from`, of `part_bytes` bytes, goes to rank r, which keeps it as
 * part `rank` of its `to`. The own part is not copied.
 */
int dt_nccl_swap(struct dt_nccl *nccl, void *to, const void *from,
                 size_t part_bytes, cudaStream_t stream, struct dt_error *err);

#endif /* DT_COMM_NCCL_API_H */
