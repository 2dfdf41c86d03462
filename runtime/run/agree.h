/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree.h - checks that all ranks read the same files
 *
 * Rank 0 reports a difference. The others fail with its words when it has
 * abandoned the communicator, as after any failure.
 */
#ifndef DT_RUN_AGREE_H
#define DT_RUN_AGREE_H

#include "run/run.h"

/* Compares all keys of the file as each rank has read it, before anything that
 * ranks do together depends on one; all call it. -1: EX_CONFIG, the first key
 * that differs with both values and hosts; EX_OSERR; a peer failed.
 */
int dt_agree_conf(struct dt_comm *comm, const struct dt_conf *conf,
                  struct dt_error *err);

/* Compares the resolved configuration and the data of all ranks; all call it.
 * -1: EX_CONFIG with the names of two ranks that differ, or a peer failed.
 */
int dt_agree_data(struct dt_run *run, struct dt_error *err);

/* Finds out whether the directory `dir`, in which rank 0 can write, is the same
 * one on all hosts; all ranks call it, and wait up to `wait_ms` for a file of
 * rank 0. -1: EX_CANTCREAT, the hosts that do not see it; a peer failed.
 */
int dt_agree_directory(struct dt_comm *comm, const char *dir, int wait_ms,
                       struct dt_error *err);

#endif /* DT_RUN_AGREE_H */
