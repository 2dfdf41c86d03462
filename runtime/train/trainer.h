/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - the training loop of one rank, from configuration to summary */
#ifndef DT_TRAIN_TRAINER_H
#define DT_TRAIN_TRAINER_H

#include <stdbool.h>

#include "base/error.h"
#include "comm/comm.h"
#include "conf/conf.h"
#include "ops/ops.h"

/* Trains as `conf` says with the hardware of `exec`, together with all ranks of
 * `comm`, of which `local_size` are on this node. `stop` is called once a step;
 * if it returns true on any rank, all ranks finish the steps in flight and rank
 * 0 saves a checkpoint. 0 when the last step is done. -1: EX_TEMPFAIL after
 * such a stop (the run can be resumed); any other status is a failure of this
 * rank, and the caller must tell the other ranks. *recorded (may be NULL):
 * whether run.json says how the run ended. It does so on rank 0 only, and not
 * if the run was refused or another one has its directory.
 */
int dt_trainer_run(const struct dt_conf *conf, const struct dt_exec *exec,
                   struct dt_comm *comm, int local_size, bool (*stop)(void),
                   bool *recorded, struct dt_error *err);

/* Does the work that a run of `conf` does once before its first step, such as
 * computing the reference's sums for all pairs, and leaves run.output_dir
 * alone. -1: as dt_trainer_run.
 */
int dt_trainer_prepare(const struct dt_conf *conf, const struct dt_exec *exec,
                       struct dt_comm *comm, struct dt_error *err);

#endif /* DT_TRAIN_TRAINER_H */
