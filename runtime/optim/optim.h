/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h - AdamW on the flat buffers, clipping, schedules, loss scaling */
#ifndef DT_OPTIM_OPTIM_H
#define DT_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "ops/ops.h"
#include "tensor/layout.h"

/* Which parameters decay. */
enum dt_decay_filter {
    DT_DECAY_HF,    /* what the layout says: no biases, no norms */
    DT_DECAY_NDIM2, /* tensors of two or more dimensions */
    DT_DECAY_ALL,
    DT_DECAY_NONE,
};

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

/* The rule of optimizer step n = 1, 2, ... but for its loss_scale. */
struct dt_step_rule dt_optim_rule(const struct dt_optim *optim, long n,
                                  double lr);

/* Ends a step (ops.h): the norm of `grads` over all parameters (padding is
 * zero), clipping to max_norm, the outcome, and if it is DT_STEP_TAKEN AdamW on
 * every parameter of `master`, fp32. `weights` becomes master, rounded; absent
 * (count 0) if master itself is computed with.
 */
void dt_optim_step(struct dt_optim *optim, struct dt_view step,
                   struct dt_view master, struct dt_view weights,
                   struct dt_view grads, double max_norm);

/* State for checkpoints: flat m and v in the layout, and how many steps were
 * taken, which its user counts.
 */
struct dt_view dt_optim_m(const struct dt_optim *optim);
struct dt_view dt_optim_v(const struct dt_optim *optim);
long dt_optim_steps(const struct dt_optim *optim);
void dt_optim_set_steps(struct dt_optim *optim, long steps);

enum dt_schedule_name {
    DT_SCHEDULE_CONSTANT, /* warm-up ignored, as in Hugging Face */
    DT_SCHEDULE_CONSTANT_WITH_WARMUP,
    DT_SCHEDULE_LINEAR,
    DT_SCHEDULE_COSINE,
    DT_SCHEDULE_COSINE_WITH_RESTARTS,
    DT_SCHEDULE_COSINE_WITH_MIN_LR,
    DT_SCHEDULE_COSINE_WARMUP_WITH_MIN_LR,
    DT_SCHEDULE_POLYNOMIAL,
    DT_SCHEDULE_INVERSE_SQRT,
    DT_SCHEDULE_WARMUP_STABLE_DECAY,
    DT_SCHEDULE_NANOGPT,
    DT_SCHEDULE_DS_WARMUP, /* DeepSpeed's are the last ones */
    DT_SCHEDULE_DS_WARMUP_DECAY,
    DT_SCHEDULE_DS_WARMUP_COSINE,
};

enum dt_curve {
    DT_CURVE_LINEAR,
    DT_CURVE_LOG,    /* DeepSpeed's warm-up */
    DT_CURVE_COSINE, /* these two: warmup_stable_decay */
    DT_CURVE_SQRT,   /* 1 - sqrt(..) */
};

/* Rates are absolute, numbers of steps those of the optimizer. What a name
 * does not use is not looked at.
 */
struct dt_schedule {
    enum dt_schedule_name name;
    double lr;        /* the highest */
    double min_lr;    /* where it ends */
    double warmup_lr; /* where warm-up begins: DeepSpeed's, and
                         cosine_warmup_with_min_lr */
    double num_cycles, power;
    long warmup, total;
    long stable; /* 0: what warm-up and decay leave */
    long decay;
    long timescale; /* 0: warmup, or 10000 without */
    enum dt_curve warmup_curve, decay_curve;
};

/* Learning rate of optimizer step k = 0, 1, ... not counting skipped ones
 * (Hugging Face's get_scheduler, DeepSpeed's lr_schedules: with warm-up most
 * begin with rate 0).
 */
double dt_schedule_lr(const struct dt_schedule *schedule, long k);

enum dt_scaler_kind { DT_SCALER_STATIC, DT_SCALER_DEEPSPEED, DT_SCALER_TORCH };

struct dt_scaler_options {
    enum dt_scaler_kind kind;
    double scale; /* at first */
    long window;  /* steps without overflow until the scale is doubled */
    /* DeepSpeed's only: */
    long hysteresis; /* overflows until it is halved */
    bool consecutive_hysteresis;
    double min_scale;
};

/* The factor of the loss. A step multiplies its loss by `scale`, divides its
 * gradients by the same, and calls dt_scaler_update at its end: gradients are
 * always divided by the scale that made them. The state is of plain numbers,
 * for checkpoints to store.
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

/* The scale of the next step, after one whose gradients did or did not have a
 * non-finite value on any rank: on all ranks the same. -1: EX_DATAERR,
 * DeepSpeed's scale cannot be lowered any further.
 */
int dt_scaler_update(struct dt_scaler *scaler, bool overflow,
                     struct dt_error *err);

#endif /* DT_OPTIM_OPTIM_H */
