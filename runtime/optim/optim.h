/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h - AdamW on the flat buffers, clipping, schedules, loss scaling */
#ifndef DT_OPTIM_OPTIM_H
#define DT_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/choices.h"
#include "base/error.h"
#include "ops/ops.h"
#include "tensor/layout.h"

/* Which parameters decay. */
struct dt_optim_options {
    double beta1, beta2, eps, weight_decay;
    bool coupled; /* Adam: the decay is part of the gradient */
    enum dt_decay_filter decay_filter;
};

/* AdamW state for all parameters of a layout: m and v, fp32, zero at first. */
struct dt_optim;

/* State in memory of exec->device; layout is borrowed. NULL and err: EX_OSERR.
 */
struct dt_optim *dt_optim_create(const struct dt_layout *layout,
                                 const struct dt_exec *exec,
                                 const struct dt_optim_options *options,
                                 struct dt_error *err);
void dt_optim_destroy(struct dt_optim *optim); /* NULL is fine */

/* Parameters of optimizer step n = 1, 2, ..., except for loss_scale. */
struct dt_step_params dt_optim_step_params(const struct dt_optim *optim, long n,
                                           double lr);

/* Ends a step (ops.h): the norm of `grads` over all parameters (padding is
 * zero), clipping to max_norm, the outcome, and if it is DT_STEP_TAKEN AdamW on
 * every parameter of `master`, fp32. `weights` becomes master, rounded; absent
 * (count 0) if the model computes with master directly.
 */
void dt_optim_step(struct dt_optim *optim, struct dt_view step,
                   struct dt_view master, struct dt_view weights,
                   struct dt_view grads, double max_norm);

/* State for checkpoints: flat m and v in the layout, and the number of steps
 * taken, which the caller counts.
 */
struct dt_view dt_optim_m(const struct dt_optim *optim);
struct dt_view dt_optim_v(const struct dt_optim *optim);
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
