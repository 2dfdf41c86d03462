/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h - AdamW, schedules, loss scaling */
#ifndef DT_OPTIM_OPTIM_H
#define DT_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/choices.h"
#include "base/error.h"
#include "ops/ops.h"
#include "tensor/layout.h"

/* Which parameters decay, and how fast parts of a model change. */
struct dt_optim_options {
    double beta1, beta2, eps, weight_decay;
    bool coupled; /* Adam: the decay is part of the gradient */
    enum dt_decay_filter decay_filter;
    double rates[DT_PARTS]; /* of parts of the model: multiply the rate of a
                               step; 0: 1 */
    uint64_t seed;          /* of the random bits with which bf16 is rounded */
};

/* AdamW for the parameters of a layout. Weights and moments belong to the
 * caller.
 */
struct dt_optim;

/* NULL and err: EX_OSERR. */
struct dt_optim *dt_optim_create(const struct dt_layout *layout,
                                 const struct dt_exec *exec,
                                 const struct dt_optim_options *options,
                                 struct dt_error *err);
void dt_optim_destroy(struct dt_optim *optim); /* NULL is fine */

/* Parameters of optimizer step n = 1, 2, ..., except for loss_scale. */
struct dt_step_params dt_optim_step_params(const struct dt_optim *optim, long n,
                                           double lr);

/* The updates from now on are of step number `number` < 2^32 of the run, as the
 * random bits are.
 */
void dt_optim_begin(struct dt_optim *optim, uint64_t number);

/* AdamW on a range of the flat buffers that begins at element `first`, if the
 * outcome of `step` is DT_STEP_TAKEN (ops.h): all views have the same count,
 * and are in host memory if it is done `on_host`, by the CPUs and at once.
 * `weights` becomes master, rounded; absent (count 0) if the model computes
 * with master directly. master, m and v are in fp32, or all in bf16, where they
 * are rounded at random (ops/dither.h); grads in either. The bits do not depend
 * on how ranges are cut, at multiples of 128 elements, nor those of random bits
 * on the number of ranks. With `undo` the range is of one unit, and another
 * process can end the update (ops.h); NULL: none can.
 */
void dt_optim_update(const struct dt_optim *optim, bool on_host,
                     struct dt_view step, size_t first, struct dt_view master,
                     struct dt_view weights, struct dt_view grads,
                     struct dt_view m, struct dt_view v,
                     const struct dt_undo *undo);

/* The number of steps taken, which the caller counts. */
long dt_optim_steps(const struct dt_optim *optim);
void dt_optim_set_steps(struct dt_optim *optim, long steps);

/* Rates are absolute, counts are optimizer steps; fields that a schedule does
 * not use are ignored.
 */
struct dt_schedule {
    enum dt_schedule_name name;
    double lr;        /* the peak */
    double min_lr;    /* final rate */
    double warmup_lr; /* first rate of the warm-up: DeepSpeed's, and
                         cosine_warmup_with_min_lr */
    double num_cycles, power;
    long warmup, total;
    long stable; /* 0: all steps except warm-up and decay */
    long decay;
    long timescale; /* 0: warmup, or 10000 without */
    enum dt_curve warmup_curve, decay_curve;
};

/* Learning rate of optimizer step k = 0, 1, ... not counting skipped ones
 * (Hugging Face's get_scheduler, DeepSpeed's lr_schedules: with warm-up most
 * begin with rate 0).
 */
double dt_schedule_lr(const struct dt_schedule *schedule, long k);

struct dt_scaler_options {
    enum dt_scaler_kind kind;
    double scale; /* at first */
    long window;  /* steps without overflow until the scale is doubled */
    /* DeepSpeed's only: */
    long hysteresis; /* overflows until it is halved */
    bool consecutive_hysteresis;
    double min_scale;
};

/* The loss scale. A step multiplies its loss by `scale`, divides its gradients
 * by the same, and then calls dt_scaler_update. The state is plain numbers,
 * which checkpoints store.
 */
struct dt_scaler {
    struct dt_scaler_options options;
    double scale;
    long steps;         /* updates so far */
    long last_overflow; /* which of them, from 0; -1: none */
    long hysteresis;    /* overflows left */
};

/* The state before the first step. */
struct dt_scaler dt_scaler_init(const struct dt_scaler_options *options);

/* Sets the scale of the next step. `overflow`, the same on all ranks: a
 * gradient on some rank was not finite. -1: EX_DATAERR, DeepSpeed's scale
 * cannot be lowered any further.
 */
int dt_scaler_update(struct dt_scaler *scaler, bool overflow,
                     struct dt_error *err);

#endif /* DT_OPTIM_OPTIM_H */
