/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - everything one rank holds while it trains (private to algo/) */
#ifndef DT_ALGO_RUN_H
#define DT_ALGO_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "ckpt/ckpt.h"
#include "comm/comm.h"
#include "conf/conf.h"
#include "data/data.h"
#include "model/model.h"
#include "optim/optim.h"
#include "parallel/parallel.h"
#include "report/report.h"

struct dt_run {
    struct dt_conf conf;  /* a copy with the batch resolved for this world;
                             its strings belong to the caller */
    struct dt_comm *comm; /* not owned */
    int rank, world;
    size_t B, T, A;       /* rows, positions, micro-batches a step */

    struct dt_model_config model_config;
    struct dt_layout *layout;
    struct dt_buffer *weights_buf, *grads_buf;
    struct dt_view weights, grads; /* flat, fp32 */
    struct dt_model *model;
    struct dt_optim *optim;
    struct dt_schedule schedule;
    struct dt_parallel *parallel;

    struct dt_dataset *dataset, *eval_dataset; /* may be the same */
    struct dt_data_range train_range, eval_range;
    uint64_t data_hash;
    struct dt_loader *loader;
    uint64_t epoch_samples;

    struct dt_report *report;
    char ckpt_root[PATH_MAX - 64]; /* run.output_dir/checkpoints */
    char ckpt_path[PATH_MAX]; /* of the newest one, empty before it */

    /* What a checkpoint stores beside tensors: dt_run_save, dt_run_restore. */
    struct dt_progress {
        long step;           /* optimizer steps done, skipped ones included */
        long skipped_in_row; /* steps without an update: non-finite gradients */
        uint64_t position;   /* global samples consumed */
        double tokens;       /* targets consumed, all ranks */
        double first_loss;   /* of step 1 */
        double loss_sum, loss_tokens; /* since the last report */
    } progress;
    long total_steps;
};

/* setup.c: fills run up to the loader; run is zeroed before. dt_run_fini
 * releases whatever there is.
 */
int dt_run_init(struct dt_run *run, const struct dt_conf *conf,
                struct dt_comm *comm, struct dt_error *err);
void dt_run_fini(struct dt_run *run);

/* distributed.timeout_s: of every wait. */
int dt_run_timeout_ms(const struct dt_run *run);

/* state.c: writes checkpoint-<step> (rank 0; the others return at once). */
int dt_run_save(struct dt_run *run, struct dt_error *err);

/* state.c: the starting point, on every rank: weights, optimizer and progress
 * of the checkpoint that training.resume asks for, or of model.init. Rank 0
 * reads, the others receive.
 */
int dt_run_restore(struct dt_run *run, struct dt_error *err);

#endif /* DT_ALGO_RUN_H */
