/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - everything one rank holds while it trains (private to algo/) */
#ifndef DT_ALGO_RUN_H
#define DT_ALGO_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "algo/data.h"
#include "ckpt/ckpt.h"
#include "comm/comm.h"
#include "conf/conf.h"
#include "data/loader.h"
#include "model/model.h"
#include "optim/optim.h"
#include "parallel/parallel.h"
#include "report/report.h"

struct dt_run {
    struct dt_conf conf;  /* a copy with the batch resolved for this world;
                             its strings belong to the caller */
    struct dt_comm *comm; /* not owned */
    int rank, world;
    size_t B, T, A; /* rows, positions, micro-batches a step */
    size_t eval_B;  /* rows of an evaluation */

    struct dt_model_config model_config;
    struct dt_layout *layout;
    struct dt_buffer *master_buf, *weights_buf, *grads_buf;
    struct dt_view master;  /* flat, fp32: what the optimizer updates */
    struct dt_view weights; /* flat, in the compute type: what is computed
                               with; in fp32 the same as master */
    struct dt_view grads;   /* flat, fp32 */
    struct dt_model *model;
    struct dt_optim *optim;
    struct dt_schedule schedule;
    struct dt_scaler scaler; /* of the loss; scale 1 but with fp16 */
    struct dt_parallel *parallel;

    struct dt_run_data data;
    struct dt_loader *loader;
    uint64_t epoch_samples;

    struct dt_report *report;
    char ckpt_root[PATH_MAX - 64]; /* run.output_dir/checkpoints */
    char ckpt_path[PATH_MAX];      /* of the newest one, empty before it */

    /* What a checkpoint stores beside tensors: dt_run_save, dt_run_restore. */
    struct dt_progress {
        long step;           /* optimizer steps done, skipped ones included */
        long skipped_in_row; /* steps without an update: non-finite gradients */
        uint64_t position;   /* global samples consumed */
        double tokens;       /* targets consumed, all ranks */
        double first_loss;   /* the first finite one, 0: none yet */
        double loss_sum, loss_tokens; /* since the last report */
    } progress;
    long total_steps;
};

/* setup.c: fills run up to the loader; run is zeroed before. This node has
 * `local_size` ranks. dt_run_fini releases whatever there is.
 */
int dt_run_init(struct dt_run *run, const struct dt_conf *conf,
                struct dt_comm *comm, int local_size, struct dt_error *err);
void dt_run_fini(struct dt_run *run);

/* The loader of the training rows, or of one pass over the held-out ones. */
struct dt_loader *dt_run_loader(const struct dt_run *run, bool train,
                                struct dt_error *err);

/* Batches that the loader makes ahead. */
size_t dt_run_prefetch(const struct dt_run *run);

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
