/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - what ranks tell each other, and whether they read the same
 *
 * Rank 0 reports a difference. The others fail with its words when it has
 * abandoned the communicator, as after any failure.
 */
#ifndef DT_RUN_EXCHANGE_H
#define DT_RUN_EXCHANGE_H

#include <stddef.h>

#include "comm/comm.h"
#include "conf/conf.h"
#include "launch/launch.h"
#include "run/data.h"

/* The world of `launch` for dt_comm_create; launch must outlive it. launch and
 * comm are in one layer and do not include each other.
 */
struct dt_comm_world dt_world_of(struct dt_launch *launch);

/* Fills all[world * count] with mine[count] of each rank, in the order of
 * ranks. All ranks call it. -1: a peer failed.
 */
int dt_gather(struct dt_comm *comm, const double *mine, size_t count,
              double *all, struct dt_error *err);

/* Fills texts, (world) of bytes + 1 each, with the first `bytes` of `mine` of
 * each rank. `bytes` is a multiple of 6. -1: a peer failed, EX_OSERR.
 */
int dt_gather_texts(struct dt_comm *comm, const char *mine, size_t bytes,
                    char *texts, struct dt_error *err);

/* Copies the `bytes` bytes of `data` of rank `root` to all ranks, which call it
 * with the same `root` and `bytes`. -1: a peer failed, EX_OSERR.
 */
int dt_gather_bytes_of(struct dt_comm *comm, int root, void *data, size_t bytes,
                       struct dt_error *err);

/* Copies the text of rank `root` into the `bytes` bytes of `text` on all ranks,
 * which call it with the same `root` and `bytes`. -1: a peer failed, EX_OSERR.
 */
int dt_gather_text_of(struct dt_comm *comm, int root, char *text, size_t bytes,
                      struct dt_error *err);

/* Compares all keys of the file as each rank has read it, before anything that
 * ranks do together depends on one; all call it. -1: EX_CONFIG, the first key
 * that differs with both values and hosts; EX_OSERR; a peer failed.
 */
int dt_agree_conf(struct dt_comm *comm, const struct dt_conf *conf,
                  struct dt_error *err);

/* Compares the resolved configuration and the data of all ranks; all call it.
 * -1: EX_CONFIG with the names of two ranks that differ, or a peer failed.
 */
int dt_agree_data(struct dt_comm *comm, const struct dt_conf *conf,
                  const struct dt_run_data *data, struct dt_error *err);

/* Finds out whether the directory `dir`, in which rank 0 can write, is the same
 * one on all hosts; all ranks call it, and wait up to `wait_ms` for a file of
 * rank 0. -1: EX_CANTCREAT, the hosts that do not see it; a peer failed.
 */
int dt_agree_directory(struct dt_comm *comm, const char *dir, int wait_ms,
                       struct dt_error *err);

#endif /* DT_RUN_EXCHANGE_H */
